"""Gradients of several batches, added up until there is an update."""

from collections.abc import Sequence

import tensorflow as tf

from bilm.adagrad import Gradient


class GradientSums(tf.Module):
    """Owns a sum for each variable, and one for the loss; nothing for one batch.

    The sums are dense: to Adagrad a row of zeros is the same as no row.

    Args:
        variables: that the gradients are of.
        n_batches: K, batches of an update.
    """

    def __init__(self, variables: Sequence[tf.Variable], n_batches: int):
        super().__init__(name="gradient_sums")
        self._n_batches = n_batches
        shapes = [tf.TensorShape([]), *(v.shape for v in variables)]
        self._sums = [
            tf.Variable(tf.zeros(shape), trainable=False)
            for shape in (shapes if n_batches > 1 else [])
        ]

    def add(self, loss: tf.Tensor, gradients: Sequence[Gradient]) -> None:
        """Add those of a batch. Each replica has sums of its own."""
        for total, value in zip(self._sums, [loss, *gradients], strict=True):
            if isinstance(value, tf.IndexedSlices):
                tf.raw_ops.ResourceScatterAdd(
                    resource=total.handle, indices=value.indices, updates=value.values
                )
            else:
                tf.raw_ops.AssignAddVariableOp(resource=total.handle, value=value)

    def means(self, loss: tf.Tensor, gradients: Sequence[Gradient]) -> list[Gradient]:
        """The means of loss and gradients over the last batch and those added before.

        The sums begin anew.
        """
        if not self._sums:
            return [loss, *gradients]
        self.add(loss, gradients)
        means = [tf.identity(total) / self._n_batches for total in self._sums]
        with tf.control_dependencies(means):
            for total in self._sums:
                zeros = tf.zeros(total.shape)
                tf.raw_ops.AssignVariableOp(resource=total.handle, value=zeros)
        return means
