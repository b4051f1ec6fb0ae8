"""Checks of the paths on a command line, before anything expensive starts."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from bilm.errors import InputError
from bilm.files import CHECKPOINT_INDEX, OPTIONS_FILE
from bilm.jsonfiles import missing_file


def check_files(paths: Iterable[str]) -> None:
    """Check that input files are there.

    Raises:
        FileNotFoundError: a path leads to nothing.
        IsADirectoryError: a path leads to a folder.
    """
    for path in paths:
        if not os.path.exists(path):
            raise _error(errno.ENOENT, path)
        if os.path.isdir(path):
            raise _error(errno.EISDIR, path)


def check_run(save_dir: str) -> None:
    """Check that a folder holds what `bilm train` leaves there.

    Raises:
        FileNotFoundError: its `options.json` or its `checkpoint` is missing; says
            what is there instead.
    """
    check_model(
        os.path.join(save_dir, name) for name in (OPTIONS_FILE, CHECKPOINT_INDEX)
    )


def check_no_run(save_dir: str, options_file: str | None) -> None:
    """Check that a new run would not mix with one that the folder holds.

    Args:
        save_dir: the folder, which may be missing.
        options_file: options to train by, which may lie in that folder.

    Raises:
        InputError: there is a run, perhaps without a checkpoint so far.
    """
    for name in (CHECKPOINT_INDEX, OPTIONS_FILE):
        path = os.path.join(save_dir, name)
        given = os.path.realpath(options_file or os.curdir)
        if os.path.exists(path) and os.path.realpath(path) != given:
            raise InputError(
                f"{save_dir} already holds a run ({name}): go on with it by bilm train "
                "--resume, remove it by bilm train --overwrite, or give another "
                "--save_dir"
            )


def check_model(paths: Iterable[str]) -> None:
    """Check that the files of a model are there.

    Raises:
        FileNotFoundError: a file is missing; says what is there instead.
        IsADirectoryError: a path leads to a folder.
    """
    for path in paths:
        if not os.path.exists(path):
            raise missing_file(path)
        check_files([path])


def check_folders(paths: Iterable[str | None]) -> None:
    """Check that folders can be made at paths.

    Raises:
        NotADirectoryError: a path, or one above it, is a file.
    """
    for path in paths:
        while path and not os.path.exists(path):
            path = os.path.dirname(path)
        if path and not os.path.isdir(path):
            raise _error(errno.ENOTDIR, path)


def check_output(path: str) -> None:
    """Check that a file can be made at a path.

    Raises:
        FileNotFoundError: the folder of the file is missing.
        IsADirectoryError: the path is a folder.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise _error(errno.ENOENT, str(folder))
    if os.path.isdir(path):
        raise _error(errno.EISDIR, path)


def _error(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)  # of the subclass that fits the code
