"""Adagrad as bilm-tf runs it: clipped by the common norm, and sparse where possible.

Source: Duchi, Hazan and Singer 2011, "Adaptive Subgradient Methods"; initial
accumulator 1, no epsilon.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

INITIAL_ACCUMULATOR = 1.0

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


class Adagrad(tf.Module):
    """Owns one accumulator (the slot) for each variable.

    Args:
        variables: that are learnt.
        values: of their slots, None for those of a new training.

    Attributes:
        slots: in the order of the variables.
    """

    def __init__(
        self,
        variables: Sequence[tf.Variable],
        values: Sequence[np.ndarray | None] | None = None,
    ):
        super().__init__(name="Adagrad")
        values = values or [None] * len(variables)
        self.slots = [
            tf.Variable(
                tf.fill(v.shape, INITIAL_ACCUMULATOR) if value is None else value,
                trainable=False,
            )
            for v, value in zip(
                variables, values or [None] * len(variables), strict=True
            )
        ]

    def apply(
        self,
        variables: Sequence[tf.Variable],
        gradients: Sequence[Gradient],
        learning_rate: tf.Tensor,
    ) -> None:
        """Add each squared gradient to its slot, and move by gradient / sqrt(slot).

        Sparse gradients must have distinct indices; rows without one do not change.
        """
        for variable, slot, gradient in zip(
            variables, self.slots, gradients, strict=True
        ):
            if isinstance(gradient, tf.IndexedSlices):
                tf.raw_ops.ResourceSparseApplyAdagrad(
                    var=variable.handle,
                    accum=slot.handle,
                    lr=learning_rate,
                    grad=gradient.values,
                    indices=gradient.indices,
                )
            else:
                tf.raw_ops.ResourceApplyAdagrad(
                    var=variable.handle,
                    accum=slot.handle,
                    lr=learning_rate,
                    grad=gradient,
                )


def join_duplicates(gradient: Gradient) -> Gradient:
    """Sum the rows of a sparse gradient that have the same index."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def clip_by_global_norm(
    gradients: Sequence[Gradient], limit: float
) -> tuple[list[Gradient], tf.Tensor, tf.Tensor]:
    """Scale all gradients so that their common norm is at most `limit`.

    Args:
        gradients: sparse ones with distinct indices, without which the norm is wrong.
        limit: `all_clip_norm_val` of the options.

    Returns:
        The gradients, the norm of each before clipping [len(gradients)], and the
        common norm before clipping.
    """
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    squares = tf.stack([tf.reduce_sum(tf.square(v)) for v in values])
    norm = tf.sqrt(tf.reduce_sum(squares))
    scale = limit / tf.maximum(norm, limit)
    return [scaled(g, scale) for g in gradients], tf.sqrt(squares), norm


def scaled(gradient: Gradient, scale: tf.Tensor) -> Gradient:
    """The gradient times a scalar."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            gradient.values * scale, gradient.indices, gradient.dense_shape
        )
    return gradient * scale
