"""The LSTM over T steps, unrolled in the graph, with a gradient written by hand.

For training. The input's share of the gates, and the gradient of each weight, are one
product over all steps; the loop over time holds only what depends on the step before
or after. Letters are those of `bilm.lstm`.
"""

from typing import Any

import tensorflow as tf

from bilm.lstm import (
    Activations,
    Clips,
    LstmState,
    LstmWeights,
    clip,
    input_gates,
    run_step,
    times,
)
from bilm.products import product, product_over_rows


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


def _clip_gradient(
    gradient: tf.Tensor, values: tf.Tensor, limit: float | None
) -> tf.Tensor:
    """Gradient of `clip`: none where the value was beyond the limit."""
    if limit is None:
        return gradient
    return tf.where(tf.abs(values) <= limit, gradient, tf.zeros_like(gradient))


def _unroll_forward(
    inputs: tf.Tensor,
    state: LstmState,
    weights: LstmWeights,
    clips: Clips,
    keep: list[tf.Tensor] | None,
) -> tuple[tf.Tensor, LstmState, list[Activations]]:
    gates, recurrent = input_gates(inputs, weights)
    outputs, saved = [], []
    for t, step_gates in enumerate(tf.unstack(gates)):
        state = state if keep is None else times(state, keep[t])
        state, activations = run_step(
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
    saved: list[Activations],
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
            d_c, d_m = times(LstmState(d_c, d_m), keep[t])
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
    saved: list[Activations],
) -> list[LstmState]:
    """The state that each step began with."""
    limit = None if weights.projection is None else clips.projection
    states = [state] + [
        LstmState(clip(step.cell, clips.cell), clip(step.projected, limit))
        for step in saved[:-1]
    ]
    if keep is None:
        return states
    return [times(each, k) for each, k in zip(states, keep, strict=True)]


def _step_gradient(
    step: Activations,
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
