"""The language model: token losses of the network, for training and evaluation alike.

Letters: K directions, T steps, B rows, U distinct tokens, C characters, S samples.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from bilm.inputs import StepInputs
from bilm.network import BilmState, Dropout, Network
from bilm.softmax import (
    Candidates,
    full_softmax_loss,
    full_softmax_loss_in_pieces,
    sampled_softmax_loss,
)

# hidden [T * B, D], labels [T * B], direction -> losses [T * B]
LossOfDirection = Callable[[tf.Tensor, tf.Tensor, int], tf.Tensor]


class Losses(NamedTuple):
    """What one unrolled batch gives."""

    losses: tf.Tensor  # float32 [K, T * B], negative log-probability of each label
    state: BilmState  # after the last step
    vectors: tf.Tensor  # [U, D], the token embeddings
    outputs: list[tf.Tensor]  # [K] of [T, B, D], the last layer's


def token_losses(
    network: Network,
    inputs: StepInputs,
    state: BilmState,
    dropout: Dropout,
    loss: LossOfDirection,
) -> Losses:
    """Run the network over a batch of T steps, T static.

    Args:
        network: with its softmax.
        inputs: as tensors.
        state: before the first step.
        dropout: of `bilm.network`.
        loss: the softmax to use.
    """
    vectors = network.encode(inputs.tokens)
    embedded = in_places(vectors, inputs)
    outputs, final = network.unroll(embedded, state, dropout, kept(inputs))
    return Losses(losses_of(outputs, inputs, loss), final, vectors, outputs)


def in_places(vectors: tf.Tensor, inputs: StepInputs) -> list[tf.Tensor]:
    """Put the vectors [U, D] of the tokens where they stand: [K] of [T, B, D]."""
    return [tf.gather(vectors, places) for places in tf.unstack(inputs.places)]


def kept(inputs: StepInputs) -> list[tf.Tensor] | None:
    """Factors [K] of [T, B, 1] of the states before each step; None for all 1."""
    if inputs.keep.shape[-1] == 0:  # so the signature says
        return None
    return tf.unstack(inputs.keep[..., None])


def losses_of(
    outputs: Sequence[tf.Tensor], inputs: StepInputs, loss: LossOfDirection
) -> tf.Tensor:
    """Losses [K, T * B] of the last layer's outputs [K] of [T, B, D]."""
    labels = tf.unstack(inputs.labels)
    return tf.stack(
        [
            loss(tf.reshape(out, [-1, out.shape[-1]]), tf.reshape(labels[k], [-1]), k)
            for k, out in enumerate(outputs)
        ]
    )


def training_loss(
    network: Network, inputs: StepInputs, sampled: bool
) -> LossOfDirection:
    """Sampled or full softmax, both with a gradient."""

    def loss(hidden: tf.Tensor, labels: tf.Tensor, direction: int) -> tf.Tensor:
        if not sampled:
            return full_softmax_loss(network.softmax, hidden, labels)
        candidates = Candidates(
            inputs.sampled[direction],
            inputs.sampled_log_expected[direction],
            tf.reshape(inputs.label_log_expected[direction], [-1]),
        )
        return sampled_softmax_loss(network.softmax, hidden, labels, candidates)

    return loss


def full_losses(
    network: Network, resets_state: bool = False
) -> Callable[[StepInputs, BilmState], tuple[tf.Tensor, BilmState]]:
    """The function that evaluation and scoring run, traced once for any T, B and U.

    From inputs, with any weights, and the state before, it gives the losses float32 [K,
    T, B] by the full softmax times the weights, and the state after. With
    `resets_state` the inputs must say where to zero states, else they must not.
    """

    def loss(hidden: tf.Tensor, labels: tf.Tensor, _: int) -> tf.Tensor:
        return full_softmax_loss_in_pieces(network.softmax, hidden, labels)

    def step(inputs: StepInputs, state: BilmState) -> tuple[tf.Tensor, BilmState]:
        embedded = in_places(network.encode(inputs.tokens), inputs)
        outputs, state = network.scan(embedded, None, state, kept(inputs))
        losses = losses_of([layers[-1] for layers in outputs], inputs, loss)
        return tf.reshape(losses, tf.shape(inputs.weights)) * inputs.weights, state

    return tf.function(
        step,
        autograph=False,  # no Python branch on a tensor; tracing is faster
        input_signature=(
            input_signature(network, None, resets_state),
            state_signature(network),
        ),
    )


def input_signature(
    network: Network, unroll_steps: int | None, resets_state: bool
) -> StepInputs:
    """Shapes for which a step is traced once; U, C, B and S may vary from call to call.

    K and T stay fixed where the steps are unrolled; with None, T may vary too. States
    are zeroed where documents begin only in a step traced for it.
    """
    directions, steps = network.options.n_directions, unroll_steps
    characters = [None] if network.options.char_cnn is not None else []
    per_token = [directions, steps, None]
    return StepInputs(
        tokens=tf.TensorSpec([None, *characters], tf.int32),
        places=tf.TensorSpec(per_token, tf.int32),
        labels=tf.TensorSpec(per_token, tf.int32),
        weights=tf.TensorSpec(per_token, tf.float32),
        keep=tf.TensorSpec(
            per_token if resets_state else [directions, 0, 0], tf.float32
        ),
        sampled=tf.TensorSpec([directions, None], tf.int32),
        sampled_log_expected=tf.TensorSpec([directions, None], tf.float32),
        label_log_expected=tf.TensorSpec([directions, None, None], tf.float32),
    )


def state_signature(network: Network) -> BilmState:
    """Shapes of the state, any number of rows."""
    return tf.nest.map_structure(
        lambda t: tf.TensorSpec([None, t.shape[1]], t.dtype), network.zero_state(1)
    )
