"""Checks of the paths on a command line, before anything expensive starts."""

import os
from collections.abc import Iterable

from bilm.errors import InputError
from bilm.files import CHECKPOINT_INDEX, OPTIONS_FILE
from bilm.paths import (
    check_encoding,
    check_file,
    check_folder,
    check_new_folder,
    check_output,
)

__all__ = [
    "check_files",
    "check_folder",
    "check_new_folders",
    "check_no_run",
    "check_output",
    "check_run",
]


def check_files(paths: Iterable[str | None]) -> None:
    """Check that input files are there, those that are given.

    Raises:
        FileNotFoundError: a path leads to nothing; says what is there instead.
        InputError: a path leads to a folder.
    """
    for path in paths:
        if path is not None:
            check_file(path)


def check_run(save_dir: str) -> None:
    """Check that a folder holds what `bilm train` leaves there.

    Raises:
        FileNotFoundError: its `options.json` or its `checkpoint` is missing; says
            what is there instead.
        InputError: one of them is a folder; or the path is not UTF-8.
    """
    check_encoding(save_dir)
    check_files(
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


def check_new_folders(paths: Iterable[str | None]) -> None:
    """Check that folders are there or can be made, those that are given.

    Raises:
        InputError: a path, or one above it, is a file, or is not UTF-8.
    """
    for path in paths:
        if path is not None:
            check_new_folder(path)
            check_encoding(path)
