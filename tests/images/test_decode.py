"""Every kind of picture comes out upright, in sRGB and on white; every bad one with its reason.

A picture is known by its content, not by its name, its place or the way it was given.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from prototag.errors import ImageError
from prototag.images import convert_8bit, decode
from prototag.images.decode import DIGEST_BYTES, digest, open_image, read_bytes

from ..pictures import encoded, photographs, png_header, scene


def difference(one: Image.Image, other: Image.Image) -> float:
    """Mean absolute difference of the pixels, in grey levels."""
    return float(np.abs(np.asarray(one, float) - np.asarray(other, float)).mean())


LOSSLESS = [
    ("PNG", {}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("WEBP", {"lossless": True}),
]


@pytest.mark.parametrize(("kind", "options"), LOSSLESS)
def test_lossless_formats_come_out_as_they_went_in(kind: str, options: dict) -> None:
    assert np.array_equal(open_image(encoded(scene(), kind, **options)), scene())


@pytest.mark.parametrize(("kind", "bound"), [("JPEG", 3), ("WEBP", 4), ("GIF", 12), ("AVIF", 6)])
def test_lossy_formats_come_out_nearly_as_they_went_in(kind: str, bound: float) -> None:
    assert difference(open_image(encoded(scene(), kind)), scene()) < bound


def test_heic_comes_with_the_extra() -> None:
    heif = pytest.importorskip("pillow_heif")
    file = io.BytesIO()
    heif.from_pillow(scene()).save(file, quality=90)
    assert difference(open_image(file.getvalue()), scene()) < 6


def test_heic_without_the_extra_reports_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pillow_heif", None)
    with pytest.raises(ImageError, match=r"^HEIC needs .*: pip install 'prototag\[heif\]'$"):
        open_image(b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + bytes(40))


def test_avif_without_its_decoder_reports_what_to_install(monkeypatch) -> None:
    from PIL import AvifImagePlugin

    data = encoded(scene(), "AVIF")
    monkeypatch.setattr(AvifImagePlugin, "SUPPORTED", False)
    with pytest.raises(ImageError, match=r"^AVIF needs .*: pip install --upgrade pillow$"):
        open_image(data)


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP"])
def test_several_frames_give_the_first(kind: str) -> None:
    frames = [Image.new("RGB", (20, 10), colour) for colour in ("red", "blue", "lime")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    red = np.asarray(open_image(data)).reshape(-1, 3).mean(axis=0)
    assert red[0] > 245
    assert red[1:].max() < 10


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_all_orientations_come_out_upright(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(scene(), kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    upright = open_image(data)
    assert upright.size == ((64, 96) if orientation > 4 else (96, 64))
    assert np.array_equal(upright, expected)


def test_reduced_jpeg_is_turned_too() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(scene(1600, 800), "JPEG", exif=exif)
    upright = open_image(data, at_least=(100, 200))
    assert upright.size == (100, 200)  # an eighth of 800 x 1600
    full = open_image(data).resize(upright.size, Image.Resampling.BOX)
    assert difference(upright, full) < 2


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_lies_on_white(mode: str) -> None:
    alpha = Image.new("L", (40, 20), 0)
    alpha.paste(255, (0, 0, 20, 20))
    if mode == "P":
        image = Image.new("P", (40, 20), 1)
        image.putpalette([9, 9, 9, 200, 0, 0])
        image.paste(0, (20, 0, 40, 20))
        data = encoded(image, "PNG", transparency=0)
    else:
        data = encoded(
            Image.merge(mode, [Image.new("L", (40, 20), 40)] * (len(mode) - 1) + [alpha]), "PNG"
        )
    pixels = np.asarray(open_image(data))
    assert (pixels[:, 21:] == 255).all()
    assert pixels[:, :19, 1].max() <= 40


def test_greyscale_and_bilevel_become_rgb() -> None:
    grey = open_image(encoded(scene().convert("L"), "JPEG"))
    assert grey.mode == "RGB"
    assert np.ptp(np.asarray(grey, int), axis=2).max() == 0
    bilevel = np.asarray(open_image(encoded(scene().convert("1"), "PNG")))
    assert set(np.unique(bilevel)) == {0, 255}


def test_cmyk_jpeg_keeps_its_colours() -> None:
    assert difference(open_image(encoded(scene().convert("CMYK"), "JPEG")), scene()) < 4


@pytest.mark.parametrize("top", [65535, 4095])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_clipped(kind: str, top: int) -> None:
    grey = np.asarray(scene().convert("L"))
    grey = (grey - grey.min()) / np.ptp(grey)
    deep = Image.fromarray(np.rint(grey * top).astype(np.uint16))
    pixels = np.asarray(open_image(encoded(deep, kind)))
    assert np.abs(pixels[:, :, 0] - grey * 255).max() <= 1


def test_float_tiff_in_unit_range_is_scaled_and_nan_refused() -> None:
    values = np.linspace(0, 1, 200, dtype=np.float32).reshape(10, 20)
    pixels = np.asarray(open_image(encoded(Image.fromarray(values), "TIFF")))[:, :, 0]
    assert np.abs(pixels - values * 255).max() <= 0.5 + 1e-4
    values[0, 0] = np.nan
    with pytest.raises(ImageError, match="not finite"):
        open_image(encoded(Image.fromarray(values), "TIFF"))


def test_profiles_are_converted_to_srgb() -> None:
    """A picture with red and blue exchanged, undone by a profile whose primaries are so too."""
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    image = ImageCms.profileToProfile(
        scene(), ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), outputMode="LAB"
    )
    assert difference(open_image(encoded(image, "TIFF", icc_profile=lab)), scene()) < 2
    assert np.array_equal(open_image(encoded(scene(), "PNG", icc_profile=srgb)), scene())
    assert np.array_equal(open_image(encoded(scene(), "PNG", icc_profile=b"damaged")), scene())
    swapped = srgb.replace(b"rXYZ", b"....").replace(b"bXYZ", b"rXYZ").replace(b"....", b"bXYZ")
    swapped = swapped.replace("sRGB".encode("utf-16-be"), "test".encode("utf-16-be"))
    exchanged = Image.merge("RGB", scene().split()[::-1])
    for kind in ("PNG", "TIFF", "WEBP"):
        options = {"lossless": True} if kind == "WEBP" else {}
        data = encoded(exchanged, kind, icc_profile=swapped, **options)
        assert difference(open_image(data), scene()) < 1


def test_large_pictures_come_reduced_and_true() -> None:
    for kind in ("JPEG", "PNG", "WEBP"):
        data = encoded(scene(2000, 1500), kind)
        small = open_image(data, at_least=(224, 224))
        assert 224 <= small.height < 900
        assert small.width >= 224
        if kind != "JPEG":
            assert small.height >= 448
        full = open_image(data).resize(small.size, Image.Resampling.BOX)
        assert difference(small, full) < 2


def _keyed(width: int, height: int) -> bytes:
    return encoded(scene(width, height), "PNG", transparency=(1, 2, 3))


def _palette(width: int, height: int) -> bytes:
    image = scene(width, height).convert("P", palette=Image.Palette.ADAPTIVE)
    return encoded(image, "PNG", transparency=0)


def _deep(width: int, height: int) -> bytes:
    grey = np.asarray(scene(width, height).convert("L")).astype(np.uint16) * 257
    return encoded(Image.fromarray(grey), "PNG")


def _floats(width: int, height: int) -> bytes:
    return encoded(Image.fromarray(np.asarray(scene(width, height).convert("F")) / 255), "TIFF")


def _clear(width: int, height: int) -> bytes:
    image = scene(width, height).convert("RGBA")
    image.putalpha(scene(width, height, seed=1).convert("L"))
    return encoded(image, "PNG")


def _bilevel(width: int, height: int) -> bytes:
    return encoded(scene(width, height).convert("1"), "PNG")


@pytest.mark.parametrize("made", [_keyed, _palette, _deep, _floats, _clear, _bilevel])
def test_whatever_the_mode_a_large_picture_comes_reduced_strip_by_strip(made, monkeypatch) -> None:
    data = made(1203, 1801)
    full = open_image(data)
    assert full.size == (1203, 1801)
    whole = open_image(data, at_least=(100, 150))
    monkeypatch.setattr(convert_8bit, "STRIP_PIXELS", 50_000)
    strips = open_image(data, at_least=(100, 150))
    assert strips.size == whole.size == (201, 301)
    assert np.array_equal(strips, whole)
    assert difference(strips, full.reduce(6)) < 2


PEAK = """
import resource, sys
from prototag.images.decode import open_image
data = open(sys.argv[1], "rb").read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
open_image(data, at_least=(448, 336))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("mode", ["deep", "key", "alpha"])
def test_memory_is_that_of_the_decoded_picture(tmp_path: Path, mode: str) -> None:
    """64 megapixels take what Pillow decodes them to, and a few strips; deep ones took 1 GB."""
    size = (8000, 8000)
    if mode == "deep":
        data = encoded(Image.fromarray(np.full(size, 3000, np.uint16)), "PNG")
    elif mode == "key":
        data = encoded(Image.new("RGB", size), "PNG", transparency=(1, 2, 3))
    else:
        data = encoded(Image.new("RGBA", size), "PNG")
    (tmp_path / "large.png").write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path / "large.png"], capture_output=True, text=True
    )
    decoded = 64 * (2 if mode == "deep" else 4)
    assert int(done.stdout) < decoded + 100, done.stderr


def test_a_small_file_does_not_hold_many_pixels() -> None:
    page = encoded(Image.new("1", (5000, 7000)), "TIFF", compression="group4")  # a blank page
    assert open_image(page, at_least=(100, 100)).size == (200, 280)
    dense = encoded(Image.new("1", (12_000, 12_000)), "PNG")
    with pytest.raises(ImageError, match=r"12000 x 12000 pixels in 17,\d+ bytes; above 40,000,000"):
        open_image(dense)
    assert open_image(Image.new("1", (6000, 6000)), at_least=(100, 100)).size == (200, 200)


def test_pixels_in_flight_are_bounded() -> None:
    room, most, inside = decode._PixelBudget(10), [], []
    lock = threading.Lock()

    def enter(pixels: int) -> None:
        with room.reserved(pixels):
            with lock:
                inside.append(min(pixels, 10))
                most.append(sum(inside))
            threading.Event().wait(0.002)
            with lock:
                inside.remove(min(pixels, 10))

    threads = [threading.Thread(target=enter, args=(pixels,)) for pixels in [4, 5, 50, 1, 10] * 6]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 30
    assert max(most) <= 10


def test_a_callers_image_is_left_alone() -> None:
    with Image.open(io.BytesIO(encoded(scene(2000, 1500), "JPEG"))) as image:
        assert open_image(image, at_least=(100, 100)).size < (2000, 1500)
        assert image.size == (2000, 1500)


def test_arrays_and_pil_images() -> None:
    rgb = np.asarray(scene())
    assert np.array_equal(open_image(rgb), rgb)
    assert np.array_equal(open_image(rgb / 255), rgb)
    assert np.array_equal(open_image(rgb.astype(np.uint16) * 257), rgb)
    assert np.array_equal(open_image(scene()), rgb)
    assert open_image(rgb[:, :, 0] > 100).mode == "RGB"
    assert open_image(rgb[:, :, :1]).size == (96, 64)
    for bad, reason in (
        (rgb[:, :, :2], "shape"),
        (rgb.astype(np.int64), "int64"),
        (rgb * 1.0, r"\[0, 1\]"),
        (rgb[:0], "shape"),
    ):
        with pytest.raises(ImageError, match=reason):
            open_image(bad)
    with pytest.raises(ImageError, match="cannot come from int"):
        open_image(7)


KINDS = [("JPEG", {}), ("JPEG", {"progressive": True}), *LOSSLESS, ("GIF", {}), ("AVIF", {})]


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9])
def test_truncated_files_are_refused(kind: str, options: dict, share: float) -> None:
    data = encoded(Image.open(photographs()["chelsea.png"]), kind, **options)
    with pytest.raises(ImageError, match=r"cannot be decoded|is not a picture"):
        open_image(data[: int(len(data) * share)], at_least=(224, 224))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"dear diary, this is text", r"is not a picture \(JPEG"),
        (b"\xff\xd8\xff", "cannot be decoded"),
        (b"%PDF-1.7 something", "is not a picture"),
        (png_header(50_000, 50_000), r"has 50000 x 50000 pixels; the limit is 200,000,000"),
        (png_header(10, 10), "cannot be decoded"),
    ],
)
def test_files_that_are_not_pictures_are_reported(data: bytes, reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        open_image(data)


def test_the_pixel_limit_is_the_callers() -> None:
    with pytest.raises(ImageError, match=r"96 x 64 pixels; the limit is 6,000 .*max_pixels"):
        open_image(encoded(scene(), "PNG"), max_pixels=6000)


def test_paths_of_every_kind(tmp_path: Path) -> None:
    name = tmp_path / "Ünïcode 照片 🌊.jpg"
    name.write_bytes(encoded(scene(), "PNG"))  # and the extension lies
    assert np.array_equal(open_image(name), scene())
    assert np.array_equal(open_image(str(name)), scene())
    with pytest.raises(ImageError, match="is a folder"):
        open_image(tmp_path)
    with pytest.raises(ImageError, match="No such file"):
        open_image(tmp_path / "missing.jpg")
    with pytest.raises(ImageError, match="null"):
        open_image("a\0b.jpg")
    with pytest.raises(ImageError, match="limit is 10"):
        read_bytes(name, max_bytes=10)


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    reasons = []

    def read() -> None:
        try:
            open_image(tmp_path / "pipe.jpg")
        except ImageError as error:
            reasons.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(5)
    assert reasons == ["is a FIFO, not a regular file"]


def test_no_permission_is_a_reason() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        file = Path(folder, "secret.png")
        file.write_bytes(encoded(scene(), "PNG"))
        file.chmod(0)
        root = os.geteuid() == 0  # who may read everything, until it becomes nobody
        if root:
            os.seteuid(65534)
        try:
            with pytest.raises(ImageError, match="cannot be read: Permission denied"):
                open_image(file)
        finally:
            if root:
                os.seteuid(0)


def test_copies_share_it_and_a_changed_file_does_not(tmp_path: Path) -> None:
    file = tmp_path / "one.jpg"
    file.write_bytes(encoded(scene(), "JPEG"))
    first = digest(file)
    assert len(first) == DIGEST_BYTES == 20
    copy = shutil.copy(file, tmp_path / "two.jpg")
    assert digest(copy) == digest(str(file)) == digest(file.read_bytes()) == first
    data = bytearray(file.read_bytes())
    data[-40] ^= 1
    file.write_bytes(bytes(data))
    assert digest(file) != first


def test_an_image_and_its_array_are_one_picture() -> None:
    image = scene()
    assert digest(image) == digest(np.asarray(image)) == digest(image.copy())
    assert len(digest(image)) == DIGEST_BYTES
    grey = image.convert("L")
    assert digest(grey) == digest(np.asarray(grey)) == digest(np.asarray(grey)[:, :, None])
    assert digest(image) == digest(np.asarray(image)[::-1][::-1])  # whatever its strides


def test_mode_shape_and_pixels_tell_pictures_apart() -> None:
    flat = np.zeros((4, 6, 3), np.uint8)
    other = flat.copy()
    other[3, 5, 2] = 1
    turned = flat.reshape(6, 4, 3)  # the same bytes
    grey = flat.reshape(4, 18)
    found = {digest(values) for values in (flat, other, turned, grey)}
    assert len(found) == 4
    assert digest(flat.tobytes()) not in found  # a file of the same bytes


def test_what_changes_the_look_counts() -> None:
    image = scene().convert("P", palette=Image.Palette.ADAPTIVE)
    other = image.copy()
    other.putpalette(image.getpalette()[::-1])
    assert digest(image) != digest(other)
    upright, turned = scene(), scene()
    turned.getexif()[0x0112] = 6
    assert digest(upright) != digest(turned)


def test_opening_a_picture_does_not_change_it() -> None:
    import io

    from prototag.images.decode import open_image

    for kind in ("JPEG", "PNG", "TIFF"):
        exif = Image.Exif()
        exif[0x0112] = 6
        image = Image.open(io.BytesIO(encoded(scene(), kind, exif=exif)))
        before = digest(image)
        open_image(image, at_least=(10, 10))
        assert digest(image) == before


def test_inputs_without_a_digest_are_reported_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="cannot be read: No such file"):
        digest(tmp_path / "missing.jpg")
    with pytest.raises(ImageError, match="cannot come from int"):
        digest(3)
    with pytest.raises(ImageError, match=r"shape \(2,\) is not a picture"):
        digest(np.zeros(2, np.uint8))
    import io

    with Image.open(io.BytesIO(png_header(20, 20))) as torn, pytest.raises(ImageError):
        digest(torn)
