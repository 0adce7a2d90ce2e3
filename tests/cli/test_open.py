"""``prototag open``: which library it opens or makes, and what it refuses before it listens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tagged
from prototag import Library
from prototag.cli import ask_folder
from prototag.cli import open as command


@pytest.fixture
def served(monkeypatch):
    """What would be served: the command runs but for listening."""
    libraries = []

    def listen(app, host, port, ready):  # noqa: ARG001
        libraries.append(app.state.service.library.path)

    monkeypatch.setattr(command, "run", listen)
    return libraries


@pytest.mark.parametrize("name", ["open", "library create"])
def test_an_empty_folder_is_refused_in_a_sentence_and_nothing_is_left_behind(
    run, served, tmp_path, name
):
    """There was a traceback, and a library of nothing."""
    told = run(*name.split(), tmp_path)
    assert told.exit_code == 1
    assert "contains no pictures" in told.stderr
    assert "Traceback" not in told.stderr
    assert "What the library knows" not in told.stderr  # there is none
    assert not list(tmp_path.iterdir())
    assert not served
    missing = run(*name.split(), tmp_path / "no such folder")
    assert missing.exit_code == 1
    assert "no such folder" in missing.stderr


def test_a_library_alone_is_opened(run, served, tmp_path):
    photos, file = tmp_path / "photos", tmp_path / "mine.library"
    tagged.collection(photos, 3)
    assert run("open", photos, "-l", file).exit_code == 0
    assert run("open", "-l", file).exit_code == 0
    assert served == [file] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="pseudoterminals are of POSIX")
def test_without_arguments_the_terminal_asks(tmp_path):
    """A wrong name is asked again; a folder that was dropped on the terminal is in quotes."""
    import pty

    photos = tmp_path / "my photos"
    tagged.collection(photos, 3)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "prototag", "open", "--no-browser"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(theirs)
    printed = ""
    try:
        for expected, answer in (
            ("Folder of pictures [", "no such folder"),
            ("no such folder does not exist", f"'{photos}'"),
            ("http://127.0.0.1", ""),
        ):
            while expected not in printed:
                printed += os.read(ours, 4096).decode()
            os.write(ours, f"{answer}\n".encode())
    finally:
        process.kill()  # a graceful end may wait for a terminal that nobody reads
        process.wait(30)
        os.close(ours)
    assert (photos / "prototag.library").exists()


def test_the_folder_of_a_library_is_proposed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prototag.library").touch()
    assert ask_folder.usual_folder() == tmp_path


def test_without_a_terminal_a_dialog_asks(run, served, tmp_path, monkeypatch):
    """A program of that name answers, as it would after a click."""
    photos = tmp_path / "photos"
    tagged.collection(photos, 3)
    commands = tmp_path / "bin"
    commands.mkdir()
    monkeypatch.setenv("PATH", str(commands))
    refused = run("open")
    assert refused.exit_code == 2
    assert "no folder was given" in refused.stderr
    dialog = commands / "zenity"
    dialog.write_text(f"#!/bin/sh\necho '{photos}'\n")
    dialog.chmod(0o755)
    assert run("open").exit_code == 0
    assert served == [photos / "prototag.library"]
    dialog.write_text("#!/bin/sh\nexit 1\n")
    assert run("open").exit_code == 1  # cancelled
    assert len(served) == 1


def test_the_library_may_lie_elsewhere(run, served, tmp_path):
    photos, file = tmp_path / "photos", tmp_path / "mine.library"
    tagged.collection(photos, 3)
    before = sorted(photos.iterdir())
    for _ in range(2):  # made, then opened
        told = run("open", photos, "-l", file)
        assert told.exit_code == 0, told.stderr
    assert served == [file] * 2
    assert sorted(photos.iterdir()) == before
    with Library(file, cache=None) as library:
        assert library.status().roots == [photos]
    assert run("open", file).exit_code == 0
    assert run("open", photos, "--library", tmp_path).exit_code == 0
    assert served[2:] == [file, tmp_path / "prototag.library"]


def test_the_library_of_other_pictures_is_refused(run, served, tmp_path):
    for name in ("a", "b"):
        tagged.collection(tmp_path / name, 3)
    run("open", tmp_path / "a", "-l", tmp_path / "a.library")
    told = run("open", tmp_path / "b", "-l", tmp_path / "a.library")
    assert told.exit_code == 1
    assert f"is the library of {tmp_path / 'a'}, not of {tmp_path / 'b'}" in told.stderr
    told = run("open", tmp_path / "a.library", "-l", tmp_path / "c.library")
    assert told.exit_code == 2
    assert len(served) == 1


@pytest.mark.usefixtures("served")
def test_what_is_advised_for_a_read_only_folder_works(run, tmp_path, monkeypatch):
    photos, file = tmp_path / "photos", tmp_path / "mine.library"
    tagged.collection(photos, 3)
    real = os.open

    def forbidden(path, flags, *rest, **options):
        if flags & os.O_CREAT and os.path.dirname(os.fspath(path)) == str(photos):
            raise PermissionError(13, os.strerror(13), os.fspath(path))
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", forbidden)
    told = run("open", photos)
    assert told.exit_code == 1
    assert "Permission denied" in told.stderr
    assert "`prototag open FOLDER -l FILE`" in told.stderr
    assert run("open", photos, "-l", file).exit_code == 0
    assert run("library", "create", photos, "-o", tmp_path / "b.library").exit_code == 0


def test_a_folder_that_became_empty_ends_in_a_sentence(tmp_path):
    """The drive is not there: what the library knows stays, and no traceback is shown."""
    photos, file = tmp_path / "photos", tmp_path / "mine.library"
    tagged.collection(photos, 3)
    Library.create(photos, file, cache=None).close()
    shutil.rmtree(photos)
    photos.mkdir()
    code = (
        "from prototag.cli import open as command, program\n"
        "from prototag.service.app import create_app\n"
        "def listen(app, host, port, ready):\n"
        "    ready('nowhere')\n"
        "    app.state.service.jobs.close()\n"
        "command.run = listen\n"
        f"program('open')(['open', {str(file)!r}, '--no-browser'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr
    assert "contains no pictures" in done.stderr


@pytest.mark.skipif(not shutil.which("desktop-file-validate"), reason="it is not installed")
def test_the_entry_of_the_menu_is_valid():
    entry = Path(__file__).parents[2] / "integrations" / "desktop" / "prototag.desktop"
    checked = subprocess.run(["desktop-file-validate", entry], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")
