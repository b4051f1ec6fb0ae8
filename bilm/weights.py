"""`weights.hdf5` and embedding files: reading with every array checked, and writing."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from bilm.errors import InputError
from bilm.files import replacing
from bilm.names import VariableSpec

Path = str | os.PathLike[str]
_ALIGNMENT = 64  # bytes


def read_weights(
    path: Path, specs: Sequence[VariableSpec], unused: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Read the arrays of `specs` from an HDF5 file.

    Args:
        path: of a `weights.hdf5`, made by this package or by bilm-tf.
        specs: of `bilm.names.model_variables`.
        unused: HDF5 names of arrays that may be there and are not read.

    Returns:
        float32 arrays by `VariableSpec.name`.

    Raises:
        InputError: all arrays that are missing, extra, misshapen or not finite.
    """
    with stored_weights(path, specs, unused) as stored:
        return dict(stored)


@contextlib.contextmanager
def stored_weights(
    path: Path,
    specs: Sequence[VariableSpec],
    unused: Sequence[str] = (),
    convert: Callable[[np.ndarray], Any] = np.asarray,
) -> Iterator[Mapping[str, Any]]:
    """As `read_weights`, but give a mapping that reads an array when it is looked up.

    So a large model is never twice in memory, as arrays and as variables. `convert`
    is applied to each array; the memory is aligned as TensorFlow needs it to share it.
    """
    with open_hdf5(path) as file:
        found = datasets(file)
        for name in unused:
            found.pop(name, None)
        problems = _differences(found, specs)
        if problems:
            raise InputError(
                f"{path} does not fit its options: {'; '.join(problems)}"
                f"{_guess(found, specs)}"
            )
        yield _StoredWeights(
            path, {spec.name: found[spec.hdf5] for spec in specs}, convert
        )


class _StoredWeights(Mapping[str, Any]):
    """Arrays of an open file by `VariableSpec.name`, float32 and finite."""

    def __init__(
        self,
        path: Path,
        datasets: Mapping[str, h5py.Dataset],
        convert: Callable[[np.ndarray], Any],
    ) -> None:
        self._path = path
        self._datasets = datasets
        self._convert = convert

    def __getitem__(self, name: str) -> Any:
        dataset = self._datasets[name]
        values = _read(dataset)
        if not _is_finite(values):
            raise InputError(
                f"{self._path} holds values that are not finite in {dataset.name[1:]}"
            )
        return self._convert(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._datasets)

    def __len__(self) -> int:
        return len(self._datasets)


def write_weights(
    path: Path, specs: Sequence[VariableSpec], values: Mapping[str, np.ndarray]
) -> None:
    """Write arrays, given by `VariableSpec.name`, under their HDF5 names."""
    with replacing(path) as partial, h5py.File(partial, "w") as file:
        for spec in specs:
            assert values[spec.name].shape == spec.shape
            file.create_dataset(spec.hdf5, data=values[spec.name], dtype="float32")


def read_embedding(path: Path, width: int) -> np.ndarray:
    """Read the dataset `embedding` float32 [V, width] of a token embeddings file."""
    with open_hdf5(path) as file:
        found = datasets(file)
        if "embedding" not in found:
            raise InputError(
                f"{path} has no dataset 'embedding' (it has {_some(found)}); "
                "dump_token_embeddings writes such a file"
            )
        shape = found["embedding"].shape
        if len(shape) != 2 or shape[1] != width:
            raise InputError(
                f"{path}: 'embedding' must have the shape [words, {width}] of the "
                f"options' projection_dim, but has {list(shape)}"
            )
        values = _read(found["embedding"])
    if not _is_finite(values):
        raise InputError(f"{path} holds values that are not finite in embedding")
    return values


def dataset_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of all datasets of an HDF5 file, by their full names."""
    with open_hdf5(path) as file:
        return {name: dataset.shape for name, dataset in datasets(file).items()}


def open_hdf5(path: Path) -> h5py.File:
    """Open for reading; what is no HDF5 file is an `InputError`."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no file {os.fspath(path)}")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} is not a readable HDF5 file: {error}") from error


def datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """All datasets that the file itself holds; links out of it are not followed."""
    found: dict[str, h5py.Dataset] = {}

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item

    file.visititems(add)
    return found


def _differences(
    found: Mapping[str, h5py.Dataset], specs: Sequence[VariableSpec]
) -> list[str]:
    expected = {spec.hdf5: spec.shape for spec in specs}
    problems = [f"{name} is missing" for name in expected if name not in found]
    problems += [f"{name} is not expected" for name in found if name not in expected]
    for name, shape in expected.items():
        if name in found and found[name].shape != shape:
            problems.append(
                f"{name} must be {list(shape)} but is {list(found[name].shape)}"
            )
        elif name in found and found[name].dtype.kind != "f":
            problems.append(f"{name} must be float32 but is {found[name].dtype}")
    return problems


def _guess(found: Mapping[str, h5py.Dataset], specs: Sequence[VariableSpec]) -> str:
    """What most often explains a file of another kind."""
    wants_characters = any(spec.hdf5 == "char_embed" for spec in specs)
    if wants_characters and "embedding" in found and "char_embed" not in found:
        return "; this file is a word-level model: pass use_character_inputs=False"
    return ""


def _read(dataset: h5py.Dataset) -> np.ndarray:
    values = _aligned_empty(dataset.shape)
    if dataset.size:
        dataset.read_direct(values)  # straight to its place, converted on the way
    return values


def _aligned_empty(shape: tuple[int, ...]) -> np.ndarray:
    """An array that TensorFlow can share without a copy."""
    n_bytes = 4 * math.prod(shape)
    memory = np.empty(n_bytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + n_bytes].view(np.float32).reshape(shape)


def _is_finite(values: np.ndarray) -> bool:
    flat = values.ravel()
    # The sum of squares is fast, and finite only where all values are.
    return bool(np.isfinite(flat @ flat) or np.isfinite(flat).all())


def _some(names: Mapping[str, h5py.Dataset]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:5]) + (" ..." if len(listed) > 5 else "") or "none"
