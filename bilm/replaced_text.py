"""Text with bytes that are not UTF-8, in a copy that has U+FFFD in their place.

A text is read more than once, and a position in it is kept to resume a run, so that the
bytes of what is read must not change: hence a copy, of the files that need one.
"""

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bilm.errors import InputError
from bilm.text import LineReader, PathOrPattern, find_files

logger = logging.getLogger(__name__)


def replaced_files(
    patterns: PathOrPattern | Sequence[PathOrPattern],
    outputs: Iterable[str | os.PathLike[str]] = (),
) -> list[str]:
    """Find files of text, and copy those that are not UTF-8 throughout.

    Of each, the number of replacements is logged as a warning: one for each sequence of
    bytes, as `bytes.decode` makes them with `errors="replace"`.

    Args:
        patterns: see `bilm.text.find_files`.
        outputs: files and folders that will be written, which must not be, or hold,
            one of the texts: behind a copy it would be lost.

    Returns:
        The paths, of files with the same names in the same order: those that were
        found, or where there is a copy, all in a temporary folder, which is removed
        when the process ends.

    Raises:
        FileNotFoundError: one of the patterns matches no file.
        InputError: a file is no text for another reason; see `LineReader`.
    """
    files = find_files(patterns)
    _check_apart(files, outputs)
    counts = {path: _count(path) for path in files}
    if not any(counts.values()):
        return files
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return [
        _put(path, counts[path], folder / f"{number:08}")
        for number, path in enumerate(files)
    ]


def _count(path: str) -> int:
    """How many replacements a file needs."""
    reader = LineReader(path, errors="replace")
    for _ in reader.texts():
        pass
    if reader.n_replaced:
        logger.warning(
            "%s: %d sequences of bytes are not UTF-8 and are replaced by U+FFFD",
            path,
            reader.n_replaced,
        )
    return reader.n_replaced


def _put(path: str, n_replaced: int, folder: Path) -> str:
    """Copy a file, or link to it where it can stay as it is."""
    folder.mkdir()
    place = folder / os.path.basename(path)
    if not n_replaced:
        place.symlink_to(os.path.abspath(path))
    else:
        with open(place, "wb") as copy:
            copy.writelines(LineReader(path, errors="replace").texts())
    return str(place)


def _check_apart(
    files: Sequence[str], outputs: Iterable[str | os.PathLike[str]]
) -> None:
    for output in outputs:
        for path in files:
            place = os.path.realpath(output)
            if os.path.commonpath([os.path.realpath(path), place]) == place:
                raise InputError(
                    f"the output {os.fspath(output)} must not be an input ({path}), or "
                    "that would be lost; give it another name"
                )
