"""Context-free vectors of words, each distinct word encoded once.

Letters: n words, C characters of a word, D `projection_dim`.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bilm.batcher import Batcher, TokenBatcher
from bilm.prediction import PADDING
from bilm.wordtable import WordTable

CACHE_BYTES = 1 << 28
"""Vectors remembered before the cache starts afresh: 131,072 words of 512 values."""

WORDS_AT_ONCE = 1024
"""Words encoded together: enough for fast products, little memory for convolutions."""

WORDS_APART = 256
"""So many, or more, are encoded apart from those that are longer by `LONGER`."""

LONGER = 3  # characters, each of which costs a word about a thirtieth of its time

Encode = Callable[[np.ndarray], np.ndarray]


EDGES = (-2, -1)
"""Numbers of `<S>` and `</S>` among words."""


class WindowTokens(NamedTuple):
    """Tokens of a window, in the order of the text."""

    vectors: np.ndarray  # float32 [n, D]
    words: np.ndarray  # int32 [n], a number for each distinct word


def encode_by_length(encode: Encode, ids: np.ndarray) -> np.ndarray:
    """Encode words together with those of like length, so that padding is cut off.

    Args:
        encode: prediction ids int32 [n, C] or [n] to vectors [n, D].
        ids: of n words; at least one.

    Returns:
        float32 [n, D], in the order of `ids`.
    """
    if ids.ndim == 1:
        return encode(ids)
    lengths = np.count_nonzero(ids != PADDING, axis=1)
    order = np.argsort(lengths, kind="stable")
    pieces = np.split(order, _ends(lengths[order]))
    encoded = np.concatenate([encode(ids[piece]) for piece in pieces])
    vectors = np.empty_like(encoded)
    vectors[order] = encoded
    return vectors


def _ends(lengths: np.ndarray) -> list[int]:
    """Where to divide words of these lengths, in order, to encode them in pieces.

    >>> _ends(np.repeat([3, 5, 9], [300, 1000, 600]))
    [1024, 1536]
    """
    start, ends = 0, []
    for end in range(WORDS_APART, len(lengths), WORDS_APART):
        enough = end - start >= WORDS_AT_ONCE
        if enough or lengths[end] - lengths[start] >= LONGER:
            ends.append(end)
            start = end
    return ends


class TokenVectors:
    """The vectors of the words met so far, as many as a bound on memory allows."""

    def __init__(
        self,
        encode: Encode,
        batcher: Batcher | TokenBatcher,
        width: int,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Start empty.

        Args:
            encode: prediction ids of words to their vectors.
            batcher: words to prediction ids.
            width: D.
            cache_bytes: when the vectors remembered take more, the cache starts
                afresh.
        """
        self._encode = encode
        self.batcher = batcher
        self._width = width
        self._max_words = cache_bytes // (4 * width)
        self._table = WordTable(self._encode_words)

    @functools.cached_property
    def edges(self) -> np.ndarray:
        """Vectors [2, D] of `<S>` and `</S>`."""
        return self._encode(self.batcher.batch_sentences([[]])[0])

    def of_sentences(
        self, sentences: Sequence[Sequence[str]], edges: bool = True
    ) -> WindowTokens:
        """Vectors [n, D] of all tokens, `edges` around each sentence where asked for.

        Raises:
            InputError: a token is no text, or no word of a vocabulary without `<UNK>`.
        """
        if len(self._table) > self._max_words:
            self._table = WordTable(self._encode_words)
        words = self._table.rows([word for tokens in sentences for word in tokens])
        of_words = self._table.column(0)[words]
        if not edges:
            return WindowTokens(of_words, words)
        lengths = np.array([len(tokens) + 2 for tokens in sentences])
        ends = np.cumsum(lengths)
        vectors = np.empty((ends[-1], self._width), np.float32)
        numbers = np.zeros(len(vectors), np.int32)
        for places, edge, number in zip(
            (ends - lengths, ends - 1), self.edges, EDGES, strict=True
        ):
            vectors[places], numbers[places] = edge, number
        is_token = numbers == 0
        vectors[is_token], numbers[is_token] = of_words, words
        return WindowTokens(vectors, numbers)

    def _encode_words(self, words: list[str]) -> np.ndarray:
        if not words:
            return np.empty((0, self._width), np.float32)
        ids = self.batcher.batch_sentences([words])[0, 1:-1]
        return encode_by_length(self._encode, ids)
