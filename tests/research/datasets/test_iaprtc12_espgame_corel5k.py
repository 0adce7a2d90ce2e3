"""IAPRTC-12, ESP-GAME and Corel-5K: full-size files of the right shape, and what is amiss."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import io

from prototag.errors import DatasetError, InputError
from prototag.research import datasets
from prototag.research.datasets import corel5k, espgame, iaprtc12

from .forms import tags_of, words, write_json, write_tagprop

SIZES = {
    "iaprtc12": (17_665, 1_962, 291),
    "espgame": (18_689, 2_081, 268),
    "corel5k": (4_500, 499, 260),
}


@pytest.mark.parametrize("key", SIZES)
def test_the_official_counts(tmp_path, key):
    train, test, tags = SIZES[key]
    Y = tags_of(train + test, tags)
    write_tagprop(tmp_path, key, Y[:train], Y[train:])
    data = getattr(datasets, key)(tmp_path)
    assert_array_equal(data.Y.toarray(), Y)
    assert_array_equal(data.train, np.arange(train))
    assert_array_equal(data.test, np.arange(train, train + test))
    assert data.tags == words(tags)
    assert data.images is None
    assert len(data.names) == train + test
    assert len(data.checksum) == 64
    again = getattr(datasets, key)(tmp_path)
    assert again.checksum == data.checksum


def small(folder, key="corel5k", **more):
    write_tagprop(folder, key, tags_of(12, 5), tags_of(4, 5, seed=1), **more)


def test_other_counts_are_an_error_or_a_warning(tmp_path):
    small(tmp_path)
    message = (
        "12 training images, 4 test images and 5 tags instead of 4,500, 499 and 260 of Corel-5K"
    )
    with pytest.raises(DatasetError, match=message):
        corel5k(tmp_path)
    with pytest.warns(UserWarning, match=message):
        data = corel5k(tmp_path, strict=False)
    assert str(data).startswith("Corel-5K: 16 images (12 training, 4 test), 5 tags")


@pytest.mark.filterwarnings("ignore:.*training images:UserWarning")
def test_pictures_are_found_beside_the_lists_or_where_they_are_said_to_be(tmp_path):
    lists, tree = tmp_path / "lists", tmp_path / "pictures"
    lists.mkdir()
    small(lists)
    for row in range(16):
        path = tree / "Corel5k" / "00" / f"{row}.jpeg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for given in ({"folder": lists, "images": tree}, {"folder": tmp_path}):
        data = corel5k(**given, strict=False)
        assert [path.stem for path in data.images] == [str(row) for row in range(16)]
    assert corel5k(lists, strict=False).images is None
    with pytest.raises(DatasetError, match=r"No pictures below .*lists.*Kobus Barnard"):
        corel5k(lists, images=lists, strict=False)


@pytest.mark.filterwarnings("ignore:.*training images:UserWarning")
def test_missing_pictures_are_counted_and_skipped(tmp_path):
    small(tmp_path)
    for row in range(16):
        if row not in (3, 14):
            path = tmp_path / "00" / f"{row}.jpeg"
            path.parent.mkdir(exist_ok=True)
            path.touch()
    with pytest.warns(UserWarning, match=r"2 of 16 pictures are not below .*'00/3'"):
        data = corel5k(tmp_path, strict=False)
    assert len(data.images) == len(data.names) == data.Y.shape[0] == 14
    assert "00/3" not in data.names
    assert_array_equal(data.train, np.arange(11))
    assert_array_equal(data.test, np.arange(11, 14))
    for row, (name, path) in enumerate(zip(data.names, data.images, strict=True)):
        assert path.stem == name.split("/")[1], row


@pytest.mark.filterwarnings("ignore:.*training images:UserWarning")
def test_every_form_gives_the_same_tags(tmp_path):
    Y_train, Y_test = tags_of(12, 5), tags_of(4, 5, seed=1)
    write_tagprop(tmp_path, "espgame", Y_train, Y_test)
    write_json(tmp_path, Y_train, Y_test)
    io.savemat(tmp_path / "trainAnnotationEspgame.mat", {"trainAnnotation": Y_train})
    io.savemat(tmp_path / "testAnnotationEspgame.mat", {"testAnnotation": Y_test})
    X = np.random.default_rng(0).random((16, 3)).astype(np.float32)
    io.savemat(tmp_path / "deepFeature_dense161Espgame.mat", {"deepFeature_dense161": X})
    with pytest.raises(DatasetError, match="give form= one of tagprop, json, matlab"):
        espgame(tmp_path, strict=False)
    sets = {
        form: espgame(tmp_path, form=form, strict=False) for form in ("tagprop", "json", "matlab")
    }
    for data in sets.values():
        assert_array_equal(data.Y.toarray(), np.vstack([Y_train, Y_test]))
        assert data.tags == words(5)  # MATLAB's from espgame_dictionary.txt
    assert_array_equal(sets["matlab"].X, X)
    assert len({data.checksum for data in sets.values()}) == 3
    with pytest.raises(DatasetError, match="do not name the images"):
        espgame(tmp_path, form="matlab", images=tmp_path, strict=False)
    with pytest.raises(DatasetError, match="JSON lists come without vectors"):
        espgame(tmp_path, form="json", feature="Gist", strict=False)
    with pytest.raises(DatasetError, match=r"\['a', 'b'\]: give one name for MATLAB files"):
        espgame(tmp_path, form="matlab", feature=["a", "b"], strict=False)
    with pytest.raises(InputError, match="form='xml': give one of tagprop, json, matlab"):
        espgame(tmp_path, form="xml")


def test_missing_files_are_reported_with_their_source(tmp_path):
    with pytest.raises(
        DatasetError, match=r"does not contain IAPRTC-12: neither iaprtc12_train_list.txt"
    ):
        iaprtc12(tmp_path)
    with pytest.raises(DatasetError, match=r"Guillaumin.*MCDL-Image-Annotation.*ImageCLEF page"):
        iaprtc12(tmp_path)
    with pytest.raises(DatasetError, match="is not a folder"):
        iaprtc12(tmp_path / "none")
    small(tmp_path, key="espgame")  # another data set is not taken for this one
    with pytest.raises(DatasetError, match="does not contain IAPRTC-12"):
        iaprtc12(tmp_path)


def test_each_loader_documents_its_own_files():
    assert "iaprtc12_train_list.txt" in iaprtc12.__doc__
    assert "18,689 training images" in espgame.__doc__
    assert "{" not in corel5k.__doc__.replace('{"tagprop", "json", "matlab"}', "")
