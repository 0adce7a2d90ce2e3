"""A client of Immich: its previews in, tags out, and what people take away there is remembered.

Immich has no word for a rejected tag. A tag that we gave and that is gone was taken away by a
person: it is never given to that picture again. What we gave is remembered in a file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request

from prototag.annotator.types import Annotation
from prototag.errors import InputError, PrototagError
from prototag.events import Meter, Progress
from prototag.library.types import REJECTED
from prototag.metadata.tag_names import SEPARATOR
from prototag.service.integrations.http_client import OPENER, SECONDS
from prototag.storage.atomic_write import replacing
from prototag.storage.sqlite_lock_guard import open_for_reading, read_text

if TYPE_CHECKING:
    from prototag.library.library import Library

BY = "immich"
PAGE = 250  # assets in one answer
AT_ONCE = 16  # previews annotated at a time
MOST = 64 << 20  # bytes of a preview, or of an answer
MAX_PAGES = 100_000
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


class ImmichError(PrototagError):
    """Immich does not answer, or refuses."""


class Original(NamedTuple):
    """A file as Immich knows it: AssetResponseDto and its ExifResponseDto."""

    name: str
    path: str  # where Immich sees it, often not where we do
    checksum: bytes  # SHA-1 of its bytes; in an external library of "path:" and its path
    size: int | None

    @property
    def is_external(self) -> bool:
        return self.checksum == hashlib.sha1(f"path:{self.path}".encode()).digest()

    def is_at(self, place: Path) -> bool:
        """Whether a file of the same name may be it."""
        try:
            if self.is_external:
                return place.stat().st_size == self.size
            with open_for_reading(place) as file:
                return hashlib.file_digest(file, "sha1").digest() == self.checksum
        except OSError:
            return False

    def alike(self, place: Path) -> int:
        """How many last parts of both paths are the same."""
        pairs = zip(reversed(Path(self.path).parts), reversed(place.parts), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class Immich:
    """What we ask of an Immich server.

    Parameters
    ----------
    url : str
        Where it is: ``http://192.168.1.7:2283``, with or without ``/api``.
    key : str
        An API key with the permissions asset.read, asset.view, tag.read, tag.create, tag.asset.
    """

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InputError(f"{url!r} is no address: give one such as http://192.168.1.7:2283.")
        if not key or not key.isascii() or not key.isprintable():
            raise InputError("the API key is empty or not plain text: copy it from Immich again.")
        self.base = url.rstrip("/").removesuffix("/api") + "/api"
        self._key = key

    def _ask(self, method: str, path: str, body: Any = None) -> bytes:
        headers = {"x-api-key": self._key, "Accept": "application/json, image/*"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        request = Request(self.base + path, data, headers, method=method)
        try:
            with OPENER.open(request, timeout=SECONDS) as answer:
                found: bytes = answer.read(MOST + 1)
        except HTTPError as error:
            error.close()
            raise ImmichError(_refusal(error.code, method, path)) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ImmichError(
                f"Immich does not answer at {self.base}: {reason}. See that it runs."
            ) from None
        if len(found) > MOST:
            raise ImmichError(f"the answer of Immich has more than {MOST:,} bytes.")
        return found

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return json.loads(self._ask(method, path, body))
        except ValueError:
            raise ImmichError(
                f"what answers at {self.base} is not Immich: give the address of its server."
            ) from None

    def assets(self, **wanted: Any) -> Iterator[str]:
        """Identifiers of pictures, by what ``POST /search/metadata`` takes."""
        page: Any = 1
        for _ in range(MAX_PAGES):
            body = {"type": "IMAGE", **wanted, "page": int(page), "size": PAGE}
            found = self._json("POST", "/search/metadata", body)
            try:
                listed = found["assets"]
                items = [_checked(item["id"]) for item in listed["items"]]
                page = listed["nextPage"]
            except (KeyError, TypeError, IndexError):
                raise ImmichError("the search of Immich answers in an unknown shape.") from None
            yield from items
            if not page or not items:
                return

    def preview(self, asset: str) -> bytes:
        """The picture, at a size that is enough for us."""
        return self._ask("GET", f"/assets/{quote(asset)}/thumbnail?size=preview")

    def file(self, asset: str) -> Original:
        """The file that a picture was made of."""
        found = self._json("GET", f"/assets/{quote(asset)}")
        try:
            size = (found.get("exifInfo") or {}).get("fileSizeInByte")
            return Original(
                str(found["originalFileName"]),
                str(found["originalPath"]),
                base64.b64decode(found["checksum"]),
                size if isinstance(size, int) else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ImmichError("Immich describes a picture in an unknown shape.") from None

    def make_tags(self, names: list[str]) -> dict[str, str]:
        """Identifiers of tags by their names, made where they are missing."""
        spelt = {name.replace(SEPARATOR, "/"): name for name in names}
        found = self._json("PUT", "/tags", {"tags": list(spelt)})
        try:
            return {
                spelt[tag["value"]]: _checked(tag["id"]) for tag in found if tag["value"] in spelt
            }
        except (KeyError, TypeError):
            raise ImmichError("Immich answers to new tags in an unknown shape.") from None

    def give(self, assets: list[str], tag: str) -> None:
        """Give a tag, by its identifier, to pictures."""
        self._ask("PUT", "/tags/assets", {"assetIds": assets, "tagIds": [tag]})

    def take(self, assets: list[str], tag: str) -> None:
        """Take a tag from pictures."""
        self._ask("DELETE", f"/tags/{quote(tag)}/assets", {"ids": assets})


def _checked(given: Any) -> str:
    if not isinstance(given, str) or not _ID.fullmatch(given):
        raise TypeError(given)
    return given


def _refusal(code: int, method: str, path: str) -> str:
    if code in (401, 403):
        return (
            f"Immich refuses {method} {path.partition('?')[0]} ({code}): give an API key with the "
            "permissions asset.read, asset.view, tag.read, tag.create and tag.asset."
        )
    return f"Immich answers {code} to {method} {path.partition('?')[0]}."


@dataclass
class Memory:
    """What we gave, and what people took away, by picture."""

    path: Path
    server: str
    given: dict[str, list[str]] = field(default_factory=dict)
    rejected: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, server: str) -> Self:
        if not path.exists():
            return cls(path, server)
        try:
            kept = json.loads(read_text(path))
            found = cls(path, kept["server"], kept["given"], kept["rejected"])
            lists = [*found.given.values(), *found.rejected.values()]
            if not all(isinstance(t, str) for tags in lists for t in tags):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path} is not what this command keeps: give another file.") from None
        if found.server != server:
            raise InputError(
                f"{path} remembers what was given at {found.server}, not at {server}: give "
                "another file with --memory."
            )
        return found

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"server": self.server, "given": self.given, "rejected": self.rejected}
        with replacing(self.path) as file:
            file.write(json.dumps(kept, ensure_ascii=False, indent=0).encode())


@dataclass
class Outcome:
    """What became of it."""

    pictures: int = 0  # that were annotated
    given: int = 0  # tags, over all pictures
    rejected: int = 0  # tags that people had taken away
    failed: dict[str, str] = field(default_factory=dict)  # why, by picture


Annotate = Callable[[list[bytes]], list[Annotation]]
Rejected = list[tuple[str, str]]  # pictures of Immich, and tags


def reject(immich: Immich, library: Library, rejected: Rejected) -> int:
    """Reject in a library what was taken away in Immich, where both have the same file.

    Immich's previews are not its files: those are known by their names and their SHA-1. Of files in
    an external library Immich has no SHA-1: they are known by their names, their sizes and the end
    of their paths, if that is of one picture only.
    """
    tags: dict[str, list[str]] = {}
    for asset, tag in rejected:
        tags.setdefault(asset, []).append(tag)
    pairs = []
    for asset, names in tags.items():
        original = immich.file(asset)
        known = library.known_tags(names)
        for number in _same(library, original, library.pictures_named(original.name)):
            pairs += [(number, tag, REJECTED) for tag in known]
    return library.decide(pairs, by=BY).changed


def _same(library: Library, original: Original, numbers: list[int]) -> list[int]:
    """Those of the pictures whose file Immich means."""
    ends: dict[int, int] = {}  # how much of the path is the same, by picture
    for number in numbers:
        places = [path for path in library.picture(number).places if original.is_at(path)]
        if places:
            ends[number] = max(map(original.alike, places))
    if not original.is_external:
        return list(ends)
    best = [number for number, end in ends.items() if end == max(ends.values())]
    return best if len(best) == 1 else []


def find_rejections(
    immich: Immich, memory: Memory, tell: Callable[[Rejected], object] | None = None
) -> Rejected:
    """Pictures and tags that we gave them and that are gone; told, and remembered from now on."""
    by_tag: dict[str, set[str]] = {}
    for asset, tags in memory.given.items():
        for tag in tags:
            by_tag.setdefault(tag, set()).add(asset)
    if not by_tag:
        return []
    numbers = immich.make_tags(sorted(by_tag))
    present = set(immich.assets())  # a picture that is gone says nothing
    found = []
    for tag, assets in sorted(by_tag.items()):
        have = set(immich.assets(tagIds=[numbers[tag]])) if tag in numbers else set()
        found += [(asset, tag) for asset in sorted((assets - have) & present)]
    if found and tell is not None:
        tell(found)  # first: what fails is found again
    for asset, tag in found:
        memory.given[asset].remove(tag)
        memory.rejected.setdefault(asset, []).append(tag)
    if found:
        memory.save()
    return found


def tag_pictures(
    immich: Immich,
    memory: Memory,
    annotate: Annotate,
    *,
    updated_after: str | None = None,
    dry_run: bool = False,
    tell: Callable[[Rejected], object] | None = None,
    progress: Progress | None = None,
) -> tuple[Outcome, dict[str, list[str]]]:
    """Annotate the pictures of Immich, and give them their tags there.

    What was given is remembered after each group of pictures, so that an interrupted run loses
    nothing. Returns the counts, and the new tags by picture.
    """
    outcome = Outcome()
    outcome.rejected = 0 if dry_run else len(find_rejections(immich, memory, tell))
    since = {"updatedAfter": updated_after} if updated_after else {}
    assets = list(immich.assets(**since))
    meter = Meter("Tagging pictures", len(assets), progress)
    numbers = dict[str, str]()
    every: dict[str, list[str]] = {}
    for start in range(0, len(assets), AT_ONCE):
        group = assets[start : start + AT_ONCE]
        new = _new_tags(immich, memory, group, annotate, outcome)
        every |= new
        if not dry_run:
            _give(immich, memory, new, numbers)
        outcome.given += sum(map(len, new.values()))
        meter.advance(len(group))
    return outcome, every


def _new_tags(
    immich: Immich, memory: Memory, group: list[str], annotate: Annotate, outcome: Outcome
) -> dict[str, list[str]]:
    shown = []
    previews = []
    for asset in group:
        try:
            previews.append(immich.preview(asset))
            shown.append(asset)
        except ImmichError as error:
            outcome.failed[asset] = str(error)
    new: dict[str, list[str]] = {}
    for asset, found in zip(shown, annotate(previews), strict=True):
        if found.error is not None:
            outcome.failed[asset] = found.error
            continue
        outcome.pictures += 1
        known = {*memory.given.get(asset, ()), *memory.rejected.get(asset, ())}
        tags = [name for name in found.names if name not in known]
        if tags:
            new[asset] = tags
    return new


def _give(
    immich: Immich, memory: Memory, new: dict[str, list[str]], numbers: dict[str, str]
) -> None:
    by_tag: dict[str, list[str]] = {}
    for asset, tags in new.items():
        for tag in tags:
            by_tag.setdefault(tag, []).append(asset)
    unknown = sorted(by_tag.keys() - numbers.keys())
    if unknown:
        numbers |= immich.make_tags(unknown)
    for tag, assets in by_tag.items():
        if tag not in numbers:
            raise ImmichError(f"Immich did not make the tag {tag!r}.")
        immich.give(assets, numbers[tag])
        for asset in assets:
            memory.given.setdefault(asset, []).append(tag)
        memory.save()  # what is there and not remembered is given again, which changes nothing
