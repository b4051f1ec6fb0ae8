"""A table of the words met so far, with numbers that are made once for each."""

from collections.abc import Callable, Sequence

import numpy as np

from bilm.errors import InputError

PADDING = 0
"""The row of no word, in a table made with it: its numbers are all 0."""


class WordTable:
    """The distinct words met so far, each with a row of numbers, made once.

    Looking a word up costs one dictionary access. The numbers of new words are made
    together, when a column is asked for.
    """

    def __init__(
        self, *encoders: Callable[[list[str]], np.ndarray], padded: bool = False
    ) -> None:
        """Start empty.

        Args:
            *encoders: one for each column, from n words to an array [n, ...].
            padded: whether to begin with the row `PADDING`. Its word is the empty
                text, which is never a token.
        """
        self.words: list[str] = []
        self._rows = _Rows(self.words)
        self._encoders = encoders
        self._columns = [encode([]) for encode in encoders]
        self._encoded = 0
        if padded:
            self.row("")
            self._encoded = 1
            self._columns = [
                np.zeros_like(c, shape=(1, *c.shape[1:])) for c in self._columns
            ]

    @property
    def n_columns(self) -> int:
        """How many columns there are."""
        return len(self._columns)

    def __len__(self) -> int:
        return len(self.words)

    @property
    def row(self) -> Callable[[str], int]:
        """The function from a word to its row; a new word gets the next one."""
        return self._rows.__getitem__

    def rows(self, words: Sequence[str]) -> np.ndarray:
        """Look up n words, [n] int32."""
        return np.fromiter(map(self.row, words), np.int32, len(words))

    def column(self, number: int) -> np.ndarray:
        """Give the numbers of all words met so far, [at least len(self), ...]."""
        self._encode_new()
        return self._columns[number]

    def _encode_new(self) -> None:
        old, size = self._encoded, len(self.words)
        if old == size:
            return
        new = self.words[old:]
        try:
            encoded = [encode(new) for encode in self._encoders]
        except InputError:  # a refused word must not be refused again with the next
            self._rows.forget(new)
            raise
        for i, values in enumerate(encoded):
            self._columns[i] = _grown(self._columns[i], size)
            self._columns[i][old:size] = values
        self._encoded = size


class _Rows(dict[str, int]):
    """A dictionary that numbers new words in order of appearance."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def __missing__(self, word: str) -> int:
        if not isinstance(word, str):
            raise InputError(f"a token must be a str, not {word!r}")
        self[word] = row = len(self)
        self._words.append(word)
        return row

    def forget(self, last: list[str]) -> None:
        """Take back the words that were met last."""
        for word in last:
            del self[word]
        del self._words[len(self) :]


def _grown(column: np.ndarray, size: int) -> np.ndarray:
    """Make room for `size` rows, at least twice as many as before where it is short."""
    if size <= len(column):
        return column
    grown = np.empty((max(size, 2 * len(column)), *column.shape[1:]), column.dtype)
    grown[: len(column)] = column
    return grown
