"""Words of the Open Clip Art Library -> tags: one spelling each, about what is seen.

Volunteers gave the keywords and librarians filed the pictures into folders; a picture's words are
both. The tables below were made by reading the words, before any method was scored on them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split("|"))


# How a picture was filed, drawn, shared or is used; nobody sees it in the picture.
JUNK = _listed(
    "action|actions|activities|activity|appicon|application|applications|apps|aiga symbols|"
    "bordered|clip art|clipart|creation|day|device|devices|duplicates|emblem|"
    "emblems|entertainment|etiquette theme|examples|filesystem|filesystems|flat theme|generic|hash|"
    "historic|ideas|lemon theme|lemon theme icon|magick|menu|mime types|mimetypes|miscellany|"
    "openclipart|organizations|ornamental|place|png|public domain|recreation|"
    "sign|signs|signs and symbols|simple|special|stock|subnational|svg|theme|unchecked|"
    "united nations member|unsorted|webpage|white|work"
)

# Words of one meaning, misspelt, abbreviated or run together.
ALIASES = {
    "airtravel": "aircraft",
    "arrowshape": "arrow",
    "auto": "car",
    "automobile": "car",
    "beverage": "drink",
    "beverages": "drink",
    "big cats": "cat",
    "bodypart": "body part",
    "bugs": "insect",
    "card": "playing card",
    "cardbacks": "playing card",
    "cards": "playing card",
    "breads and carbs": "bread or cereal",
    "carbohydrate": "bread or cereal",
    "caution": "warning",
    "christianity": "religion",
    "coastline": "map",
    "feline": "cat",
    "festive": "festivity",
    "geometry": "shape",
    "gunshot": "bullet hole",
    "bullethole": "bullet hole",
    "home": "house",
    "homes": "house",
    "housecats": "cat",
    "hummer": "car",
    "hummers": "car",
    "icecream": "ice cream",
    "latinamerica": "latin america",
    "lightbulb": "light bulb",
    "bulb": "light bulb",
    "mapsym": "map symbol",
    "musician": "music",
    "musicstuff": "music",
    "musicsym": "music",
    "meats and eggs": "meat or egg",
    "protein": "meat or egg",
    "networksym": "network",
    "northamerica": "north america",
    "party": "festivity",
    "phone": "telephone",
    "religholiday": "holiday",
    "roadsign": "road sign",
    "roadsigns": "road sign",
    "roadtravel": "transport",
    "sailing": "boat",
    "boating": "boat",
    "shot": "bullet hole",
    "signalflag": "signal flag",
    "smilies": "smiley",
    "southamerica": "south america",
    "sports": "sport",
    "states": "map",
    "stickmen": "stick figure",
    "transportation": "transport",
    "unitedstates": "united states",
    "usa": "united states",
    "valentines": "valentine",
    "vegitable": "vegetable",
    "weathersym": "weather",
    "xmas": "christmas",
}

# What a tag always says besides; only where the words themselves leave no doubt.
IMPLIES = {
    "bear": "mammal",
    "bird": "animal",
    "cat": "mammal",
    "christmas": "holiday",
    "dessert": "food",
    "dinosaur": "animal",
    "dog": "mammal",
    "drink": "food",
    "flower": "plant",
    "fruit": "food",
    "hat": "clothing",
    "horse": "mammal",
    "house": "building",
    "ice cream": "dessert",
    "insect": "animal",
    "mammal": "animal",
    "penguin": "bird",
    "star": "shape",
    "tree": "plant",
    "vegetable": "food",
}

# Pictures with one of these in keywords, folders or title stay out: trademarks, which a dedication
# to the public domain does not free, and what does not belong on a screen at work.
UNFIT = _listed(
    "debian|fanart|gameboy|gates|hulk|logo|logos|mermaid|microsoft|naked|nude|openoffice|pacman|"
    "pantyhose|sexy"
)


def spelled(word: str) -> str:
    """Normalise case and spaces; return "" for non-words such as ``HASH(0x8a3ec50)``."""
    word = " ".join(re.split(r"[\s_\-]+", word.strip().lower()))
    if not re.fullmatch(r"[^\W\d_][\w '/&.]*", word) or re.match(r"hash\b|0x", word):
        return ""
    return word


def singular(word: str, count: Counter[str]) -> str:
    """Return the singular, if it also occurs among the words."""
    for ending, instead in (("ies", "y"), ("es", ""), ("s", ""), ("men", "man")):
        stem = word.removesuffix(ending) + instead
        if word.endswith(ending) and len(stem) > 2 and count[stem]:
            return stem
    return word


def tags_of(words: Sequence[Iterable[str]], authors: Sequence[str]) -> list[frozenset[str]]:
    """Return the tags of all pictures; plurals are resolved over all of them together."""
    cleaned = [
        {ALIASES.get(w, w) for w in map(spelled, given) if w != spelled(author)}
        for given, author in zip(words, authors, strict=True)
    ]
    count = Counter(word for given in cleaned for word in given)
    answer = []
    for given in cleaned:
        tags = {singular(word, count) for word in given - JUNK - {""}}
        while more := {IMPLIES[tag] for tag in tags if tag in IMPLIES} - tags:
            tags |= more
        answer.append(frozenset(tags - JUNK))
    return answer
