"""Pictures in a page: small, upright, without secrets, and never more than their share."""

from __future__ import annotations

import base64
import io
import re

import pytest
from PIL import Image

from pictures import encoded, scene
from prototag.report.contact_sheet import Card, Mark, Thumbnails, chip, chips, key, picture_sheet


def opened(markup: str) -> Image.Image:
    data = re.search(r"base64,([^\"]+)", markup)[1]
    return Image.open(io.BytesIO(base64.b64decode(data)))


def test_a_thumbnail_is_small_and_upright_and_has_no_metadata(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    exif[0x013B] = "a photographer"
    file = tmp_path / "a.jpg"
    scene(600, 400).save(file, exif=exif, comment=b"secret")
    image = opened(Thumbnails(side=120).image(file, "a"))
    assert image.size == (80, 120)
    assert not image.getexif()
    assert not {"exif", "comment", "icc_profile"} & image.info.keys()


def test_pictures_that_cannot_be_shown_have_a_reason():
    made = Thumbnails()
    assert "holiday.jpg: is not a picture" in made.image(b"junk", "holiday.jpg")
    assert "no picture" in made.image(None, "")
    assert made.used == 0


def test_all_pictures_together_keep_to_the_limit():
    sources = [encoded(scene(seed=i), "PNG") for i in range(20)]
    made = Thumbnails(limit=20_000)
    shown = [made.image(source, "") for source in sources]
    count = sum("<img" in one for one in shown)
    assert 3 < count < 20
    assert sum(len(re.search('src="([^"]+)"', s)[1]) for s in shown if "<img" in s) <= 20_000
    assert "omitted, to keep this page small" in shown[-1]


def test_a_file_is_read_once(tmp_path):
    file = tmp_path / "a.png"
    scene().save(file)
    made = Thumbnails()
    first = made.image(file, "a")
    file.unlink()
    assert made.image(file, "a") == first


def test_marks_have_text_and_signs():
    assert "✓" in chip(Mark("sky", "right"))
    for kind in ("right", "wrong", "missing"):
        assert f'class="hidden">{kind}: <' in chip(Mark("sky", kind))
    assert "hidden" not in chip(Mark("sky"))
    assert "<small>83%</small>" in chip(Mark("sky", note="83%"))
    assert chips([Mark("a"), Mark("b")]).count("<li>") == 2
    assert "given, not yours" in key(wrong="given, not yours")


def test_a_sheet_holds_its_cards():
    html = picture_sheet(
        [Card(None, "<a>.jpg", [Mark("<b>", "wrong")], "below"), Card(None, "b")], Thumbnails()
    )
    assert html.count("<li>") == 3
    assert "&lt;a&gt;.jpg" in html
    assert "<b>" not in html


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"side=3, .* at least 16 pixels"):
        Thumbnails(side=3)
