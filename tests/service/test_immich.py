"""The client of Immich against a server that speaks its shapes."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import re
import threading
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import tagged
from prototag import Library
from prototag.cli import program
from prototag.errors import InputError
from prototag.service.integrations.immich import (
    Immich,
    ImmichError,
    Memory,
    Original,
    find_rejections,
    tag_pictures,
)

KEY = "immich-key"


class State:
    """The pictures and tags of one Immich, by its identifiers."""

    def __init__(self, files) -> None:
        self.previews = {f"asset-{n:03}": path.read_bytes() for n, path in enumerate(files)}
        self.tags: dict[str, str] = {}  # name -> identifier
        self.has: dict[str, set[str]] = {}  # tag -> assets
        self.asked: list[tuple[str, str]] = []
        self.refuse: dict[str, int] = {}  # path -> status
        self.external = ""  # folder of an external library

    def described(self, asset: str, number: int) -> dict:
        """What AssetResponseDto has of a file; an external library has the SHA-1 of its path."""
        name, data = f"{100 + number}.jpg", self.previews[asset]
        path = f"{self.external or '/data/upload/3f'}/{name}"
        digest = hashlib.sha1(f"path:{path}".encode() if self.external else data).digest()
        return {
            "originalFileName": name,
            "originalPath": path,
            "checksum": base64.b64encode(digest).decode(),
            "exifInfo": {"fileSizeInByte": len(data)},
        }

    def names(self, asset: str) -> set[str]:
        return {name for name, number in self.tags.items() if asset in self.has.get(number, ())}

    def take_away(self, asset: str, name: str) -> None:
        self.has[self.tags[name]].remove(asset)

    def search(self, body) -> dict:
        found = sorted(self.previews)
        for tag in body.get("tagIds", ()):
            found = [asset for asset in found if asset in self.has.get(tag, ())]
        start = (body["page"] - 1) * 3  # whatever size is asked for: pages are the server's matter
        items = [{"id": asset, "type": "IMAGE"} for asset in found[start : start + 3]]
        more = str(body["page"] + 1) if start + 3 < len(found) else None
        listed = {"total": len(items), "count": len(items), "items": items, "facets": []}
        albums = {"total": 0, "count": 0, "items": [], "facets": []}
        return {"albums": albums, "assets": {**listed, "nextPage": more}}


class Handler(http.server.BaseHTTPRequestHandler):
    state: State

    def answer(self, method: str) -> None:
        state, path = self.state, self.path
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        given = json.loads(body) if body else None
        state.asked.append((method, path))
        if self.headers.get("x-api-key") != KEY:
            self.reply(401, {"message": "Invalid API key"})
        elif path.partition("?")[0] in state.refuse:
            self.reply(state.refuse[path.partition("?")[0]], {"message": "no"})
        elif (method, path) == ("POST", "/api/search/metadata"):
            assert given["type"] == "IMAGE"
            assert given["page"] >= 1
            self.reply(200, state.search(given))
        elif found := re.fullmatch(r"/api/assets/([\w-]+)/thumbnail\?size=preview", path):
            self.reply(200, state.previews[found[1]])
        elif found := re.fullmatch(r"/api/assets/(asset-(\d+))", path):
            self.reply(200, {"id": found[1], **state.described(found[1], int(found[2]))})
        elif (method, path) == ("PUT", "/api/tags"):
            for name in given["tags"]:
                state.tags.setdefault(name, f"tag-{len(state.tags)}")
            made = [{"id": state.tags[n], "value": n, "name": n} for n in given["tags"]]
            self.reply(200, made)
        elif (method, path) == ("PUT", "/api/tags/assets"):
            for tag in given["tagIds"]:
                state.has.setdefault(tag, set()).update(given["assetIds"])
            self.reply(200, {"count": len(given["assetIds"])})
        elif found := re.fullmatch(r"/api/tags/([\w-]+)/assets", path):
            assert method == "DELETE"
            state.has[found[1]] -= {*given["ids"]}
            self.reply(200, [{"id": asset, "success": True} for asset in given["ids"]])
        else:
            self.reply(404, {})

    def reply(self, status: int, body) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer("GET")

    def do_POST(self):
        self.answer("POST")

    def do_PUT(self):
        self.answer("PUT")

    def do_DELETE(self):
        self.answer("DELETE")

    def log_message(self, *_):
        pass


@contextmanager
def serving(state):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Own", (Handler,), {"state": state})
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def state(photos):
    return State(sorted(photos.iterdir()))


@pytest.fixture
def url(state):
    with serving(state) as address:
        yield address


@pytest.fixture
def wanted(photos):
    """The tags that each picture should get."""
    found = tagged.annotator().annotate(sorted(photos.iterdir()))
    return {f"asset-{n:03}": {*one.names} for n, one in enumerate(found)}


def annotate(previews):
    return list(tagged.annotator().annotate(previews))


def test_tags_go_out_and_rejections_come_back(url, state, wanted, tmp_path):
    immich = Immich(f"{url}/api/", KEY)
    memory = Memory.load(tmp_path / "memory.json", immich.base)
    outcome, new = tag_pictures(immich, memory, annotate)
    assert {asset: state.names(asset) for asset in state.previews} == wanted
    assert (outcome.pictures, outcome.rejected) == (6, 0)
    assert outcome.pushed == sum(map(len, wanted.values()))
    # a person takes one away
    asset = next(iter(new))
    name = new[asset][0]
    state.take_away(asset, name)
    memory = Memory.load(memory.path, immich.base)
    outcome, new = tag_pictures(immich, memory, annotate)
    assert (outcome.rejected, outcome.pushed, new) == (1, 0, {})
    assert memory.rejected == {asset: [name]}
    assert name not in state.names(asset)
    # for ever
    outcome, new = tag_pictures(immich, Memory.load(memory.path, immich.base), annotate)
    assert (outcome.rejected, outcome.pushed) == (0, 0)
    assert name not in state.names(asset)


def test_a_picture_that_is_gone_rejects_nothing(url, state, tmp_path):
    immich = Immich(url, KEY)
    memory = Memory(tmp_path / "memory.json", immich.base)
    tag_pictures(immich, memory, annotate)
    gone = next(iter(state.previews))
    del state.previews[gone]
    for assets in state.has.values():
        assets.discard(gone)
    assert find_rejections(immich, memory) == []


def test_a_dry_run_changes_nothing(url, state, tmp_path):
    immich = Immich(url, KEY)
    memory = Memory(tmp_path / "memory.json", immich.base)
    outcome, new = tag_pictures(immich, memory, annotate, dry_run=True)
    assert outcome.pushed > 0
    assert new
    assert not any(method in ("PUT", "DELETE") for method, _ in state.asked)
    assert not memory.path.exists()


def test_a_failed_preview_fails_alone(url, state, tmp_path):
    broken, refused = sorted(state.previews)[:2]
    state.previews[broken] = b"no picture"
    state.refuse[f"/api/assets/{refused}/thumbnail"] = 404
    immich = Immich(url, KEY)
    outcome, _ = tag_pictures(immich, Memory(tmp_path / "m.json", immich.base), annotate)
    assert {*outcome.failed} == {broken, refused}
    assert outcome.pictures == 4


def test_what_was_given_before_it_broke_is_remembered(url, state, tmp_path, monkeypatch):
    immich = Immich(url, KEY)
    memory = Memory(tmp_path / "memory.json", immich.base)
    calls = []

    def give(assets, tag):
        calls.append(tag)
        if len(calls) == 2:
            raise ImmichError("gone")
        Immich.apply_tag(immich, assets, tag)

    monkeypatch.setattr(immich, "apply_tag", give)
    with pytest.raises(ImmichError):
        tag_pictures(immich, memory, annotate)
    kept = Memory.load(memory.path, immich.base)
    given = {(asset, tag) for asset, tags in kept.pushed.items() for tag in tags}
    assert given == {(a, name) for a in state.previews for name in state.names(a)}
    assert given


def test_levels_are_written_as_immich_has_them(url, state):
    immich = Immich(url, KEY)
    assert immich.get_or_create_tags(["animal|cat", "b"]) == {"animal|cat": "tag-0", "b": "tag-1"}
    assert {*state.tags} == {"animal/cat", "b"}
    immich.apply_tag(["asset-000"], "tag-0")
    immich.remove_tag(["asset-000"], "tag-0")
    assert state.has["tag-0"] == set()


def test_refusals_report_what_to_do(url, state):
    with pytest.raises(ImmichError, match=r"tag\.asset"):
        list(Immich(url, "wrong").assets())
    state.refuse["/api/search/metadata"] = 500
    with pytest.raises(ImmichError, match="500"):
        list(Immich(url, KEY).assets())
    with pytest.raises(ImmichError, match="does not respond"):
        list(Immich("http://127.0.0.1:1", KEY).assets())
    for wrong in ("immich", "ftp://x", "http://", "file:///etc"):
        with pytest.raises(InputError, match="address"):
            Immich(wrong, KEY)
    with pytest.raises(InputError, match="API key"):
        Immich(url, "a\nb")


def test_strange_answers(url, state):
    state.search = lambda _body: {"assets": {"items": [{"id": "../../x"}], "nextPage": None}}
    with pytest.raises(ImmichError, match="unknown format"):
        list(Immich(url, KEY).assets())
    state.search = lambda _body: []
    with pytest.raises(ImmichError, match="unknown format"):
        list(Immich(url, KEY).assets())
    state.search = lambda _body: b"<html>"
    with pytest.raises(ImmichError, match="not Immich"):
        list(Immich(url, KEY).assets())


def test_a_memory_belongs_to_one_server(tmp_path):
    Memory(tmp_path / "m.json", "http://a/api").save()
    with pytest.raises(InputError, match="--memory"):
        Memory.load(tmp_path / "m.json", "http://b/api")
    (tmp_path / "m.json").write_text("[]")
    with pytest.raises(InputError, match="another file"):
        Memory.load(tmp_path / "m.json", "http://a/api")


def test_the_command(url, state, tmp_path, wanted):
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    arguments = ["immich", url, "--key-file", key, "-m", tagged.model(tmp_path)]
    arguments += ["--memory", tmp_path / "m.json"]
    done = CliRunner().invoke(program("immich", "serve"), [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    assert {asset: state.names(asset) for asset in state.previews} == wanted
    assert "6 pictures annotated" in done.stderr
    state.take_away("asset-000", next(iter(state.names("asset-000"))))
    done = CliRunner().invoke(program("immich", "serve"), [str(a) for a in [*arguments, "--json"]])
    assert "1 tag had been removed" in done.stderr
    figures = json.loads(done.stdout)
    assert (figures["pictures"], figures["rejected"], figures["failed"]) == (6, 1, {})
    assert KEY not in done.output


@pytest.mark.parametrize("external", ["", "/mnt/of the server/photos"])
def test_a_library_learns_what_was_taken_away(url, state, tmp_path, photos, external):
    state.external = external
    state.previews["asset-001"] += b"\0"  # another file of the same name
    with Library.create(photos, crops="fast", cache=None) as library:
        library.scan()
        library.accept([photos / "103.jpg"], ["red", "green", "blue"])  # so that it knows them
        numbers = dict(enumerate(library.numbers(sorted(photos.glob("1*")))))
    (tmp_path / "key").write_text(KEY)
    arguments = ["immich", url, "--key-file", tmp_path / "key", "-m", tagged.model(tmp_path)]
    arguments += ["--memory", tmp_path / "m.json", "-l", photos]
    command = program("immich")
    assert CliRunner().invoke(command, [str(a) for a in arguments]).exit_code == 0
    taken = {n: [*state.names(f"asset-{n:03}") & {"red", "green", "blue"}] for n in (1, 2)}
    assert all(taken.values())
    for number, names in taken.items():
        state.take_away(f"asset-{number:03}", names[0])
    done = CliRunner().invoke(command, [str(a) for a in arguments])
    assert "The library rejects 1 of them" in done.stderr, done.output
    with Library(photos / "prototag.library", cache=None) as library:
        assert library.picture(numbers[2]).rejected == taken[2][:1]
        assert library.picture(numbers[1]).rejected == []
        assert library.history(1)[0].by == "immich"


def test_files_of_an_external_library_are_distinguished_by_their_folders(state, tmp_path):
    for folder in ("2023", "2024"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "102.jpg").write_bytes(state.previews["asset-002"])
    state.external = "/mnt/2024"
    given = state.described("asset-002", 2)
    size = given["exifInfo"]["fileSizeInByte"]
    path = given["originalPath"]
    original = Original("102.jpg", path, base64.b64decode(given["checksum"]), size)
    assert original.is_external
    assert original.common_suffix_length(tmp_path / "2024" / "102.jpg") == 2
    assert original.common_suffix_length(tmp_path / "2023" / "102.jpg") == 1
    assert original.is_at(tmp_path / "2024" / "102.jpg")
    assert not original._replace(size=None).is_at(tmp_path / "2024" / "102.jpg")
    assert not original._replace(checksum=b"").is_at(tmp_path / "2024" / "102.jpg")
    assert not original.is_at(tmp_path / "gone.jpg")
