"""Pictures in every supported format, with damaged bytes and wrong sizes in their headers.

Each raises an ImageError, or is decoded with a digest; time and memory are bounded.
"""

from __future__ import annotations

import io
import random
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.attack import mutations
from benchmarks.attack.runner import Attempt, Limits, in_words
from prototag.errors import ImageError, MetadataError
from prototag.images.crops import thumbnail
from prototag.images.decode import digest, open_image
from prototag.metadata import plan_embed, read_keywords

LIMITS = Limits(seconds=30.0, grown=900 << 20, room=4 << 30)
EXTREME = (0, 1, 2, 255, 256, 32767, 32768, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def originals() -> dict[str, bytes]:
    """Return small pictures by file name."""
    rng = np.random.default_rng(0)
    colour = Image.fromarray(rng.integers(0, 255, (12, 16, 3), np.uint8)).resize((64, 48))
    clear = colour.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize((64, 48)))
    grey = colour.convert("L")
    deep = Image.fromarray(rng.integers(0, 65535, (48, 64), np.uint16))
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures = {
        "a.jpg": _saved(colour, "JPEG", exif=exif, comment=b"hello"),
        "progressive.jpg": _saved(colour, "JPEG", progressive=True),
        "cmyk.jpg": _saved(colour.convert("CMYK"), "JPEG"),
        "a.png": _saved(colour, "PNG"),
        "clear.png": _saved(clear, "PNG"),
        "deep.png": _saved(deep, "PNG"),
        "palette.png": _saved(colour.convert("P"), "PNG", transparency=3),
        "bits.png": _saved(grey.convert("1"), "PNG"),
        "a.gif": _saved(colour, "GIF", save_all=True, append_images=[grey.convert("RGB")]),
        "a.bmp": _saved(colour, "BMP"),
        "a.tif": _saved(colour, "TIFF"),
        "lzw.tif": _saved(clear, "TIFF", compression="tiff_lzw"),
        "jpeg.tif": _saved(colour, "TIFF", compression="jpeg"),
        "deep.tif": _saved(deep, "TIFF"),
        "a.webp": _saved(colour, "WEBP"),
        "clear.webp": _saved(clear, "WEBP", lossless=True),
    }
    try:
        import pillow_heif

        pillow_heif.register_heif_opener()
        pictures["a.heic"] = _saved(colour, "HEIF")
    except Exception as error:
        print("no HEIF:", error)
    try:
        pictures["a.avif"] = _saved(colour, "AVIF")
    except Exception as error:
        print("no AVIF:", error)
    return pictures | _raws(_saved(colour, "JPEG"), _saved(colour.resize((16, 12)), "JPEG"))


def _raws(large: bytes, small: bytes) -> dict[str, bytes]:
    """Build camera raw files with an embedded JPEG, as in the tests."""
    from __init__ import raws

    kinds = ("nef", "cr2", "arw", "dng", "pef", "srw", "orf", "rw2", "raf", "cr3")
    return {f"a.{kind}": getattr(raws, kind)(large, small, 1) for kind in kinds}


def resize(rng: random.Random, data: bytes) -> bytes:
    """Overwrite bytes that may be a size, a count or an offset with an extreme number."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 2, 4))):
        at = rng.randrange(min(len(damaged), 400))
        form = rng.choice(("<H", ">H", "<I", ">I"))
        size = struct.calcsize(form)
        damaged[at : at + size] = struct.pack(form, rng.choice(EXTREME) % 256**size)
    return bytes(damaged)


def prepare(folder: Path) -> Attempt:
    warnings.simplefilter("ignore")
    known = originals()
    names = [*known]

    def attempt(rng: random.Random, _: Path) -> str:
        name = rng.choice(names)
        data = (mutations.damage if rng.random() < 0.6 else resize)(rng, known[name])
        path = folder / f"attacked{Path(name).suffix}"
        path.write_bytes(data)
        kind = Path(name).suffix[1:]
        for read in (read_keywords, lambda p: plan_embed(p, ["sea"]) if kind == "jpg" else None):
            try:
                read(path)
            except MetadataError as error:
                in_words(error)
        try:
            image = open_image(path, at_least=(32, 32))
            assert len(digest(path)) == 20, "an identity of another length"
            thumbnail(image, 64)
        except ImageError as error:
            in_words(error)
            return f"{kind}: refused"
        assert image.mode == "RGB", f"mode {image.mode}"
        assert min(image.size) > 0, "an empty picture"
        return f"{kind}: sound"

    return attempt
