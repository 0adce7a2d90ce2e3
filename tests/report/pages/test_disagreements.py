"""Sheets of pictures, and tags that deserve a second look."""

from __future__ import annotations

import re

import numpy as np

from prototag.evaluation.evaluate import evaluate
from prototag.report import Thumbnails
from prototag.report.html import join
from prototag.report.pages import disagreements


def captions(markup: str) -> list[str]:
    return re.findall(r'class="name"><bdi>(\d+)</bdi>', markup)


def test_sheets_show_both_ends_and_each_picture_once():
    n, t = 30, 10
    Y = np.ones((n, t), bool)
    scores = np.arange(t) < np.linspace(0, t, n).astype(int)[:, None]
    result = evaluate(Y, scores.astype(float), 0.5, tags=[str(j) for j in range(t)])
    parts = disagreements.sheets(result, [None] * n, Thumbnails(), 4)
    best, between, worst = (captions(parts[place]) for place in (3, 5, 7))
    f1 = result.image_f1
    assert len(best) == len(between) == len(worst) == 4
    assert len({*best, *between, *worst}) == 12
    assert min(f1[int(i)] for i in best) >= max(f1[int(i)] for i in between)
    assert max(f1[int(i)] for i in worst) <= min(f1[int(i)] for i in between)
    assert f1[int(worst[0])] == 0


def test_tags_are_marked_by_who_gave_them():
    result = evaluate([[1, 1, 0]], [[0.9, 0.1, 0.8]], 0.5, tags=["both", "yours", "its"])
    html = join(disagreements.sheets(result, [None], Thumbnails(), 4))
    for kind, name in (("right", "both"), ("wrong", "its"), ("missing", "yours")):
        assert re.search(rf'class="tag {kind}">.{{1,120}}<bdi>{name}</bdi>', html)


def test_suspects_stand_on_one_card_for_each_picture():
    Y = np.zeros((40, 3), bool)
    Y[:, 0] = True
    p = np.full((40, 3), 0.1)
    p[:, 0] = 0.9
    p[7, 1:] = 0.8, 0.7
    p[3, 2] = 0.75
    p[5, 0] = 0.01
    result = evaluate(Y, p, 0.5, tags=["a", "b", "c"], probabilities=p)
    blocks = disagreements.suspects(result, [None] * 40, Thumbnails())
    assert captions(blocks[2]) == ["7", "3"]
    assert blocks[2].count("tag likely") == 3
    assert "yours: <bdi>a</bdi>" in blocks[2]
    assert captions(blocks[6]) == ["5"]
    assert blocks[6].count("tag doubtful") == 1
    without = disagreements.suspects(result, None, Thumbnails())
    assert 'class="contact-sheet' not in join(without)
    assert "<table" in join(without)
