"""One pass over pictures: vectors, identities, thumbnails, each decoded once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prototag import events
from prototag.events import Event, Tally
from prototag.features import extractor
from prototag.features.backbones import EmbeddedBackbone
from prototag.features.extractor import Extractor, Picture
from prototag.images import decode
from prototag.images.crops import THUMBNAIL_SIDE, ThumbnailBudget, thumbnail
from prototag.images.decode import digest

from ..pictures import encoded, folder, scene
from .test_transformer import cool


@pytest.fixture(scope="module")
def network() -> EmbeddedBackbone:
    return EmbeddedBackbone()


@pytest.fixture
def opened(monkeypatch) -> list[tuple[int, int]]:
    """The sizes that pictures were asked for, one for each time that one was decoded."""
    sizes: list[tuple[int, int]] = []

    def counting(source, *, at_least, max_pixels):
        sizes.append(at_least((300, 200)) if callable(at_least) else at_least)
        return decode.open_image(source, at_least=at_least, max_pixels=max_pixels)

    monkeypatch.setattr(extractor, "open_image", counting)
    return sizes


@pytest.mark.parametrize("cached", [False, True])
def test_every_kept_picture_has_its_identity(network, tmp_path: Path, cached: bool) -> None:
    files = folder(tmp_path / "photos", 6, broken_every=3)
    copied = shutil.copy(files[0], tmp_path / "copy.jpg")
    image = scene(seed=9)
    sources = [*files, copied, files[1].read_bytes(), image, np.asarray(image)]
    cool(files)
    cache = tmp_path / "cache.sqlite" if cached else None
    made = Extractor(network, crops="whole", cache=cache)
    first = made.extract(sources)
    assert first.digests == [digest(sources[i]) for i in first.kept]
    assert first.digests[0] == first.digests[4]  # the copy
    assert first.digests[-1] == first.digests[-2]
    again = made.extract(sources)
    assert again.n_cached == (6 if cached else 0)
    assert again.digests == first.digests


def test_an_untouched_file_is_known_without_reading_it(network, tmp_path: Path, monkeypatch):
    files = folder(tmp_path / "photos", 3)
    cool(files)
    made = Extractor(network, crops="whole", cache=tmp_path / "cache.sqlite")
    first = made.extract(files)

    def refuse(path):
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(extractor, "read_bytes", refuse)
    assert made.extract(files).digests == first.digests


def test_a_changed_file_has_another_identity(network, tmp_path: Path) -> None:
    (file,) = folder(tmp_path / "photos", 1)
    cool([file])
    made = Extractor(network, crops="whole", cache=tmp_path / "cache.sqlite")
    (first,) = made.extract([file]).digests
    file.write_bytes(encoded(scene(48, 36, seed=5), "JPEG"))
    (second,) = made.extract([file]).digests
    assert second == digest(file) != first


def test_keywords_written_into_a_file_keep_its_vector(network, tmp_path: Path) -> None:
    (file,) = folder(tmp_path / "photos", 1)
    made = Extractor(network, crops="whole", cache=tmp_path / "cache.sqlite")
    before = made.extract([file])
    data, words = file.read_bytes(), b"http://ns.adobe.com/xap/1.0/\0<x/>"
    file.write_bytes(data[:2] + b"\xff\xe1\0" + bytes([len(words) + 2]) + words + data[2:])
    after = made.extract([file])
    assert (before.n_cached, after.n_cached) == (0, 1)
    assert after.digests == before.digests == [digest(file)]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_vector_and_thumbnail_come_of_one_decoding(network, tmp_path, opened, n_jobs) -> None:
    files = folder(tmp_path / "photos", 10, broken_every=5, size=(300, 200))
    made = Extractor(network, crops="whole", n_jobs=n_jobs, batch_size=3, cache=None)
    features = made.extract(files, thumbnails=True)
    assert opened == [(224, 224)] * 10
    assert len(features.thumbnails) == len(features.kept) == 8
    assert [small[8:12] for small in features.thumbnails] == [b"WEBP"] * 8
    good = [files[i] for i in features.kept]
    expected = [thumbnail(decode.open_image(file, at_least=(224, 224))) for file in good]
    assert features.thumbnails == expected


def test_a_known_picture_is_decoded_small_for_its_thumbnail_alone(
    network, tmp_path: Path, opened
) -> None:
    files = folder(tmp_path / "photos", 8, size=(300, 200))
    cool(files)
    made = Extractor(network, crops="whole", cache=tmp_path / "cache.sqlite", batch_size=3)
    first = made.extract(files[:6])
    opened.clear()
    renamed = files[0].rename(tmp_path / "renamed.jpg")  # known by content, not by stamp
    features = made.extract([renamed, *files[1:]], thumbnails=True)
    assert opened == [(THUMBNAIL_SIDE, THUMBNAIL_SIDE)] * 6 + [(224, 224)] * 2
    assert features.n_cached == 6
    assert np.array_equal(features.vectors[:6], first.vectors)
    assert all(features.thumbnails)
    opened.clear()
    assert made.extract(files[1:]).thumbnails == [b""] * 7
    assert opened == []


def test_thumbnails_end_at_the_limit_and_no_more_are_made(
    network, tmp_path: Path, opened, monkeypatch
) -> None:
    files = folder(tmp_path / "photos", 40, size=(120, 90))
    cool(files)
    made = Extractor(network, crops="whole", cache=tmp_path / "cache.sqlite", batch_size=2)
    every = made.extract(files, thumbnails=True).thumbnails
    assert all(every)
    room = sum(map(len, every[:3]))
    monkeypatch.setattr(extractor, "ThumbnailBudget", lambda side: ThumbnailBudget(room, side))
    opened.clear()
    limited = made.extract(files, thumbnails=True)
    assert [bool(small) for small in limited.thumbnails] == [True] * 3 + [False] * 37
    assert limited.n_cached == 40
    assert len(opened) < 12  # the rest was not even opened


def test_a_thumbnail_that_cannot_be_made_costs_no_vector(network, tmp_path: Path) -> None:
    files = folder(tmp_path / "photos", 2)
    cool(files)
    cache = tmp_path / "cache.sqlite"
    Extractor(network, crops="whole", cache=cache).extract(files)
    strict = Extractor(network, crops="whole", cache=cache, max_pixels=10)
    features = strict.extract(files, thumbnails=True)
    assert features.kept.tolist() == [0, 1]
    assert features.thumbnails == [b"", b""]


def test_progress_tells_what_came_from_where(network, tmp_path: Path) -> None:
    files = folder(tmp_path / "photos", 12, broken_every=4)
    cool(files)
    told: list[Event] = []
    cache = tmp_path / "cache.sqlite"
    Extractor(network, crops="whole", cache=cache).extract(files[:6])
    made = Extractor(network, crops="whole", cache=cache, progress=told.append, batch_size=4)
    for thumbnails in (False, True):
        told.clear()
        made.extract(files, thumbnails=thumbnails)
        assert (told[-1].done, told[-1].total) == (12, 12)
        assert told[-1].seconds_left == 0
        *rate, cached, failed = told[-1].message.split(", ")
        assert failed == "3 cannot be read"
        if thumbnails:  # by now the cache knows all
            assert (rate, cached) == ([], "9 from the cache")
        else:
            assert cached == "5 from the cache"
            assert rate[0].endswith(" pictures/s")


def test_names_of_the_package_load_without_scikit_learn() -> None:
    code = (
        "import sys; from prototag.features import Extractor, Features, Skipped, VectorCache; "
        "assert 'sklearn' not in sys.modules; from prototag.features import FeatureExtractor"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ})


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [100.0]
    monkeypatch.setattr(events.time, "monotonic", lambda: now[0])
    return now


def tallied(computed: int = 0, known: int = 0, failed: int = 0) -> list[Picture]:
    return [
        *(Picture(0, b"") for _ in range(computed)),
        *(Picture(0, b"", is_cached=True) for _ in range(known)),
        *(Picture(0, b"", reason="is empty") for _ in range(failed)),
    ]


def test_it_tells_the_rate_the_cache_and_the_failures(clock) -> None:
    told: list[Event] = []
    tally = Tally(told.append, 2000)
    tally.count(tallied(known=1024))
    assert told[-1].message == "1,024 from the cache"
    assert told[-1].seconds_left is None  # nothing is known of the pace
    clock[0] += 4
    tally.count(tallied(computed=14, failed=2))
    assert told[-1].message == "3.5 pictures/s, 1,024 from the cache, 2 cannot be read"
    assert (told[-1].done, told[-1].total) == (1040, 2000)
    assert told[-1].seconds_left == pytest.approx(4 / 16 * 960)
    assert (tally.computed, tally.cached, tally.unreadable) == (14, 1024, 2)


def test_time_without_computing_does_not_slow_the_rate(clock) -> None:
    tally = Tally(None, 100)
    clock[0] += 2
    tally.count(tallied(computed=10))
    clock[0] += 50
    tally.count(tallied(known=60), cached_cost_nothing=False)  # thumbnails were made of them
    clock[0] += 2
    tally.count(tallied(computed=10))
    assert str(tally) == "5.0 pictures/s, 60 from the cache"


def test_thumbnails_of_known_pictures_foretell_the_rest(clock) -> None:
    told: list[Event] = []
    tally = Tally(told.append, 100)
    clock[0] += 5
    tally.count(tallied(known=50), cached_cost_nothing=False)
    assert told[-1].seconds_left == pytest.approx(5)


def test_an_empty_tally_is_an_empty_string() -> None:
    assert str(Tally(None, 0)) == ""
