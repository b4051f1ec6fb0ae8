"""The losses against the oracle, and against each other where they must agree."""

import numpy as np
import oracle
import pytest
import small
import tensorflow as tf

from bilm.encoder import Affine
from bilm.softmax import (
    Candidates,
    full_softmax_loss,
    full_softmax_loss_in_pieces,
    sampled_softmax_loss,
)

N, D, V = 9, 5, 23
IDS = np.array([0, 3, 4, 9, 17, 20], np.int32)


def model(scale: float = 1.0) -> tuple[Affine, np.ndarray]:
    """Softmax weights, and outputs of the network [N, D]."""
    random = np.random.default_rng(0)
    weight, bias, hidden = (
        (scale * random.standard_normal(shape)).astype(np.float32)
        for shape in ((V, D), (V,), (N, D))
    )
    return Affine(weight, bias), hidden


def random_labels() -> np.ndarray:
    return np.random.default_rng(1).integers(0, V, N, np.int32)


def candidates(ids: np.ndarray, counts: np.ndarray, labels: np.ndarray) -> Candidates:
    logs = np.log(counts).astype(np.float32)
    return Candidates(tf.constant(ids), tf.constant(logs[ids]), logs[labels])


def oracle_full(softmax: Affine, hidden: np.ndarray, labels: np.ndarray) -> list[float]:
    weight, bias = (np.asarray(each, np.float64) for each in softmax)
    return [
        oracle.full_softmax_loss(weight, bias, h, label)
        for h, label in zip(hidden.astype(float), labels, strict=True)
    ]


def oracle_sampled(
    softmax: Affine, hidden: np.ndarray, labels: np.ndarray, sample: oracle.Sample
) -> list[float]:
    weight, bias = (np.asarray(each, np.float64) for each in softmax)
    return [
        oracle.sampled_softmax_loss(weight, bias, h, label, sample)
        for h, label in zip(hidden.astype(float), labels, strict=True)
    ]


@pytest.mark.parametrize("scale", [0.0, 1.0, 6.0])
def test_full_softmax_equals_the_oracle(scale: float) -> None:
    softmax, hidden = model(scale)
    labels = random_labels()
    losses = full_softmax_loss(softmax, hidden, labels)
    assert losses.shape == (N,)
    small.assert_close(losses, oracle_full(softmax, hidden, labels), 1e-6)
    if scale == 0:
        np.testing.assert_allclose(losses, np.full(N, np.log(V)), rtol=1e-6)


# Of N = 9 tokens: a word at a time, some words, words that do not divide V, all of
# them, and more than all.
@pytest.mark.parametrize("piece", [1, N, 5 * N, 7 * N + 3, V * N, 10 * V * N])
@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_softmax_in_pieces_equals_the_whole(piece: int, scale: float) -> None:
    softmax, hidden = model(scale)
    labels = random_labels()
    losses = full_softmax_loss_in_pieces(softmax, hidden, labels, piece)
    small.assert_close(losses, oracle_full(softmax, hidden, labels), 1e-5)
    whole = full_softmax_loss(softmax, hidden, labels)
    np.testing.assert_allclose(losses, whole, rtol=1e-5, atol=1e-5)


def test_softmax_in_pieces_takes_any_rows_in_one_trace() -> None:
    softmax, hidden = model()
    labels = random_labels()
    traces = []

    @tf.function(
        input_signature=[tf.TensorSpec([None, D]), tf.TensorSpec([None], tf.int32)]
    )
    def run(hidden: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        traces.append(1)
        return full_softmax_loss_in_pieces(softmax, hidden, labels, 2 * N)

    for rows in (N, 1, 4):
        found = run(hidden[:rows], labels[:rows])
        small.assert_close(found, oracle_full(softmax, hidden[:rows], labels[:rows]))
    assert run(hidden[:0], labels[:0]).shape == (0,)
    assert len(traces) == 1


@pytest.mark.parametrize("scale", [1.0, 6.0])
@pytest.mark.parametrize("n_draws", [6, 40])
def test_sampled_softmax_equals_the_oracle(scale: float, n_draws: int) -> None:
    softmax, hidden = model(scale)
    labels = random_labels()
    counts = oracle.expected_counts(V, n_draws)
    assert 0 < np.isin(labels, IDS).sum() < N  # some accidental hits
    losses = sampled_softmax_loss(
        softmax, hidden, labels, candidates(IDS, counts, labels)
    )
    assert losses.shape == (N,)
    wanted = oracle_sampled(softmax, hidden, labels, (IDS, counts))
    small.assert_close(losses, wanted, 3e-6)


# First, inner and last candidate; words below, between and above all candidates.
@pytest.mark.parametrize("label", [0, 4, 20, 1, 10, 21, V - 1])
def test_accidental_hit_is_left_out(label: int) -> None:
    """A candidate that is the label changes nothing for that token."""
    softmax, hidden = model()
    labels = np.full(N, label, np.int32)
    counts = oracle.expected_counts(V, 12)
    others = IDS[IDS != label]
    found = sampled_softmax_loss(
        softmax, hidden, labels, candidates(IDS, counts, labels)
    )
    without = sampled_softmax_loss(
        softmax, hidden, labels, candidates(others, counts, labels)
    )
    np.testing.assert_allclose(found, without, rtol=1e-6)
    wanted = oracle_sampled(softmax, hidden, labels, (others, counts))
    small.assert_close(found, wanted, 3e-6)


def test_hit_of_one_token_stays_a_candidate_of_the_others() -> None:
    softmax, hidden = model()
    labels = np.array([4, 3] + [20] * (N - 2), np.int32)
    counts = oracle.expected_counts(V, 12)
    together = sampled_softmax_loss(
        softmax, hidden, labels, candidates(IDS, counts, labels)
    )
    wanted = oracle_sampled(softmax, hidden, labels, (IDS, counts))
    small.assert_close(together, wanted, 3e-6)


def test_only_candidate_is_the_label() -> None:
    """Nothing is left to be confused with: loss 0, and no gradient."""
    softmax, hidden = model()
    hidden, weight = tf.constant(hidden), tf.constant(softmax.weight)
    labels = np.full(N, 7, np.int32)
    counts = oracle.expected_counts(V, 1)
    with tf.GradientTape() as tape:
        tape.watch([hidden, weight])
        losses = sampled_softmax_loss(
            Affine(weight, softmax.bias),
            hidden,
            labels,
            candidates(np.array([7], np.int32), counts, labels),
        )
    np.testing.assert_allclose(losses, np.zeros(N), atol=1e-6)
    for each in tape.gradient(losses, [hidden, weight]):
        np.testing.assert_allclose(tf.convert_to_tensor(each), 0, atol=1e-6)


def test_all_words_as_candidates_are_the_full_softmax() -> None:
    """Without correction the label's second mention, a hit, must not count."""
    softmax, hidden = model()
    labels = random_labels()
    everything = candidates(np.arange(V, dtype=np.int32), np.ones(V), labels)
    sampled = sampled_softmax_loss(softmax, hidden, labels, everything)
    np.testing.assert_allclose(
        sampled, full_softmax_loss(softmax, hidden, labels), rtol=1e-6
    )


def test_gradient_of_sampled_softmax_equals_finite_differences() -> None:
    """Of the oracle, along random directions in hidden, W and b; hits included."""
    softmax, hidden = model()
    labels = np.array([4, 3, 20, 0, 1, 10, 21, 4, 4], np.int32)
    counts = oracle.expected_counts(V, 12)
    start = [tf.constant(each) for each in (softmax.weight, softmax.bias, hidden)]
    with tf.GradientTape() as tape:
        tape.watch(start)
        losses = sampled_softmax_loss(
            Affine(*start[:2]), start[2], labels, candidates(IDS, counts, labels)
        )
    found = tape.gradient(losses, start)

    def total(values: list[np.ndarray]) -> float:
        weights = Affine(values[0], values[1])
        return sum(oracle_sampled(weights, values[2], labels, (IDS, counts)))

    random = np.random.default_rng(3)
    for position, gradient in enumerate(found):
        values = [each.numpy().astype(np.float64) for each in start]
        direction = random.standard_normal(values[position].shape)
        middle, step = values[position], 1e-6 * direction
        values[position] = middle + step
        above = total(values)
        values[position] = middle - step
        slope = (above - total(values)) / 2e-6
        dense = tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(np.sum(dense * direction), slope, rtol=1e-5)
        untouched = np.setdiff1d(np.arange(V), np.concatenate([IDS, labels]))
        if position < 2:
            np.testing.assert_array_equal(dense[untouched], 0)
            assert isinstance(gradient, tf.IndexedSlices)
