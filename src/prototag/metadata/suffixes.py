"""How files of pictures are named."""

import os
import re

# What prototag.images can decode.
PICTURES = frozenset(
    re.findall(
        r"\.\w+", ".jpg .jpeg .jpe .jfif .png .webp .gif .tif .tiff .bmp .avif .heic .heif .hif"
    )
)
# Raw files of cameras are not decoded, but may share a sidecar with the picture made of them.
RAW = frozenset(
    re.findall(
        r"\.\w+",
        ".3fr .arw .cr2 .cr3 .crw .dcr .dng .erf .iiq .kdc .mrw .nef .nrw .orf .pef .raf .raw .rw2 "
        ".rwl .sr2 .srf .srw .x3f",
    )
)


def is_picture(name: str) -> bool:
    """Whether a file is named as a picture is."""
    return os.path.splitext(name)[1].lower() in PICTURES
