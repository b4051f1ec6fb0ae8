"""The log-uniform sampler: its distribution, and that its state can be saved."""

import json
from itertools import permutations

import numpy as np
import oracle
import pytest

from bilm.sampler import LogUniformSampler


def probabilities(n_words: int) -> np.ndarray:
    """Of one draw; they sum up to 1, since the logarithms telescope."""
    ids = np.arange(n_words)
    return np.log((ids + 2) / (ids + 1)) / np.log(n_words + 1)


def inclusion(n_words: int, n_samples: int) -> np.ndarray:
    """Exact probability [V] that an id is among the first distinct ones drawn."""
    p = probabilities(n_words)
    total = np.zeros(n_words)
    for order in permutations(range(n_words), n_samples):
        chance, left = 1.0, 1.0
        for word in order:
            chance *= p[word] / left
            left -= p[word]
        total[list(order)] += chance
    return total


def assert_frequencies(found: np.ndarray, wanted: np.ndarray, trials: int) -> None:
    """Each of the counts within five standard deviations of the binomial."""
    deviation = np.sqrt(trials * wanted * (1 - wanted))
    distance = np.abs(found - trials * wanted)
    np.testing.assert_array_less(distance, 5 * deviation + 1e-9)


@pytest.mark.parametrize(
    ("n_words", "n_samples"), [(2, 1), (5, 4), (100, 7), (100, 99), (30000, 8192)]
)
def test_ids_are_distinct_ascending_and_in_range(n_words: int, n_samples: int) -> None:
    sampler = LogUniformSampler(n_words, n_samples)
    for _ in range(3):
        ids, n_draws = sampler.sample()
        assert ids.dtype == np.int32 and ids.shape == (n_samples,)
        assert ids[0] >= 0 and ids[-1] < n_words
        assert np.all(np.diff(ids) > 0)
        assert n_draws >= n_samples


@pytest.mark.parametrize(("n_words", "n_samples"), [(6, 1), (6, 2), (6, 4), (40, 1)])
def test_frequencies_are_exact(n_words: int, n_samples: int) -> None:
    sampler = LogUniformSampler(n_words, n_samples, seed=1)
    trials, found = 5000, np.zeros(n_words)
    for _ in range(trials):
        found[sampler.sample().ids] += 1
    assert_frequencies(found, inclusion(n_words, n_samples), trials)


def test_number_of_draws_is_exact() -> None:
    """For two distinct ids: one draw, then as many as it takes to leave the first.

    After a first id of probability p, the second takes a geometric number of draws,
    of mean 1 / (1 - p) and variance p / (1 - p)^2.
    """
    sampler = LogUniformSampler(6, 2, seed=2)
    draws = [sampler.sample().n_draws for _ in range(5000)]
    p = probabilities(6)
    mean = 1 + np.sum(p / (1 - p))
    square = np.sum(p * (p / (1 - p) ** 2 + 1 / (1 - p) ** 2))
    deviation = np.sqrt((square - (mean - 1) ** 2) / len(draws))
    assert abs(np.mean(draws) - mean) < 5 * deviation
    assert min(draws) == 2


@pytest.mark.parametrize("n_draws", [1, 50, 10**6])
def test_expected_counts_are_those_of_the_formula(n_draws: int) -> None:
    sampler = LogUniformSampler(1000, 10)
    ids = np.arange(1000, dtype=np.int32)
    found = sampler.log_expected_counts(ids, n_draws)
    assert found.dtype == np.float32
    wanted = np.log(oracle.expected_counts(1000, n_draws))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-7)
    table = ids.reshape(20, 50)
    np.testing.assert_array_equal(
        sampler.log_expected_counts(table, n_draws), found.reshape(20, 50)
    )


def test_expected_counts_fit_the_frequencies() -> None:
    """The count after k draws stands for the chance to be among the distinct ids.

    It is no identity, since k is where the last distinct id came; with many samples
    both agree to a hundredth for every group of words.
    """
    n_words, n_samples, trials = 500, 100, 1000
    sampler = LogUniformSampler(n_words, n_samples, seed=3)
    everything = np.arange(n_words, dtype=np.int32)
    found, expected = np.zeros(n_words), np.zeros(n_words)
    for _ in range(trials):
        ids, n_draws = sampler.sample()
        found[ids] += 1
        expected += np.exp(sampler.log_expected_counts(everything, n_draws))
    for group in np.split(everything, [1, 3, 10, 30, 100, 250]):
        total = expected[group].sum()
        noise = 5 * np.sqrt(found[group].sum())
        assert abs(found[group].sum() - total) < 0.01 * total + noise


def test_saved_generator_state_gives_the_same_samples() -> None:
    sampler = LogUniformSampler(1000, 50, seed=4)
    sampler.sample()
    saved = json.dumps(sampler.generator.bit_generator.state)
    wanted = [sampler.sample() for _ in range(3)]
    other = LogUniformSampler(1000, 50, seed=5)
    other.generator.bit_generator.state = json.loads(saved)
    for ids, n_draws in wanted:
        again = other.sample()
        np.testing.assert_array_equal(again.ids, ids)
        assert again.n_draws == n_draws


def test_seeds() -> None:
    first = LogUniformSampler(1000, 50, seed=[1, 2, 0]).sample()
    same = LogUniformSampler(1000, 50, seed=[1, 2, 0]).sample()
    np.testing.assert_array_equal(first.ids, same.ids)
    for seed in ([1, 2, 1], [1, 3, 0], [2, 2, 0]):
        other = LogUniformSampler(1000, 50, seed=seed).sample()
        assert not np.array_equal(first.ids, other.ids)


def test_successive_samples_differ() -> None:
    sampler = LogUniformSampler(1000, 50)
    assert not np.array_equal(sampler.sample().ids, sampler.sample().ids)


@pytest.mark.parametrize("n_samples", [0, 10, 11])
def test_number_of_samples_is_below_that_of_words(n_samples: int) -> None:
    with pytest.raises(AssertionError):
        LogUniformSampler(10, n_samples)
