"""No path leaves the folders that were allowed, wherever links lead."""

from __future__ import annotations

import os

import pytest

from prototag.errors import InputError
from prototag.service.paths import Roots
from prototag.service.problems import Problem


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
        assert roots.find(given) == real
    assert roots.holds(real)


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
        roots.find(given)
    assert told.value.status in (400, 404)


def test_what_is_outside_and_what_is_not_there_are_told_alike(client, photos):
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
