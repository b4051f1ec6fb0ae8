"""HDF5 files: opened and read with every array checked, and written with checksums.

HDF5 has no checksum of its own for values. Each array that is written here has the
CRC-32 of its values (their bytes in C order, little-endian, in the array's type) as its
attribute `crc32`, which other programs do not look at. Arrays without it, which others
have written, are read all the same.

A file holds its arrays itself: links, and data sets whose values lie in other files,
are refused and not followed.
"""

import math
import os
import zlib

import h5py
import numpy as np

from bilm.errors import InputError, reading
from bilm.paths import check_file

Path = str | os.PathLike[str]
CHECKSUM = "crc32"
_ALIGNMENT = 64  # bytes


def open_hdf5(path: Path) -> h5py.File:
    """Open for reading; what is no HDF5 file is an `InputError`."""
    check_file(path)
    try:
        return h5py.File(path, "r")
    except Exception as error:  # HDF5 has many kinds
        raise InputError(
            f"{path} is not a readable HDF5 file ({error}): give the right file, or "
            "copy it again where it is damaged"
        ) from error


def datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """All data sets of a file, by their full names.

    Raises:
        InputError: the file is damaged, or one does not lie in it, whole.
    """
    found: dict[str, h5py.Dataset] = {}
    groups = [file]

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item
        elif isinstance(item, h5py.Group):
            groups.append(item)

    with reading(file.filename):
        file.visititems(add)  # which leaves links out
        for group in groups:
            for name in group:
                _check_link(group, name)
        for dataset in found.values():
            _check_storage(dataset)
    return found


def find_dataset(file: h5py.File, name: str) -> h5py.Dataset | None:
    """One data set of a file, None where there is none; errors as of `datasets`."""
    with reading(file.filename):
        if name not in file:
            return None
        _check_link(file, name)
        found = file[name]
        if not isinstance(found, h5py.Dataset):
            return None
        _check_storage(found)
        return found


def read_array(dataset: h5py.Dataset) -> np.ndarray:
    """Read a data set as it is stored, and check its values by their checksum.

    Raises:
        InputError: the file is damaged.
    """
    with reading(dataset.file.filename):
        values = np.asarray(dataset[()])
        check_sum(dataset, checksum(values))
        return values


def read_floats(dataset: h5py.Dataset) -> np.ndarray:
    """Read a data set as float32, in memory aligned as TensorFlow needs to share it.

    Raises:
        InputError: the file is damaged, or a value is no finite number.
    """
    path, name = dataset.file.filename, _name(dataset)
    with reading(path):
        if dataset.dtype.kind != "f":
            raise InputError(f"{path}: {name} must be float32 but is {dataset.dtype}")
        values = _aligned_empty(dataset.shape)
        if dataset.size:
            dataset.read_direct(values)  # straight to its place, converted on the way
        check_sum(dataset, checksum(values))
    if not is_finite(values):
        raise InputError(f"{path} holds values that are not finite in {name}")
    return values


def write_array(
    file: h5py.File, name: str, values: np.ndarray, compression: str | None = None
) -> None:
    """Write an array with its checksum."""
    dataset = file.create_dataset(name, data=values, compression=compression)
    write_sum(dataset, checksum(values))


def checksum(values: np.ndarray, before: int = 0) -> int:
    """The checksum of values, behind others with the checksum `before`."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return zlib.crc32(np.ascontiguousarray(little).data, before)


def write_sum(dataset: h5py.Dataset, value: int) -> None:
    """Write the checksum of a data set's values."""
    dataset.attrs[CHECKSUM] = np.uint32(value)


def check_sum(dataset: h5py.Dataset, found: int) -> None:
    """Compare the checksum of the values that were read, where there is one.

    Raises:
        InputError: the values are not those that were written.
    """
    if CHECKSUM in dataset.attrs and dataset.attrs[CHECKSUM] != found:
        raise InputError(
            f"{dataset.file.filename} is damaged: the values of {_name(dataset)} are "
            "not those that were written, by their checksum; copy the file or make it "
            "again"
        )


def is_finite(values: np.ndarray) -> bool:
    """Whether no value is infinite or no number."""
    flat = values.ravel()
    # The sum of squares is fast, and finite only where all values are.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(flat @ flat) or np.isfinite(flat).all())


def _check_link(group: h5py.Group, name: str) -> None:
    link = group.get(name, getlink=True)
    if isinstance(link, h5py.HardLink):
        return
    target = link.path
    if isinstance(link, h5py.ExternalLink):
        target = f"{target} in {link.filename}"
    raise InputError(
        f"{group.file.filename}: {f'{group.name}/{name}'.lstrip('/')} is a link (to "
        f"{target}), which is not followed: the file must hold its arrays itself"
    )


def _check_storage(dataset: h5py.Dataset) -> None:
    path, name = dataset.file.filename, _name(dataset)
    if dataset.is_virtual or dataset.external:
        raise InputError(
            f"{path}: the values of {name} lie in other files, which are not read: the "
            "file must hold its arrays itself"
        )
    if dataset.shape is None:
        raise InputError(f"{path}: {name} has no values: make the file again")
    if dataset.size and not _is_written(dataset):
        raise InputError(
            f"{path}: the values of {name} were never written, as where a program was "
            "killed: make the file again"
        )


def _is_written(dataset: h5py.Dataset) -> bool:
    """Whether the file has the values; else they read as zeros, however many."""
    if dataset.chunks is None:
        return dataset.id.get_storage_size() > 0
    lengths = zip(dataset.shape, dataset.chunks, strict=True)
    needed = math.prod(-(-length // chunk) for length, chunk in lengths)
    return dataset.id.get_num_chunks() == needed


def _name(dataset: h5py.Dataset) -> str:
    return dataset.name.lstrip("/")


def _aligned_empty(shape: tuple[int, ...]) -> np.ndarray:
    """An array that TensorFlow can share without a copy."""
    n_bytes = 4 * math.prod(shape)
    memory = np.empty(n_bytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + n_bytes].view(np.float32).reshape(shape)
