"""Negative samples of the softmax: log-uniform, distinct, reproducible."""

from typing import NamedTuple

import numpy as np


class Sample(NamedTuple):
    """Distinct word ids and the number of draws that it took to find them."""

    ids: np.ndarray  # int32 [S], ascending
    n_draws: int


class LogUniformSampler:
    """Draws word ids with probability log((id + 2) / (id + 1)) / log(V + 1).

    The distribution fits a vocabulary in order of falling frequency (Zipf's law). Ids
    are drawn until `n_samples` distinct ones are there.

    Args:
        n_words: size V of the vocabulary.
        n_samples: S, distinct ids of one call, less than V.
        seed: of the generator, whose state is `generator.bit_generator.state`.
    """

    def __init__(self, n_words: int, n_samples: int, seed: int | list[int] = 0):
        assert 0 < n_samples < n_words
        self.n_words, self.n_samples = n_words, n_samples
        self.generator = np.random.default_rng(seed)

    def sample(self) -> Sample:
        """Draw until `n_samples` distinct ids are there."""
        draws: np.ndarray = np.empty(0, np.int32)
        distinct: np.ndarray = draws
        first: np.ndarray = draws
        while len(distinct) < self.n_samples:
            more = self._draw(2 * self.n_samples)
            draws = np.concatenate([draws, more])
            distinct, first = np.unique(draws, return_index=True)
        # The draw that brought the last distinct id is the last that counts.
        last = np.partition(first, self.n_samples - 1)[self.n_samples - 1]
        return Sample(distinct[first <= last], int(last) + 1)

    def log_expected_counts(self, ids: np.ndarray, n_draws: int) -> np.ndarray:
        """Log of the expected count 1 - (1 - p)^n_draws of each id, float32."""
        probabilities = self._probabilities(ids)
        return np.log(-np.expm1(n_draws * np.log1p(-probabilities))).astype(np.float32)

    def _draw(self, count: int) -> np.ndarray:
        uniform = self.generator.random(count)
        ids = np.exp(uniform * np.log(self.n_words + 1)).astype(np.int64) - 1
        return np.minimum(ids, self.n_words - 1).astype(np.int32)

    def _probabilities(self, ids: np.ndarray) -> np.ndarray:
        ids = ids.astype(np.float64)
        return np.log((ids + 2) / (ids + 1)) / np.log(self.n_words + 1)
