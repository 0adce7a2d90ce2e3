"""Names that cameras and programs give are told from words."""

from __future__ import annotations

import pytest

from prototag.knowledge.words import encode_names, read_name
from prototag.metadata.generated_names import is_generated_name, words_of_path


@pytest.mark.parametrize(
    "name",
    [
        "IMG_2041", "IMG_2041-2", "IMG_2041(1)", "DSC01234", "_DSC0042", "DSCF7731", "_MG_0099",
        "P1010001", "PXL_20230517_140322", "20230517_140322", "2023-05-17-14-03-22", "DJI_0042",
        "GOPR0001", "L1000123", "MVIMG_20190101_101010", "IMG-20200101-WA0003", "IMG_2041_HDR",
        "DSC_0042-edited", "00042", "100CANON", "101MSDCF", "102ND850", "DCIM", "0f8a33c2b19d4e55",
        "123e4567-e89b-12d3-a456-426614174000",
    ],
)  # fmt: skip
def test_a_camera_gave_these_names(name):
    assert is_generated_name(name)
    assert is_generated_name(name.lower())


@pytest.mark.parametrize(
    "name",
    ["harbour_2041", "beach", "London 2012", "2019oslo", "Strand-17", "img", "facade2019", "2 cats",
     "Grandma80", "imagine2020", "photograph", "scan of letter 12", "7up", "猫 2020"],
)  # fmt: skip
def test_people_gave_these_names(name):
    assert not is_generated_name(name)


def test_paths_keep_the_words_that_people_gave():
    assert words_of_path("oslo 2019/100canon/img_2041.jpg") == "oslo 2019"
    assert words_of_path("oslo/harbour_12.jpg") == "oslo/harbour_12"
    assert words_of_path("img_2041.jpg") == ""


def test_generated_names_have_no_meaning_as_tags():
    assert read_name("IMG_2041") == []
    assert read_name("Holiday|DSC01234") == read_name("Holiday")
    assert not encode_names(["IMG_2041"]).any()
