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
        seen = np.zeros(self.n_words, bool)
        n_seen = n_draws = 0
        count = 2 * self.n_samples
        while True:
            ids, first = np.unique(self._draw(count), return_index=True)
            new = np.flatnonzero(~seen[ids])
            missing = self.n_samples - n_seen
            if len(new) >= missing:
                # The draw that brought the last distinct id is the last that counts.
                new = new[np.argsort(first[new])[:missing]]
                seen[ids[new]] = True
                return Sample(_positions(seen), n_draws + int(first[new].max()) + 1)
            seen[ids[new]] = True
            n_seen, n_draws = n_seen + len(new), n_draws + count
            count *= 2

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


def _positions(flags: np.ndarray) -> np.ndarray:
    return np.flatnonzero(flags).astype(np.int32)
