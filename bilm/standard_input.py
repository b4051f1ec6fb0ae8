"""Standard input as a file, because a text is read more than once."""

import atexit
import functools
import os
import shutil
import sys
import tempfile
from typing import TextIO

STANDARD_INPUT = "-"
"""The name that stands for it; a file of this name is `./-`."""


def standard_input() -> str:
    """Copy standard input to a temporary file, once, and give its path.

    The copy is removed when the process ends.
    """
    return _copy(sys.stdin)


@functools.cache
def _copy(stream: TextIO) -> str:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "standard input")
    with open(path, "wb") as file:
        shutil.copyfileobj(stream.buffer, file)
    return path
