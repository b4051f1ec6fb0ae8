"""The whole network against the oracle, crossed over the options."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import oracle
import pytest
import small
import tensorflow as tf

from bilm.inputs import StepInputs, step_inputs
from bilm.language_model import Losses, token_losses, training_loss
from bilm.lstm import LstmState
from bilm.names import training_variables
from bilm.network import Network, no_dropout, seeded_dropout
from bilm.options import TrainingOptions
from bilm.sampler import LogUniformSampler

CROSSED = [
    {
        "characters": characters,
        "n_layers": n_layers,
        "bidirectional": bidirectional,
        "skip": skip,
        "dim": dim,
        "cell_clip": 0.5 if clips else None,
        "proj_clip": 0.4 if clips else None,
    }
    for characters, n_layers, bidirectional, skip, dim, clips in product(
        (True, False), (1, 2, 3), (True, False), (True, False), (5, 7), (True, False)
    )
]
# Each value of each option, and the losses, in fewer models: their gradients.
DIFFERENTIATED = [
    {},
    {"cell_clip": 0.5, "proj_clip": 0.4, "skip": True},
    {"cell_clip": 0.5, "dim": 5, "n_layers": 3, "skip": True},
    {"activation": "tanh", "n_highway": 2, "n_layers": 1},
    {"n_highway": 0, "projection_dim": 9, "dim": 9, "bidirectional": False},
    {"characters": False, "n_layers": 1, "bidirectional": False},
    {"characters": False, "share_embedding_softmax": True, "skip": True},
]
N_SAMPLES = 5


def network_of(model: TrainingOptions) -> Network:
    specs = training_variables(model)
    return Network(model, specs, small.random_values(specs))


def values_of(network: Network) -> dict[str, np.ndarray]:
    return {name: v.numpy() for name, v in network.variables_by_name.items()}


def samplers(model: TrainingOptions) -> tuple[LogUniformSampler, ...]:
    """The same at each call."""
    if not model.sample_softmax:
        return ()
    return tuple(
        LogUniformSampler(model.n_tokens_vocab, N_SAMPLES, direction)
        for direction in range(model.n_directions)
    )


def samples(model: TrainingOptions) -> list[oracle.Sample]:
    drawn = [sampler.sample() for sampler in samplers(model)]
    return [
        (ids, oracle.expected_counts(model.n_tokens_vocab, n_draws))
        for ids, n_draws in drawn
    ]


def as_state(state: oracle.State) -> Any:
    return tuple(
        tuple(LstmState(tf.constant(c), tf.constant(m)) for c, m in direction)
        for direction in state
    )


def run(network: Network, state: oracle.State, dropout: Any = no_dropout) -> Losses:
    """Token losses of the batch of these tests, as training computes them."""
    model = network.options
    inputs = step_inputs(
        small.batch(model), model.char_cnn is not None, samplers(model)
    )
    tensors = StepInputs(*(tf.constant(each) for each in inputs))
    loss = training_loss(network, tensors, model.sample_softmax)
    return token_losses(network, tensors, as_state(state), dropout, loss)


def assert_same_states(found: Any, wanted: oracle.State) -> None:
    for one, other in zip(tf.nest.flatten(found), flatten(wanted), strict=True):
        small.assert_close(one, other)


def flatten(state: oracle.State) -> list[np.ndarray]:
    return [part for direction in state for layer in direction for part in layer]


@pytest.mark.parametrize("flags", CROSSED, ids=lambda f: "-".join(map(str, f.values())))
def test_losses_and_state_equal_the_oracle(flags: dict[str, Any]) -> None:
    model = small.options(**flags)
    network = network_of(model)
    state = small.random_state(model)
    found = run(network, state)
    losses, after = oracle.batch_losses(
        model, oracle.double(values_of(network)), small.batch(model), state
    )
    small.assert_close(found.losses, losses.reshape(len(losses), -1))
    assert_same_states(found.state, after)
    if model.lstm.cell_clip:
        at_limit = [np.isclose(np.abs(c), 0.5).mean() for c in flatten(after)[::2]]
        assert 0.1 < np.mean(at_limit) < 0.95  # the clips of these tests bite


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "full"])
@pytest.mark.parametrize("flags", DIFFERENTIATED, ids=str)
def test_gradients_equal_finite_differences(
    flags: dict[str, Any], sampled: bool
) -> None:
    """Of each variable, along a random direction, through the oracle's equations."""
    model = small.options(
        **flags, sample_softmax=sampled, n_negative_samples_batch=N_SAMPLES
    )
    network = network_of(model)
    state, batch = small.random_state(model), small.batch(model)
    with tf.GradientTape() as tape:
        found = run(network, state)
        loss = tf.reduce_mean(found.losses)
    gradients = tape.gradient(loss, network.variables_by_name)
    values, drawn = oracle.double(values_of(network)), samples(model)

    def mean_loss(changed: dict[str, np.ndarray]) -> float:
        return oracle.batch_losses(model, changed, batch, state, drawn)[0].mean()

    np.testing.assert_allclose(loss, mean_loss(values), rtol=1e-5)
    random = np.random.default_rng(1)
    for name, gradient in gradients.items():
        dense = tf.convert_to_tensor(gradient).numpy()
        direction = random.standard_normal(dense.shape)
        step = 1e-6 * direction
        above = mean_loss(values | {name: values[name] + step})
        below = mean_loss(values | {name: values[name] - step})
        slope = (above - below) / 2e-6
        size = np.linalg.norm(dense)
        assert size > 1e-4, name
        error = abs(np.sum(dense * direction) - slope)
        assert error < 1e-4 * size, f"{name}: {error} of {size}"


def test_expected_counts_reach_the_loss() -> None:
    """The inputs of a step hold what the oracle computes of the sampler's draws."""
    model = small.options(sample_softmax=True, n_negative_samples_batch=N_SAMPLES)
    batch = small.batch(model)
    inputs = step_inputs(batch, model.char_cnn is not None, samplers(model))
    for direction, (ids, counts) in enumerate(samples(model)):
        labels = batch["next_token_id" + oracle.SUFFIXES[direction]].T
        np.testing.assert_array_equal(inputs.labels[direction], labels)
        np.testing.assert_array_equal(inputs.sampled[direction], ids)
        found = inputs.sampled_log_expected[direction]
        np.testing.assert_allclose(found, np.log(counts[ids]), rtol=1e-6)
        found = inputs.label_log_expected[direction]
        np.testing.assert_allclose(found, np.log(counts[labels]), rtol=1e-6)


@pytest.mark.parametrize("skip", [True, False])
def test_dropout_is_on_each_input_and_on_the_last_output(skip: bool) -> None:
    """The skip connection adds the input as dropout left it."""
    model = small.options(skip=skip, n_layers=3)
    network, state = network_of(model), small.random_state(model)
    shape = model.unroll_steps, model.batch_size, model.lstm.projection_dim
    random = np.random.default_rng(0)
    masks = random.integers(0, 2, (2, 4, *shape)) * np.float32(1.5)

    def drop(values: Any, direction: int, layer: int) -> Any:
        return values * masks[direction, layer]

    found = run(network, state, drop)
    values = oracle.double(values_of(network))
    losses, after = oracle.batch_losses(
        model, values, small.batch(model), state, drop=drop
    )
    small.assert_close(found.losses, losses.reshape(2, -1))
    assert_same_states(found.state, after)


def test_seeded_dropout() -> None:
    """Each place has a mask of its own, of the rate asked for; the mean stays."""
    dropout = seeded_dropout(0.2, tf.constant([3, 4]))
    ones = tf.ones([100, 100])
    masks = []
    for direction, layer in product(range(2), range(4)):
        values = dropout(ones, direction, layer).numpy()
        np.testing.assert_array_equal(values, dropout(ones, direction, layer))
        np.testing.assert_allclose(np.unique(values), [0, 1.25])
        assert abs(np.mean(values == 0) - 0.2) < 5 * (0.2 * 0.8 / 10**4) ** 0.5
        masks.append(values.tobytes())
    masks.append(seeded_dropout(0.2, tf.constant([3, 5]))(ones, 0, 0).numpy().tobytes())
    assert len(set(masks)) == len(masks)
    assert seeded_dropout(0.0, tf.constant([3, 4]))(ones, 0, 0) is ones


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("dim", [5, 7])
def test_scan_equals_the_oracle(bidirectional: bool, skip: bool, dim: int) -> None:
    """All layers of all directions; rows of different lengths, one of them empty."""
    model = small.options(
        bidirectional=bidirectional,
        skip=skip,
        dim=dim,
        n_layers=3,
        cell_clip=0.5,
        proj_clip=0.4,
        batch_size=3,
    )
    network, state = network_of(model), small.random_state(model)
    lengths = [4, 0, 2]
    shape = model.n_directions, 4, 3, 5
    inputs = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    outputs, after = network.scan(
        tf.unstack(inputs), tf.constant(lengths), as_state(state)
    )
    values = oracle.double(values_of(network))
    for direction in range(model.n_directions):
        wanted, final = oracle.run_direction(
            model, values, direction, inputs[direction].astype(float), state, lengths
        )
        for one, other in zip(outputs[direction], wanted, strict=True):
            for row, length in enumerate(lengths):
                small.assert_close(one[:length, row], other[:length, row])
        assert_same_states(after[direction], [final])


def test_two_batches_with_carried_state_are_one_of_twice_the_steps() -> None:
    model = small.options(n_layers=3, skip=True, unroll_steps=8)
    network, state = network_of(model), as_state(small.random_state(model))
    shape = 2, 8, model.batch_size, 5
    inputs = np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    def unroll(part: np.ndarray, state: Any) -> tuple[Sequence[tf.Tensor], Any]:
        return network.unroll(tf.unstack(part), state, no_dropout)

    whole, after = unroll(inputs, state)
    first, between = unroll(inputs[:, :4], state)
    second, end = unroll(inputs[:, 4:], between)
    for direction in range(2):
        joined = tf.concat([first[direction], second[direction]], 0)
        small.assert_close(joined, whole[direction], 1e-6)
    for one, other in zip(tf.nest.flatten(end), tf.nest.flatten(after), strict=True):
        small.assert_close(one, other, 1e-6)


def test_zero_state() -> None:
    model = small.options(n_layers=3)
    state = network_of(model).zero_state(4)
    assert [len(direction) for direction in state] == [3, 3]
    for layer in (*state[0], *state[1]):
        np.testing.assert_array_equal(layer.c, np.zeros((4, 7)))
        np.testing.assert_array_equal(layer.m, np.zeros((4, 5)))
