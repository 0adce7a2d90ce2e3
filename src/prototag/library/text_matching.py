"""Comparisons of words with tags and paths, also as functions of SQL. All texts are folded."""

from __future__ import annotations

import sqlite3

from prototag.metadata.generated_names import words_of_path


def has_word(text: str, word: str) -> bool:
    """Return whether a word of the text begins with a word."""
    at = text.find(word)
    while at >= 0:
        if at == 0 or not text[at - 1].isalnum() or not word[0].isascii():
            return True
        at = text.find(word, at + 1)
    return False


def has_phrase(text: str, phrase: str) -> bool:
    """Return whether the text has a phrase of whole words."""
    at = text.find(phrase)
    while at >= 0:
        end = at + len(phrase)
        is_start = at == 0 or not text[at - 1].isalnum() or not phrase[0].isalnum()
        is_end = end == len(text) or not text[end].isalnum() or not phrase[-1].isalnum()
        if (is_start and is_end) or not phrase[0].isascii():
            return True
        at = text.find(phrase, at + 1)
    return False


def has_path_word(path: str, word: str) -> bool:
    """Return whether a path has a word, beside names that cameras and programs give."""
    return word in path and has_word(words_of_path(path), word)


def has_path_phrase(path: str, phrase: str) -> bool:
    """Return whether a path has a phrase of whole words."""
    return phrase in path and has_phrase(path, phrase)


def has_file_name(path: str, text: str) -> bool:
    """Return whether the name of a file has a text."""
    return text in path.rpartition("/")[2]


def has_folder(path: str, text: str) -> bool:
    """Return whether the folders of a path have a text."""
    return text in path.rpartition("/")[0]


def register(conn: sqlite3.Connection) -> None:
    """Make the comparisons functions of a connection, before its first statement."""
    for function in (has_path_word, has_path_phrase, has_file_name, has_folder):
        conn.create_function(function.__name__, 2, function, deterministic=True)
