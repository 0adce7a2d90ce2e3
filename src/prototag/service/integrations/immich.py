"""Client of Immich: annotate its previews, apply tags there, and detect removed tags.

Immich cannot store rejections. A tag that was applied and is gone was removed by a person, so that
it is never applied to this picture again. A file keeps the applied and the rejected tags.
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
from prototag.service.integrations.http_client import OPENER, TIMEOUT_S
from prototag.storage.atomic_write import replacing
from prototag.storage.sqlite_lock_guard import open_for_reading, read_text

if TYPE_CHECKING:
    from prototag.library.library import Library

BY = "immich"
PAGE_SIZE = 250  # assets in one response
BATCH_SIZE = 16  # previews that are annotated together
MAX_BYTES = 64 << 20  # of a response
MAX_PAGES = 100_000  # against a server whose pages do not end
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


class ImmichError(PrototagError):
    """Error of the connection to Immich, or an error response."""


class Original(NamedTuple):
    """An original file in Immich (AssetResponseDto and ExifResponseDto)."""

    name: str
    path: str  # on the server, often another than here
    checksum: bytes  # SHA-1 of the bytes, or of "path:PATH" in an external library
    size: int | None

    @property
    def is_external(self) -> bool:
        """Whether the file is in an external library."""
        return self.checksum == hashlib.sha1(f"path:{self.path}".encode()).digest()

    def is_at(self, place: Path) -> bool:
        """Return whether a local file may be the original, by checksum or size."""
        try:
            if self.is_external:
                return place.stat().st_size == self.size
            with open_for_reading(place) as file:
                return hashlib.file_digest(file, "sha1").digest() == self.checksum
        except OSError:
            return False

    def common_suffix_length(self, place: Path) -> int:
        """Count the equal parts at the ends of both paths."""
        pairs = zip(reversed(Path(self.path).parts), reversed(place.parts), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class Immich:
    """Client of an Immich server.

    Parameters
    ----------
    url : str
        Address such as ``http://192.168.1.7:2283``, with or without ``/api``.
    key : str
        API key with the permissions asset.read, asset.view, tag.read, tag.create, tag.asset.
    """

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InputError(
                f"{url!r} is not an address: give one such as http://192.168.1.7:2283."
            )
        if not key or not key.isascii() or not key.isprintable():
            raise InputError("the API key is empty or not plain text: copy it from Immich again.")
        self.base = url.rstrip("/").removesuffix("/api") + "/api"
        self._key = key

    def _request(self, method: str, path: str, body: Any = None) -> bytes:
        headers = {"x-api-key": self._key, "Accept": "application/json, image/*"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        request = Request(self.base + path, data, headers, method=method)
        try:
            with OPENER.open(request, timeout=TIMEOUT_S) as response:
                data_read: bytes = response.read(MAX_BYTES + 1)
        except HTTPError as error:
            error.close()
            raise ImmichError(_refusal(error.code, method, path)) from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ImmichError(
                f"Immich does not respond at {self.base}: {reason}. Check that it is running."
            ) from None
        if len(data_read) > MAX_BYTES:
            raise ImmichError(f"the response of Immich has more than {MAX_BYTES:,} bytes.")
        return data_read

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return json.loads(self._request(method, path, body))
        except ValueError:
            raise ImmichError(
                f"the server at {self.base} is not Immich: give the address of Immich."
            ) from None

    def assets(self, **filters: Any) -> Iterator[str]:
        """Yield identifiers of pictures; the filters are those of ``POST /search/metadata``."""
        page: Any = 1
        for _ in range(MAX_PAGES):
            body = {"type": "IMAGE", **filters, "page": int(page), "size": PAGE_SIZE}
            response = self._json("POST", "/search/metadata", body)
            try:
                listed = response["assets"]
                items = [_checked(item["id"]) for item in listed["items"]]
                page = listed["nextPage"]
            except (KeyError, TypeError, IndexError):
                raise ImmichError("the search of Immich returned an unknown format.") from None
            yield from items
            if not page or not items:
                return

    def preview(self, asset: str) -> bytes:
        """Return the preview of a picture, which is large enough for the network."""
        return self._request("GET", f"/assets/{quote(asset)}/thumbnail?size=preview")

    def file(self, asset: str) -> Original:
        """Return the original file of a picture."""
        response = self._json("GET", f"/assets/{quote(asset)}")
        try:
            size = (response.get("exifInfo") or {}).get("fileSizeInByte")
            return Original(
                str(response["originalFileName"]),
                str(response["originalPath"]),
                base64.b64decode(response["checksum"]),
                size if isinstance(size, int) else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ImmichError("Immich returned a picture in an unknown format.") from None

    def get_or_create_tags(self, names: list[str]) -> dict[str, str]:
        """Return the identifiers of tags by their names; create missing tags."""
        by_value = {name.replace(SEPARATOR, "/"): name for name in names}
        response = self._json("PUT", "/tags", {"tags": list(by_value)})
        try:
            return {
                by_value[tag["value"]]: _checked(tag["id"])
                for tag in response
                if tag["value"] in by_value
            }
        except (KeyError, TypeError):
            raise ImmichError("Immich returned tags in an unknown format.") from None

    def apply_tag(self, assets: list[str], tag: str) -> None:
        """Apply a tag, given by its identifier, to pictures."""
        self._request("PUT", "/tags/assets", {"assetIds": assets, "tagIds": [tag]})

    def remove_tag(self, assets: list[str], tag: str) -> None:
        """Remove a tag from pictures."""
        self._request("DELETE", f"/tags/{quote(tag)}/assets", {"ids": assets})


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
    return f"Immich returned HTTP {code} for {method} {path.partition('?')[0]}."


@dataclass
class Memory:
    """Applied and rejected tags of each picture, kept in a file."""

    path: Path
    server: str
    pushed: dict[str, list[str]] = field(default_factory=dict)
    rejected: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, server: str) -> Self:
        if not path.exists():
            return cls(path, server)
        try:
            kept = json.loads(read_text(path))
            memory = cls(path, kept["server"], kept["pushed"], kept["rejected"])
            lists = [*memory.pushed.values(), *memory.rejected.values()]
            if not all(isinstance(t, str) for tags in lists for t in tags):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f"{path} is not a memory of this command: give another file."
            ) from None
        if memory.server != server:
            raise InputError(
                f"{path} belongs to {memory.server}, not to {server}: give another file with "
                "--memory."
            )
        return memory

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"server": self.server, "pushed": self.pushed, "rejected": self.rejected}
        with replacing(self.path) as file:
            file.write(json.dumps(kept, ensure_ascii=False, indent=0).encode())


@dataclass
class Outcome:
    """Counts of a run."""

    pictures: int = 0  # annotated ones
    pushed: int = 0  # applied tags of all pictures
    rejected: int = 0  # tags that people had removed
    failed: dict[str, str] = field(default_factory=dict)  # reason by picture


Annotate = Callable[[list[bytes]], list[Annotation]]
Rejected = list[tuple[str, str]]  # pictures of Immich, and tags


def reject(immich: Immich, library: Library, rejected: Rejected) -> int:
    """Reject tags in a library that were removed in Immich, and return how many changed.

    Pictures are matched by name and SHA-1 of their original files. Immich has no SHA-1 of files in
    an external library: they match by name, size and the longest common end of the path, if only
    one picture has it.
    """
    tags: dict[str, list[str]] = {}
    for asset, tag in rejected:
        tags.setdefault(asset, []).append(tag)
    pairs = []
    for asset, names in tags.items():
        original = immich.file(asset)
        known = library.known_tags(names)
        for number in _matching(library, original, library.pictures_named(original.name)):
            pairs += [(number, tag, REJECTED) for tag in known]
    return library.decide(pairs, by=BY).changed


def _matching(library: Library, original: Original, numbers: list[int]) -> list[int]:
    """Return the pictures that may have this original file."""
    ends: dict[int, int] = {}  # length of the common path by picture
    for number in numbers:
        places = [path for path in library.picture(number).files if original.is_at(path)]
        if places:
            ends[number] = max(map(original.common_suffix_length, places))
    if not original.is_external:
        return list(ends)
    best = [number for number, end in ends.items() if end == max(ends.values())]
    return best if len(best) == 1 else []


def find_rejections(
    immich: Immich, memory: Memory, on_rejected: Callable[[Rejected], object] | None = None
) -> Rejected:
    """Find applied tags that are gone, pass them to the callback and remember them."""
    by_tag: dict[str, set[str]] = {}
    for asset, tags in memory.pushed.items():
        for tag in tags:
            by_tag.setdefault(tag, set()).add(asset)
    if not by_tag:
        return []
    identifiers = immich.get_or_create_tags(sorted(by_tag))
    present = set(immich.assets())  # a deleted picture is no rejection
    rejected: Rejected = []
    for tag, assets in sorted(by_tag.items()):
        tagged = set(immich.assets(tagIds=[identifiers[tag]])) if tag in identifiers else set()
        rejected += [(asset, tag) for asset in sorted((assets - tagged) & present)]
    if rejected and on_rejected is not None:
        on_rejected(rejected)  # before saving, so that a failure is repeated by the next run
    for asset, tag in rejected:
        memory.pushed[asset].remove(tag)
        memory.rejected.setdefault(asset, []).append(tag)
    if rejected:
        memory.save()
    return rejected


def tag_pictures(
    immich: Immich,
    memory: Memory,
    annotate: Annotate,
    *,
    updated_after: str | None = None,
    dry_run: bool = False,
    on_rejected: Callable[[Rejected], object] | None = None,
    progress: Progress | None = None,
) -> tuple[Outcome, dict[str, list[str]]]:
    """Annotate the pictures of Immich and apply the tags there.

    The memory is saved after each batch, so that an interrupted run loses nothing. Returns the
    counts, and the new tags by picture.
    """
    outcome = Outcome()
    outcome.rejected = 0 if dry_run else len(find_rejections(immich, memory, on_rejected))
    since = {"updatedAfter": updated_after} if updated_after else {}
    assets = list(immich.assets(**since))
    meter = Meter("Tagging pictures", len(assets), progress)
    identifiers = dict[str, str]()
    all_new: dict[str, list[str]] = {}
    for start in range(0, len(assets), BATCH_SIZE):
        batch = assets[start : start + BATCH_SIZE]
        new = _new_tags(immich, memory, batch, annotate, outcome)
        all_new |= new
        if not dry_run:
            _apply(immich, memory, new, identifiers)
        outcome.pushed += sum(map(len, new.values()))
        meter.advance(len(batch))
    return outcome, all_new


def _new_tags(
    immich: Immich, memory: Memory, batch: list[str], annotate: Annotate, outcome: Outcome
) -> dict[str, list[str]]:
    """Annotate a batch; return the tags that were neither applied nor rejected before."""
    with_preview = []
    previews = []
    for asset in batch:
        try:
            previews.append(immich.preview(asset))
            with_preview.append(asset)
        except ImmichError as error:
            outcome.failed[asset] = str(error)
    new: dict[str, list[str]] = {}
    for asset, annotation in zip(with_preview, annotate(previews), strict=True):
        if annotation.error is not None:
            outcome.failed[asset] = annotation.error
            continue
        outcome.pictures += 1
        known = {*memory.pushed.get(asset, ()), *memory.rejected.get(asset, ())}
        tags = [name for name in annotation.names if name not in known]
        if tags:
            new[asset] = tags
    return new


def _apply(
    immich: Immich, memory: Memory, new: dict[str, list[str]], identifiers: dict[str, str]
) -> None:
    """Apply new tags and remember them; ``identifiers`` caches those of known tags."""
    by_tag: dict[str, list[str]] = {}
    for asset, tags in new.items():
        for tag in tags:
            by_tag.setdefault(tag, []).append(asset)
    unknown = sorted(by_tag.keys() - identifiers.keys())
    if unknown:
        identifiers |= immich.get_or_create_tags(unknown)
    for tag, assets in by_tag.items():
        if tag not in identifiers:
            raise ImmichError(f"Immich did not create the tag {tag!r}.")
        immich.apply_tag(assets, identifiers[tag])
        for asset in assets:
            memory.pushed.setdefault(asset, []).append(tag)
        memory.save()  # after applying: a tag that is applied twice changes nothing
