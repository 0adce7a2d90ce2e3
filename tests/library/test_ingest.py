"""Scanning: pictures are recognised by what is seen of them, and what is interrupted goes on."""

from __future__ import annotations

import io
import os
import shutil

import numpy as np
import pytest
from PIL import Image

import tagged
from history import undo_last
from prototag import Library, metadata
from prototag.errors import LibraryError
from prototag.library.types import ScanReport


def vectors(library):
    ids, X = library.store.vectors()
    return dict(zip(ids.tolist(), X.tolist(), strict=True))


def test_a_first_scan(library, photos):
    status = library.status()
    assert (status.pictures, status.tagged, status.missing, status.unread) == (12, 12, 0, 0)
    assert status.roots == [photos]
    view = library.picture(photos / "001.jpg")
    assert (view.tags, view.accepted, view.files) == (
        sorted(tagged.tags_of(1)),
        [],
        [photos / "001.jpg"],
    )
    assert library.picture(view.digest) == library.picture(view.number) == view
    assert len(vectors(library)) == 12
    small = Image.open(io.BytesIO(library.thumbnail(view.number)))
    assert (small.format, small.size) == ("WEBP", (64, 48))
    assert library.existing_file(view.number) == photos / "001.jpg"


def test_thumbnails_are_at_most_256_wide_and_high(tmp_path):
    tagged.picture(["red"], 0).resize((900, 600)).save(tmp_path / "large.jpg")
    with Library.create(tmp_path, crops="fast", cache=None) as library:
        library.scan()
        assert Image.open(io.BytesIO(library.thumbnail(1))).size == (256, 171)


def test_scanning_twice_changes_nothing(library, everything):
    before, known = everything(library), vectors(library)
    assert library.scan() == ScanReport(total=12)
    assert everything(library) == before
    assert vectors(library) == known


def test_moved_renamed_and_copied_files_are_recognised(library, photos, monkeypatch):
    known = vectors(library)
    monkeypatch.setattr(library.extractor, "extract", None)  # no network is asked
    (photos / "sub").mkdir()
    (photos / "000.jpg").rename(photos / "sub" / "other.jpg")
    shutil.copy(photos / "001.jpg", photos / "sub" / "copy.jpg")
    scanned = library.scan()
    assert (scanned.new, scanned.moved, scanned.vanished, scanned.total) == (0, 2, 0, 13)
    moved = library.picture(photos / "sub" / "other.jpg")
    assert moved.number == 1
    assert moved.tags == sorted(tagged.tags_of(0))  # though the list does not name it any more
    assert moved.files == [photos / "sub" / "other.jpg", photos / "000.jpg"]
    assert library.picture(2).files == [photos / "001.jpg", photos / "sub" / "copy.jpg"]
    assert vectors(library) == known
    assert library.prune() == 0
    assert library.picture(1).files == [photos / "sub" / "other.jpg"]
    assert library.picture(1).tags == sorted(tagged.tags_of(0))


def test_what_was_moved_out_of_the_reach_of_a_list_keeps_its_tags(library, photos):
    library.accept([1], ["lamp"])
    library.sync()
    (photos / "sub").mkdir()
    for name in ("000.jpg", "000.jpg.xmp"):
        (photos / name).rename(photos / "sub" / name)
    library.scan()
    tags = sorted([*tagged.tags_of(0), "lamp"])
    assert library.picture(1).tags == tags
    library.accept([1], ["sofa"])
    library.sync()  # writes beside it, so that its files are read anew
    library.prune()
    library.scan()
    assert library.picture(1).tags == sorted([*tags, "sofa"])
    metadata.apply(metadata.plan_own(photos / "sub" / "000.jpg", tagged.tags_of(0)))
    library.scan()
    metadata.apply(metadata.plan_own(photos / "sub" / "000.jpg", [], removed=tagged.tags_of(0)))
    library.scan()
    assert library.picture(1).tags == ["lamp", "sofa"]
    assert library.scan() == ScanReport(total=12, problems=library.scan().problems)


def test_names_of_folders_are_those_of_the_folder_it_is_in(photos, tmp_path):
    for name in ("sea", "sky"):
        (tmp_path / "sorted" / name).mkdir(parents=True)
    for name in ("000.jpg", "001.jpg"):
        shutil.copy(photos / name, tmp_path / "sorted" / "sea" / name)
    with Library.create(tmp_path / "sorted", crops="fast", cache=None) as library:
        library.scan()
        (tmp_path / "sorted" / "sea" / "000.jpg").rename(tmp_path / "sorted" / "sky" / "a.jpg")
        library.scan()
        assert [library.picture(number).tags for number in (1, 2)] == [["sky"], ["sea"]]


def test_keywords_written_into_a_file_do_not_make_it_another(library, photos):
    metadata.apply_inside(metadata.plan_embed(photos / "000.jpg", ["lamp"]))
    scanned = library.scan()
    assert (scanned.new, scanned.moved, scanned.vanished) == (0, 0, 0)


def test_vanished_pictures_are_kept_until_pruned(library, photos):
    library.accept([photos / "000.jpg"], ["cat"])
    (photos / "000.jpg").unlink()
    assert library.scan().vanished == 1
    assert library.scan().vanished == 0
    view = library.picture(1)
    assert view.missing
    assert view.tags == sorted([*tagged.tags_of(0), "cat"])
    assert library.pictures(state="missing") == [1]
    tagged.collection(photos, 1, listed=False)  # the very file is back
    library.scan()
    assert not library.picture(1).missing
    (photos / "000.jpg").unlink()
    library.scan()
    assert library.prune() == 1
    assert library.status().pictures == 11
    assert library.history() == []
    assert library.check() == []


def test_a_file_that_shows_something_else_is_another_picture(library, photos):
    tagged.picture(["blue"], 77).save(photos / "000.jpg")
    scanned = library.scan()
    assert (scanned.new, scanned.changed, scanned.vanished) == (0, 1, 1)
    assert library.picture(photos / "000.jpg").number == 13


def test_unreadable_files_are_reported_and_the_others_are_ingested(library, photos):
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    (photos / "empty.png").write_bytes(b"")
    tagged.collection(photos, 1, start=50, listed=False)
    scanned = library.scan()
    assert (scanned.new, scanned.unreadable, scanned.total) == (1, 2, 13)
    assert {problem.split(":")[0] for problem in scanned.problems} == {
        str(photos / "broken.jpg"),
        str(photos / "empty.png"),
    }


def test_an_interrupted_scan_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr("prototag.library.ingest.BATCH_PICTURES", 4)
    tagged.collection(tmp_path, 12)
    with Library.create(tmp_path, crops="fast", cache=None) as library:
        asked = iter([False, False, True])
        assert library.scan(stop=lambda: next(asked)).new == 8
        assert library.status().pictures == 8
        assert library.scan().new == 4
        assert library.status().tagged == 12
        assert library.scan() == ScanReport(total=12)


def test_a_drive_that_is_not_there_takes_nothing_away(tmp_path):
    photos = tmp_path / "photos"
    tagged.collection(photos, 3)
    with Library.create(photos, tmp_path / "a.library", crops="fast", cache=None) as library:
        library.scan()
        photos.rename(tmp_path / "away")
        with pytest.raises(LibraryError, match="does not exist"):
            library.scan()
        photos.mkdir()  # a mount point without its disk
        with pytest.raises(LibraryError, match=r"contains no pictures.*stay in the library"):
            library.scan()
        assert library.status().missing == 0


def test_library_and_pictures_may_be_moved_together(library, photos, tmp_path):
    library.accept([1], ["cat"])
    library.close()
    photos.rename(tmp_path / "elsewhere")
    with Library(tmp_path / "elsewhere" / "prototag.library", cache=None) as moved:
        scanned = moved.scan()
        assert (scanned.new, scanned.moved, scanned.vanished) == (0, 12, 0)
        assert moved.picture(tmp_path / "elsewhere" / "000.jpg").accepted == ["cat"]


def test_names_that_are_no_text(library, photos):
    odd = os.fsencode(photos) + b"/\xff\n\xfe.jpg"
    with open(odd, "wb") as file:
        tagged.picture(["red"], 99).save(file, "JPEG")
    assert library.scan().new == 1
    assert os.fsencode(library.existing_file(13)) == odd
    assert library.scan() == ScanReport(total=13)


def test_changed_tags_in_files_are_imported(library, photos):
    metadata.apply(metadata.plan_own(photos / "000.jpg", ["animal|cat"]))
    metadata.apply(metadata.plan_own(photos / "001.jpg", ["cat"]))
    assert library.scan().changed == 2
    assert "animal|cat" in library.picture(2).tags  # the only path that ends so
    (photos / "000.jpg.xmp").unlink()
    library.scan()
    assert "cat" not in " ".join(library.picture(1).tags)


def test_a_decision_outweighs_a_file(library, photos):
    tag = tagged.tags_of(0)[0]
    library.reject([1], [tag])
    metadata.apply(metadata.plan_own(photos / "000.jpg", [tag, "lamp"]))
    library.scan()
    assert tag in library.picture(1).rejected
    assert "lamp" in library.picture(1).tags
    undo_last(library)
    assert tag in library.picture(1).tags


def test_corrections_in_files_are_certain(library, photos):
    photo = photos / "000.jpg"
    metadata.apply(metadata.plan(photo, ["lamp", "sofa"]))
    library.scan()
    assert "lamp" not in library.picture(1).tags  # proposed by a program, seen by nobody
    sidecar = photos / "000.jpg.xmp"
    sidecar.write_text(sidecar.read_text().replace("<rdf:li>lamp</rdf:li>", "", 1))
    library.scan()
    assert library.picture(1).rejected == ["lamp"]
    assert "sofa" in library.picture(1).tags


def test_vectors_of_another_backbone_are_recomputed(library):
    before = vectors(library)
    with library.store.write() as conn:
        conn.execute("UPDATE settings SET value = ? WHERE key = 'recipe'", (b"another".hex(),))
        conn.execute("UPDATE settings SET value = '0' WHERE key = 'images'")
        conn.execute("UPDATE vectors SET recipe = ?", (b"another",))
    library.scan()
    after = vectors(library)
    assert after.keys() == before.keys()
    assert np.allclose([*after.values()], [*before.values()], atol=1e-5)


def test_a_broken_sidecar_loses_no_tags(library, photos):
    metadata.apply(metadata.plan_own(photos / "000.jpg", ["lamp"]))
    library.scan()
    (photos / "000.jpg.xmp").write_text("<x")
    scanned = library.scan()
    assert any("000.jpg.xmp" in problem for problem in scanned.problems)
    assert "lamp" in library.picture(1).tags


def test_a_list_is_a_root_too(photos):
    (photos / "prototag.library").unlink()
    (photos / "some.csv").write_text("file,tags\n000.jpg,a;b\n001.jpg,b;\n")
    with Library.create(photos / "some.csv", crops="fast", cache=None, kind="listing") as library:
        assert library.path == photos / "prototag.library"
        assert library.scan().new == 2
        assert library.picture(photos / "000.jpg").tags == ["a", "b"]


def test_pictures_have_the_tags_of_their_files_as_soon_as_they_are_read(tmp_path, everything):
    """While the others were read, every picture counted as one without tags."""
    tagged.collection(tmp_path, 200)
    seen = []

    def asked():
        status = library.status()
        seen.append((status.pictures, status.tagged))
        facets = library.facets()
        assert sum(facets.tags.values()) >= status.tagged
        return False

    with Library.create(tmp_path, crops="fast", cache=None) as library:
        library.scan(stop=asked)
        assert any(0 < pictures < 200 for pictures, _ in seen)
        assert all(tagged == pictures for pictures, tagged in seen)
        after = everything(library)
        assert library.scan() == ScanReport(total=200)
        assert everything(library) == after


def test_an_interrupted_scan_resumes_to_the_same_labels(tmp_path, everything):
    for name in ("whole", "parted"):
        files = tagged.collection(tmp_path / name, 150)
        shutil.copy(files[0], tmp_path / name / "copy.jpg")  # united with the tags of another place
        lines = (tmp_path / name / "metadata.jsonl").read_text()
        lines += '{"file_name": "copy.jpg", "tags": ["animal|fox"]}\n'
        lines += (
            '{"file_name": "001.jpg", "tags": ["fox"]}\n{"file_name": "140.jpg", "tags": ["FOX"]}'
        )
        (tmp_path / name / "metadata.jsonl").write_text(lines)
    found = []
    for name in ("whole", "parted"):
        with Library.create(tmp_path / name, crops="fast", cache=None) as library:
            asked = iter([False, True])
            if name == "parted":
                library.scan(stop=lambda asked=asked: next(asked))
                assert 0 < library.status().pictures < 150
                assert library.status().tagged == library.status().pictures
            library.scan()
            rows = everything(library)
            found.append((rows["labels"], rows["tags"], library.status().pictures))
    assert found[0] == found[1]
    assert {row[0] for row in found[0][1]} >= {"animal|fox"}


def test_what_interrupts_a_scan_ends_all_of_its_stages(tmp_path):
    import threading

    tagged.collection(tmp_path, 200)
    with Library.create(tmp_path, crops="fast", cache=None) as library:

        def interrupted():
            if library.status().pictures:
                raise KeyboardInterrupt
            return False

        with pytest.raises(KeyboardInterrupt):
            library.scan(stop=interrupted)
        names = [thread.name for thread in threading.enumerate()]
        assert not [name for name in names if "ThreadPool" in name or "ahead" in name]
        assert 0 < library.status().pictures < 200
        assert library.check() == []
        assert library.scan().total == 200
