"""The default gives the published benchmark's vectors again, from the pixels of its photographs."""

import io
import json

import numpy as np
import pytest
from benchmarks.collections import DATA
from PIL import Image

from prototag.features import Extractor

VECTORS, PHOTOS = DATA / "iaprtc12_lite0_large.npz", DATA / "iaprtc12_photos"


@pytest.mark.skipif(
    not (VECTORS.exists() and PHOTOS.exists()),
    reason="photographs of IAPRTC-12 and their vectors are not at hand (PROTOTAG_DATA)",
)
def test_stored_vectors_are_reproduced_from_pixels() -> None:
    lines = (PHOTOS / "metadata.jsonl").read_text().splitlines()
    names = [json.loads(line)["file_name"] for line in lines][::5]
    photos = []
    for name in names:
        data = (PHOTOS / name).read_bytes()
        with Image.open(io.BytesIO(data)) as image:
            # The stored vectors were made without regard to colour profiles, which two have.
            photos.append(image.convert("RGB") if "icc_profile" in image.info else data)
    with np.load(VECTORS, allow_pickle=False) as file:
        place = {str(name): row for row, name in enumerate(file["image_names"])}
        rows = [place[name] for name in names]
        stored = {"last": file["X"][rows], "inner": file["mid"][rows]}
    made = Extractor(cache=None)
    vectors = made.extract(photos).vectors
    start = 0
    for name, width in made.feature_groups:
        ours, theirs = vectors[:, start : start + width], stored[name].astype(np.float32)
        norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
        assert ((ours * theirs).sum(axis=1) / norms).min() >= 0.999, name
        start += width
