"""Writes small data sets in the forms in which the real ones are distributed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def tags_of(n, t, seed=0):
    """A 0/1 matrix in which every image and every tag occurs."""
    Y = (np.random.default_rng(seed).random((n, t)) < 0.2).astype(np.uint8)
    Y[np.arange(n), np.arange(n) % t] = 1
    return Y


def write_vecs(path: Path, rows):
    """Each row behind its length, number type by the ending of the name."""
    length, number = {".hvecs": ("<u2", "<u2"), ".hvecs32": ("<u4", "<u4")}.get(
        path.suffix, ("<i4", "<f4")
    )
    rows = np.asarray(rows)
    records = np.empty(len(rows), [("length", length), ("values", number, rows.shape[1])])
    records["length"], records["values"] = rows.shape[1], rows
    path.write_bytes(records.tobytes())


def words(t):
    return [f"word{number}" for number in range(t)]


def write_tagprop(folder: Path, key, Y_train, Y_test, name=lambda row: f"{row // 1000:02d}/{row}"):
    (folder / f"{key}_dictionary.txt").write_text("\n".join(words(Y_train.shape[1])) + "\n")
    row = 0
    for part, Y in (("train", Y_train), ("test", Y_test)):
        names = [name(row + i) for i in range(len(Y))]
        row += len(Y)
        (folder / f"{key}_{part}_list.txt").write_text("\n".join(names) + "\n")
        write_vecs(folder / f"{key}_{part}_annot.hvecs", Y)


def write_json(folder: Path, Y_train, Y_test):
    tags = words(Y_train.shape[1])
    row = 0
    for part, Y in (("train", Y_train), ("test", Y_test)):
        samples = []
        for line in Y:
            given = [tags[j] for j in np.flatnonzero(line)]
            samples.append({"image_name": f"{row}.jpeg", "image_labels": given})
            row += 1
        content = {"labels": tags, "samples": samples}
        (folder / f"{part}.json").write_text(json.dumps(content))
