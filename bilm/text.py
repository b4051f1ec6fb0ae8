"""Text files: finding them and reading their sentences.

One definition of a sentence and of a token serves counting, training, evaluation and
dumps: a sentence is a line ended by "\\n" alone, its tokens are `str.split()` of it.
"""

import contextlib
import glob
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

from bilm.errors import InputError
from bilm.paths import check_file, no_file
from bilm.standard_input import STANDARD_INPUT, shown, standard_input

MAX_LINE_BYTES = 1 << 26
"""A longer line is no sentence: a file of another kind, or one without line ends."""

TEXT_BYTES = 1 << 16
"""Lines that are read together have so many bytes, or more by a part of a line."""

_BUFFER_BYTES = 1 << 20
_LISTED_FILES = 5
_EMPTY = "''"  # a path, as messages have it
_UTF8_BOM = b"\xef\xbb\xbf"
_GZIP_MAGIC = b"\x1f\x8b"
_OTHER_KINDS = {
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x89HDF": "an HDF5 file",
}

PathOrPattern = str | os.PathLike[str]
Stream = IO[bytes] | gzip.GzipFile
_GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


class TextPosition(NamedTuple):
    """A place between two lines of a text file."""

    offset: int = 0  # bytes before it, after decompression
    line: int = 0  # lines before it


def find_files(patterns: PathOrPattern | Sequence[PathOrPattern]) -> list[str]:
    """Find the files that a user names.

    Args:
        patterns: a file, a folder (all regular files in it, hidden ones left out), a
            glob pattern, `-` for standard input (of which a copy is made), or several
            of these. One pair of quotes around a pattern is dropped: some shells pass
            them on.

    Returns:
        The paths, sorted, each once.

    Raises:
        FileNotFoundError: one of the patterns matches no file.
    """
    if isinstance(patterns, (str, os.PathLike)):
        patterns = [patterns]
    if not patterns:
        raise FileNotFoundError("no file was given: name a file, a folder or a pattern")
    return sorted({path for pattern in patterns for path in _matches(pattern)})


def find_text(patterns: PathOrPattern | Sequence[PathOrPattern]) -> list[str]:
    """Find the files of a text that is needed; see `find_files`.

    Raises:
        FileNotFoundError: one of the patterns matches no file.
        InputError: no file has a line, or the first that has one is no text.
    """
    files = find_files(patterns)
    check_text(files)
    return files


def check_text(files: Sequence[PathOrPattern]) -> None:
    """Check that a text has a line, blank or not.

    Raises:
        FileNotFoundError, InputError: it has none; see `LineReader`.
    """
    if not any(True for path in files for _ in LineReader(path)):
        raise no_text(files, "sentence")


def _matches(pattern: PathOrPattern) -> list[str]:
    if pattern == STANDARD_INPUT:
        return [standard_input()]
    text = os.path.expanduser(_without_quotes(os.fspath(pattern)))
    if os.path.isdir(text):
        names = [name for name in os.listdir(text) if not name.startswith(".")]
        found = [os.path.join(text, name) for name in names]
    elif os.path.exists(text):  # before globbing: a name may hold "[" or "*"
        found = [text]
    else:
        found = glob.glob(text)
    files = [path for path in found if os.path.isfile(path)]
    if not files and os.path.isdir(text):
        raise FileNotFoundError(
            f"the folder {text} holds no file of text, hidden files and folders in it "
            "left out: name another one, or a pattern such as data/*/*.txt"
        )
    if not files and any(map(os.path.exists, found)):
        raise no_file(found[0])
    if not files:
        raise FileNotFoundError(
            f"no file matches {os.fspath(pattern) or _EMPTY} (looked from "
            f"{os.getcwd()}): give a file, a folder or a pattern such as data/*.txt, "
            "and look out for quotes that became part of the pattern"
        )
    return files


def _without_quotes(text: str) -> str:
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


class LineReader:
    """Reads a UTF-8 text file, plain or gzipped, once: by lines, or many at a time.

    Memory is bounded by the longest line. A line ends at "\\n" alone (not at "\\r",
    U+2028 or U+0085), which is kept; what follows the last one is a line unless it is
    empty. A byte order mark at the beginning is dropped.

    Attributes:
        n_replaced: how many sequences of bytes were replaced so far.
    """

    def __init__(
        self,
        path: PathOrPattern,
        start: TextPosition | None = None,
        errors: str = "strict",
    ) -> None:
        """Prepare to read.

        Args:
            path: the file.
            start: `position` of an earlier reading, to go on from there.
            errors: `replace` puts U+FFFD where bytes are not UTF-8, which `strict`
                refuses.
        """
        self.n_replaced = 0
        self._path, self._errors = path, errors
        self._offset, self._line = start or TextPosition()

    @property
    def position(self) -> TextPosition:
        """The position after what was given last."""
        return TextPosition(self._offset, self._line)

    def __iter__(self) -> Iterator[str]:
        """Give the lines.

        Raises:
            FileNotFoundError: there is no such file.
            InputError: it is not UTF-8 text (with line and byte offset), UTF-16, HDF5,
                a broken gzip file, or has a line longer than `MAX_LINE_BYTES`.
        """
        return (text for _, text in self._read(_read_line))

    def texts(self) -> Iterator[bytes]:
        """Give UTF-8 of whole lines, `TEXT_BYTES` or more together; see `__iter__`."""
        return (raw for raw, _ in self._read(_read_lines))

    def _read(self, take: Callable[[Stream], bytes]) -> Iterator[tuple[bytes, str]]:
        path = self._path
        with _open(path) as stream:
            try:
                self._offset = stream.seek(self._offset or _beginning(stream, path))
                while raw := take(stream):
                    if len(raw) > MAX_LINE_BYTES:
                        self._check_last_line(raw)
                    text = raw.decode("utf-8", self._errors)
                    self._offset += len(raw)
                    self._line += raw.count(b"\n") + (not raw.endswith(b"\n"))
                    yield self._replaced(raw, text), text
            except UnicodeDecodeError as error:
                raise self._error(
                    f"is not UTF-8 (byte 0x{raw[error.start]:02x} at offset "
                    f"{self._offset + error.start} of the text): convert it, for "
                    "example with iconv -t UTF-8, or let the command replace such "
                    "bytes by --errors replace",
                    raw[: error.start],
                ) from error
            except _GZIP_ERRORS as error:
                self._line = _whole_lines(path)
                raise self._error(
                    f"cannot be unzipped ({error}): the file is damaged or cut short; "
                    "make it again"
                ) from error

    def _replaced(self, raw: bytes, text: str) -> bytes:
        """The bytes of the text, which are those of the file unless some are wrong."""
        if self._errors == "strict":
            return raw
        encoded = text.encode()
        mark = "\ufffd"
        self.n_replaced += text.count(mark) - raw.count(mark.encode())
        return encoded

    def _check_last_line(self, raw: bytes) -> None:
        """Refuse a line that is too long; the others are short, see `_read_lines`."""
        start = raw.rfind(b"\n", 0, -1) + 1
        if len(raw) - start > MAX_LINE_BYTES:
            raise self._error(
                f"is longer than {MAX_LINE_BYTES} bytes: the text needs one sentence "
                "a line",
                raw[:start],
            )

    def _error(self, what: str, before: bytes = b"") -> InputError:
        """Of the line that comes after what was given and these bytes."""
        line = self._line + before.count(b"\n") + 1
        return InputError(f"{shown(self._path)}:{line} {what}")


def read_sentences(path: PathOrPattern) -> Iterator[list[str]]:
    """Read the tokens of each line; a blank line gives an empty list.

    Raises:
        FileNotFoundError, InputError: see `LineReader`.
    """
    for line in LineReader(path):
        yield line.split()


def _read_line(stream: Stream) -> bytes:
    """A line, or a part of it that is too long already."""
    return stream.readline(MAX_LINE_BYTES + 1)


def _read_lines(stream: Stream) -> bytes:
    """Lines; all but the last are within `MAX_LINE_BYTES`."""
    text = stream.read(min(TEXT_BYTES, MAX_LINE_BYTES))
    return text if text.endswith(b"\n") else text + _read_line(stream)


def is_gzip(path: PathOrPattern) -> bool:
    """Whether a file is gzipped, whatever its name; one cut short by its name."""
    check_file(path)
    with open(path, "rb") as file:
        head = file.read(2)
    named = os.fspath(path).endswith(".gz")
    if named and not head:  # no text in gzip has 20 bytes
        raise InputError(
            f"{shown(path)}:1 cannot be unzipped (it is empty): the file is cut "
            "short; make it again"
        )
    return head == _GZIP_MAGIC or (named and head == _GZIP_MAGIC[:1])


def _whole_lines(path: PathOrPattern) -> int:
    """How many lines of a damaged gzip file can be unzipped.

    The reader does not know: what it asked for last came in part, and was lost.
    """
    n_lines = 0
    with gzip.open(path, "rb") as stream, contextlib.suppress(*_GZIP_ERRORS):
        while text := stream.read1(TEXT_BYTES):
            n_lines += text.count(b"\n")
    return n_lines


def _open(path: PathOrPattern) -> Stream:
    if is_gzip(path):
        return gzip.open(path, "rb")
    return open(path, "rb", buffering=_BUFFER_BYTES)


def _beginning(stream: Stream, path: PathOrPattern) -> int:
    """The offset of the first character, past a byte order mark."""
    head = stream.read(4)
    for magic, kind in _OTHER_KINDS.items():
        if head.startswith(magic):
            raise InputError(
                f"{shown(path)}:1 looks like {kind}, where UTF-8 text is needed: give "
                "the right file, or save it as UTF-8"
            )
    return len(_UTF8_BOM) if head.startswith(_UTF8_BOM) else 0


def no_text(files: Sequence[PathOrPattern], unit: str) -> InputError:
    """The error of shards that have not one `unit`, a sentence or a token."""
    listed = ", ".join(shown(path) for path in files[:_LISTED_FILES])
    if len(files) > _LISTED_FILES:
        listed += f" and {len(files) - _LISTED_FILES} more files"
    return InputError(
        f"there is no {unit} in {listed}: the text needs a sentence on each line"
    )
