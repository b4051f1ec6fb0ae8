"""The LSTM with projection, run over time in three ways, with one step.

Letters: T time steps, B rows, I input size, D `projection_dim`, H `dim`.

`unroll` repeats the step T times in the graph, with a gradient written by hand, for
training. `scan` loops over any number of steps and respects each row's length, for
prediction. Both compute the input's share of the gates for all steps in one product.
`scan_lanes` runs rows that hold many sequences each, for prediction in bulk.

Source: Sak, Senior and Beaufays 2014, "Long Short-Term Memory Recurrent Neural Network
Architectures for Large Scale Acoustic Modeling".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from bilm.products import product, product_over_rows

FORGET_BIAS = 1.0  # added to the forget gate here, and part of no file


class LstmWeights(NamedTuple):
    """Weights of one layer. Gates are packed i, j, f, o; rows: input, then state."""

    kernel: tf.Tensor  # [I + D, 4H]
    bias: tf.Tensor  # [4H]
    projection: tf.Tensor | None  # [H, D], None where H = D


class Clips(NamedTuple):
    """Symmetric limits of cell and projected output; None for no clipping."""

    cell: float | None
    projection: float | None


class LstmState(NamedTuple):
    """State of one layer."""

    c: tf.Tensor  # [B, H], the cell
    m: tf.Tensor  # [B, D], the projected output


Step = Callable[[tf.Tensor, LstmState], LstmState]  # its number, the state before


class _Activations(NamedTuple):
    """What the gradient of one step needs."""

    i: tf.Tensor  # [B, H] input gate, after the sigmoid; so are f and o
    j: tf.Tensor  # [B, H] candidate, after tanh
    f: tf.Tensor
    o: tf.Tensor
    cell: tf.Tensor  # [B, H] before clipping
    tanh_cell: tf.Tensor  # [B, H] of the clipped cell
    hidden: tf.Tensor  # [B, H] before the projection
    projected: tf.Tensor  # [B, D] before clipping


def zero_state(rows: Any, dim: int, projection_dim: int) -> LstmState:
    """The state at the start of a text, for `rows` rows."""
    return LstmState(tf.zeros([rows, dim]), tf.zeros([rows, projection_dim]))


def unroll(
    inputs: tf.Tensor,
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
    keep: tf.Tensor | None = None,
) -> tuple[tf.Tensor, LstmState]:
    """Run T steps, statically unrolled.

    Args:
        inputs: [T, B, I] with T known when the graph is built.
        state: the state before the first step.
        weights: of this layer.
        clips: limits of the layer.
        keep: float32 [T, B, 1], 0 where a row's state is zeroed before the step, else
            1; None for 1 everywhere.

    Returns:
        Outputs m of each step [T, B, D], and the state after the last one.
    """
    kept = None if keep is None else tf.unstack(keep)
    kernel = tf.convert_to_tensor(weights.kernel)
    bias = tf.convert_to_tensor(weights.bias)
    tensors = [inputs, *state, kernel, bias]
    if weights.projection is not None:
        tensors.append(tf.convert_to_tensor(weights.projection))

    @tf.custom_gradient
    def run(x: tf.Tensor, c: tf.Tensor, m: tf.Tensor, *weight: tf.Tensor) -> Any:
        layer = LstmWeights(weight[0], weight[1], (*weight, None)[2])
        outputs, final, saved = _unroll_forward(x, LstmState(c, m), layer, clips, kept)

        def gradient(d_outputs: tf.Tensor, d_c: tf.Tensor, d_m: tf.Tensor) -> Any:
            final_gradient = LstmState(d_c, d_m)
            return _unroll_backward(
                x, LstmState(c, m), layer, clips, kept, saved, d_outputs, final_gradient
            )

        return (outputs, *final), gradient

    outputs, c, m = run(*tensors)
    return outputs, LstmState(c, m)


def scan(
    inputs: tf.Tensor,
    lengths: tf.Tensor | None,
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
    keep: tf.Tensor | None = None,
) -> tuple[tf.Tensor, LstmState]:
    """Run as many steps as `inputs` has, in a loop; padding never touches a state.

    Args:
        inputs: [T, B, I], T known only when it runs.
        lengths: int32 [B]; row b has its real inputs at steps below lengths[b]. None
            where rows have no padding, or where nobody asks what follows their end.
        state: the state before the first step.
        weights: of this layer.
        clips: limits of the layer.
        keep: as in `unroll`.

    Returns:
        Outputs m of each step [T, B, D] (after a row's end its last m, repeated), and
        each row's state after its last real step.
    """
    gates, recurrent = _input_gates(inputs, weights)

    def step(t: tf.Tensor, old: LstmState) -> LstmState:
        old = old if keep is None else _times(old, keep[t])
        new, _ = _step(gates[t], old, recurrent, weights.projection, clips)
        return new if lengths is None else _where(t < lengths, new, old)

    steps = tf.shape(inputs)[0]
    return _loop(step, steps, steps, state)


def scan_lanes(
    inputs: tf.Tensor,
    starts: tf.Tensor,
    steps: tf.Tensor,
    first: LstmState,
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
) -> tuple[tf.Tensor, LstmState]:
    """Run rows that hold several sequences each, one after the other.

    It can be compiled by XLA, once for each [T, B], which makes it two to four times
    as fast on a CPU.

    Args:
        inputs: [T, B, I].
        starts: bool [T, B]: where a row begins a sequence, and takes the state `first`.
        steps: how many of the T steps to run.
        first: state [1, H] and [1, D] before a sequence.
        state: before the first step, where `starts` is false there.
        weights: of this layer.
        clips: limits of the layer.

    Returns:
        Outputs m of each step [T, B, D], zeros where it was not run, and the state
        after the last one that was.
    """
    cell = _one_lane_cell if inputs.shape[1] == 1 else _lanes_cell
    run = cell(inputs, weights, clips)

    def step(t: tf.Tensor, old: LstmState) -> LstmState:
        return run(t, _where(starts[t], first, old))

    return _loop(step, steps, tf.shape(inputs)[0], state)


def _one_lane_cell(inputs: tf.Tensor, weights: LstmWeights, clips: Clips) -> Step:
    """The inputs of one lane are a matrix, worth a product of its own."""
    gates, recurrent = _input_gates(inputs, weights)
    return lambda t, old: _step(gates[t], old, recurrent, weights.projection, clips)[0]


def _lanes_cell(inputs: tf.Tensor, weights: LstmWeights, clips: Clips) -> Step:
    """Many lanes make a step's product large; no gates of other steps take memory."""

    def cell(t: tf.Tensor, old: LstmState) -> LstmState:
        both = tf.concat([inputs[t], old.m], 1)
        gates = product(both, weights.kernel) + weights.bias
        return _cell(gates, old.c, weights.projection, clips)[0]

    return cell


def _loop(
    step: Step,
    steps: tf.Tensor,
    size: tf.Tensor,
    state: LstmState,
) -> tuple[tf.Tensor, LstmState]:
    """Repeat a step; outputs [size, B, D] of the steps, and the state after them."""
    outputs = tf.TensorArray(state.m.dtype, size=size, element_shape=state.m.shape)

    def body(t: tf.Tensor, old: LstmState, outputs: tf.TensorArray) -> Any:
        new = step(t, old)
        return t + 1, new, outputs.write(t, new.m)

    _, final, outputs = tf.while_loop(
        lambda t, *_: t < steps, body, (tf.constant(0), state, outputs)
    )
    return outputs.stack(), final


def _where(rows: tf.Tensor, state: LstmState, other: LstmState) -> LstmState:
    """Take the state of the rows that bool [B] says, else the other."""
    chosen = rows[:, None]
    return LstmState(
        tf.where(chosen, state.c, other.c), tf.where(chosen, state.m, other.m)
    )


def _times(state: LstmState, factors: tf.Tensor) -> LstmState:
    """Each row of the state times its factor [B, 1]."""
    return LstmState(state.c * factors, state.m * factors)


def _input_gates(
    inputs: tf.Tensor, weights: LstmWeights
) -> tuple[tf.Tensor, tf.Tensor]:
    """Share of the inputs in the gates [T, B, 4H], and the kernel's state rows."""
    size = inputs.shape[-1]
    kernel = tf.convert_to_tensor(weights.kernel)
    return product(inputs, kernel[:size]) + weights.bias, kernel[size:]


def _step(
    gates: tf.Tensor,
    state: LstmState,
    recurrent: tf.Tensor,
    projection: tf.Tensor | None,
    clips: Clips,
) -> tuple[LstmState, _Activations]:
    """One step from the inputs' share of the gates [B, 4H]."""
    gates += product(state.m, recurrent)
    return _cell(gates, state.c, projection, clips)


def _cell(
    gates: tf.Tensor, c: tf.Tensor, projection: tf.Tensor | None, clips: Clips
) -> tuple[LstmState, _Activations]:
    """One step from the gates [B, 4H] and the cell before."""
    i, j, f, o = tf.split(gates, 4, axis=1)
    i, j = tf.sigmoid(i), tf.tanh(j)
    f, o = tf.sigmoid(f + FORGET_BIAS), tf.sigmoid(o)
    cell = f * c + i * j
    clipped_cell = _clip(cell, clips.cell)
    tanh_cell = tf.tanh(clipped_cell)
    hidden = projected = m = o * tanh_cell
    if projection is not None:
        projected = product(hidden, projection)
        m = _clip(projected, clips.projection)
    saved = _Activations(i, j, f, o, cell, tanh_cell, hidden, projected)
    return LstmState(clipped_cell, m), saved


def _clip(values: tf.Tensor, limit: float | None) -> tf.Tensor:
    return values if limit is None else tf.clip_by_value(values, -limit, limit)


def _clip_gradient(
    gradient: tf.Tensor, values: tf.Tensor, limit: float | None
) -> tf.Tensor:
    """Gradient of `_clip`: none where the value was beyond the limit."""
    if limit is None:
        return gradient
    return tf.where(tf.abs(values) <= limit, gradient, tf.zeros_like(gradient))


def _unroll_forward(
    inputs: tf.Tensor,
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
    keep: list[tf.Tensor] | None,
) -> tuple[tf.Tensor, LstmState, list[_Activations]]:
    gates, recurrent = _input_gates(inputs, weights)
    outputs, saved = [], []
    for t, step_gates in enumerate(tf.unstack(gates)):
        state = state if keep is None else _times(state, keep[t])
        state, activations = _step(
            step_gates, state, recurrent, weights.projection, clips
        )
        outputs.append(state.m)
        saved.append(activations)
    return tf.stack(outputs), state, saved


def _unroll_backward(
    inputs: tf.Tensor,
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
    keep: list[tf.Tensor] | None,
    saved: list[_Activations],
    d_outputs: tf.Tensor,
    d_final: LstmState,
) -> list[tf.Tensor]:
    """Gradients of inputs, state c, state m, kernel, bias and projection, in order.

    The loop over time leaves only what depends on the step after; each weight's
    gradient is then one product over all T * B steps.
    """
    recurrent = weights.kernel[inputs.shape[-1] :]
    before = _states_before(state, weights, clips, keep, saved)
    d_c, d_m = d_final
    d_gates: list[tf.Tensor] = []
    d_projected: list[tf.Tensor] = []
    for t, d_output in reversed(list(enumerate(tf.unstack(d_outputs)))):
        step = saved[t]
        d_hidden = d_m + d_output
        if weights.projection is not None:
            d_projected.insert(
                0, _clip_gradient(d_hidden, step.projected, clips.projection)
            )
            d_hidden = product(d_projected[0], weights.projection, transpose=True)
        d_gate, d_c = _step_gradient(step, before[t].c, d_hidden, d_c, clips)
        d_gates.insert(0, d_gate)
        d_m = product(d_gate, recurrent, transpose=True)
        if keep is not None:
            d_c, d_m = _times(LstmState(d_c, d_m), keep[t])
    d_inputs, d_kernel, d_bias = _products_over_time(
        inputs, [state.m for state in before], weights, tf.stack(d_gates)
    )
    gradients = [d_inputs, d_c, d_m, d_kernel, d_bias]
    if weights.projection is not None:
        hidden = tf.stack([step.hidden for step in saved])
        dtype = weights.projection.dtype
        gradients.append(product_over_rows(hidden, tf.stack(d_projected), dtype))
    return gradients


def _states_before(
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
    keep: list[tf.Tensor] | None,
    saved: list[_Activations],
) -> list[LstmState]:
    """The state that each step began with."""
    limit = None if weights.projection is None else clips.projection
    states = [state] + [
        LstmState(_clip(step.cell, clips.cell), _clip(step.projected, limit))
        for step in saved[:-1]
    ]
    if keep is None:
        return states
    return [_times(each, k) for each, k in zip(states, keep, strict=True)]


def _step_gradient(
    step: _Activations,
    previous_cell: tf.Tensor,
    d_hidden: tf.Tensor,
    d_clipped_cell: tf.Tensor,
    clips: Clips,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Gradients of the gates before their activation [B, 4H], and of the cell before.

    With s the sigmoid of x, ds/dx = s (1 - s); with h its tanh, dh/dx = 1 - h^2.
    """
    d_cell = d_clipped_cell + d_hidden * step.o * (1 - tf.square(step.tanh_cell))
    d_cell = _clip_gradient(d_cell, step.cell, clips.cell)
    d_gates = [
        d_cell * step.j * step.i * (1 - step.i),
        d_cell * step.i * (1 - tf.square(step.j)),
        d_cell * previous_cell * step.f * (1 - step.f),
        d_hidden * step.tanh_cell * step.o * (1 - step.o),
    ]
    return tf.concat(d_gates, 1), d_cell * step.f


def _products_over_time(
    inputs: tf.Tensor,
    outputs: list[tf.Tensor],
    weights: LstmWeights,
    d_gates: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gradients of inputs [T, B, I], kernel and bias from those of all gates.

    `outputs` are m [B, D] before each step.
    """
    states = tf.stack(outputs)  # [T, B, D]
    d_inputs = product(d_gates, weights.kernel[: inputs.shape[-1]], transpose=True)
    dtype = weights.kernel.dtype
    d_kernel = product_over_rows(tf.concat([inputs, states], 2), d_gates, dtype)
    return d_inputs, d_kernel, tf.reduce_sum(d_gates, [0, 1])
