"""Context-free vectors of words, each distinct word encoded once.

Letters: n words, C characters of a word, D `projection_dim`.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from bilm.batcher import Batcher, TokenBatcher
from bilm.prediction import PADDING
from bilm.wordtable import WordTable

CACHE_BYTES = 1 << 28
"""Vectors remembered before the cache starts afresh: 131,072 words of 512 values."""

WORDS_AT_ONCE = 1024
"""Words encoded together: enough for fast products, little memory for convolutions."""

Encode = Callable[[np.ndarray], np.ndarray]


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
    pieces = range(0, len(ids), WORDS_AT_ONCE)
    encoded = np.concatenate(
        [encode(ids[order[start : start + WORDS_AT_ONCE]]) for start in pieces]
    )
    vectors = np.empty_like(encoded)
    vectors[order] = encoded
    return vectors


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
    ) -> np.ndarray:
        """Vectors [n, D] of all tokens, `edges` around each sentence where asked for.

        Raises:
            InputError: a token is no text, or no word of a vocabulary without `<UNK>`.
        """
        if len(self._table) > self._max_words:
            self._table = WordTable(self._encode_words)
        rows = self._table.rows([word for tokens in sentences for word in tokens])
        words = self._table.column(0)[rows]
        if not edges:
            return words
        lengths = np.array([len(tokens) + 2 for tokens in sentences])
        ends = np.cumsum(lengths)
        vectors = np.empty((ends[-1], self._width), np.float32)
        is_token = np.ones(len(vectors), bool)
        for edge, places in zip(self.edges, (ends - lengths, ends - 1), strict=True):
            vectors[places] = edge
            is_token[places] = False
        vectors[is_token] = words
        return vectors

    def _encode_words(self, words: list[str]) -> np.ndarray:
        if not words:
            return np.empty((0, self._width), np.float32)
        ids = self.batcher.batch_sentences([words])[0, 1:-1]
        return encode_by_length(self._encode, ids)
