"""From sources to vectors: order, skips, the cache, resuming, and what a model file keeps."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from prototag.errors import BackboneError, CacheError, ImageError
from prototag.features.backbones import EmbeddedBackbone
from prototag.features.transformer import FeatureExtractor
from prototag.features.vector_cache import VectorCache
from prototag.tagging.reduction import Reduction

from ..pictures import encoded, folder, photographs, scene


@pytest.fixture(scope="module")
def network() -> EmbeddedBackbone:
    return EmbeddedBackbone()


class Counting:
    """The embedded network, counting the pictures that reach it."""

    def __init__(self, network: EmbeddedBackbone) -> None:
        self.network, self.pictures = network, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.network, name)

    def __call__(self, pixels: np.ndarray, names: list[str]) -> np.ndarray:
        return self.alone(pixels, names)

    def alone(self, pixels: np.ndarray, names: list[str]) -> np.ndarray:
        self.pictures += len(pixels)
        return self.network.alone(pixels, names)


def cool(files: list[Path]) -> None:
    """Let files be old enough for their stamps to be trusted."""
    newest = max(file.stat().st_ctime for file in files)
    time.sleep(max(0.0, newest + 2.05 - time.time()))


def test_paths_bytes_images_and_arrays_give_the_same_vector(network, tmp_path: Path) -> None:
    data = encoded(scene(), "PNG")
    (tmp_path / "scene.png").write_bytes(data)
    sources = [
        tmp_path / "scene.png",
        str(tmp_path / "scene.png"),
        data,
        scene(),
        np.asarray(scene()),
    ]
    X = FeatureExtractor(network, crops="whole", cache=None).transform(sources)
    assert X.shape == (5, 1280)
    assert all(np.array_equal(X[0], row) for row in X)


@pytest.mark.parametrize(
    ("crops", "blocks"),
    [
        ("large", [("last", 1280), ("inner", 992)]),
        ("fast", [("last", 1280)]),
        ("paper", [("last", 1280), ("five.last", 1280)]),
        ("five", [("last", 1280)]),
        ("ten", [("last", 1280)]),
    ],
)
def test_blocks_of_the_crops(network, crops: str, blocks: list) -> None:
    made = FeatureExtractor(network, crops=crops, cache=None)
    features = made.extract([scene()])
    assert made.feature_groups == features.feature_groups == blocks
    assert features.vectors.shape == (1, sum(width for _, width in blocks))


def test_whole_and_five_stand_side_by_side(network) -> None:
    both, whole, five = (
        FeatureExtractor(network, crops=crops, cache=None).transform([scene()])
        for crops in ("paper", "fast", "five")
    )
    assert np.array_equal(both, np.hstack([whole, five]))


def test_some_blocks_can_be_wanted_alone(network) -> None:
    sources = [scene(), scene(60, 90), scene(600, 100)]
    both = FeatureExtractor(network, cache=None).transform(sources)
    for names, columns in (
        (["last"], both[:, :1280]),
        (["inner"], both[:, 1280:]),
        (["inner", "last"], np.hstack([both[:, 1280:], both[:, :1280]])),
    ):
        made = FeatureExtractor(network, selected_groups=names, cache=None)
        assert [block.name for block in made.feature_groups] == names
        assert np.array_equal(made.transform(sources), columns)
    with pytest.raises(ValueError, match=r"selected_groups=.*: give some of 'last', 'inner'"):
        FeatureExtractor(network, selected_groups=["first"]).extract([])


def test_a_panorama_is_the_average_of_its_parts(network) -> None:
    image = scene(600, 100)
    parts = [image.crop((left, 0, left + 200, 100)) for left in (0, 200, 400)]
    made = FeatureExtractor(network, cache=None, selected_groups=["last"])
    whole, mean = made.transform([image])[0], made.transform(parts).mean(axis=0)
    assert whole @ mean / np.linalg.norm(whole) / np.linalg.norm(mean) > 0.999


def test_blocks_are_cached_one_by_one(network, tmp_path: Path) -> None:
    files = folder(tmp_path / "photos", 5)
    cool(files)
    counting, cache = Counting(network), tmp_path / "cache.sqlite"
    last = FeatureExtractor(counting, selected_groups=["last"], cache=cache).extract(files[:3])
    assert counting.pictures == 3
    both = FeatureExtractor(counting, cache=cache).extract(files)
    assert (counting.pictures, both.n_cached) == (8, 0)  # of three a block was missing
    assert np.array_equal(both.vectors[:3, :1280], last.vectors)
    inner = FeatureExtractor(counting, selected_groups=["inner"], cache=cache).extract(files)
    assert (counting.pictures, inner.n_cached) == (8, 5)
    assert np.array_equal(inner.vectors, both.vectors[:, 1280:])
    again = FeatureExtractor(counting, cache=cache).extract([*files, files[0].read_bytes()])
    assert (counting.pictures, again.n_cached) == (8, 6)
    assert np.array_equal(again.vectors[:5], both.vectors)


def test_batches_and_threads_change_nothing(network) -> None:
    sources = list(photographs().values())
    one = FeatureExtractor(network, cache=None, batch_size=1).transform(sources)
    assert np.array_equal(
        one, FeatureExtractor(network, cache=None, batch_size=3).transform(sources)
    )
    assert np.array_equal(one, FeatureExtractor(cache=None, n_jobs=3).transform(sources))


def test_broken_files_are_named_and_the_others_kept(network, tmp_path: Path) -> None:
    files = folder(tmp_path, 40, broken_every=5)
    features = FeatureExtractor(network, crops="whole", n_jobs=2, batch_size=4).extract(files)
    assert features.vectors.shape == (32, 1280)
    assert [skipped.index for skipped in features.skipped] == list(range(4, 40, 5))
    assert [skipped.source for skipped in features.skipped] == [str(f) for f in files[4::5]]
    reasons = [skipped.reason for skipped in features.skipped]
    for reason, word in zip(
        reasons, ("truncated", "empty", "not a picture", "limit") * 2, strict=True
    ):
        assert word in reason.lower()
    good = [file for number, file in enumerate(files) if number % 5 != 4]
    assert features.kept.tolist() == [n for n in range(40) if n % 5 != 4]
    alone = FeatureExtractor(network, crops="whole", cache=None).transform(good)
    assert np.array_equal(features.vectors, alone)
    summary = features.summary().splitlines()
    assert summary[0] == "32 of 40 pictures read, 0 from the cache"
    assert summary[1].startswith(f"skipped {files[4]}: cannot be decoded")


def test_transform_refuses_what_it_cannot_give_a_row(network, tmp_path: Path) -> None:
    files = folder(tmp_path, 4, broken_every=2)
    with pytest.raises(ImageError, match=r"2 pictures cannot be read(.|\n)*00001.jpg(.|\n)*00003"):
        FeatureExtractor(network, crops="whole").transform(files)


def test_names_that_a_terminal_would_obey_are_escaped(network, tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"a\x1b[31m\xff\n.jpg")
    file.write_bytes(b"text")
    features = FeatureExtractor(network, crops="whole").extract([file])
    assert features.skipped[0].source == str(file)
    assert r"a\x1b[31m\udcff\n.jpg: is not a picture" in features.summary()
    features.summary().encode()


@pytest.mark.parametrize(("crops", "bound"), [("fast", 0.998), ("large", 0.999)])
@pytest.mark.parametrize("name", ["retina.jpg", "hubble_deep_field.jpg"])
def test_reduced_decoding_keeps_the_vector(network, name, crops, bound) -> None:
    path = photographs()["chelsea.png"].with_name(name)
    with Image.open(path) as image:
        size = (384, 384) if crops == "large" else (224, 224)
        full = np.asarray(image.convert("RGB").resize(size, Image.Resampling.BILINEAR))
    plain = network(full[None])[0]
    ours = FeatureExtractor(network, crops=crops, selected_groups=["last"], cache=None).transform(
        [path]
    )[0]
    assert plain @ ours / np.linalg.norm(plain) / np.linalg.norm(ours) > bound


def test_nothing_in_nothing_out(network) -> None:
    features = FeatureExtractor(network).extract([])
    assert features.vectors.shape == (0, 2272)
    assert features.summary() == "0 of 0 pictures read, 0 from the cache"


def test_one_picture_instead_of_a_list_is_refused(network) -> None:
    for single in ("photo.jpg", b"data", Path("photo.jpg"), scene()):
        with pytest.raises(TypeError, match=r"give a list of pictures, not a single"):
            FeatureExtractor(network).extract(single)


def test_second_run_reads_the_cache(network, tmp_path: Path) -> None:
    files = folder(tmp_path / "photos", 6)
    cool(files)
    counting = Counting(network)
    extractor = FeatureExtractor(counting, crops="whole", cache=tmp_path / "cache.sqlite")
    first = extractor.extract(files)
    assert (counting.pictures, first.n_cached) == (6, 0)
    again = extractor.extract(files)
    assert (counting.pictures, again.n_cached) == (6, 6)
    assert np.array_equal(first.vectors, again.vectors)
    # Other crops are another recipe.
    FeatureExtractor(counting, crops="five", cache=tmp_path / "cache.sqlite").extract(files)
    assert counting.pictures == 6 + 30


def test_renamed_is_recognised_changed_is_seen(network, tmp_path: Path) -> None:
    files = folder(tmp_path / "photos", 4)
    cool(files)
    counting = Counting(network)
    extractor = FeatureExtractor(counting, crops="whole", cache=tmp_path / "cache.sqlite")
    first = extractor.extract(files)
    renamed = files[0].rename(files[0].with_name("renamed.jpg"))
    copied = Path(shutil.copy(files[1], tmp_path / "copied.jpg"))
    same = extractor.extract([renamed, copied, files[1].read_bytes()])
    assert counting.pictures == 4
    assert np.array_equal(same.vectors, first.vectors[[0, 1, 1]])
    # The same size and the same time of modification, but other content.
    before = files[2].stat()
    data = bytearray(files[2].read_bytes())
    data[-40] ^= 0x15
    files[2].write_bytes(bytes(data))
    os.utime(files[2], ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = extractor.extract([files[2]])
    assert counting.pictures == 5
    assert not np.array_equal(changed.vectors[0], first.vectors[2])


def test_memory_pictures_need_no_cache_and_a_bad_cache_is_an_error(network, tmp_path: Path) -> None:
    extractor = FeatureExtractor(network, crops="whole", cache=tmp_path / "cache.sqlite")
    extractor.transform([scene()])
    with VectorCache(tmp_path / "cache.sqlite") as cache:
        assert len(cache) == 0
    (tmp_path / "file").touch()
    with pytest.raises(CacheError, match="cache=None"):
        FeatureExtractor(network, cache=tmp_path / "file" / "x.sqlite").extract([])


def test_a_cache_that_fails_does_not_end_the_run(network, tmp_path: Path) -> None:
    files = folder(tmp_path / "photos", 6)
    with VectorCache(tmp_path / "cache.sqlite") as cache:
        cache._conn.execute("PRAGMA query_only = 1")  # every write fails from here on
        extractor = FeatureExtractor(network, crops="whole", cache=cache, batch_size=2)
        with pytest.warns(UserWarning, match=r"cannot be written: .* The run continues") as caught:
            features = extractor.extract(files)
    assert len(caught) == 1
    assert len(features.kept) == 6


RUN = """
import sys
from pathlib import Path
from prototag.features.transformer import FeatureExtractor
files = sorted(Path(sys.argv[1]).iterdir())
extractor = FeatureExtractor(crops="whole", cache=sys.argv[2], batch_size=4, n_jobs=2)
extractor.extract(files)
"""


def test_a_killed_run_redoes_at_most_one_batch(network, tmp_path: Path) -> None:
    files = folder(tmp_path / "photos", 160)
    path = tmp_path / "cache.sqlite"
    done = 0
    for goal in (12, 48):
        process = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path / "photos"), str(path)])
        while done < goal:
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.01)
            if path.exists():
                with VectorCache(path) as cache:
                    done = len(cache)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with VectorCache(path) as cache:
            done = len(cache)
        assert done % 4 == 0  # whole batches
    counting = Counting(network)
    features = FeatureExtractor(counting, crops="whole", cache=path, batch_size=4).extract(files)
    assert counting.pictures == len(files) - done  # nothing that was stored is done again
    fresh = FeatureExtractor(network, crops="whole", cache=None).transform(files[:8])
    assert np.array_equal(features.vectors[:8], fresh)


def test_in_a_pipeline_and_cloned(network) -> None:
    chain = make_pipeline(FeatureExtractor(network, crops="whole", cache=None), Reduction(5))
    X = chain.fit_transform([scene(seed=seed) for seed in range(9)])
    assert X.shape == (9, 5)
    extractor = clone(FeatureExtractor(crops="ten", n_jobs=2))
    assert extractor.get_params()["crops"] == "ten"


def test_clones_share_the_network_and_the_open_cache(network, tmp_path) -> None:
    with VectorCache(tmp_path / "cache.sqlite") as cache:
        original = FeatureExtractor(network, crops="whole", cache=cache)
        copied = clone(original)
        assert copied.cache is cache
        assert copied.backbone is network
        assert np.array_equal(copied.transform([scene()]), original.transform([scene()]))


def test_travels_between_processes() -> None:
    extractor = FeatureExtractor(crops="whole")
    expected = extractor.transform([scene()])
    again = pickle.loads(pickle.dumps(extractor))
    assert np.array_equal(again.transform([scene()]), expected)


def test_state_keeps_the_recipe_and_not_the_machine(tmp_path: Path) -> None:
    extractor = FeatureExtractor(crops="five", cache=tmp_path / "mine.sqlite", n_jobs=2)
    config, arrays = extractor.to_state()
    assert arrays == {}
    assert str(tmp_path) not in json.dumps(config)
    again = FeatureExtractor.from_state(json.loads(json.dumps(config)), arrays, cache=None)
    assert np.array_equal(again.transform([scene()]), extractor.transform([scene()]))
    config["fingerprint"] = "of another file"
    with pytest.raises(BackboneError, match="not the one that the model was trained with"):
        FeatureExtractor.from_state(config, arrays).transform([scene()])
    config["images_version"] = 0
    with pytest.raises(BackboneError, match="fit the model again"):
        FeatureExtractor.from_state(config, arrays)


def test_bad_settings_are_named(network) -> None:
    with pytest.raises(ValueError, match="batch_size=0"):
        FeatureExtractor(network, batch_size=0).extract([scene()])
    with pytest.raises(ValueError, match="crops='all'"):
        FeatureExtractor(network, crops="all").extract([scene()])
    with pytest.raises(ImageError, match="limit is 100"):
        FeatureExtractor(network, max_pixels=100).transform([Image.new("RGB", (20, 20))])


def test_columns_have_names_and_frames_are_made(network) -> None:
    sources = [scene(seed=seed) for seed in range(3)]
    extractor = FeatureExtractor(network, cache=None)
    names = extractor.get_feature_names_out()
    assert names.shape == (2272,)
    assert [names[0], names[1279], names[1280], names[-1]] == [
        "last_0",
        "last_1279",
        "inner_0",
        "inner_991",
    ]
    expected = extractor.transform(sources)
    frame = extractor.set_output(transform="pandas").transform(sources)
    assert [*frame.columns] == [*names]
    assert np.array_equal(frame.to_numpy(), expected)
    chain = make_pipeline(FeatureExtractor(network, crops="whole", cache=None), Reduction(2))
    chain.set_output(transform="pandas")
    assert chain.fit_transform(sources).shape == (3, 2)
