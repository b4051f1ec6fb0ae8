"""Counting the words of a text, on all cores and in bounded memory.

Files are cut into pieces at line ends. Each process counts the words of one piece
after the other; whenever it has met too many distinct ones, and at the end of a piece,
they go to disk as a sorted run. Merging the runs gives each word with its count. What
comes out does not depend on how the work was divided.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from bilm.bars import progress_bar
from bilm.errors import InputError
from bilm.text import MAX_LINE_BYTES, LineReader, TextPosition, is_gzip, no_text
from bilm.texttable import TextTable
from bilm.wordruns import WordCount, join_runs, read_run, write_run
from bilm.wordtable import WordTable

MEMORY_WORDS = 1 << 22
"""Distinct words that all processes together hold: about 250 bytes each, 1 GB."""

PIECE_BYTES = 1 << 26
"""Bytes of a file that are counted together, up to the next line end."""

_BATCH_TOKENS = 1 << 20  # tokens whose rows are counted together


class TextCounts:
    """What a text holds; its words are on disk.

    Attributes:
        lengths: how many sentences have a number of tokens.
        folder: place of temporary files.
    """

    def __init__(self, lengths: Counter[int], run: str, folder: str) -> None:
        """Take what was counted, all words in one run ordered by code point."""
        self.lengths = lengths
        self.folder = folder
        self._run = run

    @property
    def n_sentences(self) -> int:
        """Lines, blank ones included."""
        return self.lengths.total()

    @property
    def n_blank(self) -> int:
        """Lines without a token."""
        return self.lengths[0]

    @property
    def n_tokens(self) -> int:
        """Tokens, without the `<S>` and `</S>` that training adds."""
        return sum(length * n for length, n in self.lengths.items())

    def words(self) -> Iterator[WordCount]:
        """Give each distinct word with its count, ordered by code point."""
        return read_run(self._run)


class Piece(NamedTuple):
    """A part of a file, between two line ends."""

    path: str
    start: int  # offset of its first byte
    end: int  # offset behind its last byte, or more
    size: int  # bytes on disk


class PieceCounts(NamedTuple):
    """What is in a piece."""

    lengths: Counter[int]
    runs: list[str]


@contextlib.contextmanager
def counted_text(
    files: Sequence[str],
    *,
    processes: int = 1,
    memory_words: int = MEMORY_WORDS,
    folder: str | os.PathLike[str] | None = None,
) -> Iterator[TextCounts]:
    """Count the words and sentences of text files.

    Args:
        files: paths, see `bilm.text.find_files`.
        processes: most processes that count. With more than one, a program must guard
            its start by `if __name__ == "__main__"`.
        memory_words: distinct words that are held in memory.
        folder: place of temporary files; by default that of the system. They hold
            each distinct word with its count, often several times.

    Yields:
        The counts, which can be used inside the block.

    Raises:
        FileNotFoundError, InputError: see `LineReader`; there is no token; or a process
            was killed.
    """
    pieces = [piece for path in files for piece in cut(path)]
    processes = min(processes, len(pieces))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        count = functools.partial(
            count_piece, folder=place, max_words=memory_words // processes
        )
        n_bytes = sum(piece.size for piece in pieces)
        lengths, runs = Counter[int](), list[str]()
        with progress_bar(n_bytes, "B", "counting") as bar, _mapping(processes) as do:
            for piece, counts in zip(pieces, do(count, pieces), strict=True):
                lengths.update(counts.lengths)
                runs += counts.runs
                bar.update(piece.size)
        if not runs:
            raise no_text(files, "token")
        yield TextCounts(lengths, join_runs(runs, place), place)


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux: containers and taskset limit them
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cut(path: str) -> Iterator[Piece]:
    """Cut a file into pieces; a gzipped one stays whole."""
    size = os.path.getsize(path)
    if is_gzip(path):
        yield Piece(path, 0, sys.maxsize, size)
        return
    start = 0
    with open(path, "rb") as file:
        while start + PIECE_BYTES < size:
            file.seek(start + PIECE_BYTES)
            if not file.readline(MAX_LINE_BYTES).endswith(b"\n"):
                break  # the last line, or one that the reader will refuse
            end = file.tell()
            yield Piece(path, start, end, end - start)
            start = end
    yield Piece(path, start, size, size - start)


def count_piece(piece: Piece, folder: str, max_words: int) -> PieceCounts:
    """Count a piece; runs are written to the folder.

    Raises:
        InputError: see `LineReader`; the line is that of the file.
    """
    counter = _Counter(folder, max_words)
    try:
        for text in _texts(piece):
            counter.add(text)
    except InputError:
        for _ in LineReader(piece.path).texts():  # a piece does not know its line
            pass
        raise
    counter.write()
    return PieceCounts(counter.lengths, counter.runs)


def _texts(piece: Piece) -> Iterator[bytes]:
    """The lines of a piece, many at a time."""
    reader = LineReader(piece.path, TextPosition(piece.start))
    for text in reader.texts():
        past = max(reader.position.offset - piece.end, 0)
        yield text[: len(text) - past]
        if reader.position.offset >= piece.end:
            return


class _Counter:
    """Counts words, as many as memory may hold at a time.

    Attributes:
        lengths: how many lines have a number of tokens.
        runs: paths of the runs written so far.
    """

    def __init__(self, folder: str, max_words: int) -> None:
        self.lengths: Counter[int] = Counter()
        self.runs: list[str] = []
        self._folder = folder
        self._max_words = max_words
        self._start()

    def _start(self) -> None:
        self._words = TextTable(WordTable(padded=True))
        self._counts = np.zeros(0, np.int64)  # by rows of the table
        self._pending: list[np.ndarray] = []
        self._n_pending = 0

    def add(self, text: bytes) -> None:
        """Count the tokens of whole lines."""
        lines = self._words.look_up(text)
        self.lengths.update(lines.counts.tolist())
        self._pending.append(lines.words)
        self._n_pending += len(lines.words)
        if self._n_pending > _BATCH_TOKENS:
            self._count()
        if len(self._words.table) > self._max_words:
            self.write()

    def _count(self) -> None:
        rows = np.concatenate([np.empty(0, np.int32), *self._pending])
        counts = np.bincount(rows, minlength=len(self._words.table))
        counts[: len(self._counts)] += self._counts
        self._counts, self._pending, self._n_pending = counts, [], 0

    def write(self) -> None:
        """Write what is in memory as a run, if anything, and forget it."""
        self._count()
        words, counts = self._words.table.words, self._counts.tolist()
        items = list(zip(words, counts, strict=True))[1:]  # 0 is PADDING
        if items:
            items.sort(key=itemgetter(0))
            self.runs.append(write_run(self._folder, items))
        self._start()


@contextlib.contextmanager
def _mapping(processes: int) -> Iterator[Callable[..., Iterator[PieceCounts]]]:
    """Give the function `map`, or one like it that works in so many processes."""
    if processes <= 1:
        yield map
        return
    # Not by fork: it does not go together with threads, those of TensorFlow included.
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _end_by_ctrl_c
    )
    try:
        yield pool.map
    except BrokenProcessPool as error:
        raise InputError(
            "a process that counted was killed, as happens where memory runs out: use "
            "fewer processes"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_by_ctrl_c() -> None:
    """Let a process end without a word; the one that started it has one to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
