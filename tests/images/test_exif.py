"""EXIF of files that other programs wrote, of raw files, and of damaged ones."""

from __future__ import annotations

import io
import shutil
import subprocess

import pytest
from PIL import Image

from prototag.images.exif import Capture, read_capture


def jpeg(entries=(), inner=(), position=(), kind="JPEG"):
    exif = Image.Exif()
    for tag, value in dict(entries).items():
        exif[tag] = value
    for tag, value in dict(inner).items():
        exif.get_ifd(0x8769)[tag] = value
    for tag, value in dict(position).items():
        exif.get_ifd(0x8825)[tag] = value
    if kind == "TIFF":  # the directories of a raw file
        return exif.tobytes().removeprefix(b"Exif\0\0")
    data = io.BytesIO()
    Image.new("RGB", (16, 16), (9, 99, 199)).save(data, kind, exif=exif)
    return data.getvalue()


OSLO = {1: "N", 2: (59.0, 54.0, 36.0), 3: "E", 4: (10.0, 45.0, 0.0)}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_all_that_a_file_says(kind):
    data = jpeg(
        {0x010F: "NIKON CORPORATION", 0x0110: "NIKON D850"},
        {0x9003: "2023:05:17 14:03:22", 0xA434: "NIKKOR Z 50mm f/1.8 S"},
        OSLO,
        kind,
    )
    expected = Capture("2023-05-17T14:03:22", "NIKON D850", "NIKKOR Z 50mm f/1.8 S", 59.91, 10.75)
    assert read_capture(data) == expected


@pytest.mark.parametrize(
    ("make", "model", "camera"),
    [
        ("SONY", "ILCE-7M3", "SONY ILCE-7M3"),
        ("Canon", "Canon EOS R5", "Canon EOS R5"),
        ("Apple\0\0", " iPhone 12 ", "Apple iPhone 12"),
        ("", "X100V", "X100V"),
        ("Leica", "", "Leica"),
        ("", "", None),
        ("a\nb", "x" * 500, ("a b " + "x" * 500)[:104]),
    ],
)
def test_the_camera_is_maker_and_model(make, model, camera):
    assert read_capture(jpeg({0x010F: make, 0x0110: model})).camera == camera


@pytest.mark.parametrize(
    "time",
    ["0000:00:00 00:00:00", "2023:13:01 00:00:00", "    :  :     :  :  ", "x", "1700:01:01 0:0:0"],
)
def test_a_clock_that_was_not_set_says_nothing(time):
    assert read_capture(jpeg({}, {0x9003: time})).taken_at is None


def test_the_time_of_digitizing_counts_if_there_is_no_other():
    assert read_capture(jpeg({}, {0x9004: "1999:12:31 23:59:59"})).taken_at == "1999-12-31T23:59:59"


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ({1: "S", 2: (33.0, 30.0, 0.0), 3: "W", 4: (70.0, 15.0, 0.0)}, (-33.5, -70.25)),
        ({1: "N", 2: (0.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)}, (None, None)),
        ({1: "N", 2: (91.0, 0.0, 0.0), 3: "E", 4: (10.0, 0.0, 0.0)}, (None, None)),
        ({2: (59.0, 0.0, 0.0), 3: "E", 4: (10.0, 0.0, 0.0)}, (None, None)),
        ({1: "N", 2: (59.0, 0.0), 3: "E", 4: (10.0, 0.0, 0.0)}, (None, None)),
    ],
)
def test_positions(position, expected):
    capture = read_capture(jpeg({}, {}, position))
    assert (capture.latitude, capture.longitude) == expected


def test_a_raw_file_says_it_in_its_own_directory():
    tiff = jpeg({0x0110: "NIKON D850"}, {0x9003: "2023:05:17 14:03:22"}, kind="TIFF")
    heads = {b"II*\0": (b"IIRO", b"IIRS", b"IIU\0"), b"MM\0*": (b"MMOR",)}
    for head in heads[tiff[:4]]:
        capture = read_capture(head + tiff[4:])
        assert capture.camera == "NIKON D850"
        assert capture.taken_at == "2023-05-17T14:03:22"


def test_damaged_files_say_nothing():
    whole = jpeg({0x0110: "NIKON D850"}, {0x9003: "2023:05:17 14:03:22"}, OSLO)
    for size in range(0, len(whole), 7):
        read_capture(whole[:size])
    for place in range(20, 200):
        read_capture(whole[:place] + b"\xff" + whole[place + 1 :])
    assert read_capture(b"") == Capture()
    assert read_capture(b"no picture") == Capture()


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool writes it")
def test_exiftool_writes_what_is_read(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())
    options = ["-Make=FUJIFILM", "-Model=X-T4", "-LensModel=XF35mmF2", "-GPSLatitude=48.1374"]
    options += ["-GPSLatitudeRef=N", "-GPSLongitude=11.5755", "-GPSLongitudeRef=E"]
    options += ["-DateTimeOriginal=2021:06:01 10:20:30"]
    subprocess.run(["exiftool", "-q", "-overwrite_original", *options, str(path)], check=True)
    found = read_capture(path.read_bytes())
    assert found[:3] == ("2021-06-01T10:20:30", "FUJIFILM X-T4", "XF35mmF2")
    assert found[3:] == pytest.approx((48.1374, 11.5755), abs=1e-5)
