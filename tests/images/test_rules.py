"""Rules about pixels and metadata, on pictures that are made here."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from pictures import photographs
from prototag.images.rules import matching_rules

RNG = np.random.default_rng(0)


def picture(width=96, height=80, *, low=0, high=255):
    return Image.fromarray(RNG.integers(low, high, (height, width, 3), np.uint8))


def jpeg(image, **exif):
    data = io.BytesIO()
    camera = Image.Exif()
    inner = camera.get_ifd(0x8769)
    names = {"taken": 0x9003, "seconds": 0x829A, "aperture": 0x829D, "iso": 0x8827}
    for name, value in exif.items():
        if name in names:
            inner[names[name]] = value
        else:
            camera[{"orientation": 0x0112, "software": 0x0131, "make": 0x010F}[name]] = value
    image.save(data, "JPEG", exif=camera, quality=95)
    return data.getvalue()


def png(image, **texts):
    data = io.BytesIO()
    info = PngInfo()
    for name, value in texts.items():
        info.add_text(name, value)
    image.save(data, "PNG", pnginfo=info)
    return data.getvalue()


def test_a_colored_picture_in_landscape_format_matches_no_rule(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg(picture()))
    for source in (path, jpeg(picture()), png(picture()), picture(), np.asarray(picture())):
        assert matching_rules(source) == frozenset()


def test_black_and_white_is_gray_in_nearly_all_pixels():
    gray = picture().convert("L")
    assert matching_rules(jpeg(gray)) == {"black and white"}
    assert matching_rules(jpeg(gray.convert("RGB"))) == {"black and white"}
    tinted = np.asarray(gray.convert("RGB")).copy()
    tinted[:12, :12, 2] = 0
    assert "black and white" not in matching_rules(png(Image.fromarray(tinted)))
    blank = Image.new("RGB", (96, 80), (200, 200, 200))
    assert matching_rules(png(blank)) == frozenset()
    assert "black and white" in matching_rules(photographs()["camera.png"])
    assert "black and white" not in matching_rules(photographs()["astronaut.png"])


def test_formats_are_those_of_the_upright_picture():
    assert matching_rules(jpeg(picture(200, 100))) == {"panorama"}
    assert matching_rules(jpeg(picture(190, 100))) == frozenset()
    assert matching_rules(jpeg(picture(100, 120))) == {"portrait format"}
    assert matching_rules(jpeg(picture(100, 119))) == frozenset()
    assert matching_rules(jpeg(picture(100, 200), orientation=6)) == {"panorama"}
    assert matching_rules(jpeg(picture(120, 100), orientation=8)) == {"portrait format"}


def test_screenshots_have_the_size_of_a_display_or_name_their_program():
    screen = picture(1440, 900)
    assert matching_rules(png(screen)) == {"screenshot"}
    assert matching_rules(png(screen.rotate(90, expand=True))) == {"screenshot", "portrait format"}
    assert matching_rules(jpeg(screen)) == frozenset()
    assert matching_rules(png(picture(1441, 900))) == frozenset()
    assert matching_rules(png(picture(), Software="gnome-screenshot")) == {"screenshot"}
    assert matching_rules(jpeg(picture(), software="Screenshot 3.1")) == {"screenshot"}


@pytest.mark.parametrize(
    ("taken", "seconds", "aperture", "iso", "expected"),
    [
        ("2021:07:30 23:15:00", 0.5, 2.8, 1600, True),  # EV 0
        ("2021:07:30 03:15:00", 1 / 15, 2.0, 800, True),  # EV 2.9
        ("2021:07:30 23:15:00", 1 / 60, 2.8, 200, False),  # EV 7.9: a bright room
        ("2021:07:30 12:15:00", 0.5, 2.8, 1600, False),  # a long exposure at noon
        ("no time", 0.5, 2.8, 1600, False),
    ],
)
def test_night_by_time_and_exposure(taken, seconds, aperture, iso, expected):
    data = jpeg(picture(), taken=taken, seconds=seconds, aperture=aperture, iso=iso)
    assert ("night" in matching_rules(data)) == expected


def test_night_by_darkness_unless_the_camera_says_day():
    dark = np.asarray(picture(high=30)).copy()
    dark[:10, :20] = 250  # a lamp
    dark = Image.fromarray(dark)
    assert matching_rules(png(dark)) == {"night"}
    assert matching_rules(jpeg(dark, taken="2021:07:30 12:00:00")) == frozenset()
    assert matching_rules(png(Image.new("RGB", (96, 80)))) == frozenset()  # a lens cap


def test_what_cannot_be_read_matches_nothing(tmp_path):
    assert matching_rules(tmp_path / "none.jpg") == frozenset()
    assert matching_rules(jpeg(picture())[:200]) == frozenset()
    assert matching_rules(b"text") == frozenset()
