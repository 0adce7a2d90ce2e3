"""No path leaves the folders that were allowed, wherever links lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prototag.errors import InputError
from prototag.service.allowed_paths import Roots
from prototag.service.problem_details import Problem


@pytest.fixture
def place(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "a.jpg").write_bytes(b"a")
    (outside / "secret.jpg").write_bytes(b"s")
    (inside / "link.jpg").symlink_to(outside / "secret.jpg")
    (inside / "folder").symlink_to(outside)
    (inside / "fine.jpg").symlink_to(inside / "a.jpg")
    (tmp_path / "inside-too").mkdir()
    (tmp_path / "inside-too" / "b.jpg").write_bytes(b"b")
    os.mkfifo(inside / "pipe.jpg")
    return tmp_path


def test_inside(place):
    roots = Roots([place / "inside"])
    real = (place / "inside" / "a.jpg").resolve()
    for given in ("a.jpg", "./a.jpg", str(real), "../inside/a.jpg", "fine.jpg"):
        assert roots.resolve(given) == real
    assert roots.contains(real)


@pytest.mark.parametrize(
    "given",
    [
        "../outside/secret.jpg",
        "link.jpg",
        "folder/secret.jpg",
        "../inside-too/b.jpg",
        "/etc/passwd",
        "folder/../../outside/secret.jpg",
        "gone.jpg",
        ".",
        "",
        "a.jpg\0.png",
        "x" * 5000,
        "pipe.jpg",
        "a.jpg/../../outside/secret.jpg",
        "\udcff.jpg",
        "~/a.jpg",
        "file:///etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
    ],
)
def test_outside(place, given):
    roots = Roots([place / "inside"])
    with pytest.raises(Problem) as told:
        roots.resolve(given)
    assert told.value.status in (400, 404)


def exchanged(place, what):
    """Between being found and being opened, something is replaced by a link to outside."""
    if what == "file":
        (place / "inside" / "a.jpg").unlink()
        (place / "inside" / "a.jpg").symlink_to(place / "outside" / "secret.jpg")
    elif what == "folder":
        (place / "inside" / "below").rename(place / "inside" / "before")
        (place / "inside" / "below").symlink_to(place / "outside")
    else:
        (place / "inside" / "a.jpg").unlink()
        os.mkfifo(place / "inside" / "a.jpg")


@pytest.mark.parametrize("is_linux", [True, False])
@pytest.mark.parametrize("what", ["file", "folder", "pipe"])
def test_a_file_that_is_exchanged_before_it_is_opened(place, what, is_linux, monkeypatch):
    if not is_linux:
        monkeypatch.setattr(os, "readlink", without_proc(os.readlink))
        monkeypatch.setattr(Path, "exists", lambda _: False)
    (place / "inside" / "below").mkdir()
    (place / "inside" / "below" / "secret.jpg").write_bytes(b"mine")
    roots = Roots([place / "inside"])
    found = roots.resolve("below/secret.jpg" if what == "folder" else "a.jpg")
    with roots.open(found) as source:
        content = source if isinstance(source, bytes) else source.read_bytes()
    assert content == (b"mine" if what == "folder" else b"a")
    exchanged(place, what)
    with pytest.raises(Problem, match="not a file inside"), roots.open(found):
        pass


def without_proc(readlink):
    def elsewhere(path, **named):
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return readlink(path, **named)

    return elsewhere


def test_a_file_that_is_exchanged_while_it_is_open_is_still_the_first(place):
    roots = Roots([place / "inside"])
    with roots.open(roots.resolve("a.jpg")) as source:
        exchanged(place, "file")
        assert source.read_bytes() == b"a"


def test_a_link_put_in_place_of_a_picture_is_not_read(served, photos, monkeypatch):
    outside = photos.parent / "secret.jpg"
    outside.write_bytes((photos / "101.jpg").read_bytes())
    client = served()
    resolve = Roots.resolve

    def slow(self, given):
        found = resolve(self, given)
        found.unlink()
        found.symlink_to(outside)
        return found

    assert client.post("/api/v1/annotate", json={"path": "100.jpg"}).status_code == 200
    monkeypatch.setattr(Roots, "resolve", slow)
    answer = client.post("/api/v1/annotate", json={"path": "100.jpg"})
    assert answer.status_code == 404
    assert answer.json()["type"].endswith("no-such-file")


def test_outside_paths_and_missing_files_have_the_same_error(client, photos):
    (photos.parent / "secret.jpg").write_bytes((photos / "100.jpg").read_bytes())
    details = set()
    for given in ("../secret.jpg", "../nothing.jpg"):
        answer = client.post("/api/v1/annotate", json={"path": given})
        assert answer.status_code == 404
        details.add(answer.json()["detail"].replace(given, ""))
    assert len(details) == 1


def test_no_folder_no_file(served, photos):
    client = served(roots=[])
    answer = client.post("/api/v1/annotate", json={"path": str(photos / "100.jpg")})
    assert answer.status_code == 404


def test_roots_must_be_folders(place):
    with pytest.raises(InputError, match="does not exist"):
        Roots([place / "nothing"])
    with pytest.raises(InputError, match="is not a folder"):
        Roots([place / "inside" / "a.jpg"])
