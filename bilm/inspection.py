"""What is inside checkpoints, HDF5 files and options, as text for people."""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bilm.embeddings_file import in_units
from bilm.errors import InputError
from bilm.files import CHECKPOINT_INDEX, OPTIONS_FILE
from bilm.jsonfiles import read_object
from bilm.names import (
    ADAGRAD,
    GLOBAL_STEP,
    TRAIN_PERPLEXITY,
    VariableSpec,
    model_variables,
    softmax_variables,
)
from bilm.options import ModelOptions, read_model_options, read_training_options
from bilm.paths import check_file
from bilm.stored_arrays import StoredArray, checkpoint_arrays, hdf5_arrays
from bilm.tree import Entry, draw

NOT_LEARNT = (GLOBAL_STEP, TRAIN_PERPLEXITY)

_HDF5_MAGIC = b"\x89HDF"
_CHECKPOINT_FILE = re.compile(r"(.*ckpt-\d+)(?:\.index|\.data-\d+-of-\d+)?")
_ENDINGS = (OPTIONS_FILE, ".hdf5", ".h5")
_HEAD = ("shape", "dtype", "size")
_HEAD_OF_VALUES = ("mean", "norm")
_OF_MODELS = re.compile("LSTMCell|softmax/")  # in names of an HDF5 file


def inspect(path: str | os.PathLike[str], values: bool = True) -> str:
    """Describe a file or a folder.

    Args:
        path: a checkpoint (by its prefix or one of its files), an HDF5 file, options,
            or a folder, of which all options, all HDF5 files and the last checkpoint
            are described.
        values: whether to read the values of arrays, for means and norms.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: it is none of these, or is damaged.
    """
    path = os.fspath(path)
    files = _files(path) if os.path.isdir(path) else [path]
    return "\n\n".join(_file(file, values) for file in files)


def _files(folder: str) -> list[str]:
    """What is worth a look in a folder."""
    names = sorted(os.listdir(folder))
    found = [name for name in names if name.endswith(_ENDINGS)]
    found += [name for name in names if name == CHECKPOINT_INDEX]
    if not found:
        raise InputError(
            f"the folder {folder} holds no options.json, HDF5 file or checkpoint, but "
            f"{', '.join(names[:5]) or 'nothing'}: name a file, or another folder"
        )
    return [os.path.join(folder, name) for name in found]


def _file(path: str, values: bool) -> str:
    if os.path.basename(path) == CHECKPOINT_INDEX:
        from bilm.checkpoint import latest_checkpoint  # loads TensorFlow

        return _checkpoint(latest_checkpoint(os.path.dirname(path) or "."), values)
    match = _CHECKPOINT_FILE.fullmatch(path)
    if match and os.path.exists(f"{match[1]}.index"):
        return _checkpoint(match[1], values)
    check_file(path)
    with open(path, "rb") as file:
        is_hdf5 = file.read(len(_HDF5_MAGIC)) == _HDF5_MAGIC
    if is_hdf5:
        return _hdf5(path, values)
    if path.endswith(".json"):
        return "\n".join(_options(path))
    raise InputError(
        f"{path} is no checkpoint, HDF5 file or .json file of options, which are what "
        "can be looked into"
    )


def _checkpoint(prefix: str, values: bool) -> str:
    arrays = list(checkpoint_arrays(prefix, values))
    slots = [a for a in arrays if a.name.endswith(f"/{ADAGRAD}")]
    learnt = [a for a in arrays if a.name not in NOT_LEARNT and a not in slots]
    return "\n".join(
        [
            f"{prefix}: checkpoint",
            _tree(arrays),
            _amount("parameters", learnt),
            _amount("values of Adagrad", slots),
        ]
    )


def _hdf5(path: str, values: bool) -> str:
    arrays = hdf5_arrays(path, values)
    is_model = any(_OF_MODELS.search(array.name) for array in arrays)
    amount = _amount("parameters" if is_model else "values", arrays)
    return "\n".join([f"{path}: HDF5", _tree(arrays), amount])


def _tree(arrays: Sequence[StoredArray]) -> str:
    has_values = any(array.moments for array in arrays)
    head = _HEAD + _HEAD_OF_VALUES if has_values else _HEAD
    return draw([_entry(array) for array in arrays], head)


def _entry(array: StoredArray) -> Entry:
    cells = [array.shape, array.dtype, in_units(array.n_bytes)]
    if moments := array.moments:
        cells += [f"{moments.mean:.3g}", f"{moments.norm:.4g}"]
        if moments.n_not_finite:
            cells.append(f"{moments.n_not_finite:,} not finite")
    return Entry(tuple(array.name.split("/")), tuple(cells))


def _amount(what: str, arrays: Sequence[StoredArray]) -> str:
    n_values = sum(array.n_values for array in arrays)
    size = in_units(sum(array.n_bytes for array in arrays))
    return f"{n_values:,} {what}, {size}"


def _options(path: str) -> Iterator[str]:
    content, _ = read_object(path)
    yield f"{path}: options"
    yield draw(_entries(content))
    try:
        yield _network(read_model_options(path))
    except InputError as error:  # looked into, perhaps, because something is wrong
        yield f"not valid: {error}"
        return
    if "n_tokens_vocab" in content:
        try:
            n_values = _n_values(softmax_variables(read_training_options(path)))
            yield f"{n_values:,} more parameters in training, of the softmax"
        except InputError as error:
            yield f"not valid for training: {error}"


def _entries(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[Entry]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _entries(value, (*path, name))
        else:
            yield Entry((*path, name), (json.dumps(value, ensure_ascii=False),))


def _network(options: ModelOptions) -> str:
    """The sizes that follow from options."""
    vectors = f"vectors of {options.output_dim:,} values"
    if options.char_cnn is not None:
        return f"{vectors}, {_n_values(model_variables(options)):,} parameters"
    n_values = _n_values(model_variables(options, n_words=0))
    each = options.lstm.projection_dim
    return f"{vectors}, {n_values:,} parameters and {each:,} more for each word"


def _n_values(specs: Sequence[VariableSpec]) -> int:
    return sum(math.prod(spec.shape) for spec in specs)
