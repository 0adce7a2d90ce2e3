"""Model files with flipped bits, truncated, and forged with valid checksums.

Each raises an error of ProtoTag, or loads and scores vectors: finite scores, probabilities from 0
to 1, tags that are text.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.attack import mutations
from benchmarks.attack.runner import Attempt, in_words
from prototag import MCDL, Annotator, Tagger, load
from prototag.errors import PrototagError
from prototag.mcdl.exemplar_mcdl import ExemplarMCDL
from prototag.research.datasets import planted
from prototag.storage import modelfile

WIDTH = 12
RATIONAL = (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e30, 1e9, -1e9, 1e-38, 0.0, -1.0, 1.0, 2.0)


class Eyes:
    """Stand-in for a backbone: random vectors, seeded by the picture."""

    spec, fingerprint, size = "eyes.onnx", "0" * 64, (8, 8)
    interpolation, width = "bilinear", WIDTH

    def __call__(self, pixels: Any) -> Any:
        small = pixels.reshape(len(pixels), -1).astype(np.float32)
        return np.ascontiguousarray(small[:, : 16 * WIDTH : 16] / 64 - 1)


def originals(folder: Path) -> list[bytes]:
    """Return the bytes of small models of several kinds."""
    data = planted(n=60, t=5, k=20, m=WIDTH, random_state=0)
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (8, 8, 3), np.uint8) for _ in range(40)]
    tags = [["sea", "sky"][: 1 + n % 2] if n % 3 else ["sand"] for n in range(40)]
    annotator = Annotator(backbone=Eyes(), crops="fast", cache=None, keep_thumbnails=False)
    models: list[Any] = [
        annotator.fit(pictures, tags),
        Tagger(n_components=6).fit(data.X, data.Y),
        Tagger(kernel_share=0.5).fit(data.X[:12], np.hstack([data.Y[:12].toarray()] * 6)),
        ExemplarMCDL().fit(data.X, data.Y),
        MCDL(n_prototypes=10, max_iter=2).fit(data.X, data.Y),
    ]
    contents = []
    for number, model in enumerate(models):
        path = folder / f"{number}.prototag"
        model.save(path)
        contents.append(path.read_bytes())
    return contents


def forge(header: dict[str, Any], arrays: dict[str, Any], rng: random.Random) -> bytes:
    """Forge a file with valid checksums and changed values; sometimes its table is invalid."""
    tensors, table, end, parts = {}, {}, 0, []
    for name, array in arrays.items():
        code = {"f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32"}
        raw = np.ascontiguousarray(array).tobytes()
        kind = {"dtype": code.get(array.dtype.str[1:], "U8"), "shape": list(array.shape)}
        if array.dtype == bool:
            kind["dtype"] = "BOOL"
        if rng.random() < 0.001:
            kind[rng.choice(("dtype", "shape"))] = rng.choice(
                ("F32", [2**40], [0], [-1], None, [[]])
            )
        tensors[name] = {**kind, "sha256": hashlib.sha256(raw).hexdigest()}
        start, end = end, end + len(raw)
        table[name] = {**kind, "data_offsets": [start, end]}
        parts.append(raw)
    text = json.dumps({**header, "tensors": tensors}, ensure_ascii=False)
    encoded = text.encode(errors="replace")
    metadata = {
        "prototag": encoded.decode(),
        "prototag_sha256": hashlib.sha256(encoded).hexdigest(),
    }
    head = json.dumps({**table, "__metadata__": metadata}, ensure_ascii=False).encode()
    return len(head).to_bytes(8, "little") + head + b"".join(parts)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    paths = [path] if path else []
    for key, item in inner:
        paths += _places(item, (*path, key))
    return paths


def change_header(rng: random.Random, header: dict[str, Any]) -> None:
    path = rng.choice(_places(header))
    inside: Any = header
    for key in path[:-1]:
        inside = inside[key]
    if rng.random() < 0.2:
        del inside[path[-1]]
    else:
        inside[path[-1]] = mutations.value(rng)


def change_array(  # noqa: C901, PLR0912 - a list of ways to damage
    rng: random.Random, arrays: dict[str, Any]
) -> None:
    name = rng.choice([*arrays])
    array, kind = np.array(arrays[name]), rng.randrange(9)
    if kind < 4 and array.size:
        flat = array.reshape(-1)
        for _ in range(rng.choice((1, 1, 3, 20))):
            at = rng.randrange(len(flat))
            if array.dtype.kind == "f":
                with np.errstate(all="ignore"):
                    flat[at] = rng.choice(RATIONAL) if rng.random() < 0.8 else rng.gauss(0, 1) * 1e6
            elif array.dtype.kind == "i":
                flat[at] = rng.choice(
                    (0, 1, -1, 2, 1000, 2**31 - 1, -(2**31), int(flat[at] // 2) + 1)
                )
            else:
                flat[at] = rng.randrange(256) if array.dtype != bool else rng.random() < 0.5
    elif kind == 4 and array.ndim:
        axis = rng.randrange(array.ndim)
        array = array.take(range(rng.randrange(array.shape[axis] + 1)), axis=axis)
    elif kind == 5:
        array = (
            np.concatenate([array, array], axis=rng.randrange(array.ndim)) if array.ndim else array
        )
    elif kind == 6:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(("f8", "f4", "f2", "i8", "i4", "u1", "?")))
    elif kind == 7 and array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            array = array * array.dtype.type(rng.choice((0.0, -1.0, 1e8, 1e30, 1e-30)))
    elif rng.random() < 0.5:
        array = array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), array.shape[::-1])))
    else:
        array = arrays[rng.choice([*arrays])]
    arrays[name] = array
    if rng.random() < 0.02:
        del arrays[name]


def use(path: Path, vectors: Any) -> None:
    """Use all functions of a model and assert the properties of valid results."""
    model = load(path)
    if isinstance(model, Annotator):
        names, result = model.tags, model.model.predict(vectors)
        assert np.isfinite(result.scores).all(), "scores that are not finite"
        probabilities = result.probabilities
        choice = model.selector()
        for row in range(len(vectors)):
            model.annotation("x", result.scores[row], probabilities[row], b"", choice)
        model.selector(precision=0.8)
        gallery = model.gallery
        for number in range(min(3, len(gallery.names))):
            model.training_picture(number)
        str(model.training_summary)
    else:
        names = model.classes_
        assert np.isfinite(model.decision_function(vectors)).all(), "scores that are not finite"
        given = model.predict(vectors)
        assert given.shape[0] == len(vectors), "not one row for each vector"
        probabilities = model.probabilities(vectors) if hasattr(model, "probabilities") else None
        model.explain(vectors[:1])
    if probabilities is not None:
        assert ((probabilities >= 0) & (probabilities <= 1)).all(), "probabilities beyond 0 to 1"
    assert all(isinstance(name, str | int | float | np.generic) for name in names), (
        "tags that are no text"
    )


def prepare(folder: Path) -> Attempt:
    known = originals(folder)
    parsed = []
    for number in range(len(known)):
        header, arrays = modelfile.read(folder / f"{number}.prototag")
        del header["tensors"]
        parsed.append((json.dumps(header), arrays))
    vectors = np.random.default_rng(1).standard_normal((3, WIDTH)).astype(np.float32)
    path = folder / "attacked.prototag"

    def attempt(rng: random.Random, _: Path) -> str:
        which, kind = rng.choice((0, 0, 1, 1, 2, 3, 4)), rng.random()
        if kind < 0.4:
            path.write_bytes(mutations.damage(rng, known[which]))
            word = "bytes"
        else:
            header, arrays = json.loads(parsed[which][0]), dict(parsed[which][1])
            word = "forged"
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                if kind < 0.65:
                    change_header(rng, header)
                elif kind < 0.95:
                    change_array(rng, arrays)
                else:
                    change_header(rng, header)
                    change_array(rng, arrays)
            path.write_bytes(forge(header, arrays, rng))
        try:
            use(path, vectors)
        except PrototagError as error:
            in_words(error)
            return f"{word}: refused"
        except ValueError as error:  # an MCDL may have prototypes of any length; vectors may not
            if which < 3 or "cannot bridge that" not in str(error):
                raise
            return f"{word}: loads, but refuses vectors of this length"
        return f"{word}: sound"

    return attempt
