"""The LSTM with projection: one step, and two ways to run it in a loop over time.

Letters: T time steps, B rows, I input size, D `projection_dim`, H `dim`.

`scan` loops over any number of steps and respects each row's length, for prediction.
`scan_lanes` runs rows that hold many sequences each, for prediction in bulk. A third
way, `bilm.unrolled_lstm`, is for training.

Source: Sak, Senior and Beaufays 2014, "Long Short-Term Memory Recurrent Neural Network
Architectures for Large Scale Acoustic Modeling".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from bilm.products import product

FORGET_BIAS = 1.0  # added to the forget gate here, and part of no file


class LstmWeights(NamedTuple):
    """Weights of one layer. Gates are packed i, j, f, o; rows: input, then state."""

    kernel: tf.Tensor  # [I + D, 4H]
    bias: tf.Tensor  # [4H]
    projection: tf.Tensor | None  # [H, D], None where H = D


class Repeated(NamedTuple):
    """Inputs among which the same ones come again: each once, and where it stands."""

    vectors: tf.Tensor  # [U, I]
    places: tf.Tensor  # int32 [T, B], a row of `vectors` each


class Clips(NamedTuple):
    """Symmetric limits of cell and projected output; None for no clipping."""

    cell: float | None
    projection: float | None


class LstmState(NamedTuple):
    """State of one layer."""

    c: tf.Tensor  # [B, H], the cell
    m: tf.Tensor  # [B, D], the projected output


Step = Callable[[tf.Tensor, LstmState], LstmState]  # its number, the state before


class Activations(NamedTuple):
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
    gates, recurrent = input_gates(inputs, weights)

    def step(t: tf.Tensor, old: LstmState) -> LstmState:
        old = old if keep is None else times(old, keep[t])
        new, _ = run_step(gates[t], old, recurrent, weights.projection, clips)
        return new if lengths is None else _where(t < lengths, new, old)

    steps = tf.shape(inputs)[0]
    return _loop(step, steps, steps, state)


def scan_lanes(
    gates: tf.Tensor,
    starts: tf.Tensor,
    steps: tf.Tensor,
    first: LstmState,
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
) -> tuple[tf.Tensor, LstmState]:
    """Run rows that hold several sequences each, one after the other.

    It can be compiled by XLA, once for each [T, B] and for all layers, which makes it
    up to four times as fast on a CPU.

    Args:
        gates: share of the inputs in the gates [T, B, 4H], of `lanes_gates`.
        starts: bool [T, B]: where a row begins a sequence, and takes the state `first`.
        steps: how many of the T steps to run.
        first: state [1, H] and [1, D] before a sequence.
        state: before the first step, where `starts` is false there.
        weights: of this layer, of the kernel the state's rows [D, 4H].
        clips: limits of the layer.

    Returns:
        Outputs m of each step [T, B, D], zeros where it was not run, and the state
        after the last one that was.
    """

    def step(t: tf.Tensor, old: LstmState) -> LstmState:
        before = _where(starts[t], first, old)
        share = gates[t] + weights.bias
        return run_step(share, before, weights.kernel, weights.projection, clips)[0]

    return _loop(step, steps, tf.shape(gates)[0], state)


def lanes_gates(
    inputs: tf.Tensor | Repeated, steps: tf.Tensor, size: tf.Tensor, kernel: tf.Tensor
) -> tf.Tensor:
    """Share of the inputs in the gates, without the bias.

    One product over all steps, and over each distinct input alone where they repeat,
    is faster than a product in each step.

    Args:
        inputs: [T, B, I], or the places of the first `steps` steps alone.
        steps: how many of the T steps there are.
        size: T.
        kernel: the inputs' rows [I, 4H].

    Returns:
        [T, B, 4H], zeros behind the last step.
    """
    if isinstance(inputs, Repeated):
        gates = tf.gather(product(inputs.vectors, kernel), inputs.places)
    else:
        gates = product(inputs[:steps], kernel)
    return tf.pad(gates, [[0, size - steps], [0, 0], [0, 0]])


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


def times(state: LstmState, factors: tf.Tensor) -> LstmState:
    """Each row of the state times its factor [B, 1]."""
    return LstmState(state.c * factors, state.m * factors)


def input_gates(inputs: tf.Tensor, weights: LstmWeights) -> tuple[tf.Tensor, tf.Tensor]:
    """Share of the inputs in the gates [T, B, 4H], and the kernel's state rows."""
    size = inputs.shape[-1]
    kernel = tf.convert_to_tensor(weights.kernel)
    return product(inputs, kernel[:size]) + weights.bias, kernel[size:]


def run_step(
    gates: tf.Tensor,
    state: LstmState,
    recurrent: tf.Tensor,
    projection: tf.Tensor | None,
    clips: Clips,
) -> tuple[LstmState, Activations]:
    """One step from the inputs' share of the gates [B, 4H]."""
    gates += product(state.m, recurrent)
    return _cell(gates, state.c, projection, clips)


def _cell(
    gates: tf.Tensor, c: tf.Tensor, projection: tf.Tensor | None, clips: Clips
) -> tuple[LstmState, Activations]:
    """One step from the gates [B, 4H] and the cell before."""
    i, j, f, o = tf.split(gates, 4, axis=1)
    i, j = tf.sigmoid(i), tf.tanh(j)
    f, o = tf.sigmoid(f + FORGET_BIAS), tf.sigmoid(o)
    cell = f * c + i * j
    clipped_cell = clip(cell, clips.cell)
    tanh_cell = tf.tanh(clipped_cell)
    hidden = projected = m = o * tanh_cell
    if projection is not None:
        projected = product(hidden, projection)
        m = clip(projected, clips.projection)
    saved = Activations(i, j, f, o, cell, tanh_cell, hidden, projected)
    return LstmState(clipped_cell, m), saved


def clip(values: tf.Tensor, limit: float | None) -> tf.Tensor:
    return values if limit is None else tf.clip_by_value(values, -limit, limit)
