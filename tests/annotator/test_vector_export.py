"""A folder of vectors: made piece by piece, gone on with, read with suspicion, learned from."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tagged
from prototag import Annotator, metadata
from prototag.annotator.assess import assess, assess_vectors
from prototag.annotator.vector_export import write_vectors
from prototag.engine.dask import Dask
from prototag.errors import DatasetError, TrainingError
from prototag.features import Extractor
from prototag.features.vector_folder import VectorFolder


def extractor(**settings):
    return Extractor(**{"crops": "fast", "cache": None, **settings})


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    tagged.collection(folder, 60)
    (folder / "007.jpg").write_bytes(b"no picture")
    return folder


@pytest.fixture(scope="module")
def made(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "vectors"
    write_vectors(metadata.collect(photos), extractor(), path, rows=16)
    return path


@pytest.fixture
def copied(made, tmp_path):
    return shutil.copytree(made, tmp_path / "vectors")


def test_a_folder_has_what_the_collection_has(photos, made):
    folder, found = VectorFolder(made), metadata.collect(photos)
    features = extractor().extract(found.images)
    assert_array_equal(folder.X.load(), features.vectors)
    assert len(folder) == 59
    assert folder.unreadable == 1
    rows = [found.tags[i] for i in features.kept]
    assert_array_equal(folder.Y.toarray(), metadata.vocabulary(rows).matrix(rows).toarray())
    pictures = list(folder.pictures)
    assert [p.tags for p in pictures] == rows
    assert [p.digest for p in pictures] == features.digests
    assert pictures[0].path == "000.jpg"
    folder.verify()


def test_a_killed_run_resumes_with_its_pieces(photos, made, tmp_path, monkeypatch):
    """Killed before each write in turn, then to the end: the same bytes."""
    from prototag.annotator import vector_export

    class Killed(BaseException):
        pass

    real, left = vector_export.replacing, [0]

    def replacing(target):
        if not left[0]:
            raise Killed
        left[0] -= 1
        return real(target)

    found, path = metadata.collect(photos), tmp_path / "vectors"
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(vector_export, "replacing", replacing)
        for lives in range(1, 24, 3):
            left[0] = lives
            try:
                seen.append(write_vectors(found, extractor(), path, rows=16).n_resumed)
            except Killed:
                assert not (path / "manifest.json").exists()
    again = write_vectors(found, extractor(), path, rows=16)
    assert again.n_resumed == 4
    assert [skipped.source for skipped in again.skipped] == ["007.jpg"]
    assert {f.name: f.read_bytes() for f in path.iterdir()} == {
        f.name: f.read_bytes() for f in made.iterdir()
    }


def test_a_changed_picture_recomputes_its_piece(photos, tmp_path):
    own = shutil.copytree(photos, tmp_path / "photos")
    path = tmp_path / "vectors"
    write_vectors(metadata.collect(own), extractor(), path, rows=16)
    tagged.picture(["blue"], 99).save(own / "020.jpg")
    again = write_vectors(metadata.collect(own), extractor(), path, rows=16)
    assert again.n_resumed == 3
    expected = extractor().extract([own / "020.jpg"]).vectors[0]
    assert_array_equal(again.folder.X.load()[19], expected)  # without 007.jpg


def test_other_settings_are_refused(photos, copied, tmp_path):
    found = metadata.collect(photos)
    with pytest.raises(DatasetError, match=r"begun with .*crops fast.*crops large.* is asked for"):
        write_vectors(found, extractor(crops="large"), copied, rows=16)
    with pytest.raises(DatasetError, match=r"16 rows a piece, and .* 32 rows"):
        write_vectors(found, extractor(), copied, rows=32)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "letter.txt").touch()
    with pytest.raises(DatasetError, match="is not empty, and no folder of vectors"):
        write_vectors(found, extractor(), tmp_path / "own")
    with pytest.raises(TrainingError, match="no picture has a tag"):
        write_vectors(metadata.Collected(), extractor(), tmp_path / "none")


@pytest.mark.bits
def test_a_cluster_makes_the_same_folder(photos, made, tmp_path):
    with Dask.local(2) as engine:
        path = tmp_path / "vectors"
        write_vectors(metadata.collect(photos), extractor(engine=engine), path, rows=16)
    assert {f.name: f.read_bytes() for f in path.iterdir()} == {
        f.name: f.read_bytes() for f in made.iterdir()
    }


@pytest.mark.bits
def test_learning_from_a_folder_is_learning_from_the_pictures(photos, made, tmp_path):
    settings = {"crops": "fast", "cache": None, "keep_thumbnails": False}
    pictures = Annotator(**settings).fit(photos)
    stored = Annotator(cache=None).fit(VectorFolder(made))
    assert stored.tags == pictures.tags
    assert stored.training_summary == pictures.training_summary
    X = np.random.default_rng(0).random((4, pictures.model.n_features), np.float32)
    assert_array_equal(stored.model.scores(X), pictures.model.scores(X))
    stored.save(tmp_path / "a.prototag")
    loaded = Annotator.load(tmp_path / "a.prototag", cache=None)
    new = tagged.collection(tmp_path / "new", 3, start=300, listed=False)
    assert list(loaded.annotate(new)) == list(pictures.annotate(new))
    found = metadata.collect(photos)
    here = assess(loaded, found.images, found.tags)
    there = assess_vectors(loaded, VectorFolder(made))
    assert there.result.figures == pytest.approx(here.result.figures)
    assert there.n_trained_on == here.n_trained_on == 59


def test_vectors_of_another_kind_are_not_compared(made):
    annotator = Annotator(crops="large", cache=None)
    with pytest.raises(DatasetError, match="crops 'fast', and the model needs"):
        VectorFolder(made).columns(annotator.extractor)


HOSTILE = {
    "a path outside": lambda m: m["pieces"][0]["vectors"].update(file="../../secret.npy"),
    "an absolute path": lambda m: m["pieces"][0]["pictures"].update(file="/etc/passwd"),
    "an address": lambda m: m["pieces"][0]["vectors"].update(file="http://host/vectors-00000.npy"),
    "a file of another kind": lambda m: m["pieces"][0].update(vectors=m["pieces"][0]["indices"]),
    "rows that lie": lambda m: m["pieces"][0].update(rows=10**9),
    "no whole number": lambda m: m["pieces"][0].update(rows=True),
    "below zero": lambda m: m["pieces"][0].update(rows=-1),
    "no pieces": lambda m: m.update(pieces=[]),
    "pieces of words": lambda m: m.update(pieces="many"),
    "columns that lie": lambda m: m.update(feature_groups=[["last", 5]]),
    "tags twice": lambda m: m.update(tags=["a", "a"]),
    "tags of numbers": lambda m: m.update(tags=[1]),
    "another format": lambda m: m.update(format="other"),
    "a later version": lambda m: m.update(version=3),
    "no checksum": lambda m: m["pieces"][0]["vectors"].pop("sha256"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_manifest_is_refused(name, copied):
    place = copied / "manifest.json"
    told = json.loads(place.read_text())
    HOSTILE[name](told)
    place.write_text(json.dumps(told))
    with pytest.raises(DatasetError):
        VectorFolder(copied)


@pytest.mark.parametrize("text", ["", "[", "[]", "null", "[" * 100_000, '{"format": 1}'])
def test_what_is_no_manifest_is_refused(text, copied):
    (copied / "manifest.json").write_text(text)
    with pytest.raises(DatasetError):
        VectorFolder(copied)


def test_too_few_tags_for_the_numbers_are_refused(copied):
    place = copied / "manifest.json"
    told = json.loads(place.read_text())
    told["tags"] = told["tags"][:1]
    place.write_text(json.dumps(told))
    with pytest.raises(DatasetError, match="the tags of piece 0 are damaged"):
        VectorFolder(copied).Y  # noqa: B018


def test_a_short_or_changed_file_is_reported(copied):
    file = copied / "vectors-00001.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    folder = VectorFolder(copied)
    with pytest.raises(DatasetError, match=r"vectors-00001\.npy does not match its checksum"):
        folder.verify()
    file.write_bytes(data[:-10])
    with pytest.raises(DatasetError, match="it is damaged"):
        VectorFolder(copied)
    file.unlink()
    with pytest.raises(DatasetError, match=r"vectors-00001\.npy"):
        VectorFolder(copied)


@pytest.mark.parametrize("line", ["", "{}", '{"path": 1, "digest": "", "tags": []}', "x" * 99])
def test_a_line_that_is_no_picture_is_reported(line, copied):
    file = copied / "pictures-00000.jsonl"
    lines = file.read_text().splitlines()
    lines[2] = line
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(DatasetError, match=r"pictures-00000\.jsonl, line 3, is not a picture"):
        list(VectorFolder(copied).pictures)


def test_an_unfinished_folder_is_reported(copied):
    (copied / "manifest.json").unlink()
    with pytest.raises(DatasetError, match="not complete: run `prototag features` again"):
        VectorFolder(copied)
