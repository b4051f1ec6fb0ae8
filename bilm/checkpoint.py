"""Checkpoints in bilm-tf's format: variables saved under their names.

A folder holds `checkpoint`, which names the last ones, and for each of them
`model.ckpt-STEP.index` and `model.ckpt-STEP.data-00000-of-00001`.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from bilm.checkpoint_index import check_index
from bilm.errors import InputError, reading
from bilm.files import CHECKPOINT_INDEX, beside, remove_leftovers, replacing
from bilm.hdf5_files import is_finite
from bilm.names import ADAGRAD, GLOBAL_STEP, training_variables
from bilm.options import TrainingOptions
from bilm.paths import check_folder

logger = logging.getLogger(__name__)

_MAX_INDEX_BYTES = 1 << 24
_WAY_OUT = "take an earlier checkpoint, or a copy"


class Checkpoint:
    """A checkpoint open for reading.

    Args:
        prefix: path up to and with the step, `.../model.ckpt-STEP`.

    Attributes:
        shapes, dtypes: of the variables, by their names.

    Raises:
        FileNotFoundError: there is none.
        InputError: its files are damaged.
    """

    def __init__(self, prefix: str | os.PathLike[str]):
        self.prefix = os.fspath(prefix)
        if not os.path.isfile(self.prefix + ".index"):
            raise FileNotFoundError(
                f"no checkpoint {self.prefix}.index: {_WAY_OUT}, or name another one"
            )
        with reading(self.prefix, _WAY_OUT):
            check_index(self.prefix + ".index")
            self._reader = tf.train.load_checkpoint(self.prefix)
            self.shapes = self._reader.get_variable_to_shape_map()
            self.dtypes = {
                name: dtype.name
                for name, dtype in self._reader.get_variable_to_dtype_map().items()
            }

    def read(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
        """Read the variables named in `shapes`, float32, which must all be there.

        Raises:
            InputError: all that are missing or have another shape or type; one that
                is damaged or not finite.
        """
        problems = [self._difference(*each) for each in shapes.items()]
        problems = [problem for problem in problems if problem]
        if problems:
            raise InputError(
                f"checkpoint {self.prefix} does not fit its options: "
                + "; ".join(problems)
            )
        return {name: self._finite(name) for name in shapes}

    def read_optional(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Read those of the names that are there, as they are."""
        return {name: self._tensor(name) for name in names if name in self.shapes}

    def _difference(self, name: str, shape: tuple[int, ...]) -> str:
        if name not in self.shapes:
            return f"{name} is missing"
        found, dtype = self.shapes[name], self.dtypes[name]
        if tuple(found) != shape:
            return f"{name} must be {list(shape)} but is {list(found)}"
        return f"{name} must be float32 but is {dtype}" if dtype != "float32" else ""

    def _finite(self, name: str) -> np.ndarray:
        values = self._tensor(name)
        if not is_finite(values):
            raise InputError(
                f"checkpoint {self.prefix} holds values that are not finite in {name}: "
                "take an earlier one"
            )
        return values

    def _tensor(self, name: str) -> np.ndarray:
        with reading(self.prefix, _WAY_OUT):
            return np.asarray(self._reader.get_tensor(name))


def latest_checkpoint(save_dir: str | os.PathLike[str]) -> str:
    """Prefix of the last checkpoint of a folder, also of one that was moved.

    Raises:
        FileNotFoundError: the folder, or a checkpoint in it, is missing.
    """
    check_folder(save_dir)
    names = _listed(Path(save_dir))
    if not names:
        raise FileNotFoundError(
            f"no checkpoint in {os.fspath(save_dir)}: expected a file 'checkpoint' and "
            "the model.ckpt-STEP.index that it names, found "
            f"{sorted(os.listdir(save_dir))[:10]}; name another folder, or copy this "
            "one again"
        )
    if names[-1] != (last := _named(Path(save_dir))[-1]):
        logger.warning(
            "the last checkpoint of %s is %s, but it is not there; %s is taken",
            os.fspath(save_dir),
            last,
            names[-1],
        )
    return os.path.join(save_dir, names[-1])


def checkpoint_prefix(save_dir: str | os.PathLike[str], step: int) -> str:
    """Prefix of the checkpoint of a step: `SAVE_DIR/model.ckpt-STEP`."""
    return os.path.join(save_dir, f"model.ckpt-{step}")


def write_checkpoint(
    save_dir: str | os.PathLike[str],
    step: int,
    tensors: Mapping[str, tf.Tensor | np.ndarray],
    keep: int,
) -> str:
    """Write a checkpoint, name it the last one, and remove all but the last `keep`.

    The files are renamed to their place before the file `checkpoint` names them.

    Returns:
        The new checkpoint's prefix.
    """
    folder = Path(save_dir)
    name = Path(checkpoint_prefix(folder, step)).name
    remove_leftovers(folder, r"model\.ckpt-\d+(?:\.state\.npz)?")
    partial = beside(folder / name)
    names = sorted(tensors)
    try:
        tf.raw_ops.SaveV2(
            prefix=os.fspath(partial),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[tf.convert_to_tensor(tensors[n], tf.float32) for n in names],
        )
        for suffix in (".data-00000-of-00001", ".index"):
            os.replace(f"{partial}{suffix}", folder / f"{name}{suffix}")
    finally:
        _remove(folder, f"{partial.name}*")
    kept = [n for n in _listed(folder) if n != name] + [name]
    _write_index(folder, kept[-keep:])
    for old in kept[:-keep]:
        _remove(folder, f"{old}.*")
    return os.fspath(folder / name)


def remove_unfinished(save_dir: str | os.PathLike[str], step: int) -> None:
    """Remove what a process that was killed has left.

    These are half-written files, and checkpoints after the step from which a run goes
    on that the file `checkpoint` does not name: the run will make them again.
    """
    folder = Path(save_dir)
    _remove(folder, ".model.ckpt-*.partial*")
    listed = _listed(folder)
    for file in folder.glob("model.ckpt-*"):
        match = re.match(r"model\.ckpt-(\d+)\.", file.name)
        if match and int(match[1]) > step and match[0][:-1] not in listed:
            logger.info("removed %s, which a killed process has left", file)
            file.unlink()


def _remove(folder: Path, pattern: str) -> None:
    for file in folder.glob(pattern):
        file.unlink(missing_ok=True)


def _write_index(folder: Path, names: list[str]) -> None:
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    with replacing(folder / CHECKPOINT_INDEX) as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _listed(folder: Path) -> list[str]:
    """Those that `checkpoint` names and the folder holds."""
    return [name for name in _named(folder) if (folder / f"{name}.index").is_file()]


def _named(folder: Path) -> list[str]:
    """Names of the checkpoints that `checkpoint` lists, in order.

    Paths are taken relative to the folder, wherever it lay when they were written.
    """
    index = folder / CHECKPOINT_INDEX
    if not index.is_file():
        return []
    if index.stat().st_size > _MAX_INDEX_BYTES:
        raise InputError(
            f"{index} has more than {_MAX_INDEX_BYTES:,} bytes, too many for a list of "
            "checkpoints: remove it, and name a checkpoint"
        )
    text = index.read_text(encoding="utf-8", errors="replace")
    paths = re.findall(r'^all_model_checkpoint_paths: "(.*)"', text, re.MULTILINE)
    paths += re.findall(r'^model_checkpoint_path: "(.*)"', text, re.MULTILINE)
    names = [re.split(r"[/\\]", path)[-1] for path in paths]
    last_first = dict.fromkeys(reversed(names))  # the last mention counts
    return list(reversed(last_first))


def checkpoint_values(
    options: TrainingOptions, prefix: str, with_slots: bool = True
) -> dict[str, np.ndarray]:
    """Values of a checkpoint, by their names in it.

    Args:
        options: that its variables must fit.
        prefix: path up to and with the step.
        with_slots: also slots and step, as far as the checkpoint has them.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        InputError: its variables do not fit, or cannot be read.
    """
    checkpoint = Checkpoint(prefix)
    specs = training_variables(options)
    values = checkpoint.read({spec.name: spec.shape for spec in specs})
    if with_slots:
        slots = {f"{spec.name}/{ADAGRAD}": spec.shape for spec in specs}
        there = {slot: slots[slot] for slot in slots if slot in checkpoint.shapes}
        values |= checkpoint.read(there) | checkpoint.read_optional([GLOBAL_STEP])
        step = values.get(GLOBAL_STEP, np.float32(0))
        if step.shape or not (np.isfinite(step) and step == int(step) >= 0):
            raise InputError(
                f"checkpoint {prefix}: {GLOBAL_STEP} must be a whole number, not {step}"
            )
    return values
