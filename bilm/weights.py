"""`weights.hdf5` and embedding files: reading with every array checked, and writing."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from bilm.errors import InputError, reading
from bilm.files import replacing
from bilm.hdf5_files import datasets, open_hdf5, read_floats, write_array
from bilm.names import VariableSpec

Path = str | os.PathLike[str]


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
        InputError: all arrays that are missing, extra, misshapen or of another type;
            one that is damaged or not finite.
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
        with reading(path):
            problems = _differences(found, specs)
        if problems:
            raise InputError(
                f"{path} does not fit its options: {'; '.join(problems)}"
                f"{_guess(found, specs)}"
            )
        yield _StoredWeights({spec.name: found[spec.hdf5] for spec in specs}, convert)


class _StoredWeights(Mapping[str, Any]):
    """Arrays of an open file by `VariableSpec.name`, float32 and finite."""

    def __init__(
        self,
        datasets: Mapping[str, h5py.Dataset],
        convert: Callable[[np.ndarray], Any],
    ) -> None:
        self._datasets = datasets
        self._convert = convert

    def __getitem__(self, name: str) -> Any:
        return self._convert(read_floats(self._datasets[name]))

    def __contains__(self, name: object) -> bool:
        return name in self._datasets  # without reading it

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
            write_array(file, spec.hdf5, np.asarray(values[spec.name], np.float32))


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
        return read_floats(found["embedding"])


def check_words(path: Path, n_vectors: int, n_words: int) -> None:
    """Check that a word-level model and a vocabulary have as many words.

    Raises:
        InputError: they differ.
    """
    if n_vectors != n_words:
        raise InputError(
            f"{path} has vectors of {n_vectors} words, but the vocabulary has "
            f"{n_words}; take the vocabulary of the training"
        )


def dataset_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of all datasets of an HDF5 file, by their full names."""
    with open_hdf5(path) as file:
        return {name: dataset.shape for name, dataset in datasets(file).items()}


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


def _some(names: Mapping[str, h5py.Dataset]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:5]) + (" ..." if len(listed) > 5 else "") or "none"
