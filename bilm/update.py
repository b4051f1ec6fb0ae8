"""What becomes of the gradients of a step: added up, sent, clipped, and applied."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bilm.adagrad import Adagrad, Gradient, clip_by_global_norm, join_duplicates
from bilm.devices import mean_over_replicas
from bilm.gradient_sums import GradientSums
from bilm.loss_scale import LossScale
from bilm.names import ADAGRAD, N_CHARACTERS
from bilm.network import Network
from bilm.options import TrainingOptions
from bilm.traffic import gradient_sizes
from bilm.workers import Workers


class Updated(NamedTuple):
    """The numbers of an update; the names are those of `bilm.trainer.StepResult`."""

    loss: tf.Tensor
    finite: tf.Tensor
    norm: tf.Tensor
    norms: tf.Tensor
    wishes: tf.Tensor


class Update(tf.Module):
    """Owns slots, sums of gradients and the factor of the loss.

    Args:
        network: whose variables are learnt.
        options: of the training.
        workers: that send each other their gradients.
        values: of slots, by their names in a checkpoint; others as in a new training.
        scales_loss: as float16 needs.

    Attributes:
        adagrad: its slots.
        loss_scale: of float16.
        slots: by their names in a checkpoint.
        sizes: what a step has to send to other devices.
    """

    def __init__(
        self,
        network: Network,
        options: TrainingOptions,
        workers: Workers,
        values: Mapping[str, np.ndarray],
        scales_loss: bool,
    ):
        super().__init__(name="update")
        names = [f"{spec.name}/{ADAGRAD}" for spec in network.learnt_specs]
        self._variables, self._workers = network.learnt, workers
        self._limit = options.all_clip_norm_val
        self.sizes = gradient_sizes(network.learnt_specs, options)
        self.adagrad = Adagrad(network.learnt, [values.get(name) for name in names])
        self.slots = dict(zip(names, self.adagrad.slots, strict=True))
        self.loss_scale = LossScale(active=scales_loss)
        self._sums = GradientSums(network.learnt, options.accumulate)

    def gradients(self, loss: tf.Tensor, tape: tf.GradientTape) -> list[Gradient]:
        """Those of a loss that is already multiplied by the factor."""
        return [
            _dense_where_small(gradient, variable)
            for gradient, variable in zip(
                tape.gradient(loss, self._variables), self._variables, strict=True
            )
        ]

    def add(self, loss: tf.Tensor, gradients: Sequence[Gradient]) -> None:
        """Keep those of a piece until there is an update."""
        self._sums.add(loss, gradients)

    def apply(
        self,
        loss: tf.Tensor,
        gradients: Sequence[Gradient],
        rate: tf.Tensor,
        wishes: tf.Tensor,
    ) -> Updated:
        """Update the variables by the gradients of all pieces, this one the last."""
        loss, *gradients = self._sums.means(loss, gradients)
        if self._workers.count > 1:
            gradients = self._in_smaller_form(gradients)
        wishes, loss, *gradients = mean_over_replicas(
            [tf.identity(wishes), loss, *gradients]
        )
        gradients = [self.loss_scale.divide(join_duplicates(g)) for g in gradients]
        clipped, norms, norm = clip_by_global_norm(gradients, self._limit)
        finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        tf.cond(
            finite,
            lambda: self.adagrad.apply(self._variables, clipped, rate),
            lambda: None,
        )
        self.loss_scale.adapt(finite)
        return Updated(loss, finite, norm, norms, wishes)

    def _in_smaller_form(self, gradients: Sequence[Gradient]) -> list[Gradient]:
        """The gradients as they are to be sent to the other workers."""
        return [
            gradient
            if size.is_sent_sparse(self._workers.n_replicas)
            else tf.convert_to_tensor(gradient)
            for gradient, size in zip(gradients, self.sizes, strict=True)
        ]


def _dense_where_small(gradient: Gradient, variable: tf.Variable) -> Gradient:
    """The characters' table has fewer rows than a batch has characters."""
    if variable.shape[0] <= N_CHARACTERS:
        return tf.convert_to_tensor(gradient)
    return gradient
