"""Data sets as JSON: COCO, FiftyOne's classification format, and Hugging Face's imagefolder.

No package of these projects is needed. :func:`read` reads the first two; imagefolder is a list of
:mod:`prototag.metadata.csv_jsonl`. :func:`write` writes all three.

- COCO: ``images``, ``categories`` and ``annotations``; the tags of an image are the categories of
  its annotations. What is written has one annotation for each tag, with a box of the whole image,
  because readers of COCO require a box.
- FiftyOne: ``labels`` by file name without its suffix; a label is a class, the number of a class,
  an object with ``label``, or a list of these. FiftyOne reads the file as its type
  ``FiftyOneImageClassificationDataset``.
"""

from __future__ import annotations

import csv
import io
import json
import os
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from prototag.errors import MetadataError
from prototag.storage.atomic_write import replacing

Format = Literal["coco", "fiftyone", "imagefolder"]
FORMATS: tuple[Format, ...] = ("coco", "fiftyone", "imagefolder")
IMAGE_FOLDERS = ("", "data", "images")  # beside the file: where programs put the pictures
DESCRIPTION = "Tags of prototag"


class LabeledImage(NamedTuple):
    """A picture with its tags, and the probabilities of the tags if a model applied them."""

    path: str | os.PathLike[str]
    tags: Sequence[str]
    probabilities: Sequence[float] | None = None


def read(path: Path, text: str) -> Iterator[tuple[str, list[str], int]]:
    """Read the JSON of a data set: file relative to the folder of the data set, tags, and number.

    Raises
    ------
    MetadataError
        If the JSON is neither COCO nor of FiftyOne, or is malformed.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MetadataError(
            f"{path} is not JSON ({reason}): name a file of JSON lines .jsonl."
        ) from None
    if isinstance(document, dict) and isinstance(document.get("images"), list):
        rows = _read_coco(path, document)
    elif isinstance(document, dict) and isinstance(document.get("labels"), dict):
        rows = _read_fiftyone(path, document)
    else:
        raise MetadataError(
            f"{path} is neither COCO ('images', 'categories', 'annotations') nor of FiftyOne "
            "('classes', 'labels'): give one of these, or JSON lines in a file named .jsonl."
        )
    files = _Files(path.parent)
    for number, (file, tags) in enumerate(rows, 1):
        yield files.find(file), tags, number


def _read_coco(path: Path, document: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    names: dict[Any, str] = {}
    for category in _objects(path, document, "categories"):
        names[_value(path, category, "id", int)] = _value(path, category, "name", str)
    tags: dict[Any, list[str]] = {}
    files: dict[Any, str] = {}
    for image in _objects(path, document, "images"):
        number = _value(path, image, "id", int)
        files[number] = _value(path, image, "file_name", str)
        tags[number] = []
    for annotation in _objects(path, document, "annotations"):
        image = _value(path, annotation, "image_id", int)
        category = _value(path, annotation, "category_id", int)
        if image not in files or category not in names:
            raise MetadataError(
                f"{path}: an annotation names image {image} and category {category}, and one of "
                "them is not in the file."
            )
        if names[category] not in tags[image]:
            tags[image].append(names[category])
    return ((file, tags[number]) for number, file in files.items())


def _read_fiftyone(path: Path, document: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    classes = document.get("classes")
    if classes is not None and not isinstance(classes, list):
        raise MetadataError(f"{path}: 'classes' is {reprlib.repr(classes)}, not a list of names.")

    def name_of(target: Any) -> str:
        if isinstance(target, dict):
            target = target.get("label")
        if type(target) is int and classes is not None and 0 <= target < len(classes):
            target = classes[target]
        if not isinstance(target, str):
            raise MetadataError(f"{path}: the label {reprlib.repr(target)} is not a class.")
        return target

    for file, label in document["labels"].items():
        targets = [] if label is None else label if isinstance(label, list) else [label]
        yield file, list(dict.fromkeys(name_of(target) for target in targets))


def _objects(path: Path, document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows = document.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MetadataError(f"{path}: {key!r} is not a list of objects.")
    return rows


def _value(path: Path, row: dict[str, Any], key: str, kind: type) -> Any:
    value = row.get(key)
    if type(value) is not kind:
        raise MetadataError(
            f"{path}: {key!r} is {reprlib.repr(value)} in {reprlib.repr(row)}, not "
            f"{'a number' if kind is int else 'text'}."
        )
    return value


class _Files:
    """Finds pictures by names that may lack the suffix, in the folders beside a file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names: dict[Path, dict[str, str]] = {}  # by folder: file names by name without suffix

    def find(self, name: str) -> str:
        """Return the path of a picture relative to the root; the name if there is none."""
        for folder in IMAGE_FOLDERS:
            path = self.root / folder / name
            if path.is_file():
                return os.path.join(folder, name)
            complete = self._in(path.parent).get(path.name)
            if complete is not None:
                return os.path.join(folder, os.path.dirname(name), complete)
        return name

    def _in(self, folder: Path) -> dict[str, str]:
        if folder not in self._names:
            from prototag.metadata.find_files import is_picture

            files = sorted(os.listdir(folder)) if folder.is_dir() else []
            self._names[folder] = {
                os.path.splitext(name)[0]: name for name in files if is_picture(name)
            }
        return self._names[folder]


def write(path: str | os.PathLike[str], images: Iterable[LabeledImage], form: Format) -> int:
    """Write pictures with their tags as a data set, atomically; return their number.

    Paths are relative to the folder of the file. Pictures of "imagefolder" (a file
    ``metadata.jsonl`` or ``metadata.csv`` in the folder of the pictures) and "fiftyone" must be
    below it; COCO names others by absolute paths.
    """
    path = Path(path)
    rows = [LabeledImage(_relative(path, one.path, form), *one[1:]) for one in images]
    if form == "coco":
        sizes = [_size(path.parent / one.path) for one in rows]
        text = json.dumps(_coco(rows, sizes))
    elif form == "fiftyone":
        text = json.dumps(_fiftyone(rows))
    elif form == "imagefolder":
        text = _imagefolder(rows, as_table=path.suffix.lower() == ".csv")
    else:
        raise MetadataError(f"form={form!r}: give one of {', '.join(map(repr, FORMATS))}.")
    with replacing(path) as file:
        file.write(f"{text}\n".encode())
    return len(rows)


def check_folder(path: Path, sources: Iterable[str | os.PathLike[str]], form: Format) -> None:
    """Refuse pictures or folders of pictures that the file cannot name."""
    for source in sources:
        if os.path.abspath(source) != os.path.abspath(path.parent):
            _relative(path, source, form)


def _relative(file: Path, picture: str | os.PathLike[str], form: Format) -> str:
    root = os.path.abspath(file.parent)
    absolute = os.path.abspath(picture)
    if absolute.startswith(root + os.sep):
        return Path(os.path.relpath(absolute, root)).as_posix()
    if form == "coco":
        return absolute
    raise MetadataError(
        f"{picture} is not below {root}: write the file into the folder of the pictures."
    )


def _imagefolder(rows: list[LabeledImage], *, as_table: bool) -> str:
    lines = [{"file_name": one.path, "tags": list(one.tags)} for one in rows]
    if not as_table:
        return "\n".join(map(json.dumps, lines))
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["file_name", "tags"])
    writer.writerows([line["file_name"], json.dumps(line["tags"])] for line in lines)
    return table.getvalue().rstrip("\n")


def _coco(rows: list[LabeledImage], sizes: list[tuple[int, int]]) -> dict[str, Any]:
    names = sorted({tag for row in rows for tag in row.tags})
    number_of = {name: number for number, name in enumerate(names, 1)}
    annotations: list[dict[str, Any]] = []
    for image, (row, (width, height)) in enumerate(zip(rows, sizes, strict=True), 1):
        for position, tag in enumerate(row.tags):
            annotation = {
                "id": len(annotations) + 1,
                "image_id": image,
                "category_id": number_of[tag],
                "bbox": [0, 0, width, height],
                "area": width * height,
                "iscrowd": 0,
                "segmentation": [],
            }
            if row.probabilities is not None:
                annotation["score"] = round(row.probabilities[position], 4)
            annotations.append(annotation)
    return {
        "info": {"description": DESCRIPTION},
        "images": [
            {"id": number, "file_name": row.path, "width": width, "height": height}
            for number, (row, (width, height)) in enumerate(zip(rows, sizes, strict=True), 1)
        ],
        "categories": [{"id": number_of[name], "name": name} for name in names],
        "annotations": annotations,
    }


def _size(path: Path) -> tuple[int, int]:
    """Return width and height of an upright picture; 0 x 0 if it cannot be read."""
    from prototag.errors import ImageError
    from prototag.images.decode import open_image

    size = (0, 0)

    def note(upright_size: tuple[int, int]) -> tuple[int, int]:
        nonlocal size
        size = upright_size
        return 1, 1  # few pixels are decoded

    with suppress(ImageError):
        open_image(path, at_least=note)
    return size


def _fiftyone(rows: list[LabeledImage]) -> dict[str, Any]:
    names = sorted({tag for row in rows for tag in row.tags})
    number_of = {name: number for number, name in enumerate(names)}
    labels: dict[str, list[Any]] = {}
    for row in rows:
        key = os.path.splitext(os.fspath(row.path))[0]
        if key in labels:
            raise MetadataError(
                f"two pictures are named {key!r} with different suffixes, and FiftyOne omits "
                "the suffix: rename one."
            )
        targets: list[Any] = [number_of[tag] for tag in row.tags]
        if row.probabilities is not None:
            pairs = zip(targets, row.probabilities, strict=True)
            targets = [{"label": t, "confidence": round(p, 4)} for t, p in pairs]
        labels[key] = targets
    return {"classes": names, "labels": labels}
