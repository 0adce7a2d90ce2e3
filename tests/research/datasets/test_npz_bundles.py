"""Bundles: written, read, joined, and refused when damaged."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from prototag.errors import DatasetError, InputError
from prototag.research.datasets import Collection, bundle, npz_bundles, save_bundle

from .forms import tags_of, words

Y = tags_of(20, 11)
X = np.random.default_rng(0).random((20, 6)).astype(np.float16)


def arrays(**changes):
    values = {
        "X": X,
        "label_bits": np.packbits(Y, axis=1),
        "n_tags": np.int64(11),
        "tags": np.array(words(11)),
        "image_names": np.array([f"{row}.jpg" for row in range(20)]),
        "train_idx": np.arange(15, dtype=np.int32),
        "test_idx": np.arange(15, 20, dtype=np.int32),
    }
    values.update(changes)
    return {key: value for key, value in values.items() if value is not None}


def write(path, **changes):
    np.savez(path, **arrays(**changes))
    return path


def test_a_bundle(tmp_path):
    data = bundle(write(tmp_path / "toy.npz"))
    assert_array_equal(data.Y.toarray(), Y)
    assert data.Y.dtype == data.X.dtype == np.float32
    assert_array_equal(data.X, X)
    assert data.tags == words(11)
    assert data.names[3] == "3.jpg"
    assert_array_equal(data.test, np.arange(15, 20))
    assert (data.name, data.source) == ("toy", "toy.npz")
    ids = write(tmp_path / "ids.npz", image_names=None, image_ids=np.arange(20) * 7)
    assert bundle(ids, name="mine").names[2] == "14"


def test_bundles_of_the_same_images_lie_side_by_side(tmp_path):
    one, two = write(tmp_path / "one.npz"), write(tmp_path / "two.npz", X=X[:, :2] + 1)
    data = bundle(one, two)
    assert_array_equal(data.X, np.hstack([X, X[:, :2] + 1]))
    assert data.source == "one.npz + two.npz"
    assert data.checksum not in (bundle(one).checksum, bundle(two).checksum)
    for key, value in (
        ("train_idx", np.arange(14)),
        ("tags", np.array(words(12)[1:])),
        ("label_bits", np.packbits(1 - Y, axis=1)),
        ("image_names", np.array([f"{row}.png" for row in range(20)])),
    ):
        other = write(tmp_path / "other.npz", **{key: value})
        with pytest.raises(DatasetError, match=r"one.npz and other.npz differ in"):
            bundle(one, other)
    with pytest.raises(DatasetError, match="without vectors cannot be joined"):
        bundle(one, write(tmp_path / "bare.npz", X=None))
    with pytest.raises(InputError, match="at least one"):
        bundle()


def test_what_was_saved_is_loaded(tmp_path):
    before = bundle(write(tmp_path / "toy.npz"))
    for data in (before, replace(before, X=None), replace(before, names=None)):
        save_bundle(data, tmp_path / "saved.npz")
        after = bundle(tmp_path / "saved.npz")
        assert_array_equal(after.Y.toarray(), before.Y.toarray())
        assert_array_equal(after.train, before.train)
        assert after.tags == before.tags
        assert (after.X is None) == (data.X is None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved.npz", "toy.npz"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    data = bundle(write(tmp_path / "toy.npz"))
    before = (tmp_path / "toy.npz").read_bytes()

    def full(*_args, **_kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="disk full"):
        save_bundle(data, tmp_path / "toy.npz")
    assert (tmp_path / "toy.npz").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tags": None}, "tags missing; a bundle has"),
        ({"image_names": None}, "image_names missing"),
        ({"n_tags": np.int64(17)}, "n_tags=17, 16 bits"),
        ({"n_tags": np.int64(0)}, "n_tags=0"),
        ({"n_tags": np.arange(2)}, "label_bits must be bytes"),
        ({"label_bits": Y.astype(float)}, "label_bits must be bytes"),
        ({"X": X[:5]}, "X has 5 rows, label_bits 20"),
        ({"X": X.astype(int)}, "X is int64"),
        ({"train_idx": np.array([0.5])}, "train_idx must be row numbers"),
        ({"train_idx": np.array([99])}, "train names rows outside"),
        ({"train_idx": np.array([15])}, "twice in training and test"),
    ],
)
def test_bundles_that_do_not_fit_together(tmp_path, changes, message):
    with pytest.raises(DatasetError, match=message):
        bundle(write(tmp_path / "toy.npz", **changes))


def test_nothing_is_unpickled(tmp_path):
    write(tmp_path / "toy.npz", tags=np.array(words(11), dtype=object))
    with pytest.raises(DatasetError, match="not a bundle, or damaged"):
        bundle(tmp_path / "toy.npz")


def test_damaged_and_foreign_files(tmp_path, monkeypatch):
    path = write(tmp_path / "toy.npz")
    whole = path.read_bytes()
    for data in (b"", b"nonsense", whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(DatasetError, match="not a bundle, or damaged"):
            bundle(path)
    middle = len(whole) // 3
    path.write_bytes(whole[:middle] + bytes(64) + whole[middle + 64 :])
    with pytest.raises(DatasetError, match="not a bundle, or damaged"):
        bundle(path)
    with pytest.raises(DatasetError, match="no such file"):
        bundle(tmp_path / "none.npz")
    path.write_bytes(whole)
    monkeypatch.setattr(npz_bundles, "_MAX_BYTES", 100)
    with pytest.raises(DatasetError, match=r"bytes unpacked, at most 100 allowed"):
        bundle(path)


def test_a_bundle_that_claims_more_than_it_has(tmp_path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 1280)}
    )
    path = write(tmp_path / "toy.npz", X=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("X.npy", head.getvalue())
    with pytest.raises(DatasetError, match="not a bundle, or damaged"):
        bundle(path)


def test_many_tags_are_packed_right(tmp_path):
    Y = sparse.random_array((30, 1000), density=0.05, random_state=0, dtype=np.float32).tocsr()
    Y.data[:] = 1
    data = Collection("many", Y, words(1000), np.arange(30), np.arange(0))
    save_bundle(data, tmp_path / "many.npz")
    assert (bundle(tmp_path / "many.npz").Y != Y).nnz == 0
