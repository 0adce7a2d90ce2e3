"""The annotator without training: rules as tags, own words, files."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from pictures import photographs
from prototag import Annotator
from prototag.errors import InputError
from prototag.images.rules import RULES
from prototag.knowledge.rule_names import RULE_NAMES
from prototag.knowledge.words import LANGUAGES


@pytest.fixture(scope="module")
def annotator():
    return Annotator.general("de", cache=None)


def test_every_rule_has_a_name_of_its_own_in_every_language():
    assert set(RULE_NAMES) == set(RULES)
    for language in LANGUAGES:
        names = [translations[language] for translations in RULE_NAMES.values()]
        assert len(set(names)) == len(RULES)


def test_rules_apply_tags_with_certainty_or_not_at_all(annotator):
    camera, cat = annotator.annotate([photographs()["camera.png"], photographs()["chelsea.png"]])
    by_rule = {tag.name: tag for tag in camera.tags if tag.source == "rule"}
    assert set(by_rule) == {"schwarz-weiß"}
    assert by_rule["schwarz-weiß"].probability == 1
    assert by_rule["schwarz-weiß"].to_dict()["source"] == "rule"
    every = {tag.name: tag for tag in (*cat.tags, *cat.suggestions)}
    assert "Katze" in every
    assert {tag.source for tag in every.values()} == {"model"}
    assert "source" not in every["Katze"].to_dict()
    assert not {"schwarz-weiß", "Panorama", "Hochformat", "Bildschirmfoto"} & set(every)


def test_rules_follow_the_options_of_tags(annotator):
    camera = photographs()["camera.png"]
    only = annotator.annotate(camera, vocabulary=["Katze"])
    assert [annotation.names for annotation in only] == [[]]
    best = annotator.annotate(camera, top=1)
    assert [annotation.names for annotation in best] == [["schwarz-weiß"]]


def test_a_picture_that_cannot_be_read_does_not_shift_rules(annotator, tmp_path):
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    tall = np.random.default_rng(0).integers(0, 255, (96, 48, 3), np.uint8)
    sources = [broken, photographs()["camera.png"], broken, Image.fromarray(tall)]
    found = list(annotator.annotate(sources))
    by_rule = [[tag.name for tag in one.tags if tag.source == "rule"] for one in found]
    assert by_rule == [[], ["schwarz-weiß"], [], ["Hochformat"]]


def test_explanations_say_that_a_rule_holds(annotator):
    explained = {one.tag.name: one for one in annotator.explain(photographs()["camera.png"])}
    rule = explained["schwarz-weiß"]
    assert rule.tag.source == "rule"
    assert rule.concepts == ()
    assert rule.reasons == []
    assert any(one.concepts for one in explained.values())


def test_own_words_have_no_rules():
    words = Annotator.general(vocabulary=["schwarz-weiß", "Fotograf"], cache=None)
    found = next(words.annotate(photographs()["camera.png"], top=2))
    assert {tag.source for tag in found.tags} == {"model"}
    with pytest.raises(InputError, match="at least one word"):
        Annotator.general(vocabulary=[])
    with pytest.raises(InputError, match="zh-TW"):
        Annotator.general("xx")
