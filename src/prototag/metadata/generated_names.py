"""Names that cameras, phones and programs give to files and folders; they are no words.

``IMG_2041`` says nothing of what a picture shows, ``harbour_2041`` does.
"""

from __future__ import annotations

import re

_PREFIXES = (
    # cameras
    "img", "image", "imag", "imgp", "imgl", "cimg", "dsc", "dscn", "dscf", "dscx", "dsch", "mg",
    "mvc", "mvi", "mov", "pict", "pic", "photo", "sam", "sany", "hpim", "kic", "dcp", "dc", "fhd",
    "gopr", "dji", "yi", "crw", "cr", "nef", "sdim", "epsn", "px", "[a-z]",
    # phones and programs
    "pxl", "mvimg", "wp", "vid", "fb", "fb img", "whatsapp image", "whatsapp", "wa", "signal",
    "received", "inshot", "snapchat", "telegram", "screenshot", "screen shot", "screencapture",
    "bildschirmfoto", "capture", "scan", "scanned", "untitled", "unnamed", "burst", "panorama",
    "pano", "lrm", "picsart", "file", "tmp", "export", "jpeg", "jpg", "thumbnail", "thumb",
)  # fmt: skip
_ENDINGS = (
    "at", "am", "pm", "wa", "hdr", "edit", "edited", "bearbeitet", "copy", "kopie", "cover",
    "portrait", "burst", "mp", "ms", "collage", "effects", "x", "v", "\\d",
)  # fmt: skip
_GENERATED = re.compile(  # a prefix, at least two digits, and endings such as "-2", "(1)", "_HDR"
    rf"[_\s-]*(?:{'|'.join(_PREFIXES)})?[\s_-]*\d{{2,}}(?:[\s_().,:~-]|{'|'.join(_ENDINGS)})*"
)
_IDENTIFIER = re.compile(r"(?=.*\d)[0-9a-f]{12,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CAMERA_FOLDER = re.compile(
    r"dcim|1\d\d_?(?:canon|canonmsc|eos\w+|nikon|n[cd]\w+|msdcf|olymp|_?pana|_?fuji|apple|media|"
    r"gopro|leica|ricoh|casio|pentx|cloud|photo|\d+)"
)


def is_generated_name(name: str) -> bool:
    """Return whether a name, without its extension, was given by a camera or a program."""
    folded = name.casefold().strip()
    return any(pattern.fullmatch(folded) for pattern in (_GENERATED, _IDENTIFIER, _CAMERA_FOLDER))


def words_of_path(path: str) -> str:
    """Return a path without its extension, and without names that are no words."""
    folder, separator, name = path.rpartition("/")
    stem = name.rpartition(".")[0] or name
    names = [*folder.split("/"), stem] if separator else [stem]
    return "/".join(one for one in names if one and not is_generated_name(one))
