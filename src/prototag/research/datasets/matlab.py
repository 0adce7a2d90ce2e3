"""Reader of the MATLAB files of the MCDL authors: annotations and features.

``trainAnnotation<set>.mat`` and ``testAnnotation<set>.mat`` contain matrices of 0 and 1,
``deepFeature_<network><set>.mat`` the vectors of the training images, then of the test images.
MATLAB code stores images as rows or as columns; the counts determine which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from prototag.arrays import Array
from prototag.errors import DatasetError
from prototag.research.datasets.annotation_lists import Release
from prototag.research.datasets.file_access import only_file, read_lines

_CONVERT = (
    "is of MATLAB's version 7.3 (HDF5), which SciPy does not read. Save it again in MATLAB: "
    "s = load('{name}'); save('{name}', '-struct', 's', '-v7'); or in Python: read it with h5py "
    "and write it with scipy.io.savemat."
)


def read_matrix(path: Path, variable: str) -> Any:
    """Read a matrix of a ``.mat`` file: ``variable``, or the only one in the file."""
    from scipy import io

    try:
        with path.open("rb") as file:
            head = file.read(520)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error}).") from error
    if b"MATLAB 7.3" in head[:128] or b"\x89HDF" in (head[:4], head[512:516]):
        raise DatasetError(f"{path}: {_CONVERT.format(name=path.name)}")
    try:
        listed = {name: shape for name, shape, _ in io.whosmat(str(path))}
        name = variable if variable in listed else None
        if name is None and len(listed) == 1:
            name = next(iter(listed))
        if name is None:
            raise DatasetError(
                f"{path}: contains {', '.join(sorted(listed)) or 'nothing'}, but no {variable}."
            )
        matrix = io.loadmat(str(path), variable_names=[name])[name]
    except DatasetError:
        raise
    except Exception as error:  # SciPy raises errors of any type for damaged files
        raise DatasetError(f"{path}: not a MATLAB file that SciPy can read ({error}).") from error
    if not sparse.issparse(matrix):
        if matrix.ndim > 2:
            matrix = matrix.reshape([side for side in matrix.shape if side > 1] or [1])
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise DatasetError(
                f"{path}: {name} is {matrix.dtype} of shape {matrix.shape}: expected a matrix."
            )
    return matrix


def release(first: Path, feature: str | None, counts: tuple[int, int, int] | None) -> Release:
    """Read ``trainAnnotation*.mat`` and its companions; ``counts``: training, test, tags."""
    ending = first.name.removeprefix("trainAnnotation")
    test = first.with_name(f"testAnnotation{ending}")
    if not test.exists():
        raise DatasetError(f"{test.name} is missing: it belongs beside {first}.")
    files = [first, test]
    matrices = [read_matrix(first, "trainAnnotation"), read_matrix(test, "testAnnotation")]
    X = None
    vectors = _feature_file(first, ending, feature)
    if vectors is not None:
        files.append(vectors)
        stored = read_matrix(vectors, vectors.name.removesuffix(ending))
        X = cast(Any, stored).toarray() if sparse.issparse(stored) else stored
    Y_train, Y_test = _orient(matrices, None if X is None else X.shape, counts, first)
    n = Y_train.shape[0] + Y_test.shape[0]
    if X is not None:
        X = _images_as_rows(X, n, files[-1])
    t = Y_train.shape[1]
    own_dictionary = f"{ending.removesuffix('.mat').lower()}_dictionary.txt"
    dictionary = only_file(first.parent, own_dictionary, "*dictionary*.txt")
    tags = [f"tag{number:03d}" for number in range(t)]
    source = "the authors' MATLAB files; tags are numbered, because there is no *dictionary*.txt"
    if dictionary is not None:
        tags = read_lines(dictionary)
        source = "the authors' MATLAB files"
        files.append(dictionary)
    if len(tags) != t:
        raise DatasetError(f"{dictionary} has {len(tags)} names, the annotations have {t} tags.")
    stacked = sparse.csr_array(sparse.vstack([Y_train, Y_test]))
    return Release(None, stacked, tags, Y_train.shape[0], X, files, source)


def _feature_file(first: Path, ending: str, feature: str | None) -> Path | None:
    available = sorted(first.parent.glob(f"deepFeature_*{ending}"))
    names = [path.name.removesuffix(ending).removeprefix("deepFeature_") for path in available]
    if feature is None:
        if len(available) > 1:
            raise DatasetError(f"Several features are available: give feature= one of {names}.")
        return available[0] if available else None
    name = feature.removeprefix("deepFeature_")
    if name not in names:
        raise DatasetError(
            f"deepFeature_{name}{ending} is not beside {first.name}; available features: {names}."
        )
    return available[names.index(name)]


def _orient(
    matrices: list[Any],
    features: tuple[int, ...] | None,
    counts: tuple[int, int, int] | None,
    path: Path,
) -> list[sparse.csr_array]:
    """Transpose matrices so that rows are images, by equal numbers of tags and of vectors."""
    shapes = [matrix.shape for matrix in matrices]
    fits = []
    for transpose in (False, True):
        (n_train, t), (n_test, t_test) = (shape[::-1] if transpose else shape for shape in shapes)
        if t == t_test and (features is None or n_train + n_test in features):
            fits.append((transpose, (n_train, n_test, t)))
    if len(fits) > 1 and counts is not None:
        fits = [fit for fit in fits if fit[1] == counts] or fits
    if len(fits) != 1:
        why = "do not fit together" if not fits else "fit with images as rows and as columns"
        with_vectors = "" if features is None else f" and vectors of shape {features}"
        raise DatasetError(
            f"{path.parent}: annotations of shapes {shapes[0]} and {shapes[1]}{with_vectors} "
            f"{why}. Save them as images x tags, of the same tags, and vectors for all images."
        )
    oriented = []
    for matrix in matrices:
        transposed = matrix.T if fits[0][0] else matrix
        Y = sparse.csr_array(transposed, dtype=np.float32)
        Y.eliminate_zeros()
        oriented.append(Y)
    return oriented


def _images_as_rows(X: Array, n: int, path: Path) -> npt.NDArray[np.float32]:
    if X.shape[0] == n == X.shape[1]:
        raise DatasetError(
            f"{path}: {n} x {n} numbers for {n} images: rows and columns cannot be distinguished. "
            "Load the vectors yourself and give them to Collection.with_vectors."
        )
    return np.ascontiguousarray(X if X.shape[0] == n else X.T, dtype=np.float32)
