"""The paper's rules on a small tree of MIRFLICKR-1M's shape."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import io

from prototag.errors import DatasetError, InputError
from prototag.research.datasets import flickr60k, flickr125k, mirflickr

from .forms import tags_of

PER_FOLDER = 50  # 10,000 in the original


def plant(root, given, *, tags="meta/tags", images="images", start=0, encoding="utf-8"):
    """Image ``start + i`` has the tags ``given[i]``."""
    for number, words in enumerate(given, start=start):
        folder = str(number // PER_FOLDER)
        for top, name, data in (
            (tags, f"{number}.txt", "".join(f"{word}\n" for word in words).encode(encoding)),
            (images, f"{number}.jpg", b"picture"),
        ):
            path = root / top / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return root


def long_tailed(n, seed=0):
    rng = np.random.default_rng(seed)
    share = 0.6 / np.arange(1, 31)
    return [[f"w{j}" for j in np.flatnonzero(rng.random(30) < share)] for _ in range(n)]


def by_the_rules(given, first, at_least, fewest):
    """Rule by rule, in plain Python."""
    looked_at = given[:first]
    count = Counter(tag for tags in looked_at for tag in set(tags))
    frequent = sorted(tag for tag in count if count[tag] >= at_least)
    kept = {
        number: sorted(set(tags) & set(frequent))
        for number, tags in enumerate(looked_at)
        if len(set(tags) & set(frequent)) >= fewest
    }
    return frequent, kept


@pytest.mark.parametrize(
    ("first", "at_least", "fewest"), [(400, 20, 2), (250, 20, 2), (400, 12, 3)]
)
def test_the_rules_of_the_paper(tmp_path, first, at_least, fewest):
    given = long_tailed(420)
    plant(tmp_path, given)
    data = mirflickr(tmp_path, first, at_least=at_least, fewest=fewest)
    frequent, kept = by_the_rules(given, first, at_least, fewest)
    assert 0 < len(frequent) < 30
    assert len(kept) < first
    assert data.tags == frequent
    assert data.names == [str(number) for number in kept]
    assert [path.name for path in data.images] == [f"{number}.jpg" for number in kept]
    for row, tags in enumerate(kept.values()):
        assert [data.tags[j] for j in np.flatnonzero(data.Y[[row]].toarray())] == tags
    n = len(kept)
    assert len(data.test) == round(0.3 * n)
    assert_array_equal(np.sort(np.concatenate([data.train, data.test])), np.arange(n))


def test_the_two_data_sets_of_the_paper(tmp_path):
    plant(tmp_path, long_tailed(120))
    small = flickr60k(tmp_path, first=100, at_least=10)
    large = flickr125k(tmp_path, first=120, at_least=10)
    assert (small.name, large.name) == ("FLICKR-60K", "FLICKR-125K")
    assert small.Y.shape[0] < large.Y.shape[0]
    with pytest.raises(
        DatasetError, match=r"120 of the first 100,000 tag files are there .*120.txt"
    ):
        flickr60k(tmp_path)
    with pytest.raises(DatasetError, match=r"120 of the first 200,000 .*LIACS, Leiden"):
        flickr125k(tmp_path)


def test_the_authors_own_files_are_taken_as_they_are(tmp_path):
    Y, X = tags_of(40, 7), np.random.default_rng(0).random((40, 3)).astype(np.float32)
    io.savemat(tmp_path / "trainAnnotationFlickr60k.mat", {"trainAnnotation": Y[:28]})
    io.savemat(tmp_path / "testAnnotationFlickr60k.mat", {"testAnnotation": Y[28:]})
    io.savemat(tmp_path / "deepFeature_dense161Flickr60k.mat", {"deepFeature_dense161": X})
    data = flickr60k(tmp_path, feature="dense161")
    assert data.name == "FLICKR-60K"
    assert_array_equal(data.Y.toarray(), Y)
    assert_array_equal(data.X, X)
    assert_array_equal(data.test, np.arange(28, 40))
    with pytest.raises(DatasetError, match="has its own split: omit random_state"):
        flickr60k(tmp_path, random_state=1)
    with pytest.raises(DatasetError, match=r"trainAnnotationFlickr125k.mat is not there"):
        flickr125k(tmp_path, feature="dense161")


def test_the_seed_decides_the_split_and_nothing_else(tmp_path):
    plant(tmp_path, long_tailed(200))
    one, same = (mirflickr(tmp_path, 200, at_least=10) for _ in range(2))
    other = mirflickr(tmp_path, 200, at_least=10, random_state=1)
    even = mirflickr(tmp_path, 200, at_least=10, split="stratified")
    assert_array_equal(one.test, same.test)
    assert not np.array_equal(one.test, other.test)
    assert not np.array_equal(one.test, even.test)
    assert one.names == other.names
    assert one.checksum == same.checksum == other.checksum
    share = np.abs(even.Y[even.test].sum(axis=0) - 0.3 * even.Y.sum(axis=0)).max()
    assert share < np.abs(one.Y[one.test].sum(axis=0) - 0.3 * one.Y.sum(axis=0)).max()


@pytest.mark.parametrize(
    "places",
    [{"tags": "tags"}, {"images": "images0"}, {"images": "images0/images"}, {"start": 1}],
)
def test_other_ways_to_unpack(tmp_path, places):
    given = long_tailed(120)
    plant(tmp_path, given, **places)
    data = mirflickr(tmp_path, 120, at_least=10)
    assert len(data.names) == len(by_the_rules(given, 120, 10, 2)[1])


def test_a_tag_that_is_twice_in_a_file_counts_once(tmp_path):
    plant(tmp_path, [["a", "b", "a", "  a ", ""], ["a", "b"], ["b", "c"]])
    data = mirflickr(tmp_path, 3, at_least=2)
    assert data.tags == ["a", "b"]
    assert data.names == ["0", "1"]
    with pytest.raises(DatasetError, match=r"No tag is on at least 4 of 3 .*most frequent on 3"):
        mirflickr(tmp_path, 3, at_least=4)
    with pytest.raises(DatasetError, match=r"0 of 3 images have at least 3 of the 2 frequent tags"):
        mirflickr(tmp_path, 3, at_least=2, fewest=3)


def test_odd_encodings_name_the_file(tmp_path):
    plant(tmp_path, [["a", "b"], ["caf\u00e9", "a", "b"], ["a", "b"]], encoding="latin-1")
    with pytest.raises(DatasetError, match=r"1.txt: byte 3 \(0xe9\) is not utf-8.*latin-1"):
        mirflickr(tmp_path, 3, at_least=1)
    assert "caf\u00e9" in mirflickr(tmp_path, 3, at_least=1, encoding="latin-1").tags
    (tmp_path / "meta/tags/0/1.txt").write_bytes("a\nb".encode("utf-16-le"))
    with pytest.raises(DatasetError, match=r"1.txt: contains NUL bytes"):
        mirflickr(tmp_path, 3, at_least=1)
    (tmp_path / "meta/tags/0/1.txt").write_bytes(b"x" * 300_000)
    with pytest.raises(DatasetError, match=r"1.txt: 300,000 bytes, at most 262,144"):
        mirflickr(tmp_path, 3, at_least=1)


def test_two_spellings_of_one_letter_are_one_tag(tmp_path):
    plant(tmp_path, [["caf\u00e9", "b"], ["cafe\u0301", "b"]])
    assert mirflickr(tmp_path, 2, at_least=2).tags == ["b", "caf\u00e9"]


def test_missing_files_are_counted(tmp_path):
    plant(tmp_path, long_tailed(120))
    (tmp_path / "images/1/60.jpg").unlink()
    with pytest.raises(DatasetError, match=r"1 of 120 pictures are missing \(the first: 60.jpg\)"):
        mirflickr(tmp_path, 120, at_least=10)
    with pytest.warns(UserWarning, match="1 of 120 pictures"):
        data = mirflickr(tmp_path, 120, at_least=10, strict=False)
    assert "60" not in data.names
    (tmp_path / "meta/tags/1/70.txt").unlink()
    with pytest.raises(DatasetError, match=r"119 of the first 120 tag files.*missing: 70.txt"):
        mirflickr(tmp_path, 120, at_least=10, strict=False)
    assert mirflickr(tmp_path, 50, at_least=10).Y.shape[0] > 0  # what is not needed may miss


def test_what_is_no_mirflickr(tmp_path):
    with pytest.raises(DatasetError, match=r"neither meta/tags nor tags.*tags.zip"):
        mirflickr(tmp_path, 10)
    plant(tmp_path / "a", [["a", "b"]] * 60, start=5)
    with pytest.raises(DatasetError, match=r"start at 5.txt, not at 0"):
        mirflickr(tmp_path / "a", 10)
    (tmp_path / "b/tags/0").mkdir(parents=True)
    with pytest.raises(DatasetError, match=r"has no images/0, images/1"):
        mirflickr(tmp_path / "b", 10)
    plant(tmp_path / "c", [["a", "b"]] * 3)
    (tmp_path / "c/meta/tags/0/01.txt").touch()
    with pytest.raises(DatasetError, match="are both 1"):
        mirflickr(tmp_path / "c", 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": 0}, "first=0"),
        ({"first": 1, "at_least": 0}, "at_least=0"),
        ({"first": 1, "fewest": True}, "fewest=True"),
        ({"first": 1, "test_share": 1}, "test_share=1"),
        ({"first": 1, "split": "even"}, "split='even': give 'random' or 'stratified'"),
    ],
)
def test_options_without_meaning(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        mirflickr(tmp_path, **options)
