"""Model files: golden bytes, the safetensors library as judge, and what a file can be instead."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.testing import assert_array_equal
from scipy import sparse

from prototag.errors import ModelFileError
from prototag.storage import modelfile
from scored import steady

GOLDEN = Path(__file__).parent / "golden" / "tiny.prototag"
HEADER = {
    "kind": "mcdl",
    "recipe": {"beta1": 0.15, "k": 2, "loss": "squared_hinge"},
    "vocabulary": ["sky", "Straße", "雪", 'a "quoted" tag'],
    "thresholds": [0.25, 0.5, 0.125, 1e-3],
    "provenance": {"images": 3, "note": None},
}
DTYPES = [np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]


def tiny_arrays():
    semantic = sparse.csr_array(np.array([[0, 0.5, 0, 2], [1, 0, 0, 0]], dtype=np.float32))
    return {
        "mcdl/visual_prototypes": np.arange(6, dtype=np.float32).reshape(2, 3) / 8,
        "mcdl/mean": np.linspace(-1, 1, 3),
        "mcdl/used": np.array([True, False, True]),
        "mcdl/n": np.array(3, dtype=np.int64),
        "mcdl/none": np.zeros((0, 4), dtype=np.float16),
        **modelfile.pack_csr("mcdl/semantic_prototypes", semantic),
    }


def file_of(header_bytes, tensor_bytes=b""):
    return len(header_bytes).to_bytes(8, "little") + header_bytes + tensor_bytes


def signed(header, table=None, tensor_bytes=b""):
    """A file with right digests around any header: what a clever forger would send."""
    text = header if isinstance(header, str) else json.dumps(header)
    digest = hashlib.sha256(text.encode()).hexdigest()
    metadata = {"prototag": text, "prototag_sha256": digest}
    return file_of(json.dumps({"__metadata__": metadata, **(table or {})}).encode(), tensor_bytes)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape


def test_golden_file_is_read_and_its_bytes_reproduced(tmp_path):
    header, arrays = modelfile.read(GOLDEN)
    assert {key: header[key] for key in HEADER} == HEADER
    assert (header["format"], header["version"]) == ("prototag", modelfile.VERSION)
    assert_same(arrays, tiny_arrays())
    again, backwards = tmp_path / "again", tmp_path / "backwards"
    modelfile.write(again, header, arrays)
    modelfile.write(
        backwards,
        dict(reversed(HEADER.items())),
        dict(reversed(tiny_arrays().items())),
    )
    assert again.read_bytes() == backwards.read_bytes() == GOLDEN.read_bytes()


def test_the_safetensors_library_reads_our_files():
    assert_same(safetensors.numpy.load_file(GOLDEN), tiny_arrays())
    with safetensors.safe_open(GOLDEN, framework="numpy") as judge:
        assert json.loads(judge.metadata()["prototag"]) == modelfile.read_header(GOLDEN)


def test_we_read_files_that_the_library_wrote(tmp_path):
    path = tmp_path / "rewritten"
    with safetensors.safe_open(GOLDEN, framework="numpy") as judge:
        metadata = judge.metadata()
    safetensors.numpy.save_file(tiny_arrays(), path, metadata)
    header, arrays = modelfile.read(path)
    assert header == modelfile.read_header(GOLDEN)
    assert_same(arrays, tiny_arrays())


arrays_of_any_kind = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, min_side=0, max_side=4))
    ),
    max_size=4,
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=6,
)


@settings(steady, max_examples=60)
@given(arrays_of_any_kind, json_values)
def test_what_is_written_is_read(tmp_path_factory, arrays, field):
    path = tmp_path_factory.mktemp("file") / "model"
    modelfile.write(path, {"kind": "any", "field": field}, arrays)
    header, found = modelfile.read(path)
    assert header["field"] == field
    assert_same(found, arrays)
    for array in found.values():
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert array.flags.writeable
    assert_same(safetensors.numpy.load_file(path), arrays)


def test_odd_memory_layouts_are_stored_by_value(tmp_path):
    base = np.arange(24.0).reshape(4, 6)
    arrays = {
        "fortran": np.asfortranarray(base),
        "strided": base[::2, ::-1],
        "big": base.astype(">f8"),
    }
    modelfile.write(tmp_path / "m", {"kind": "any"}, arrays)
    found = modelfile.read(tmp_path / "m")[1]
    for name, array in arrays.items():
        assert_array_equal(found[name], array)
        assert found[name].dtype == np.float64


def test_every_truncation_is_refused(tmp_path):
    whole, path = GOLDEN.read_bytes(), tmp_path / "cut"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="intact model file"):
            modelfile.read(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ModelFileError, match=f"has {len(whole) + 1} bytes where its header needs"):
        modelfile.read(path)


@settings(steady, max_examples=400)
@given(st.integers(0, len(GOLDEN.read_bytes()) - 1), st.integers(1, 255))
@example(0, 1)
@example(7, 128)
def test_a_changed_byte_is_noticed_or_harmless(tmp_path_factory, position, change):
    altered = bytearray(GOLDEN.read_bytes())
    altered[position] ^= change
    path = tmp_path_factory.mktemp("file") / "altered"
    path.write_bytes(altered)
    try:
        header, arrays = modelfile.read(path)
    except ModelFileError:
        return
    assert header == modelfile.read_header(GOLDEN)  # white space between two JSON tokens
    assert_same(arrays, tiny_arrays())


def test_a_changed_byte_of_an_array_is_always_noticed(tmp_path):
    whole, path = GOLDEN.read_bytes(), tmp_path / "altered"
    for position in range(8 + int.from_bytes(whole[:8], "little"), len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(ModelFileError, match="does not match its digest"):
            modelfile.read(path)


@settings(steady, max_examples=150)
@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_are_refused(tmp_path_factory, content, framed):
    path = tmp_path_factory.mktemp("file") / "random"
    path.write_bytes(file_of(content) if framed else content)
    with pytest.raises(ModelFileError):
        modelfile.read(path)
    with pytest.raises(ModelFileError):
        modelfile.read_header(path)


class Bomb:
    """Sets off when unpickled."""

    def __reduce__(self):
        return (os._exit, (99,))


def one_array(**changes):
    """A signed file with one array of four bytes, some fields of which are false."""
    sha = hashlib.sha256(changes.get("raw", b"\0\0\0\0")).hexdigest()
    listed = {
        "dtype": changes.get("dtype", "U8"),
        "shape": changes.get("shape", [4]),
        "sha256": sha,
    }
    placed = {"dtype": listed["dtype"], "shape": listed["shape"], "data_offsets": [0, 4]}
    placed |= {k: v for k, v in changes.items() if k == "data_offsets"}
    header = {
        "format": "prototag",
        "version": modelfile.VERSION,
        "kind": "x",
        "tensors": {"a": listed},
    }
    return signed(header, {"a": placed}, changes.get("raw", b"\0\0\0\0"))


PLAIN = {"format": "prototag", "version": modelfile.VERSION, "kind": "x", "tensors": {}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"abc", "truncated or not a model file"),
        (b"sky, sea and sand: some text", "truncated or not a model file"),
        (pickle.dumps(Bomb()), "pickle, which is never loaded"),
        (b"PK\x03\x04" + bytes(40), "is a zip archive"),
        ((1 << 62).to_bytes(8, "little") + b"{}", "truncated or not"),
        (file_of(b"[]"), "not a JSON object"),
        (file_of(b"[" * 100_000), "not valid JSON"),
        (file_of(b'{"\xff": 1}'), "not valid JSON"),
        (file_of(b'{"a": 1, "a": 2}'), "a name occurs twice"),
        (safetensors.numpy.save({"w": np.ones(3)}), "not one of prototag"),
        (safetensors.numpy.save({"w": np.ones(3)}, {"format": "pt"}), "not one of prototag"),
        (signed({**PLAIN, "version": 7}), "has version 7 .* up to 2: install a newer prototag"),
        (signed({**PLAIN, "version": 1}), "has version 1 .* version 2 only: train the model again"),
        (signed({**PLAIN, "version": "1"}), "names neither the format"),
        (signed({**PLAIN, "version": True}), "names neither the format"),
        (signed({**PLAIN, "format": "other"}), "names neither the format"),
        (signed({**PLAIN, "kind": 3}), "lacks the kind"),
        (signed({**PLAIN, "tensors": []}), "lacks the kind of model or the list"),
        (signed({**PLAIN, "tensors": {"a": {}}}), "other arrays than its header lists"),
        (signed({**PLAIN, "tensors": {"a": 1}}, {"a": 1}), "describes its array 'a' wrongly"),
        (signed(json.dumps({**PLAIN, "x": float("nan")})), "NaN is not a number"),
        (signed(json.dumps({**PLAIN, "x": 0}).replace(" 0}", " 1e999}")), "give finite numbers"),
        (signed(json.dumps({**PLAIN, "x": "\ud800"})), "not Unicode"),
        (signed({**PLAIN, "x": 2**80}), "more than 64 bits"),
        (signed({**PLAIN, "x": json.loads("[" * 60 + "]" * 60)}), "nested more than 50 deep"),
        (signed("[]"), "not a JSON object"),
        (one_array(dtype="F8_E4M3"), "'a' wrongly"),
        (one_array(dtype=["U8"]), "'a' wrongly"),
        (one_array(shape=[5]), "'a' wrongly"),
        (one_array(shape=[-2, -2]), "'a' wrongly"),
        (one_array(shape=[2.0, 2]), "'a' wrongly"),
        (one_array(shape="4"), "'a' wrongly"),
        (one_array(data_offsets=[4, 8]), "overlap or leave gaps"),
        (one_array(data_offsets=[0]), "'a' wrongly"),
        (one_array(data_offsets=[0, 0], shape=[0, 2**62, 2**62], raw=b""), "memory cannot hold"),
        (one_array(dtype="BOOL", raw=b"\0\1\2\1"), "neither 0 nor 1"),
    ],
)
def test_what_is_not_a_model_file_is_refused_in_words(tmp_path, content, message):
    path = tmp_path / "model.prototag"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as refusal:
        modelfile.read(path)
    if "The header of" not in str(refusal.value):
        assert str(refusal.value).startswith(str(path))


def test_a_signed_file_of_ours_is_read(tmp_path):
    """The forgeries above differ from this one in nothing but what they are refused for."""
    (tmp_path / "m").write_bytes(one_array(raw=b"\1\2\3\4"))
    assert_array_equal(modelfile.read(tmp_path / "m")[1]["a"], [1, 2, 3, 4])


def test_zip_archives_are_recognised(tmp_path):
    with zipfile.ZipFile(tmp_path / "m", "w") as archive:
        archive.writestr("weights", "0" * 100)
    with pytest.raises(ModelFileError, match="is a zip archive"):
        modelfile.read(tmp_path / "m")


def test_what_is_no_file_is_refused_at_once(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist"):
        modelfile.read(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="is a folder"):
        modelfile.read(tmp_path)
    with pytest.raises(ModelFileError, match="cannot be opened"):
        modelfile.read("a\0b")
    with pytest.raises(ModelFileError, match="not a regular file"):
        modelfile.write(tmp_path, HEADER, {})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="a pipe or a device"):
        modelfile.read(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a regular file"):
        modelfile.write(tmp_path / "pipe", HEADER, {})
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_large_files_are_refused_before_reading(tmp_path):
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.truncate(modelfile.MAX_BYTES + 1)  # sparse: takes no room on the disk
    with pytest.raises(ModelFileError, match="the limit is 8589934592: raise max_bytes"):
        modelfile.read(path)
    size = GOLDEN.stat().st_size
    modelfile.read(GOLDEN, max_bytes=size)
    with pytest.raises(ModelFileError, match=f"has {size} bytes, the limit is {size - 1}"):
        modelfile.read_header(GOLDEN, max_bytes=size - 1)


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({}, {}, "kind=None: give a string"),
        ({"kind": "x", "a": float("inf")}, {}, r"\['a'\] holds inf: give finite"),
        ({"kind": "x", "a": {1: 2}}, {}, "key 1: give strings as keys"),
        ({"kind": "x", "a": {1, 2}}, {}, "holds a set: give plain JSON"),
        ({"kind": "x", "a": "\ud800"}, {}, "not Unicode"),
        ({"kind": "x"}, {"a": np.zeros(2, complex)}, "dtype complex128: a model file holds"),
        ({"kind": "x"}, {"a": np.array([None])}, "dtype object"),
        ({"kind": "x"}, {"__metadata__": np.zeros(2)}, "named '__metadata__'"),
        ({"kind": "x" * (16 << 20)}, {}, "store large lists as arrays"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, header, arrays, message):
    with pytest.raises(ModelFileError, match=message):
        modelfile.write(tmp_path / "m", header, arrays)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, call, error):
    def fail(*_):
        raise error

    path = tmp_path / "m"
    path.write_bytes(GOLDEN.read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(type(error)):
            modelfile.write(path, {"kind": "new"}, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
    assert path.read_bytes() == GOLDEN.read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="permissions and links as on POSIX")
def test_a_new_file_has_the_permissions_of_any_new_file_and_links_are_followed(tmp_path):
    (tmp_path / "link").symlink_to("target")
    old = os.umask(0o027)
    try:
        modelfile.write(tmp_path / "link", HEADER, {})
    finally:
        os.umask(old)
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o640


@steady
@given(
    st.integers(0, 6),
    st.integers(1, 6),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["csr", "csc", "coo", "lil"]),
)
def test_sparse_matrices_survive(n_rows, n_columns, density, seed, form):
    matrix = sparse.random_array((n_rows, n_columns), density=density, format=form, rng=seed)
    arrays = modelfile.pack_csr("a/b", matrix)
    assert arrays["a/b/indices"].dtype == np.int32
    found = modelfile.unpack_csr(arrays, "a/b", [n_rows, n_columns])
    assert found.has_canonical_format
    assert_array_equal(found.toarray(), matrix.toarray())


def test_packing_adds_up_duplicates_and_leaves_the_caller_alone():
    twice = sparse.csr_array(([1.0, 2.0, 4.0], [1, 1, 0], [0, 3]), shape=(1, 2))
    assert_array_equal(modelfile.pack_csr("a", twice)["a/data"], [4.0, 3.0])
    assert_array_equal(twice.indices, [1, 1, 0])


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("indptr", None, "lacks its data, indices or indptr"),
        ("indptr", [0, 2, 3], "lengths do not fit 3 rows"),
        ("indptr", [1, 2, 3, 4], "rise from 0"),
        ("indptr", [0, 3, 2, 4], "rise from 0"),
        ("indptr", [0, 2, 3, 5], "rise from 0"),
        ("indptr", [0, -1, 3, 4], "rise from 0"),
        ("indices", [0, 3, 1, 2], r"outside 0\.\.2"),
        ("indices", [-1, 2, 1, 2], r"outside 0\.\.2"),
        ("indices", [2, 0, 1, 2], "columns do not rise"),
        ("indices", [2, 2, 1, 2], "columns do not rise"),
        ("indices", [0, 2, 1], "lengths do not fit"),
        ("indices", [[0, 2, 1, 2]], "not one-dimensional"),
    ],
)
def test_false_indices_never_reach_a_kernel(part, value, message):
    arrays = {
        "s/data": np.ones(4, dtype=np.float32),
        "s/indices": np.array([0, 2, 1, 2], dtype=np.int32),
        "s/indptr": np.array([0, 2, 3, 4], dtype=np.int32),
    }
    expected = [[1, 0, 1], [0, 1, 0], [0, 0, 1]]
    assert_array_equal(modelfile.unpack_csr(arrays, "s", (3, 3)).toarray(), expected)
    for shape in [(3,), (3, -1), (3, 3.0), "33", None]:
        with pytest.raises(ModelFileError, match="instead of two numbers"):
            modelfile.unpack_csr(arrays, "s", shape)
    if value is None:
        del arrays[f"s/{part}"]
    else:
        arrays[f"s/{part}"] = np.array(value, dtype=np.int32)
    with pytest.raises(ModelFileError, match=f"sparse matrix 's' .*{message}"):
        modelfile.unpack_csr(arrays, "s", (3, 3))
    arrays["s/indices"] = arrays["s/indices"].astype(np.float64)
    with pytest.raises(ModelFileError, match=r"lacks|of dtype float64|one-dimensional"):
        modelfile.unpack_csr(arrays, "s", (3, 3))


def test_huge_numbers_are_refused_where_they_would_overflow():
    arrays = {"x": np.array([1.0, -3e38], "f4"), "none": np.empty(0, "f4")}
    assert modelfile.expect_array(arrays, "x", (2,), "f4") is arrays["x"]
    assert modelfile.expect_array(arrays, "none", (0,), "f4", largest=1.0) is arrays["none"]
    with pytest.raises(ModelFileError, match=r"'x' holds numbers beyond 1e\+15"):
        modelfile.expect_array(arrays, "x", (2,), "f4", largest=1e15)
