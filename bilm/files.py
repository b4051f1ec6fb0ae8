"""Files that appear whole or not at all, and names that several modules know."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from bilm.errors import InputError

CHECKPOINT_INDEX = "checkpoint"  # names the checkpoints of a run
OPTIONS_FILE = "options.json"
WEIGHTS_FILE = "weights.hdf5"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path beside `path` to write to, and rename it to `path` at the end.

    Where the block raises, `path` is left as it was and the half-written file is
    removed.
    """
    partial = _beside(Path(path), "partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As `replacing`, for a folder: give a new one, and rename it at the end.

    What is in an older folder of this name is removed then.
    """
    target = Path(os.path.realpath(path))
    partial, old = _beside(target, "partial"), _beside(target, "old")
    partial.mkdir()
    try:
        yield partial
        if target.exists():
            os.rename(target, old)
        os.rename(partial, target)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_folder(
    path: str | os.PathLike[str], made: re.Pattern[str], maker: str, overwrite: bool
) -> None:
    """Check that a folder to make would not take the place of anything else.

    Args:
        path: of the folder, which may be there and empty.
        made: the names of what `maker` puts into such a folder.
        maker: the command.
        overwrite: whether it may replace what it has made before.

    Raises:
        InputError: the path is taken.
    """
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder to make")
    there = sorted(os.listdir(folder)) if folder.exists() else []
    if there and not overwrite:
        raise InputError(
            f"the folder {folder} is not empty (it holds {', '.join(there[:3])}): name "
            "another one, or add --overwrite"
        )
    others = [name for name in there if not made.fullmatch(name)]
    if others:
        raise InputError(
            f"{folder} holds what {maker} did not make ({', '.join(others[:3])}), "
            "and would lose it: name another folder"
        )


def _beside(path: Path, kind: str) -> Path:
    """A hidden path on the same disk, no other process's."""
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


def check_no_input(
    outfile: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str] | None]
) -> None:
    """Check that an output would not take the place of what it is made from.

    Raises:
        InputError: the output is one of the files that are there among `inputs`.
    """
    for path in inputs:
        if path is None or not (os.path.exists(path) and os.path.exists(outfile)):
            continue
        if os.path.samefile(path, outfile):
            raise InputError(
                f"the output {os.fspath(outfile)} must not be an input, or that would "
                "be lost; give it another name"
            )
