"""Library and files brought together: once is enough, nothing comes back that was refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from history import undo_last
from prototag import Library, metadata
from prototag.library import sidecar_sync as syncing
from prototag.library.types import ACCEPTED


def sidecar(photo: Path) -> Path:
    return photo.with_name(photo.name + ".xmp")


def without(photo: Path, entry: str) -> None:
    """As a photo program removes one entry of a list."""
    text = sidecar(photo).read_text()
    assert f"<rdf:li>{entry}</rdf:li>" in text
    sidecar(photo).write_text(text.replace(f"<rdf:li>{entry}</rdf:li>", "", 1))


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in files
        if "prototag.library" not in path.name
    }


@pytest.fixture
def photo(photos: Path) -> Path:
    return photos / "003.jpg"


def test_accepted_tags_go_out_as_the_persons_own(library, photos, photo):
    pictures = {path: path.read_bytes() for path in photos.glob("*.jpg")}
    library.accept([photo], ["animal|cat", "sofa"])
    assert library.status().unwritten == 1
    plan = library.plan_sync()
    assert [change.image for change in plan.outgoing] == [photo]
    assert not sidecar(photo).exists()
    done = library.sync(plan)
    assert (done.written, done.added, done.problems) == (1, 2, [])
    assert library.status().unwritten == 0
    found = metadata.read_keywords(photo)
    assert ({*found.tags}, found.added) == ({"animal|cat", "sofa"}, ())
    assert {path: path.read_bytes() for path in photos.glob("*.jpg")} == pictures


def test_tags_of_chosen_pictures_only_are_written(library):
    first, second = library.pictures(limit=2)
    library.accept([first, second], ["mine"])
    plan = library.plan_sync([first])
    assert len(plan.outgoing) == 1
    assert library.sync(plan).written == 1
    later = library.plan_sync()
    assert len(later.outgoing) == 1
    assert library.sync(later).written == 1
    assert not library.plan_sync()


def test_the_second_sync_does_nothing(library, photos, photo, everything):
    library.accept([photo, photos / "004.jpg"], ["cat"])
    library.reject([photos / "005.jpg"], ["cat"])
    library.sync()
    files, rows = contents(photos), everything(library)
    assert not library.plan_sync()
    assert library.sync() == syncing.SyncReport()
    library.scan()
    assert not library.plan_sync()
    assert (contents(photos), everything(library)) == (files, rows)


def test_labels_from_files_are_imported(library, photo):
    metadata.apply(metadata.plan_own(photo, ["lamp"]))
    plan = library.plan_sync()
    assert [(row.tags, row.gone) for row in plan.incoming] == [(["lamp"], [])]
    assert "lamp" not in library.picture(photo).tags
    assert library.sync().incoming == 1
    assert "lamp" in library.picture(photo).tags
    sidecar(photo).unlink()
    assert [(row.tags, row.gone) for row in library.plan_sync().incoming] == [([], ["lamp"])]
    library.sync()
    assert "lamp" not in library.picture(photo).tags
    assert library.picture(photo).rejected == []  # nobody was asked


@pytest.mark.parametrize("entry", ["cat", "animal/cat", "animal|cat"])
def test_a_tag_that_vanished_from_any_list_is_rejected(library, photo, entry):
    library.accept([photo], ["animal|cat", "sofa"])
    library.sync()
    without(photo, entry)
    plan = library.plan_sync()
    assert plan.rejected == [(library.picture(photo).number, "animal|cat")]
    done = library.sync(plan)
    assert (done.rejected, done.written) == (1, 1)
    view = library.picture(photo)
    assert (view.accepted, view.rejected) == (["sofa"], ["animal|cat"])
    assert library.history(1)[0][2:4] == ("animal|cat", "rejected")
    assert library.history(1)[0].by == "sidecar"
    assert "cat" not in sidecar(photo).read_text()
    assert not library.plan_sync()


def test_a_rejected_tag_is_never_resurrected(library, photos, photo):
    metadata.apply(metadata.plan_own(photo, ["lamp"]))
    library.sync()
    library.reject([photo], ["lamp"])
    for _ in range(2):
        library.scan()
        plan = library.plan_sync()
        assert plan.kept == [(library.picture(photo).number, "lamp")]
        library.sync(plan)
        assert library.picture(photo).rejected == ["lamp"]
    assert metadata.read_keywords(photo).tags == ("lamp",)  # what a person wrote is not removed
    metadata.apply(metadata.plan_own(photos / "004.jpg", ["lamp"]))
    (photos / "copy.jpg").write_bytes(photo.read_bytes())  # whose sidecar says so, too
    sidecar(photos / "copy.jpg").write_bytes(sidecar(photo).read_bytes())
    library.scan()
    library.sync()
    assert library.picture(photo).rejected == ["lamp"]


def test_a_tag_given_again_in_the_files_where_it_was_taken_away_is_there_again(library, photo):
    library.accept([photo], ["cat", "sofa"])
    library.sync()
    without(photo, "cat")
    library.sync()
    assert library.picture(photo).rejected == ["cat"]
    metadata.apply(metadata.plan_own(photo, ["cat"]))
    assert library.sync().restored == 1
    assert "cat" in library.picture(photo).tags
    assert library.picture(photo).rejected == []
    assert not library.plan_sync()


def test_an_accepted_tag_that_stood_there_already_and_vanishes_is_rejected(library, photo):
    metadata.apply(metadata.plan_own(photo, ["lamp", "sofa"]))
    library.sync()
    library.accept([photo], ["lamp"])
    assert library.sync().written == 0
    metadata.apply(metadata.plan_own(photo, [], removed=["lamp"]))
    assert library.sync().rejected == 1
    assert library.picture(photo).rejected == ["lamp"]
    assert metadata.read_keywords(photo).tags == ("sofa",)


def test_undone_and_synced_leaves_the_files_as_before(library, photos, photo):
    before = contents(photos)
    library.accept([photo], ["cat"])
    library.sync()
    undo_last(library)
    assert library.sync().removed == 1
    assert contents(photos).keys() == before.keys()
    assert not library.plan_sync()


def test_a_deleted_sidecar_rejects_nothing(library, photo):
    library.accept([photo], ["cat"])
    library.sync()
    sidecar(photo).unlink()
    plan = library.plan_sync()
    assert (plan.rejected, len(plan.outgoing)) == ([], 1)
    library.sync(plan)
    assert metadata.read_keywords(photo).tags == ("cat",)


def test_a_note_of_what_never_reached_the_disk_rejects_nothing(library, photo):
    library.accept([photo], ["cat"])
    place = os.fsencode(photo)
    with library.store.write() as conn:  # as a process leaves it that was killed before it wrote
        conn.execute("INSERT INTO written_tags VALUES (?, 'cat', 1, 0, 'sidecar')", (place,))
    assert library.plan_sync().rejected == []
    assert library.sync().written == 1
    assert library.picture(photo).accepted == ["cat"]
    assert not library.plan_sync()


def test_killed_after_the_sidecar_was_written(library, photo):
    library.accept([photo], ["cat"])
    change = library.plan_sync().outgoing[0]
    with library.store.write() as conn:
        conn.execute(
            "INSERT INTO written_tags VALUES (?, 'cat', 1, 0, 'sidecar')", (os.fsencode(photo),)
        )
    metadata.apply(change)
    assert library.sync().written == 0
    without(photo, "cat")
    assert library.sync().rejected == 1


def test_a_renamed_tag_is_renamed_in_sidecars(library, photo):
    library.accept([photo], ["cat"])
    library.sync()
    library.rename("cat", "kitten")
    library.sync()
    assert metadata.read_keywords(photo).tags == ("kitten",)
    assert library.picture(photo).accepted == ["kitten"]
    assert not library.plan_sync()


def test_copies_are_written_beside_each(library, photos, photo):
    copy = photos / "sub" / "copy.jpg"
    copy.parent.mkdir()
    copy.write_bytes(photo.read_bytes())
    library.scan()
    library.accept([photo], ["cat"])
    assert library.sync().written == 2
    without(copy, "cat")
    library.sync()
    assert library.picture(photo).rejected == ["cat"]
    assert not any("cat" in metadata.read_keywords(path).tags for path in (photo, copy))


def test_a_broken_sidecar_is_reported_and_not_changed(library, photo):
    library.accept([photo], ["cat"])
    sidecar(photo).write_text("<x:xmpmeta")
    done = library.sync()
    assert done.written == 0
    assert any("It was not changed" in problem for problem in done.problems)
    assert sidecar(photo).read_text() == "<x:xmpmeta"
    assert library.picture(photo).accepted == ["cat"]


def test_folder_names_stay_tags_after_a_sync(tmp_path, photos):
    for name in ("sea", "sky"):
        (tmp_path / "sorted" / name).mkdir(parents=True)
    (tmp_path / "sorted" / "sea" / "a.jpg").write_bytes((photos / "000.jpg").read_bytes())
    (tmp_path / "sorted" / "sky" / "b.jpg").write_bytes((photos / "001.jpg").read_bytes())
    with Library.create(tmp_path / "sorted", crops="fast", cache=None) as library:
        library.scan()
        library.decide([(1, "boat", ACCEPTED)])
        library.sync()
        library.scan()
        assert library.picture(1).tags == ["boat", "sea"]
        assert library.picture(2).tags == ["sky"]
        assert not library.plan_sync()


def test_a_sync_stops_between_files_and_the_next_one_resumes(library, photos):
    library.accept(library.pictures(limit=8), ["evening"])
    asked = []

    def stop():
        asked.append(1)
        return len(asked) > 3

    plan = library.plan_sync()
    assert len(plan.outgoing) == 8
    done = library.sync(plan, stop=stop)
    assert 1 <= done.written <= 3
    assert done.left == 8 - done.written
    assert len([*photos.glob("*.xmp")]) == done.written
    assert not [*photos.glob(".*")]  # nothing half written
    again = library.sync()
    assert (again.written, again.left, again.rejected) == (done.left, 0, 0)
    assert len([*photos.glob("*.xmp")]) == 8
    assert not library.plan_sync()
    assert library.status().unwritten == 0
