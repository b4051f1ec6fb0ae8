"""The text of a dump: measured first, then read line by line, or from where it was."""

import itertools
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from bilm.bars import progress_bar
from bilm.embeddings_file import Progress, digest
from bilm.errors import InputError
from bilm.text import read_sentences

Path = str | os.PathLike[str]


class TextSize(NamedTuple):
    """What a text holds."""

    n_lines: int
    n_blank: int
    n_tokens: int


class Lines:
    """The sentences of a text, with a progress bar, and where each sentence stands.

    Attributes:
        keep_index: whether `lines_of` is filled.
        lines_of: each distinct sentence, its tokens joined by blanks, with its lines.
    """

    def __init__(self, path: Path, size: TextSize, keep_index: bool) -> None:
        self._sentences = enumerate(read_sentences(path))
        self._path = path
        self._bar = progress_bar(size.n_lines, "line")
        self.keep_index = keep_index
        self.lines_of: dict[str, list[int]] = defaultdict(list)

    def __iter__(self) -> Iterator[list[str]]:
        for line, tokens in self._sentences:
            if self.keep_index:
                self.lines_of[" ".join(tokens)].append(line)
            yield tokens

    def skip(self, progress: Progress) -> None:
        """Pass the lines that are complete.

        Raises:
            InputError: they are not those that were embedded.
        """
        found = 0
        for tokens in itertools.islice(self, progress.n_lines):
            found = digest(tokens, found)
        if found != progress.digest:
            raise InputError(
                f"{self._path} does not begin with the {progress.n_lines} lines that "
                "are complete: give the same text, or begin anew without --resume"
            )
        self.advance(progress.n_lines)

    def advance(self, n_lines: int) -> None:
        """Move the progress bar."""
        self._bar.update(n_lines)

    def close(self) -> None:
        """Leave the progress bar as it is."""
        self._bar.close()


def measure(path: Path) -> TextSize:
    """Count what a text holds."""
    n_lines = n_blank = n_tokens = 0
    for tokens in read_sentences(path):
        n_lines += 1
        n_blank += not tokens
        n_tokens += len(tokens)
    return TextSize(n_lines, n_blank, n_tokens)
