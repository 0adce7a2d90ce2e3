"""Changes on a real disk: whole or not at all, by several processes at once."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from prototag.errors import MetadataError
from prototag.metadata import apply, plan, plan_untag, read_keywords
from prototag.metadata.xmp.packet import SUBJECT, Packet

from .shapes import GOLDEN, beside

ODD = ["New York, NY", "👩‍👩‍👧", "<b>&amp;", "x" * 1000, "animal|fox"]


def test_the_second_run_touches_nothing(image):
    path = apply(plan(image, ODD)).path
    os.utime(path, ns=(1, 1))
    before = path.stat()
    change = plan(image, reversed(list(reversed(ODD))))
    assert not change
    assert apply(change) == change
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, 1)
    assert change.summary() == f"{path}: no change"
    assert change.diff() == ""


def test_untag_leaves_the_folder_as_it_was(image):
    pixels = image.read_bytes()
    apply(plan(image, ODD))
    assert image.read_bytes() == pixels
    assert sorted(os.listdir(image.parent)) == ["photo.jpg", "photo.jpg.xmp"]
    change = apply(plan_untag(image))
    assert change.new is None
    assert os.listdir(image.parent) == ["photo.jpg"]
    assert not plan_untag(image)


def test_planning_touches_nothing_and_shows_what_it_would_do(image):
    path = beside(image, "lightroom")
    data = path.read_bytes()
    change = plan(image, ["fox", "animal|owl"])
    assert (path.read_bytes(), os.listdir(image.parent).sort()) == (data, None)
    assert (change.added, change.removed) == (("fox", "animal|owl"), ())
    diff = change.diff().splitlines()
    assert diff[:2] == [f"--- {path}", f"+++ {path}"]
    assert "+     <rdf:li>fox</rdf:li>" in diff
    assert not [line for line in diff[2:] if line.startswith("-")]
    assert change.summary() == f"{path}: +fox, +animal|owl"
    assert plan(image, []).diff() == ""
    apply(change)
    assert plan_untag(image).summary() == f"{path}: -fox, -animal|owl"


def test_a_sidecar_that_breaks_after_planning_is_not_overwritten(image):
    change = plan(image, ["fox"])
    change.path.write_bytes(b"broken")
    with pytest.raises(MetadataError, match="is not well-formed XML"):
        apply(change)
    assert change.path.read_bytes() == b"broken"


def test_a_sidecar_that_changes_after_planning_keeps_both(image):
    first, second = plan(image, ["fox"], replace=False), plan(image, ["owl"], replace=False)
    apply(first)
    done = apply(second)
    assert done.added == ("owl",)
    assert set(read_keywords(image).added) == {"fox", "owl"}


def test_permissions_and_links_are_kept(image):
    real = image.parent / "store" / "real.xmp"
    real.parent.mkdir()
    real.write_bytes((GOLDEN / "lightroom.xmp").read_bytes())
    real.chmod(0o640)
    image.with_name("photo.jpg.xmp").symlink_to(real)
    apply(plan(image, ["fox"]))
    assert image.with_name("photo.jpg.xmp").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert b"<rdf:li>fox" in real.read_bytes()


def child(code: str, *arguments: str, limit: int | None = None):
    def before() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )


WRITE = """
import sys
from prototag.errors import MetadataError
from prototag.metadata import apply, plan
try:
    apply(plan(sys.argv[1], ["fox" * 400]))
except MetadataError as error:
    print(error)
"""


def test_a_full_disk_loses_nothing(image):
    path = beside(image, "digikam")
    data = path.read_bytes()
    out, error = child(WRITE, str(image), limit=len(data)).communicate()
    assert "photo.jpg.xmp cannot be written: File too large. Nothing was changed." in out, error
    assert path.read_bytes() == data
    assert sorted(os.listdir(image.parent)) == ["photo.jpg", "photo.jpg.xmp"]


@pytest.mark.parametrize("locked", ["folder", "file"])
def test_what_is_read_only_is_left_alone(image, locked):
    path = beside(image, "digikam")
    data = path.read_bytes()
    for parent in image.parents[:4]:  # pytest closes its folders to others, each worker one more
        if parent != Path(tempfile.gettempdir()):
            parent.chmod(0o755)
    image.parent.chmod(0o555 if locked == "folder" else 0o777)
    path.chmod(0o666 if locked == "folder" else 0o444)
    said = "cannot be written: Permission denied" if locked == "folder" else "is read-only"
    user = os.geteuid()
    try:
        os.seteuid(user or 65534)  # nothing is read-only to root
        with pytest.raises(MetadataError, match=said):
            apply(plan(image, ["fox"]))
    finally:
        os.seteuid(user)
        image.parent.chmod(0o755)
    assert path.read_bytes() == data
    assert sorted(os.listdir(image.parent)) == ["photo.jpg", "photo.jpg.xmp"]


def test_two_runs_at_once_lose_nothing(image):
    """Processes add and take back their own tags; a person's and the last of each stay."""
    path = beside(image, "digikam")
    persons = read_keywords(image).tags
    code = """
    import sys
    from prototag.metadata import apply, plan, plan_untag
    image, name = sys.argv[1:]
    for i in range(15):
        apply(plan(image, [f"{name} {i}"], replace=False))
        if i % 5 == 4:
            apply(plan_untag(image, tags=[f"{name} {i - 1}"]))
    """
    running = [child(code, str(image), name) for name in ("one", "two", "three")]
    for process in running:
        _, error = process.communicate()
        assert process.returncode == 0, error
    keywords = read_keywords(image)
    wanted = {f"{n} {i}" for n in ("one", "two", "three") for i in range(15) if i % 5 != 3}
    assert set(keywords.added) == wanted
    assert keywords.tags == persons
    assert sorted(os.listdir(image.parent)) == ["photo.jpg", "photo.jpg.xmp"]
    apply(plan_untag(image))
    assert path.read_bytes() == (GOLDEN / "digikam.xmp").read_bytes()


def test_a_killed_run_leaves_a_whole_sidecar(image):
    path = beside(image, "digikam")
    code = """
    import sys
    from prototag.metadata import apply, plan
    i = 0
    print("ready", flush=True)
    while True:
        i += 1
        apply(plan(sys.argv[1], [f"tag {i}"]))
    """
    for _ in range(3):
        process = child(code, str(image))
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.communicate()
        assert Packet(path.read_bytes()).values(SUBJECT)[:3] == ["Cat", "garden", "Zoë & Max"]
    apply(plan(image, ["fox"]))  # the lock went with its holder
    assert read_keywords(image).added == ("fox",)
