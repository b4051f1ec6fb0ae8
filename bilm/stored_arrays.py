"""The arrays of checkpoints and HDF5 files, described without holding them all."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import h5py
import numpy as np

from bilm.errors import reading
from bilm.hdf5_files import check_sum, checksum, datasets, open_hdf5

BLOCK_VALUES = 1 << 20
"""Values of an HDF5 file that are read together."""


class Moments:
    """Mean and Euclidean norm of values that are given piece by piece.

    Attributes:
        n_not_finite: infinite values, and such as are no number, which are left out.
    """

    def __init__(self) -> None:
        self.n_not_finite = 0
        self._n = 0
        self._sum = self._squares = 0.0

    def add(self, values: np.ndarray) -> None:
        """Add some values."""
        finite = values[np.isfinite(values)].astype(np.float64)
        self.n_not_finite += values.size - finite.size
        self._n += finite.size
        self._sum += float(finite.sum())
        self._squares += float(finite @ finite)

    @property
    def mean(self) -> float:
        """Mean of all values, 0 of none."""
        return self._sum / max(self._n, 1)

    @property
    def norm(self) -> float:
        """Square root of the sum of the squares."""
        return self._squares**0.5


class StoredArray(NamedTuple):
    """An array of a file, or several that are alike."""

    name: str  # parts are apart by "/"
    shape: str
    dtype: str
    n_values: int
    n_bytes: int  # without compression
    moments: Moments | None  # None where values were not read, or are no numbers


def checkpoint_arrays(prefix: str, values: bool) -> Iterator[StoredArray]:
    """Describe the arrays of a checkpoint, one after the other in memory.

    Args:
        prefix: its path up to and with the step.
        values: whether to read the values.

    Raises:
        FileNotFoundError, InputError: see `Checkpoint`.
    """
    from bilm.checkpoint import Checkpoint  # loads TensorFlow

    checkpoint = Checkpoint(prefix)
    for name, shape in checkpoint.shapes.items():
        dtype = checkpoint.dtypes[name]
        n_values = int(np.prod(shape))
        moments = None
        numbers = _numpy_dtype(dtype)
        if values and np.issubdtype(numbers, np.number):
            moments = Moments()
            moments.add(checkpoint.read_optional([name])[name].ravel())
        n_bytes = n_values * numbers.itemsize
        yield StoredArray(name, str(shape), dtype, n_values, n_bytes, moments)


def _numpy_dtype(name: str) -> np.dtype:
    """Of values in memory; of no bytes where NumPy has none, as of text."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype("V0")


def hdf5_arrays(path: str | os.PathLike[str], values: bool) -> list[StoredArray]:
    """Describe the data sets of an HDF5 file.

    Those of sentences, which are named by lines from 0, are put together as one.

    Args:
        path: of the file.
        values: whether to read the values, in pieces.

    Raises:
        FileNotFoundError, InputError: see `datasets` and `check_sum`.
    """
    with open_hdf5(path) as file, reading(path):
        found = datasets(file)
        lines = [found.pop(str(line)) for line in range(_n_lines(found))]
        arrays = [_described(name, [data], values) for name, data in found.items()]
        if lines:
            name = "0" if len(lines) == 1 else f"0 to {len(lines) - 1}"
            arrays.append(_described(name, lines, values))
        return arrays


def _n_lines(names: dict[str, h5py.Dataset]) -> int:
    """How many lines from 0 on have a data set."""
    n_lines = 0
    while str(n_lines) in names:
        n_lines += 1
    return n_lines


def _described(name: str, alike: list[h5py.Dataset], values: bool) -> StoredArray:
    moments = None
    if values and np.issubdtype(alike[0].dtype, np.number):
        moments = Moments()
        for dataset in alike:
            found = 0
            for piece in _pieces(dataset):
                moments.add(piece.ravel())
                found = checksum(piece, found)
            check_sum(dataset, found)
    return StoredArray(
        name,
        _shape(alike),
        str(alike[0].dtype),
        sum(dataset.size for dataset in alike),
        sum(dataset.nbytes for dataset in alike),
        moments,
    )


def _pieces(dataset: h5py.Dataset) -> Iterator[np.ndarray]:
    """The values, `BLOCK_VALUES` at a time or one entry of the first axis."""
    if not dataset.shape:
        yield np.asarray(dataset[()])
        return
    row = max(dataset.size // max(len(dataset), 1), 1)
    step = max(BLOCK_VALUES // row, 1)
    for start in range(0, len(dataset), step):
        yield dataset[start : start + step]


def _shape(alike: list[h5py.Dataset]) -> str:
    """The shape; an axis that differs has its least and its largest size."""
    if len({len(dataset.shape) for dataset in alike}) > 1:
        return "various"
    axes = []
    for sizes in zip(*(dataset.shape for dataset in alike), strict=True):
        least, most = min(sizes), max(sizes)
        axes.append(str(least) if least == most else f"{least} to {most}")
    return f"[{', '.join(axes)}]"
