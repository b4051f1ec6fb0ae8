"""Adagrad and clipping against numpy, alone and in a training step."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import small
import tensorflow as tf

from bilm.adagrad import (
    INITIAL_ACCUMULATOR,
    Adagrad,
    clip_by_global_norm,
    join_duplicates,
)
from bilm.inputs import StepInputs, step_inputs
from bilm.language_model import token_losses, training_loss
from bilm.names import training_variables
from bilm.network import no_dropout
from bilm.options import TrainingOptions
from bilm.sampler import LogUniformSampler
from bilm.trainer import StepResult, Trainer

SHAPE = 5, 3


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sparse(values: Any, indices: Any, shape: tuple[int, ...] = SHAPE) -> Any:
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), shape)


def dense(gradient: Any) -> np.ndarray:
    """In float64, duplicates summed."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient.numpy().astype(np.float64)
    total = np.zeros(gradient.dense_shape)
    np.add.at(total, gradient.indices.numpy(), gradient.values.numpy())
    return total


def updated(
    variable: np.ndarray, slot: np.ndarray, gradient: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """The equations: accumulate the square, then move by gradient / root."""
    slot = slot + gradient**2
    return variable - rate * gradient / np.sqrt(slot), slot


def test_slots_start_at_one_like_the_variables() -> None:
    adagrad = Adagrad([tf.Variable(draw(*SHAPE)), tf.Variable(draw(4))])
    assert INITIAL_ACCUMULATOR == 1.0
    for slot, shape in zip(adagrad.slots, [SHAPE, (4,)], strict=True):
        np.testing.assert_array_equal(slot, np.ones(shape, np.float32))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_updates_equal_numpy(kind: str) -> None:
    start = draw(*SHAPE)
    variable = tf.Variable(start)
    adagrad = Adagrad([variable])
    wanted, slot = start.astype(np.float64), np.ones(SHAPE)
    for step in range(4):
        gradient = tf.constant(3 * draw(*SHAPE, seed=step + 1))
        if kind == "sparse":
            gradient = sparse(gradient[:2], [3, step % 3])
        adagrad.apply([variable], [gradient], tf.constant(0.2))
        wanted, slot = updated(wanted, slot, dense(gradient), 0.2)
        small.assert_close(variable, wanted, 1e-6)
        small.assert_close(adagrad.slots[0], slot, 1e-6)
    assert np.abs(variable - start).max() > 0.1


def test_rows_without_a_gradient_do_not_change() -> None:
    start = draw(*SHAPE)
    variable = tf.Variable(start)
    adagrad = Adagrad([variable])
    adagrad.apply([variable], [sparse(draw(2, 3), [4, 1])], tf.constant(0.2))
    np.testing.assert_array_equal(variable.numpy()[[0, 2, 3]], start[[0, 2, 3]])
    np.testing.assert_array_equal(adagrad.slots[0].numpy()[[0, 2, 3]], 1)
    assert np.all(variable.numpy()[[1, 4]] != start[[1, 4]])


def test_there_is_no_epsilon() -> None:
    """With a huge gradient the step is the learning rate itself, in its direction."""
    variable = tf.Variable([0.0, 0.0])
    gradient = tf.constant([1e8, -1e8])
    Adagrad([variable]).apply([variable], [gradient], tf.constant(0.25))
    np.testing.assert_array_equal(variable, np.float32([-0.25, 0.25]))


@pytest.mark.parametrize("shape", [(6, 3), (6,)])
def test_join_duplicates(shape: tuple[int, ...]) -> None:
    indices = [4, 1, 4, 0, 1, 4]
    gradient = sparse(draw(*shape), indices, (5, *shape[1:]))
    joined = join_duplicates(gradient)
    assert sorted(joined.indices.numpy()) == [0, 1, 4]
    assert tuple(joined.dense_shape) == (5, *shape[1:])
    np.testing.assert_allclose(dense(joined), dense(gradient), rtol=1e-6)
    whole = tf.constant(draw(2, 2))
    assert join_duplicates(whole) is whole


def test_below_the_limit_nothing_changes() -> None:
    gradients = [tf.constant(draw(*SHAPE)), sparse(draw(2, 3, seed=1), [0, 3])]
    clipped, norms, norm = clip_by_global_norm(gradients, 100.0)
    np.testing.assert_array_equal(clipped[0], gradients[0])
    np.testing.assert_array_equal(clipped[1].values, gradients[1].values)
    wanted = [np.linalg.norm(dense(each)) for each in gradients]
    np.testing.assert_allclose(norms, wanted, rtol=1e-6)
    np.testing.assert_allclose(norm, np.linalg.norm(wanted), rtol=1e-6)


@pytest.mark.parametrize("limit", [0.5, 2.0])
def test_clip_is_exact(limit: float) -> None:
    gradients = [tf.constant(draw(*SHAPE)), sparse(draw(2, 3, seed=1), [0, 3])]
    clipped, norms, norm = clip_by_global_norm(gradients, limit)
    whole = np.sqrt(sum(np.sum(dense(each) ** 2) for each in gradients))
    assert whole > limit
    np.testing.assert_allclose(norm, whole, rtol=1e-6)
    for before, after in zip(gradients, clipped, strict=True):
        small.assert_close(dense(after), dense(before) * limit / whole, 1e-6)
    left = np.sqrt(sum(np.sum(dense(each) ** 2) for each in clipped))
    np.testing.assert_allclose(left, limit, rtol=1e-6)
    np.testing.assert_array_equal(clipped[1].indices, gradients[1].indices)
    np.testing.assert_allclose(norms[0], np.linalg.norm(gradients[0]), rtol=1e-6)


def test_norm_counts_joined_rows() -> None:
    """Two rows (3, 0) and (0, 4) of one index are a row of norm 5; opposites cancel."""
    gradient = sparse([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0], [-1.0, -1.0]], [2, 2, 0, 0])
    _, _, norm = clip_by_global_norm([join_duplicates(gradient)], 10.0)
    np.testing.assert_allclose(norm, 5.0, rtol=1e-6)


class Step(NamedTuple):
    """A training step, and what it should have started from."""

    trainer: Trainer  # after the step
    result: StepResult
    loss: float
    gradients: list[Any]  # of loss * unroll_steps, as TensorFlow gives them


def one_step(model: TrainingOptions, samplers: tuple[LogUniformSampler, ...]) -> Step:
    values = small.random_values(training_variables(model))
    trainer = Trainer(model, values=values)
    inputs = step_inputs(small.batch(model), model.char_cnn is not None, samplers)
    network, states = trainer.network, trainer.zero_states()
    tensors = StepInputs(*(tf.constant(each) for each in inputs))
    with tf.GradientTape() as tape:
        loss_of = training_loss(network, tensors, bool(samplers))
        found = token_losses(network, tensors, states[0], no_dropout, loss_of)
        loss = tf.reduce_mean(found.losses)
        target = model.unroll_steps * loss
    gradients = tape.gradient(target, network.learnt)
    _, result = trainer.step([inputs], states)
    return Step(trainer, result, float(loss), gradients)


# Vocabularies with fewer and with more rows than a table that is kept dense; the latter
# with the rows of softmax and embedding several times in a gradient.
@pytest.mark.parametrize("limit", [0.5, 1000.0])
@pytest.mark.parametrize(
    ("characters", "n_words", "n_samples", "share"),
    [
        (True, 11, 6, False),
        (True, 300, 40, False),
        (False, 300, 40, False),
        (False, 300, 40, True),
        (False, 300, 0, True),
    ],
)
def test_training_step_equals_numpy(
    characters: bool, n_words: int, n_samples: int, share: bool, limit: float
) -> None:
    """Loss * unroll_steps, duplicates joined, clipped together, Adagrad."""
    model = small.options(
        characters=characters,
        n_tokens_vocab=n_words,
        sample_softmax=n_samples > 0,
        n_negative_samples_batch=n_samples,
        share_embedding_softmax=share,
        all_clip_norm_val=limit,
        learning_rate=0.3,
        n_layers=1,
    )
    samplers = [LogUniformSampler(n_words, n_samples, k) for k in range(2) if n_samples]
    start = small.random_values(training_variables(model))
    trainer, result, loss, raw = one_step(model, tuple(samplers))
    assert trainer.global_step == 1
    assert any(has_duplicates(each) for each in raw) == (n_samples > 0)
    gradients = [dense(each) for each in raw]
    norms = np.array([np.linalg.norm(each) for each in gradients])
    norm = np.linalg.norm(norms)
    assert 0.5 < norm < 1000
    np.testing.assert_allclose(result.loss, loss, rtol=1e-6)
    np.testing.assert_allclose(result.norm, norm, rtol=1e-5)
    small.assert_close(result.norms, norms)
    scale = min(1.0, limit / norm)
    for spec, variable, slot, gradient in zip(
        trainer.network.specs,
        trainer.network.learnt,
        trainer.update.slots.values(),
        gradients,
        strict=True,
    ):
        value, accumulated = updated(
            start[spec.name].astype(float), np.ones(spec.shape), scale * gradient, 0.3
        )
        small.assert_close(variable, value)
        small.assert_close(slot, accumulated)


def has_duplicates(gradient: Any) -> bool:
    if not isinstance(gradient, tf.IndexedSlices):
        return False
    return len(np.unique(gradient.indices)) < len(gradient.indices)
