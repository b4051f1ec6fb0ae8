"""The LSTM against the oracle, and its hand-written gradient against TensorFlow's."""

from typing import Any

import numpy as np
import oracle
import pytest
import small
import tensorflow as tf

from bilm.lstm import (
    Clips,
    LstmState,
    LstmWeights,
    Repeated,
    lanes_gates,
    run_step,
    scan,
    scan_lanes,
    zero_state,
)
from bilm.products import product
from bilm.unrolled_lstm import unroll

T, B, SIZE, H = 6, 3, 4, 7  # SIZE of an input
NO_CLIPS = Clips(None, None)
BITING = Clips(0.4, 0.3)
ALL_CLIPS = [NO_CLIPS, Clips(0.4, None), Clips(None, 0.3), BITING]


def layer(projected: bool, steps: int = T) -> tuple[np.ndarray, LstmState, LstmWeights]:
    """Random inputs, state and weights of one layer."""
    random = np.random.default_rng(0)

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    dim = 5 if projected else H
    weights = LstmWeights(
        0.5 * draw(SIZE + dim, 4 * H), draw(4 * H), draw(H, dim) if projected else None
    )
    return (
        draw(steps, B, SIZE),
        LstmState(0.2 * draw(B, H), 0.2 * draw(B, dim)),
        weights,
    )


def expected(
    inputs: np.ndarray,
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
    lengths: Any = None,
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    return oracle.lstm(inputs.astype(float), state, weights, clips, lengths)


def assert_same(actual: Any, wanted: Any, tolerance: float = 3e-6) -> None:
    """Outputs and both parts of the state after."""
    small.assert_close(actual[0], wanted[0], tolerance)
    for one, other in zip(actual[1], wanted[1], strict=True):
        small.assert_close(one, other, tolerance)


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", ALL_CLIPS, ids=str)
def test_unroll_and_scan_equal_the_oracle(projected: bool, clips: Clips) -> None:
    inputs, state, weights = layer(projected)
    wanted = expected(inputs, state, weights, clips)
    assert_same(unroll(inputs, state, weights, clips), wanted)
    lengths = tf.fill([B], T)
    assert_same(scan(tf.constant(inputs), lengths, state, weights, clips), wanted)


@pytest.mark.parametrize("projected", [True, False])
def test_the_clips_of_these_tests_bite(projected: bool) -> None:
    """Some values are at the limits and some are not, or they would test nothing."""
    inputs, state, weights = layer(projected)
    outputs, after = unroll(inputs, state, weights, BITING)
    at_limit = np.isclose(np.abs(after.c), BITING.cell)
    assert 0.1 < at_limit.mean() < 0.9
    assert np.abs(after.c).max() <= np.float32(BITING.cell)
    if projected:
        at_limit = np.isclose(np.abs(outputs), BITING.projection)
        assert 0.1 < at_limit.mean() < 0.9
        assert np.abs(outputs).max() <= np.float32(BITING.projection)


def test_without_projection_there_is_no_projection_clip() -> None:
    inputs, state, weights = layer(projected=False)
    outputs, _ = unroll(inputs, state, weights, Clips(None, 0.01))
    np.testing.assert_array_equal(outputs, unroll(inputs, state, weights, NO_CLIPS)[0])
    assert np.abs(outputs).max() > 0.1


def test_gates_are_packed_i_j_f_o_with_forget_bias_one() -> None:
    """Without weights, each gate's bias shows by itself in c = f * c + i * j."""
    biases = np.repeat(np.array([0.5, -1.5, 2.0, 0.25], np.float32), H)
    weights = LstmWeights(np.zeros((SIZE + H, 4 * H), np.float32), biases, None)
    ones = np.ones((B, H), np.float32)
    inputs = np.ones((1, B, SIZE), np.float32)
    _, after = unroll(inputs, LstmState(ones, ones), weights, NO_CLIPS)
    sigmoid = oracle.sigmoid
    c = sigmoid(2.0 + 1.0) + sigmoid(0.5) * np.tanh(-1.5)
    np.testing.assert_allclose(after.c, c * ones, rtol=1e-6)
    np.testing.assert_allclose(after.m, sigmoid(0.25) * np.tanh(c) * ones, rtol=1e-6)


def steps_by_tensorflow(
    inputs: tf.Tensor, state: LstmState, weights: LstmWeights, clips: Clips
) -> tuple[tf.Tensor, LstmState]:
    """`unroll` without a gradient of its own: TensorFlow differentiates each step."""
    # One product over all inputs, as `unroll`: else the activations differ by rounding,
    # which saturated gates magnify, and the gradients are those of different values.
    gates = product(inputs, weights.kernel[:SIZE]) + weights.bias
    outputs = []
    for each in tf.unstack(gates):
        kernel_of_state = weights.kernel[SIZE:]
        state, _ = run_step(each, state, kernel_of_state, weights.projection, clips)
        outputs.append(state.m)
    return tf.stack(outputs), state


def gradients(run: Any, tensors: list[tf.Tensor], clips: Clips, part: str) -> Any:
    """Gradients of a loss of the outputs, of the state after, or of both."""
    inputs, c, m, kernel, bias, *projection = tensors
    weights = LstmWeights(kernel, bias, projection[0] if projection else None)
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs, after = run(inputs, LstmState(c, m), weights, clips)
        parts = {"outputs": [outputs], "c": [after.c], "m": [after.m]}
        chosen = parts.get(part, [outputs, *after])
        loss = tf.add_n(
            [
                tf.reduce_sum(tf.sin(x + tf.cast(tf.range(x.shape[-1]), x.dtype)))
                for x in chosen
            ]
        )
    return tape.gradient(loss, tensors, unconnected_gradients="zero")


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", ALL_CLIPS, ids=str)
@pytest.mark.parametrize("part", ["outputs", "c", "m", "all"])
def test_gradient_equals_that_of_tensorflow(
    projected: bool, clips: Clips, part: str
) -> None:
    """For inputs, state c and m, kernel, bias and projection."""
    inputs, state, weights = layer(projected)
    parts = [inputs, *state, weights.kernel, weights.bias]
    if projected:
        parts.append(weights.projection)
    tensors = [tf.constant(each) for each in parts]
    found = gradients(unroll, tensors, clips, part)
    wanted = gradients(steps_by_tensorflow, tensors, clips, part)
    for one, other in zip(found, wanted, strict=True):
        assert np.abs(other).max() > 0
        small.assert_close(one, other, 3e-6)


def test_gradient_of_one_step_and_in_a_graph() -> None:
    inputs, state, weights = layer(projected=True, steps=1)
    tensors = [tf.constant(each) for each in (inputs, *state, *weights)]
    found = tf.function(lambda: gradients(unroll, tensors, BITING, "all"))()
    wanted = gradients(steps_by_tensorflow, tensors, BITING, "all")
    for one, other in zip(found, wanted, strict=True):
        small.assert_close(one, other, 3e-6)


def test_gradient_reaches_variables() -> None:
    inputs, state, weights = layer(projected=True)
    variables = LstmWeights(*(tf.Variable(each) for each in weights))
    with tf.GradientTape() as tape:
        outputs, _ = unroll(inputs, state, variables, BITING)
        loss = tf.reduce_sum(tf.square(outputs))
    for each in tape.gradient(loss, list(variables)):
        assert np.abs(each).max() > 0


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("run", ["unroll", "scan"])
def test_twice_twenty_steps_with_carried_state_are_forty(
    projected: bool, run: str
) -> None:
    inputs, state, weights = layer(projected, steps=40)

    def steps(part: np.ndarray, before: LstmState) -> tuple[tf.Tensor, LstmState]:
        if run == "unroll":
            return unroll(part, before, weights, BITING)
        lengths = tf.fill([B], len(part))
        return scan(tf.constant(part), lengths, before, weights, BITING)

    first, between = steps(inputs[:20], state)
    second, after = steps(inputs[20:], between)
    joined = tf.concat([first, second], 0), after
    assert_same(joined, steps(inputs, state), 1e-6)
    assert np.abs(np.subtract(second, steps(inputs[20:], state)[0])).max() > 0.01


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("lengths", [[6, 2, 0], [1, 6, 3], [0, 0, 0]], ids=str)
def test_padding_never_touches_a_state(projected: bool, lengths: list[int]) -> None:
    inputs, state, weights = layer(projected)
    for row, length in enumerate(lengths):
        inputs[length:, row] = np.nan  # what is read of it would spread
    outputs, after = scan(
        tf.constant(inputs), tf.constant(lengths), state, weights, BITING
    )
    wanted, wanted_after = expected(inputs, state, weights, BITING, lengths)
    assert_same((outputs, after), (wanted, wanted_after))
    for row, length in enumerate(lengths):
        if not length:
            np.testing.assert_array_equal(after.c[row], state.c[row])
            np.testing.assert_array_equal(after.m[row], state.m[row])
        for step in range(length, T):
            np.testing.assert_array_equal(outputs[step, row], after.m[row])


@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize("n_lanes", [1, B])
@pytest.mark.parametrize("projected", [True, False])
def test_sequences_of_a_lane_are_as_if_each_were_alone(
    projected: bool, n_lanes: int, jit_compile: bool
) -> None:
    inputs, state, weights = layer(projected)
    inputs, state = inputs[:, :n_lanes], LstmState(*(part[:n_lanes] for part in state))
    first = LstmState(*(0.5 + part[:1] for part in state))
    begins = [[4], [2, 4], [0, 1]][:n_lanes]  # of lane b; before, `state` goes on
    starts = np.zeros((T, n_lanes), bool)
    for lane, steps in enumerate(begins):
        starts[steps, lane] = True
    run = tf.function(scan_lanes, jit_compile=jit_compile)
    n_steps = T - 1
    kernel, bias, projection = weights
    gates = lanes_gates(tf.constant(inputs), n_steps, T, kernel[:SIZE])
    recurrent = LstmWeights(kernel[SIZE:], bias, projection)
    outputs, after = run(
        gates, starts, tf.constant(n_steps), first, state, recurrent, BITING
    )
    for lane, steps in enumerate(begins):
        before = LstmState(*(part[lane : lane + 1] for part in state))
        for begin, end in zip([0, *steps], [*steps, n_steps], strict=True):
            before = before if begin not in steps else first
            part = inputs[begin:end, lane : lane + 1]
            wanted, before = expected(part, before, weights, BITING)
            small.assert_close(outputs[begin:end, lane : lane + 1], wanted, 3e-6)
        for one, other in zip(after, before, strict=True):
            small.assert_close(one[lane], other[0], 3e-6)
    assert not outputs[n_steps:].numpy().any()


def test_inputs_that_repeat_are_multiplied_once_each() -> None:
    vectors, _, weights = layer(True)
    vectors = vectors[:, 0]  # [T, SIZE]
    places = np.array([[3, 0], [3, 3], [1, 0]])
    kernel = weights.kernel[:SIZE]
    gates = lanes_gates(
        Repeated(tf.constant(vectors), tf.constant(places)), 3, 4, kernel
    )
    small.assert_close(gates[:3], vectors[places] @ kernel, 1e-6)
    assert not gates[3:].numpy().any()
    dense = lanes_gates(tf.constant(vectors[places]), 2, 4, kernel)
    small.assert_close(dense[:2], gates[:2], 1e-6)
    assert not dense[2:].numpy().any()


def test_scan_takes_any_number_of_steps_in_one_trace() -> None:
    _, state, weights = layer(projected=True)
    traces = []

    @tf.function(
        input_signature=[tf.TensorSpec([None, B, SIZE]), tf.TensorSpec([B], tf.int32)]
    )
    def run(inputs: tf.Tensor, lengths: tf.Tensor) -> Any:
        traces.append(1)
        return scan(inputs, lengths, state, weights, NO_CLIPS)

    for steps in (0, 1, 9):
        inputs = layer(projected=True, steps=steps)[0]
        lengths = np.minimum(steps, [steps, 2, 0]).astype(np.int32)
        found = run(inputs, lengths)
        assert_same(found, expected(inputs, state, weights, NO_CLIPS, lengths))
    assert len(traces) == 1


def test_rows_do_not_meet() -> None:
    inputs, state, weights = layer(projected=True)
    together = unroll(inputs, state, weights, BITING)
    for row in range(B):
        one = LstmState(state.c[row, None], state.m[row, None])
        outputs, after = unroll(inputs[:, row, None], one, weights, BITING)
        small.assert_close(outputs[:, 0], together[0][:, row], 1e-6)
        small.assert_close(after.c[0], together[1].c[row], 1e-6)


def test_zero_state() -> None:
    state = zero_state(3, 4, 2)
    np.testing.assert_array_equal(state.c, np.zeros((3, 4), np.float32))
    np.testing.assert_array_equal(state.m, np.zeros((3, 2), np.float32))
