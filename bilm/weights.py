"""`weights.hdf5` and embedding files: reading with every array checked, and writing."""

import os
from collections.abc import Mapping, Sequence

import h5py
import numpy as np

from bilm.errors import InputError
from bilm.files import replacing
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
        InputError: all arrays that are missing, extra, misshapen or not finite.
    """
    with open_hdf5(path) as file:
        found = _datasets(file)
        for name in unused:
            found.pop(name, None)
        problems = _differences(found, specs)
        if problems:
            raise InputError(
                f"{path} does not fit its options: {'; '.join(problems)}"
                f"{_guess(found, specs)}"
            )
        values = {spec.name: _read(found[spec.hdf5]) for spec in specs}
    bad = [s.hdf5 for s in specs if not np.isfinite(values[s.name]).all()]
    if bad:
        raise InputError(f"{path} holds values that are not finite in {', '.join(bad)}")
    return values


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
        found = _datasets(file)
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
    if not np.isfinite(values).all():
        raise InputError(f"{path} holds values that are not finite in embedding")
    return values


def dataset_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of all datasets of an HDF5 file, by their full names."""
    with open_hdf5(path) as file:
        return {name: dataset.shape for name, dataset in _datasets(file).items()}


def open_hdf5(path: Path) -> h5py.File:
    """Open for reading; what is no HDF5 file is an `InputError`."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no file {os.fspath(path)}")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} is not a readable HDF5 file: {error}") from error


def _datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
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
    return dataset.astype(np.float32)[()]


def _some(names: Mapping[str, h5py.Dataset]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:5]) + (" ..." if len(listed) > 5 else "") or "none"
