"""Taking back tags."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from prototag import metadata


@pytest.fixture
def tagged_pictures(new):
    for path in new:
        metadata.apply(metadata.plan(path, ["green"]))
    return new


def test_a_path_that_is_not_there_fails_and_the_others_are_done(run, tagged_pictures, tmp_path):
    result = run("untag", tmp_path / "nosuch.jpg", *tagged_pictures)
    assert result.exit_code == 3
    assert "nosuch.jpg does not exist and has no sidecar" in result.stderr
    assert "4 files changed, 1 failed" in result.stderr
    assert run("untag", "nosuch").exit_code == 3


def test_tags_may_be_kept_or_chosen(run, tagged_pictures):
    others = run("untag", tagged_pictures[0], "--tags", "red")
    assert "0 files changed, 1 picture without these tags from prototag." in others.stderr
    kept = run("untag", tagged_pictures[0], "--keep")
    assert kept.stdout == f"{tagged_pictures[0]}.xmp: tags kept as yours\n"
    assert metadata.sidecar.read(f"{tagged_pictures[0]}.xmp").tags == ("green",)


def test_a_sidecar_may_outlive_its_picture(run, tagged_pictures):
    tagged_pictures[0].unlink()
    result = run("untag", tagged_pictures[0])
    assert result.exit_code == 0
    assert "1 file changed" in result.stderr


def test_folders_that_cannot_be_read_are_named(run, tagged_pictures, monkeypatch):
    folder = tagged_pictures[0].parent
    (folder / "locked").mkdir()
    real = os.scandir

    def forbidden(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    result = run("untag", folder)
    assert result.exit_code == 3
    assert f"{folder / 'locked'} cannot be read: Permission denied" in result.stderr
    assert "4 files changed" in result.stderr
    only = run("untag", folder / "locked")
    assert only.exit_code == 3
    assert "no pictures were found" not in only.stderr


def test_thumbnails_of_a_network_disk_are_left_alone(run, tagged_pictures):
    folder = tagged_pictures[0].parent / "@eaDir"
    folder.mkdir()
    shutil.copy(tagged_pictures[0], folder)
    assert "4 files changed" in run("untag", folder.parent).stderr


def test_an_empty_folder(run, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("untag", tmp_path / "empty")
    assert result.exit_code == 1
    assert "no pictures were found" in result.stderr


def test_tags_are_named_as_people_type_them(run, new):
    metadata.apply(metadata.plan(new[0], ["Natur|Bäume", "sky"]))
    result = run("untag", new[0], "--tags", "baume")
    assert result.stdout == f"{new[0]}.xmp: -Natur|Bäume\n"
    assert metadata.read_keywords(new[0]).added == ("sky",)


def test_json_has_a_line_for_each_change(run, tagged_pictures, tmp_path):
    dry = run("untag", *tagged_pictures, "--dry-run", "--json")
    lines = [json.loads(line) for line in dry.stdout.splitlines()]
    expected = [
        {
            "path": str(path),
            "file": f"{path}.xmp",
            "removed": ["green"],
            "kept": False,
            "dry_run": True,
        }
        for path in tagged_pictures
    ]
    assert lines == expected
    result = run("untag", tmp_path / "nosuch.jpg", *tagged_pictures, "--json")
    failed, *changed = [json.loads(line) for line in result.stdout.splitlines()]
    assert failed["path"] == str(tmp_path / "nosuch.jpg")
    assert "does not exist" in failed["error"]
    assert changed == [{**line, "dry_run": False} for line in expected]
    assert "--json or --diff" in run("untag", tmp_path, "--json", "--diff").stderr
