"""The tool that makes the files of knowledge: its parts; the data are not shipped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.linear_model import Ridge

from tools import make_knowledge

ROOT = Path(__file__).parents[2]


def timm_in(folder: Path) -> Path:
    """Lay the data files of timm out as pip does; importing it fails, as without torch."""
    (folder / "timm/data/_info").mkdir(parents=True)
    (folder / "timm/__init__.py").write_text("raise ImportError('torch')\n")
    (folder / "timm/data/_info/imagenet_synsets.txt").write_text("n02\nn01\n")
    (folder / "timm/data/_info/imagenet_synset_to_lemma.txt").write_text(
        "n01\ttench, Tinca tinca\nn02\tgoldfish\nn99\tnever a class\n"
    )
    (folder / "timm-1.0.31.dist-info").mkdir()
    (folder / "timm-1.0.31.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: timm\nVersion: 1.0.31\n"
    )
    return folder


def test_names_of_classes_are_read_without_importing_timm(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(timm_in(tmp_path))
    assert make_knowledge.imagenet_names() == [["goldfish"], ["tench", "Tinca tinca"]]
    assert "timm" not in sys.modules


def test_it_imports_and_shows_help_without_timm_and_torch():
    program = (
        "import sys\n"
        "sys.modules['timm'] = sys.modules['torch'] = None\n"
        "sys.argv = ['make_knowledge', '--help']\n"
        "from tools.make_knowledge import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "usage:" in done.stdout


def test_missing_timm_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if hasattr(f, "find_spec")])
    with pytest.raises(SystemExit, match="pip install --no-deps timm"):
        make_knowledge.imagenet_names()


def test_heads_are_ridge_regressions_of_standardized_words():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 15)).astype(np.float32)
    Y = (X[:, :3] + rng.standard_normal((120, 3)) > 0.7).astype(np.float32)
    penalty = make_knowledge.RIDGE_PENALTY * 2272
    frequency = Y.mean(axis=0)
    expected = Ridge(alpha=penalty).fit(X, (Y - frequency) / np.sqrt(frequency * (1 - frequency)))
    np.testing.assert_allclose(make_knowledge.ridge_heads(X, Y), expected.coef_.T, atol=1e-6)


def test_calibrations_are_at_the_maximum_of_their_posterior():
    rng = np.random.default_rng(1)
    x = rng.standard_normal(400)
    y = (rng.random(400) < 1 / (1 + np.exp(-(1.5 * x - 2)))).astype(float)

    def loss(beta):
        odds = beta[0] * x + beta[1]
        fit = np.logaddexp(0, odds).sum() - y @ odds
        return fit + make_knowledge.SLOPE_PENALTY / 2 * (beta[0] - 2.0) ** 2

    best = optimize.minimize(loss, [1.0, 0.0]).x
    np.testing.assert_allclose(make_knowledge._logistic(x, y), best, atol=1e-3)


def test_a_separable_word_has_a_finite_calibration():
    x = np.linspace(-1, 1, 50)
    slope, intercept = make_knowledge._logistic(x, (x > 0).astype(float))
    assert 2 < slope < 50
    assert abs(intercept) < 1


def test_images_are_labeled_with_words_in_singular_and_plural():
    vocabulary = ["dog", "dogs", "knives", "hot", "cities"]
    occurs = sparse.csr_array(np.eye(5, dtype=np.float32))
    labels = make_knowledge.word_labels(
        ["dog", "knife", "hot dog", "city", "zebra"], occurs, vocabulary
    )
    np.testing.assert_array_equal(
        labels,
        np.array(
            [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 1, 0]]
        ),
    )
    both = sparse.csr_array(np.array([[1, 0, 0, 1, 0]], np.float32))
    assert make_knowledge.word_labels(["hot dog"], both, vocabulary)[0, 0] == 1


def test_neighbours_are_in_one_fold():
    folds = make_knowledge.folds(1000)
    assert set(folds) == set(range(make_knowledge.N_FOLDS))
    assert np.count_nonzero(np.diff(folds)) == 9
    outside = make_knowledge.Data.outside(1000, 1)
    assert set(folds[outside]) == {0}
    assert len(make_knowledge.Data.outside(1000, None)) == 1000


def test_a_kind_of_a_thing_is_the_thing():
    vocabulary = ["tourists", "dog", "sky"]
    occurs = sparse.csr_array(np.eye(3, dtype=np.float32))
    labels = make_knowledge.word_labels(["people", "animal", "tourist"], occurs, vocabulary)
    np.testing.assert_array_equal(labels, np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]]))


def test_the_transfer_of_log_odds_is_found():
    rng = np.random.default_rng(2)
    log_odds = rng.uniform(-4, 6, (4000, 3)).astype(np.float32)
    log_odds[:, 2] = -np.inf  # a word that the other sources do not have
    true = 0.5 * log_odds - 1.2
    labels = rng.random(true.shape) < 1 / (1 + np.exp(-true))
    crossed = make_knowledge.Crossed(log_odds, labels)
    transfer = make_knowledge.fit_transfer(crossed)
    assert transfer.slope == pytest.approx(0.5, abs=0.05)
    assert transfer.offset == pytest.approx(-1.2, abs=0.1)
    thresholds = np.array([0.8, 0.5])
    both = {"one": crossed, "other": crossed}
    quality = make_knowledge.transfer_quality(both, thresholds)
    p = 1 / (1 + np.exp(-true))
    expected = [p[p >= threshold].mean() for threshold in thresholds]
    np.testing.assert_allclose(quality.curve, expected, atol=0.05)
    assert np.isnan(quality.precision[2])


def test_emoji_are_things(tmp_path):
    for language in make_knowledge.vocabulary_table()[0]:
        folder = tmp_path / language.replace("zh-TW", "zh-Hant")
        folder.mkdir()
        names = {"a": "dog", "b": "stop button", "c": "a very long name here", "d": "hat"}
        entries = {emoji: {"tts": [name]} for emoji, name in names.items()}
        if language == "de":
            del entries["d"]["tts"]
        text = json.dumps({"annotations": {"annotations": entries}})
        (folder / "annotations.json").write_text(text)
    assert make_knowledge.emoji_table(tmp_path) == [["dog"] * 16]
