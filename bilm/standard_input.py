"""Standard input as a file, because a text is read more than once."""

import atexit
import functools
import os
import shutil
import sys
import tempfile
from typing import TextIO

from bilm.errors import InputError

STANDARD_INPUT = "-"
"""The name that stands for it; a file of this name is `./-`."""

_NAME = "standard input"  # of the copy


def standard_input() -> str:
    """Copy standard input to a temporary file, once, and give its path.

    The copy is removed when the process ends.

    Raises:
        InputError: there is none.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise InputError(
            f"{STANDARD_INPUT} stands for standard input, which is closed: give a file"
        )
    return _copy(sys.stdin)


def shown(path: str | os.PathLike[str]) -> str:
    """A path as messages have it: the copy is called standard input."""
    name = os.path.basename(path)
    return name if name == _NAME else os.fspath(path)


@functools.cache
def _copy(stream: TextIO) -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, _NAME)
    with open(path, "wb") as file:
        shutil.copyfileobj(stream.buffer, file)
    return path
