"""Makes the files of :mod:`prototag.knowledge`: concept heads and the general vocabulary.

    pip install --group tools
    pip install --no-deps timm==1.0.31
    npm pack cldr-annotations-full@48.2.0 && tar xzf cldr-annotations-full-48.2.0.tgz
    python -m tools.make_knowledge DATA package/annotations

Only lists of class names are read from timm, as files. It is never imported, so that
neither torch nor any other of its dependencies is needed.

DATA is a folder with ``iaprtc12_lite0_large.npz`` and ``words/`` (captions of COCO, descriptions of
IAPR TC-12, each with the default vectors of its images). The words of the general vocabulary and
their translations are in tools/vocabulary.tsv. Sources, licences and checksums are in NOTICE.

A *concept* is a word of one source and a linear head, which scores images by a ridge regression of
the word on default vectors. Each class of ImageNet is a concept, too: its head is the classifier of
the network. Heads of words that are no concept are predicted from the vectors of the words, by a
Gaussian process over all concepts (:func:`smooth_heads`).

Heads learned from a collection know its images. To judge knowledge on a collection, ``exclude`` its
source: benchmarks/knowledge does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit

from prototag.evaluation.ranking import tag_auc
from prototag.knowledge.concepts import FOLDER, ConceptHeads, quantize, word_kernel
from prototag.knowledge.general import GeneralVocabulary
from prototag.knowledge.lexicon import Lexicon, in_phrases
from prototag.knowledge.words import DIMENSIONS, encode_names, encode_phrases
from tools.embed_lite import original_weights

RIDGE_PENALTY = 10.0  # of vectors scaled by 1 / sqrt(m): best of 1 to 300, judged on another source
MIN_IMAGES = (
    10  # of a word with a head; 25 and 60 are worse on both sources, 10 is the least in DATA
)
N_FOLDS = 2  # of images, for calibrations of the general vocabulary
MIN_TRANSFER_POSITIVES = 20  # of a word that is judged on another source
MIN_POSITIVES = 5  # held-out images of a word of the general vocabulary
MIN_AUC = 0.75  # of such a word, on a source that had no part in its head
NEWTON_STEPS = 20
MIN_LOG_ODDS = -4.0  # of pairs of image and word from which the transfer is fitted
# Words that say the same as another word of the vocabulary, which people see twice otherwise.
REDUNDANT = frozenset(["kid", "person"])
SLOPE_PENALTY = 2.0  # of the squared difference of a slope from the common one
WORD_NOISE = 3.0  # of the Gaussian process: best of 0.3 to 3, judged on another source
SOURCES = ("coco", "iaprtc12", "imagenet")
OFFSET_STEP = 4  # every fourth word of the vocabulary gives the mean effect of a phrase
MAX_EMOJI_WORDS = 3  # of an emoji's English name; longer ones are descriptions
# Words in names of emoji that are signs.
SIGNS = frozenset(
    [
        "arrow",
        "button",
        "circle",
        "clock",
        "dash",
        "diamond",
        "emoji",
        "face",
        "hair",
        "mark",
        "sign",
        "skin",
        "square",
        "symbol",
        "triangle",
        "zone",
    ]
)
# Words of captions that describe no image.
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "of",
        "on",
        "in",
        "at",
        "to",
        "by",
        "for",
        "from",
        "with",
        "without",
        "into",
        "onto",
        "over",
        "off",
        "out",
        "up",
        "down",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "being",
        "am",
        "has",
        "have",
        "having",
        "had",
        "do",
        "does",
        "doing",
        "done",
        "can",
        "could",
        "will",
        "would",
        "it",
        "its",
        "his",
        "her",
        "hers",
        "him",
        "he",
        "she",
        "they",
        "them",
        "their",
        "this",
        "that",
        "these",
        "those",
        "there",
        "here",
        "what",
        "which",
        "who",
        "whose",
        "where",
        "when",
        "while",
        "as",
        "than",
        "then",
        "so",
        "such",
        "some",
        "any",
        "all",
        "both",
        "each",
        "every",
        "many",
        "several",
        "other",
        "others",
        "another",
        "one's",
        "very",
        "too",
        "also",
        "just",
        "only",
        "not",
        "no",
        "yes",
        "more",
        "most",
        "much",
        "few",
        "lot",
        "lots",
        "bit",
        "kind",
        "type",
        "types",
        "sort",
        "something",
        "someone",
        "somebody",
        "anything",
        "everything",
        "thing",
        "things",
        "stuff",
        "we",
        "you",
        "your",
        "i",
        "my",
        "our",
        "us",
        "s",
        "t",
        "st",
    ]
)


class Concepts(NamedTuple):
    """Words and heads of one source."""

    names: list[list[str]]  # of each concept, its words
    heads: np.ndarray  # axes x concepts, applied to coordinates on the axes


class Data:
    """The sources, in coordinates on the principal axes of default vectors."""

    def __init__(self, folder: Path) -> None:
        captions = np.load(folder / "words/coco_captions.npz", allow_pickle=False)
        self.mean = captions["mean"]
        self.scale = captions["scale"]
        self.axes = captions["axes"].astype(np.float32)
        self.caption_vectors = captions["Q"].astype(np.float32) * captions["q"]
        self.caption_words = [str(word) for word in captions["words"]]
        self.captions = _indicator(captions, len(self.caption_words), "")
        bits = np.unpackbits(captions["label_bits"], axis=1)[:, : len(captions["labels"])]
        self.coco_labels = bits.astype(np.float32)
        self.is_labelled = captions["labelled"]
        self.label_names = [split_label(str(name)) for name in captions["labels"]]
        iapr = np.load(folder / "iaprtc12_lite0_large.npz", allow_pickle=False)
        X = np.hstack([iapr["X"], iapr["mid"]]).astype(np.float32)
        self.iapr_vectors = self.coordinates(X)
        bits = np.unpackbits(iapr["label_bits"], axis=1)[:, : int(iapr["n_tags"])]
        self.iapr_labels = bits.astype(np.float32)
        self.iapr_tags = [str(tag) for tag in iapr["tags"]]
        texts = np.load(folder / "words/iaprtc12_descriptions.npz", allow_pickle=False)
        self.description_words = [str(word) for word in texts["words_eng"]]
        self.descriptions = _indicator(texts, len(self.description_words), "_eng")

    @staticmethod
    def outside(n: int, fold: int | None) -> np.ndarray:
        """Return the rows outside of a fold, all without one."""
        return np.flatnonzero(folds(n) != fold) if fold is not None else np.arange(n)

    def coordinates(self, X: np.ndarray) -> np.ndarray:
        """Return the coordinates of default vectors on the axes."""
        return np.asarray(((X - self.mean) / self.scale) @ self.axes, np.float32)


def _indicator(file: np.lib.npyio.NpzFile, count: int, suffix: str) -> sparse.csr_array:
    """Return which words occur with each image."""
    indptr = file[f"indptr{suffix}"]
    indices = file[f"indices{suffix}"]
    ones = np.ones(len(indices), np.float32)
    return sparse.csr_array((ones, indices, indptr), shape=(len(indptr) - 1, count))


def folds(n: int) -> np.ndarray:
    """Return the fold of each image; images that follow each other may be alike."""
    return (np.arange(n) // 100) % N_FOLDS


def split_label(label: str) -> str:
    """Return the labels of COCO as two words where their list joins them."""
    joined = {"pottedplant": "potted plant", "diningtable": "dining table"}
    return joined.get(label, label.replace("tvmonitor", "tv monitor"))


def concepts_of(
    data: Data, exclude: Collection[str] = (), fold: int | None = None
) -> list[Concepts]:
    """Return the concepts of all sources but the excluded ones.

    With ``fold`` the images of one fold have no part in the heads.
    """
    parts = []
    if "coco" not in exclude:
        rows = data.outside(len(data.caption_vectors), fold)
        vectors = data.caption_vectors
        parts.append(_word_concepts(vectors[rows], data.captions[rows], data.caption_words))
        rows = rows[data.is_labelled[rows]]
        heads = ridge_heads(vectors[rows], data.coco_labels[rows])
        parts.append(Concepts([[name] for name in data.label_names], heads))
    if "iaprtc12" not in exclude:
        vectors = data.iapr_vectors
        rows = data.outside(len(vectors), fold)
        parts.append(_word_concepts(vectors[rows], data.descriptions[rows], data.description_words))
        heads = ridge_heads(vectors[rows], data.iapr_labels[rows])
        parts.append(Concepts([[tag] for tag in data.iapr_tags], heads))
    if "imagenet" not in exclude:
        parts.append(_imagenet_concepts(data))
    return parts


def _word_concepts(
    vectors: np.ndarray, indicator: sparse.csr_array, words: Sequence[str]
) -> Concepts:
    count = np.asarray(indicator.sum(axis=0)).ravel()
    kept = [
        column
        for column, word in enumerate(words)
        if count[column] >= MIN_IMAGES and word not in STOP_WORDS
    ]
    heads = ridge_heads(vectors, indicator[:, kept].toarray())
    return Concepts([[words[column]] for column in kept], heads)


def ridge_heads(vectors: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return heads (axes x words) of a ridge regression, for words of deviation 1."""
    m = 2272  # columns of default vectors, by which the penalty is scaled
    frequency = Y.mean(axis=0)
    T = (Y - frequency) / np.sqrt(np.maximum(frequency * (1 - frequency), 1e-9))
    centered = vectors - vectors.mean(axis=0)
    gram = (centered.T @ centered).astype(np.float64) / m
    gram[np.diag_indices_from(gram)] += RIDGE_PENALTY
    return np.linalg.solve(gram, (centered.T @ T) / m).astype(np.float32)


def _imagenet_concepts(data: Data) -> Concepts:
    """Return the classes of the network, by the names that timm lists."""
    weights = original_weights()
    (classifier,) = (value for value in weights.values() if value.shape == (1000, 1280))
    raw = np.zeros((len(data.scale), 1000), np.float32)
    raw[:1280] = classifier.T
    return Concepts(imagenet_names(), data.axes.T @ (raw * data.scale[:, None]))


def imagenet_names() -> list[list[str]]:
    """Return the lemmas of each ImageNet class, from the data files of timm."""
    lines = _timm_file("imagenet_synset_to_lemma.txt").splitlines()
    lemmas = dict(line.split("\t") for line in lines)
    return [lemmas[synset].split(", ") for synset in _timm_file("imagenet_synsets.txt").split()]


def _timm_file(name: str) -> str:
    """Return the text of a data file of timm, which is not imported: that would need torch."""
    try:
        distribution = metadata.distribution("timm")
    except metadata.PackageNotFoundError as error:
        raise SystemExit("timm is missing: pip install --no-deps timm==1.0.31") from error
    path = Path(str(distribution.locate_file("timm"))) / "data" / "_info" / name
    return path.read_text("utf-8")


def smooth_heads(data: Data, parts: Sequence[Concepts], reference: np.ndarray) -> ConceptHeads:
    """Fit the Gaussian process from words to heads.

    Its targets are the heads, scaled so that the scores of ``reference`` images have deviation 1.
    The noise of a concept is the greater the less its head explains: the deviation of unscaled
    scores is the multiple correlation of the regression. Classes of ImageNet get the median.
    """
    names = [concept for part in parts for concept in part.names]
    heads = np.hstack([part.heads for part in parts])
    deviation = (reference @ heads).std(axis=0)
    is_class = np.repeat(
        [part.heads.shape[1] == 1000 for part in parts], [len(p.names) for p in parts]
    )
    typical = np.median(deviation[~is_class]) if (~is_class).any() else 1.0
    reliability = np.where(is_class, 1.0, deviation / typical) ** 2
    flat = [name for concept in names for name in concept]
    concept_of = np.repeat(np.arange(len(names)), [len(concept) for concept in names])
    vectors = encode_phrases(flat)
    member = sparse.csr_array((np.ones(len(flat), np.float32), (concept_of, np.arange(len(flat)))))
    center = np.asarray(member @ vectors, np.float32)
    center /= np.linalg.norm(center, axis=1, keepdims=True)
    covariance = word_kernel(center @ center.T).astype(np.float64)
    covariance[np.diag_indices_from(covariance)] += WORD_NOISE / np.maximum(reliability, 1e-3)
    dual = np.linalg.solve(covariance, (heads / deviation).T)
    return ConceptHeads.build(
        names=flat,
        concept_of=concept_of,
        vectors=vectors,
        heads=(heads / deviation).T,
        dual=dual,
        axes=data.axes,
        mean=data.mean,
        scale=data.scale,
    )


class Evidence(NamedTuple):
    """Held-out scores and labels of the words of the vocabulary on the images of one source."""

    scores: np.ndarray  # n x words
    labels: np.ndarray  # n x words


def vocabulary_table() -> list[list[str]]:
    """Return the rows of tools/vocabulary.tsv; the first names the languages."""
    path = Path(__file__).with_name("vocabulary.tsv")
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def emoji_table(folder: Path) -> list[list[str]]:
    """Return the names of emoji in the languages of the vocabulary, from Unicode's CLDR."""
    languages = vocabulary_table()[0]
    names = []
    for language in languages:
        path = folder / language.replace("zh-TW", "zh-Hant") / "annotations.json"
        entries = json.loads(path.read_text("utf-8"))["annotations"]["annotations"]
        names.append({emoji: entry["tts"][0] for emoji, entry in entries.items() if "tts" in entry})
    return [
        [name[emoji] for name in names]
        for emoji, english in names[0].items()
        if all(emoji in name for name in names) and _is_thing(english)
    ]


def _is_thing(english: str) -> bool:
    words = english.split()
    return english.isascii() and len(words) <= MAX_EMOJI_WORDS and not SIGNS & {*words}


def make_lexicon(emoji: Path) -> Lexicon:
    """Make the lexicon of the vocabulary's candidates and the names of emoji."""
    table = vocabulary_table()
    rows = table[1:] + emoji_table(emoji)
    names = {language: [row[i] for row in rows] for i, language in enumerate(table[0])}
    offsets = []
    for i, language in enumerate(table[0]):
        sample = [row[i] for row in table[1::OFFSET_STEP]]
        offsets.append((in_phrases(sample, language) - encode_phrases(sample)).mean(axis=0))
    lexicon = Lexicon(names, np.empty((0, DIMENSIONS), np.int8), np.array(offsets, np.float32))
    return replace(lexicon, vectors=quantize(lexicon.encode(names["en"], "en"))[0])


def word_labels(
    words: Sequence[str], indicator: sparse.csr_array, vocabulary: Sequence[str]
) -> np.ndarray:
    """Return which images are described by each word, in singular or plural, or by a kind of it.

    A description that names a tourist says that there are people (tools/implied_words.tsv).
    """
    column_of = {word: column for column, word in enumerate(vocabulary)}
    dense = indicator.tocsc()
    n = indicator.shape[0]
    implied = implied_words()

    def has(word: str) -> np.ndarray:
        columns = [column_of[form] for form in word_forms(word) if form in column_of]
        return np.asarray(dense[:, columns].sum(axis=1)).ravel() > 0 if columns else np.zeros(n)

    labels = np.zeros((n, len(words)), np.float32)
    for number, word in enumerate(words):
        labels[:, number] = np.all([has(part) for part in word.split()], axis=0)
        for kind in implied.get(word, []):
            labels[:, number] = np.maximum(labels[:, number], has(kind))
    return labels


def implied_words() -> dict[str, list[str]]:
    """Return the words that imply a general word."""
    lines = Path(__file__).with_name("implied_words.tsv").read_text("utf-8").splitlines()
    return {general: kinds.split() for general, kinds in (line.split("\t") for line in lines)}


def word_forms(word: str) -> list[str]:
    """Return a noun in singular and plural."""
    irregular = {
        "man": ["men"],
        "woman": ["women"],
        "child": ["children", "kid", "kids"],
        "person": ["people"],
        "people": ["person"],
        "leaf": ["leaves"],
        "shelf": ["shelves"],
        "knife": ["knives"],
        "mouse": ["mice"],
        "tooth": ["teeth"],
        "foot": ["feet"],
        "goose": ["geese"],
        "wolf": ["wolves"],
        "calf": ["calves"],
        "ruins": ["ruin"],
    }
    forms = [word, *irregular.get(word, []), word + "s"]
    if word.endswith(("s", "x", "ch", "sh", "o")):
        forms.append(word + "es")
    if word.endswith("y"):
        forms.append(word[:-1] + "ies")
    return forms


def held_out_evidence(
    data: Data, words: Sequence[str], exclude: Collection[str] = ()
) -> dict[str, Evidence]:
    """Score the images of each source by heads of the other fold."""
    images = sources_of(data)
    images = {source: value for source, value in images.items() if source not in exclude}
    scores = {source: np.empty((len(v[0]), len(words)), np.float32) for source, v in images.items()}
    for fold in range(N_FOLDS):
        outside = [v[0][folds(len(v[0])) != fold] for v in images.values()]
        heads = smooth_heads(data, concepts_of(data, exclude, fold), np.vstack(outside))
        by_name = heads.heads_of_words(encode_names(words))
        for source, (vectors, _, _) in images.items():
            inside = folds(len(vectors)) == fold
            scores[source][inside] = vectors[inside, : by_name.shape[1]] @ by_name.T
    return {
        source: Evidence(scores[source], word_labels(words, indicator, names))
        for source, (_, indicator, names) in images.items()
    }


def transfer_auc(data: Data, words: Sequence[str], exclude: Collection[str] = ()) -> np.ndarray:
    """Return the best AUC of each word on a source that had no part in its head; NaN if none."""
    images = sources_of(data)
    best = np.full(len(words), np.nan)
    for source, (vectors, indicator, names) in images.items():
        if source in exclude:
            continue
        others = [v[0] for s, v in images.items() if s != source and s not in exclude]
        reference = np.vstack(others) if others else vectors  # only their deviation is used
        heads = smooth_heads(data, concepts_of(data, {source, *exclude}), reference)
        by_name = heads.heads_of_words(encode_names(words))
        scores = vectors[:, : by_name.shape[1]] @ by_name.T
        labels = word_labels(words, indicator, names) > 0
        best = np.fmax(best, auc_of(scores, labels))
    return best


def auc_of(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the AUC of each word; NaN for words with too few positives."""
    enough = labels.sum(axis=0) >= MIN_POSITIVES
    auc = np.full(labels.shape[1], np.nan)
    auc[enough] = tag_auc(labels[:, enough], scores[:, enough])
    return auc


def fit_calibrations(evidence: Sequence[Evidence]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return center, slope and intercept of the log odds of each word.

    The slope of a word is that of a logistic regression on all sources, each of which has an
    intercept of its own, because people name other things in other places; the intercept is their
    mean. Slopes are drawn to a common one.
    """
    n_words = evidence[0].scores.shape[1]
    center = np.mean([e.scores.mean(axis=0) for e in evidence], axis=0)
    slope = np.ones(n_words)
    intercept = np.zeros(n_words)
    for word in range(n_words):
        used = [e for e in evidence if e.labels[:, word].sum() >= MIN_POSITIVES]
        if not used:
            continue
        fits = [_logistic(e.scores[:, word] - center[word], e.labels[:, word]) for e in used]
        slope[word] = np.mean([fit[0] for fit in fits])
        intercept[word] = np.mean([fit[1] for fit in fits])
    return center.astype(np.float32), slope.astype(np.float32), intercept.astype(np.float32)


def _logistic(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Fit a logistic regression with a Gaussian prior of its slope, by Newton's method."""
    common = 2.0
    beta = np.array([common, np.log(max(y.mean(), 1e-6))])
    design = np.stack([x, np.ones_like(x)], axis=1).astype(np.float64)
    for _ in range(30):
        p = 1 / (1 + np.exp(-design @ beta))
        gradient = design.T @ (y - p) - [SLOPE_PENALTY * (beta[0] - common), 0]
        hessian = (design * (p * (1 - p))[:, None]).T @ design
        hessian += np.diag([SLOPE_PENALTY, 1e-9])
        step = np.clip(np.linalg.solve(hessian, gradient), -1, 1)
        beta = beta + step
        if np.abs(step).max() < 1e-8:
            break
    return max(float(beta[0]), 0.1), float(beta[1])


class Crossed(NamedTuple):
    """Log odds by heads and calibrations of the other sources, on the images of one source."""

    log_odds: np.ndarray  # n x words, -inf for words that the other sources do not have
    labels: np.ndarray  # n x words, bool


class Transfer(NamedTuple):
    """Log odds for another source than those they were fitted to: slope * log odds + offset."""

    slope: float
    offset: float


def cross_sources(data: Data, words: Sequence[str]) -> dict[str, Crossed]:
    """Judge heads and calibrations of all other sources on each source."""
    images = sources_of(data)
    crossed = {}
    vectors_of_words = encode_names(words)
    for source, (vectors, indicator, names) in images.items():
        evidence = list(held_out_evidence(data, words, {source}).values())
        center, slope, intercept = fit_calibrations(evidence)
        is_known = sum(e.labels.sum(axis=0) for e in evidence) >= MIN_TRANSFER_POSITIVES
        others = np.vstack([v[0] for s, v in images.items() if s != source])
        heads = smooth_heads(data, concepts_of(data, {source}), others)
        by_name = heads.heads_of_words(vectors_of_words)
        log_odds = (vectors[:, : by_name.shape[1]] @ by_name.T - center) * slope + intercept
        log_odds[:, ~is_known] = -np.inf
        crossed[source] = Crossed(log_odds, word_labels(words, indicator, names) > 0)
    return crossed


def fit_transfer(crossed: Crossed) -> Transfer:
    """Fit log odds to images of another source, by a logistic regression of all words.

    Log odds of the sources' own images are too sure of those of others. The weight of a word grows
    with the square root of its pairs, so that a few frequent words do not decide.
    """
    pairs = crossed.log_odds > MIN_LOG_ODDS
    x = crossed.log_odds[pairs].astype(np.float64)
    y = crossed.labels[pairs]
    weight = np.broadcast_to(1 / np.sqrt(np.maximum(pairs.sum(axis=0), 1)), pairs.shape)[pairs]
    weight = weight * (len(x) / weight.sum())
    design = np.stack([x, np.ones_like(x)], axis=1)
    beta = np.array([1.0, 0.0])
    for _ in range(NEWTON_STEPS):
        p = expit(design @ beta)
        hessian = (design * (weight * p * (1 - p))[:, None]).T @ design
        step = np.linalg.solve(hessian, design.T @ (weight * (y - p)))
        beta = beta + np.clip(step, -0.5, 0.5)
    return Transfer(float(beta[0]), float(beta[1]))


class Quality(NamedTuple):
    """Precision on images of a source that had no part in heads and calibrations.

    Right is what people name, which is less than what an image shows.
    """

    precision: np.ndarray  # words, at a probability of at least 0.5; NaN for rare ones
    curve: np.ndarray  # thresholds, pooled over words; each source counts alike


def transfer_quality(crossed: dict[str, Crossed], thresholds: np.ndarray) -> Quality:
    """Measure the precision on each source, with the transfer that was fitted to the others."""
    n_words = next(iter(crossed.values())).labels.shape[1]
    applied = np.zeros(n_words)
    named = np.zeros(n_words)
    shares = np.zeros((2, len(thresholds)))
    for source, (log_odds, labels) in crossed.items():
        transfer = mean_transfer([c for s, c in crossed.items() if s != source])
        p = expit(log_odds * transfer.slope + transfer.offset)
        for i, threshold in enumerate(thresholds):
            above = p >= threshold
            shares[:, i] += np.array([above.sum(), labels[above].sum()]) / len(p)
        applied += (p >= 0.5).sum(axis=0)
        named += ((p >= 0.5) & labels).sum(axis=0)
    precision = np.where(applied >= MIN_POSITIVES, named / np.maximum(applied, 1), np.nan)
    curve = shares[1] / np.maximum(shares[0], 1e-9)
    return Quality(precision.astype(np.float32), curve.astype(np.float32))


def mean_transfer(crossed: Sequence[Crossed]) -> Transfer:
    """Return the mean of the transfers that were fitted to several sources."""
    fits = np.array([fit_transfer(one) for one in crossed])
    return Transfer(*fits.mean(axis=0).tolist())


def sources_of(data: Data) -> dict[str, tuple[np.ndarray, sparse.csr_array, list[str]]]:
    """Return vectors, descriptions and their words of each source that people described."""
    return {
        "coco": (data.caption_vectors, data.captions, data.caption_words),
        "iaprtc12": (data.iapr_vectors, data.descriptions, data.description_words),
    }


def build_vocabulary(
    data: Data, heads: ConceptHeads, crossed: dict[str, Crossed], exclude: Collection[str] = ()
) -> GeneralVocabulary:
    """Select the words that work on another source, and calibrate them on held-out images.

    The columns of ``crossed`` are the candidates. An excluded source has no part in words and
    calibrations, and the transfer is the one fitted to the other sources.
    """
    table = candidates()
    candidate_names = [row[0] for row in table]
    evidence = held_out_evidence(data, candidate_names, exclude)
    if len(evidence) > 1:
        auc = transfer_auc(data, candidate_names, exclude)
    else:  # no other source could judge
        (only,) = evidence.values()
        auc = auc_of(only.scores, only.labels > 0)
    is_kept = auc >= MIN_AUC
    kept = [row for row, value in zip(table, is_kept, strict=True) if value]
    words = [row[0] for row in kept]
    center, slope, intercept = fit_calibrations(
        [Evidence(one.scores[:, is_kept], one.labels[:, is_kept]) for one in evidence.values()]
    )
    used = {source: one for source, one in crossed.items() if source not in exclude}
    transfer = mean_transfer(list(used.values()))
    thresholds = np.arange(0.95, 0.04, -0.01)
    quality = transfer_quality(
        {
            s: Crossed(one.log_odds[:, is_kept], one.labels[:, is_kept])
            for s, one in crossed.items()
        },
        thresholds,
    )
    languages = vocabulary_table()[0]
    return GeneralVocabulary.build(
        heads=heads.heads_of_words(encode_names(words)),
        concepts=heads,
        names={language: [row[i] for row in kept] for i, language in enumerate(languages)},
        vectors=quantize(encode_names(words))[0],
        center=center,
        slope=slope * np.float32(transfer.slope),
        intercept=(intercept * transfer.slope + transfer.offset).astype(np.float32),
        auc=auc[is_kept].astype(np.float32),
        precision=quality.precision,
        curve_thresholds=thresholds.astype(np.float32),
        curve_precision=quality.curve,
    )


def candidates() -> list[list[str]]:
    """Return the rows of the table that may become words of the general vocabulary."""
    return [row for row in vocabulary_table()[1:] if row[0] not in REDUNDANT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("emoji", type=Path, help="folder annotations of cldr-annotations-full")
    arguments = parser.parse_args()
    data = Data(arguments.data)
    folder = Path(__file__).parents[1] / "src/prototag/knowledge" / FOLDER
    reference = np.vstack([data.caption_vectors, data.iapr_vectors])
    heads = smooth_heads(data, concepts_of(data), reference)
    heads.save(folder)
    make_lexicon(arguments.emoji).save(folder)
    crossed = cross_sources(data, [row[0] for row in candidates()])
    for source, one in crossed.items():
        print(f"Transfer to {source}: {fit_transfer(one)}")
    vocabulary = build_vocabulary(data, heads, crossed)
    vocabulary.save(folder)
    print(
        f"{len(heads.names):,} names of {len(heads.dual):,} concepts; "
        f"{len(vocabulary.auc):,} words of the general vocabulary."
    )


if __name__ == "__main__":
    main()
