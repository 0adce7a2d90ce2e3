"""Draw docs/images/crops.jpg: the crops of a photograph and the resulting network inputs.

    python -m tools.draw_crops

The photograph is scikit-image's cat Chelsea (CC0); regions and crops come from the package itself.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from prototag.images.crops import FIVE, TEN, WHOLE, View
from prototag.images.decode import open_image

TARGET = Path(__file__).parents[1] / "docs" / "images" / "crops.jpg"
COLOURS = ("#111111", "#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e")
NAMES = ("whole", "centre", "top left", "top right", "bottom left", "bottom right")
TILE, GAP, LABEL = 150, 14, 24


def draw() -> Image.Image:
    import skimage.data

    photo = open_image(Path(skimage.data.__file__).parent / "chelsea.png")
    regions = (WHOLE, *FIVE)
    tiles = View((TILE, TILE), ((*regions, *TEN[5:]),)).cut(photo, "bilinear")
    height = 3 * (TILE + LABEL) + 2 * GAP
    shown = photo.resize((photo.width * (height - LABEL) // photo.height, height - LABEL))
    columns = 4
    page = Image.new(
        "RGB", (GAP * 3 + shown.width + columns * (TILE + GAP), height + 2 * GAP), "white"
    )
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(15)
    page.paste(shown, (GAP, GAP + LABEL))
    pen.text((GAP, GAP), "the regions", "black", font)
    for shift, (region, colour) in enumerate(zip(regions, COLOURS, strict=True)):
        if region is WHOLE:
            continue
        box = [
            GAP + region.left * shown.width + 2 * shift,
            GAP + LABEL + region.top * shown.height + 2 * shift,
            GAP + region.right * shown.width - 2 * shift,
            GAP + LABEL + region.bottom * shown.height - 2 * shift,
        ]
        pen.rectangle(box, outline=colour, width=4)
    names = [*NAMES, *(f"{name}, mirrored" for name in NAMES[1:])]
    for number, (name, tile) in enumerate(zip(names, tiles, strict=True)):
        row, column = divmod(number, columns)
        left = GAP * 3 + shown.width + column * (TILE + GAP)
        top = GAP + row * (TILE + LABEL + GAP)
        colour = (*COLOURS, *COLOURS[1:])[number]
        pen.text((left, top), name, colour, font)
        page.paste(Image.fromarray(tile), (left, top + LABEL))
        pen.rectangle([left, top + LABEL, left + TILE - 1, top + LABEL + TILE - 1], None, colour, 3)
    return page


if __name__ == "__main__":
    draw().save(TARGET, quality=88)
    print(TARGET.name)
