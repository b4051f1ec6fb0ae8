"""Files and folders that appear whole or not at all, and names that modules share.

What is being written to `NAME` is `.NAME.HOST.PID.partial` beside it. Where the process
is killed that stays behind, until the next writing to `NAME` removes it.
"""

import contextlib
import ctypes
import logging
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

CHECKPOINT_INDEX = "checkpoint"  # names the checkpoints of a run
OPTIONS_FILE = "options.json"
WEIGHTS_FILE = "weights.hdf5"

_PARTIAL, _OLD = "partial", "old"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of Linux


def files_of_run(save_dir: str | os.PathLike[str]) -> list[Path]:
    """The files that the checkpoints of a run consist of, with its options."""
    names = (OPTIONS_FILE, CHECKPOINT_INDEX, "model.ckpt-*")
    return [path for name in names for path in Path(save_dir).glob(name)]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path beside `path` to write to, and rename it to `path` at the end.

    Where the block raises, `path` is left as it was and the half-written file is
    removed. Who reads `path` meets the file before or the one after. Where `path` is a
    link, the file that it leads to is replaced.
    """
    target = Path(os.path.realpath(path))
    tidy(target)
    partial = beside(target)
    try:
        yield partial
        os.replace(partial, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As `replacing`, for a folder: give a new one, and rename it at the end.

    What is in an older folder of this name is removed then. Where the system cannot
    exchange two folders in one step, there is none of this name for a moment; where the
    process is killed in it, `tidy` puts the older one back.
    """
    target = Path(os.path.realpath(path))
    tidy(target)
    partial = beside(target)
    partial.mkdir()
    try:
        yield partial
        if target.exists():
            _swap(partial, target)
        else:
            os.rename(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        tidy(target)


def beside(path: str | os.PathLike[str], kind: str = _PARTIAL) -> Path:
    """A hidden path on the same disk, no other process's."""
    path = Path(path)
    return path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.{kind}")


def tidy(path: str | os.PathLike[str]) -> None:
    """Clear up what processes that were killed while they wrote `path` have left.

    What they had half written is removed. A folder that was moved away, and whose
    successor never came, is put back. Both are logged. Files of processes that live, or
    of another machine, stay.
    """
    target = Path(os.path.realpath(path))
    remove_leftovers(target.parent, re.escape(target.name))


def remove_leftovers(folder: Path, names: str) -> None:
    """As `tidy`, for all paths of a folder whose names match a regular expression."""
    of_this_machine = re.escape(platform.node())
    leftover = re.compile(rf"\.({names})\.{of_this_machine}\.(\d+)\.([a-z]+).*")
    for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
        match = leftover.fullmatch(name)
        if match and not _is_of_another(int(match[2])):
            _clear(folder / name, match[3], folder / match[1])


def _clear(leftover: Path, kind: str, target: Path) -> None:
    with contextlib.suppress(OSError):  # may be cleared by another process already
        if kind == _OLD and not target.exists():
            os.rename(leftover, target)
            logger.warning(
                "put %s back, which a killed process had moved away to replace it",
                target,
            )
            return
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        logger.info("removed %s, which a killed process has left", leftover)


def _is_of_another(pid: int) -> bool:
    """Whether a process lives that has this number and is not this one."""
    if pid == os.getpid():
        return False  # in a container the next process may have the same number
    if os.name != "posix":
        return True  # where asking would end it
    try:
        os.kill(pid, 0)  # no signal, but it is checked whether one could be sent
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # another user's, or no number of a process
    return True


def _swap(new: Path, target: Path) -> None:
    """Put one folder in the place of another, which is at `new` afterwards."""
    if _exchange(new, target):
        return
    old = beside(target, _OLD)
    os.rename(target, old)
    os.rename(new, target)
    os.rename(old, new)  # from here on it is not to come back


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step, where system and disk can: Linux, mostly."""
    if os.name != "posix":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    paths = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other))
    return rename(*paths, _RENAME_EXCHANGE) == 0
