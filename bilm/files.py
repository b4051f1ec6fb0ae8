"""Files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from bilm.errors import InputError


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path beside `path` to write to, and rename it to `path` at the end.

    Where the block raises, `path` is left as it was and the half-written file is
    removed.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


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
