"""All tokens of a text looked up at once, by array operations on its bytes.

A dictionary needs a `str` of each token, whose hash is computed and whose entry lies
anywhere in memory. Here the bytes of a token are two numbers of 64 bits, which are
compared with those of a known word, for all tokens together: about a third of the time.
What is not found that way, new words and long ones, goes by the dictionary.

Letters: n tokens, L lines.
"""

import re
from typing import NamedTuple

import numpy as np

from bilm.wordtable import PADDING, WordTable

# Where `str.split` splits: ASCII by its bytes, and the rest.
_IS_SPACE = bytes(byte in b"\t\n\v\f\r\x1c\x1d\x1e\x1f " for byte in range(256))
_OTHER_SPACES = re.compile(
    "[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_NEWLINE = ord("\n")

_LONGEST = 15  # bytes that two numbers hold; how many they are takes the sixteenth
_N_BITS = 18  # there are 2^18 slots, twice the words that are remembered
_FACTOR, _OTHER_FACTOR = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)

# What to keep of a number that begins with a token's bytes, by how many they are.
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


class Lines(NamedTuple):
    """The lines of a text."""

    words: np.ndarray  # [n] int32, rows of the word table
    counts: np.ndarray  # [L] int64, tokens of each line
    ends: np.ndarray  # [L] int64, bytes of the text up to the end of each line


class TextTable:
    """A way from the bytes of a text to rows of a `WordTable`.

    Each word has one slot. A word whose slot is taken stays without one.
    """

    def __init__(self, table: WordTable) -> None:
        """Start empty; `table` gets the new words. It has the row `PADDING`."""
        self.table = table
        n_slots = 1 << _N_BITS
        self._low = np.zeros(n_slots, np.uint64)
        self._high = np.zeros(n_slots, np.uint64)
        self._rows = np.full(n_slots, PADDING, np.int32)

    def look_up(self, text: bytes) -> Lines:
        """Look up the tokens of whole lines, of which the last may lack its end.

        Args:
            text: UTF-8.
        """
        padded = b"\n" + text + b"\n" * (_LONGEST + 1)
        starts, ends = _edges(padded)
        low, high = _keys(padded, starts, ends - starts)
        slots = _slots(low, high)
        words = self._rows.take(slots)
        known = (self._low.take(slots) == low) & (self._high.take(slots) == high)
        missed = np.flatnonzero(~known)
        spans = zip(starts[missed].tolist(), ends[missed].tolist(), strict=True)
        new = [padded[start:end].decode() for start, end in spans]
        if " ".join(new).split() != new:  # tokens have spaces that are not ASCII
            return self.look_up(_with_blanks(text))
        words[missed] = self.table.rows(new)
        short = missed[(ends - starts)[missed] <= _LONGEST]
        self._remember(slots[short], low[short], high[short], words[short])
        return Lines(words, *_lines(text, starts))

    def _remember(
        self, slots: np.ndarray, low: np.ndarray, high: np.ndarray, rows: np.ndarray
    ) -> None:
        """Fill free slots; where words compete for one, the first gets it."""
        free = np.flatnonzero(self._rows[slots] == PADDING)[::-1]
        at = slots[free]
        self._low[at], self._high[at] = low[free], high[free]
        self._rows[at] = rows[free]


def _with_blanks(text: bytes) -> bytes:
    """The text with as many blanks in place of each space that is not ASCII."""
    blanks = _OTHER_SPACES.sub(
        lambda space: " " * len(space[0].encode()), text.decode()
    )
    return blanks.encode()


def _edges(padded: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Begin and end of each token, [n] int64 each."""
    is_space = np.frombuffer(padded.translate(_IS_SPACE), bool)
    edges = np.flatnonzero(is_space[1:] != is_space[:-1]) + 1
    return edges[::2], edges[1::2]


def _keys(
    padded: bytes, starts: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers that are a token's own where it has `_LONGEST` bytes or fewer.

    The length is in them, since a token may end with zero bytes.
    """
    # The eight bytes that begin at each place.
    numbers = np.ndarray((len(padded) - 7,), "<u8", padded, 0, (1,))
    low = numbers[starts] & _MASKS.take(sizes, mode="clip")
    high = numbers[starts + 8] & _MASKS.take((sizes - 8).clip(0, 7))
    return low, high | sizes.clip(max=_LONGEST + 1).astype(np.uint64) << np.uint64(56)


def _slots(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A slot for each pair of numbers, by multiplicative hashing."""
    mixed = low * _FACTOR ^ high * _OTHER_FACTOR
    mixed = (mixed ^ mixed >> np.uint64(32)) * _FACTOR
    return (mixed >> np.uint64(64 - _N_BITS)).astype(np.int64)


def _lines(text: bytes, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of each line, and where it ends."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE) + 1
    if text and not text.endswith(b"\n"):
        ends = np.append(ends, len(text))
    # In the padded text all is one byte later.
    return np.diff(np.searchsorted(starts, ends, "right"), prepend=0), ends
