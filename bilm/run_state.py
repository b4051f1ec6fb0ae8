"""What an exact resume needs beyond a checkpoint, in a file beside it.

`model.ckpt-STEP.state.npz` holds the states of the LSTM layers as arrays, and all else
as JSON in its entry `values`. It is written before the checkpoint whose step it names,
and removed with it. bilm-tf does not look at it.
"""

import json
import os
import zipfile
from typing import Any, NamedTuple

import numpy as np

from bilm.errors import InputError, reading
from bilm.files import replacing

SUFFIX = ".state.npz"
WAY_OUT = "go on with the weights of the checkpoint by bilm restart"
_VALUES = "values"


class RunState(NamedTuple):
    """A run between two steps.

    Attributes:
        arrays: LSTM states, each [rows of all devices, units]: of each direction, of
            each layer, c and m.
        values: all else, as JSON can hold it, by the name of the part of the run.
    """

    arrays: list[np.ndarray]
    values: dict[str, Any]


def write_run_state(prefix: str | os.PathLike[str], state: RunState) -> None:
    """Write the file that belongs to the checkpoint of this prefix."""
    text = json.dumps(state.values).encode()
    arrays: dict[str, Any] = {f"lstm_{i}": a for i, a in enumerate(state.arrays)}
    arrays[_VALUES] = np.frombuffer(text, np.uint8)
    with replacing(os.fspath(prefix) + SUFFIX) as partial, open(partial, "wb") as file:
        np.savez(file, **arrays)


def read_run_state(prefix: str | os.PathLike[str]) -> RunState:
    """Read the file that belongs to the checkpoint of this prefix.

    Raises:
        InputError: there is none, as with a checkpoint of bilm-tf, or it is damaged.
    """
    path = os.fspath(prefix) + SUFFIX
    try:
        with reading(path, WAY_OUT), open(path, "rb") as raw:
            if not zipfile.is_zipfile(raw):
                raise ValueError("it is no npz file, or cut short")
            raw.seek(0)
            # Nothing of it is run: pickled objects are refused.
            with np.load(raw, allow_pickle=False) as file:
                values = json.loads(file[_VALUES].tobytes())
                arrays = [file[f"lstm_{i}"] for i in range(len(file.files) - 1)]
            finite = all(np.isfinite(array).all() for array in arrays)
    except FileNotFoundError:
        raise InputError(
            f"the checkpoint {os.fspath(prefix)} cannot be resumed, for {path} is "
            "missing (bilm-tf and older versions write none): go on with its weights "
            "by bilm restart"
        ) from None
    if not (finite and isinstance(values, dict)):
        raise InputError(f"{path} is no state of a run: {WAY_OUT}")
    return RunState(arrays, values)
