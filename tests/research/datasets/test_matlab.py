"""The authors' MATLAB files, images as rows or as columns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import io, sparse

from prototag.errors import DatasetError
from prototag.research.datasets.matlab import read_matrix, release

from .forms import tags_of, words

Y_TRAIN, Y_TEST = tags_of(12, 5), tags_of(4, 5, seed=1)
X = np.random.default_rng(0).random((16, 7))


def write(folder, Y_train=Y_TRAIN, Y_test=Y_TEST, vectors=X, ending="Toy.mat", network="dense161"):
    io.savemat(folder / f"trainAnnotation{ending}", {"trainAnnotation": Y_train})
    io.savemat(folder / f"testAnnotation{ending}", {"testAnnotation": Y_test})
    if vectors is not None:
        name = f"deepFeature_{network}"
        io.savemat(folder / f"{name}{ending}", {name: vectors}, do_compression=True)
    return folder / f"trainAnnotation{ending}"


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("turned_vectors", [False, True])
@pytest.mark.parametrize("kind", [float, bool, np.int8, sparse.csc_array])
def test_images_as_rows_and_as_columns(tmp_path, turned, turned_vectors, kind):
    convert = kind if kind is sparse.csc_array else lambda Y: Y.astype(kind)
    matrices = [convert(Y.T if turned else Y) for Y in (Y_TRAIN, Y_TEST)]
    if kind is sparse.csc_array:
        matrices = [matrix.astype(float) for matrix in matrices]
    found = release(write(tmp_path, *matrices, X.T if turned_vectors else X), None, None)
    assert_array_equal(found.Y.toarray(), np.vstack([Y_TRAIN, Y_TEST]))
    assert found.n_train == 12
    assert_allclose(found.X, X, rtol=1e-6)
    assert found.X.dtype == np.float32
    assert found.tags == [f"tag{number:03d}" for number in range(5)]
    assert "numbered" in found.source


def test_names_of_tags_come_from_a_dictionary(tmp_path):
    first = write(tmp_path)
    (tmp_path / "other_dictionary.txt").write_text("\n".join(words(5)))
    assert release(first, None, None).tags == words(5)
    (tmp_path / "toy_dictionary.txt").write_text("\n".join("abcde"))
    assert release(first, None, None).tags == list("abcde")  # its own comes first
    (tmp_path / "toy_dictionary.txt").write_text("a\nb")
    with pytest.raises(DatasetError, match="has 2 names, the annotations have 5 tags"):
        release(first, None, None)


def test_which_way_round_is_never_guessed(tmp_path):
    square = tags_of(6, 6)
    first = write(tmp_path, square, square, None)
    with pytest.raises(DatasetError, match="fit with images as rows and as columns"):
        release(first, None, None)
    with pytest.raises(DatasetError, match="fit with images as rows and as columns"):
        release(first, None, (6, 6, 6))


def test_known_counts_decide_where_shapes_do_not(tmp_path):
    # 5 training and 5 test images with 3 tags, or 3 and 3 images with 5 tags.
    Y = tags_of(5, 3)
    first = write(tmp_path, Y, Y, None)
    with pytest.raises(DatasetError, match="as rows and as columns"):
        release(first, None, None)
    assert release(first, None, (5, 5, 3)).Y.shape == (10, 3)
    assert release(first, None, (3, 3, 5)).Y.shape == (6, 5)
    io.savemat(tmp_path / "deepFeature_xToy.mat", {"deepFeature_x": np.ones((10, 4))})
    assert release(first, None, None).Y.shape == (10, 3)  # ten vectors: ten images


def test_shapes_that_do_not_fit_are_refused(tmp_path):
    first = write(tmp_path, tags_of(12, 5), tags_of(4, 6), None)
    with pytest.raises(DatasetError, match=r"\(12, 5\) and \(4, 6\) do not fit together"):
        release(first, None, None)
    first = write(tmp_path, vectors=X[:15])
    with pytest.raises(DatasetError, match=r"vectors of shape \(15, 7\) do not fit together"):
        release(first, None, None)
    first = write(tmp_path, vectors=np.ones((16, 16)))
    with pytest.raises(DatasetError, match="16 x 16 numbers for 16 images"):
        release(first, None, None)


def test_a_network_is_chosen_by_name(tmp_path):
    first = write(tmp_path)
    assert release(first, "dense161", None).X is not None
    assert release(first, "deepFeature_dense161", None).X is not None
    write(tmp_path, vectors=2 * X, network="vgg16")
    with pytest.raises(DatasetError, match=r"give feature= one of \['dense161', 'vgg16'\]"):
        release(first, None, None)
    assert_allclose(release(first, "vgg16", None).X, 2 * X, rtol=1e-6)
    with pytest.raises(DatasetError, match=r"deepFeature_b7Toy.mat is not beside"):
        release(first, "b7", None)


def test_the_test_annotations_are_missing(tmp_path):
    first = write(tmp_path)
    (tmp_path / "testAnnotationToy.mat").unlink()
    with pytest.raises(DatasetError, match=r"testAnnotationToy.mat is missing"):
        release(first, None, None)


@pytest.mark.parametrize(
    "head",
    [b"MATLAB 7.3 MAT-file, Platform: GLNXA64", b"\x89HDF\r\n\x1a\n", b" " * 512 + b"\x89HDF"],
)
def test_version_73_explains_how_to_convert(tmp_path, head):
    path = tmp_path / "new.mat"
    path.write_bytes(head + bytes(600))
    with pytest.raises(DatasetError, match=r"7.3 \(HDF5\).*save\('new.mat'.*-v7.*savemat"):
        read_matrix(path, "x")


def test_files_without_the_matrix(tmp_path):
    path = tmp_path / "a.mat"
    io.savemat(path, {"b": np.eye(2)})
    assert_array_equal(read_matrix(path, "x"), np.eye(2))  # the only one, whatever its name
    io.savemat(path, {"b": np.eye(2), "c": np.eye(2)})
    with pytest.raises(DatasetError, match="contains b, c, but no x"):
        read_matrix(path, "x")
    io.savemat(path, {"x": np.ones((2, 3, 1)) * [[[1]], [[2]]]})
    assert read_matrix(path, "x").shape == (2, 3)
    io.savemat(path, {"x": np.ones((2, 3, 4))})
    with pytest.raises(DatasetError, match=r"shape \(2, 3, 4\): expected a matrix"):
        read_matrix(path, "x")
    io.savemat(path, {"x": np.array(["a", "b"], dtype=object)})
    with pytest.raises(DatasetError, match="expected a matrix"):
        read_matrix(path, "x")
    for data in (b"", b"nonsense" * 100, (tmp_path / "a.mat").read_bytes()[:150]):
        path.write_bytes(data)
        with pytest.raises(DatasetError, match=r"not a MATLAB file|contains nothing"):
            read_matrix(path, "x")
    with pytest.raises(DatasetError, match="cannot be read"):
        read_matrix(tmp_path / "none.mat", "x")
