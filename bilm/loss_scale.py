"""Dynamic scaling of the loss, for gradients in float16.

Gradients of 16 bits lose what is below 6e-8. The loss is multiplied by a power of two,
which is halved when a gradient overflows, and doubled after many steps without.

Source: Micikevicius et al. 2018, "Mixed Precision Training".
"""

from collections.abc import Mapping

import tensorflow as tf

from bilm.adagrad import Gradient, scaled

INITIAL_SCALE = 2.0**15
DOUBLE_AFTER = 2000  # steps in a row without overflow


class LossScale(tf.Module):
    """The factor, and the count of good steps; nothing at all where not active.

    Args:
        active: whether to scale, as float16 needs.
    """

    def __init__(self, active: bool):
        super().__init__(name="loss_scale")
        self.active = active
        if active:
            self.scale = _counter(INITIAL_SCALE)
            self._good_steps = _counter(0)

    def state(self) -> dict[str, float]:
        """The factor and the count, for `restore`; nothing where not active."""
        if not self.active:
            return {}
        scale, good_steps = map(tf.convert_to_tensor, (self.scale, self._good_steps))
        return {"scale": float(scale), "good_steps": int(good_steps)}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on where `state` was asked for."""
        if self.active and state:
            self.scale.assign(state["scale"])
            self._good_steps.assign(state["good_steps"])

    def multiply(self, loss: tf.Tensor) -> tf.Tensor:
        """The loss to take the gradient of."""
        return loss * self.scale if self.active else loss

    def divide(self, gradient: Gradient) -> Gradient:
        """The gradient of the loss itself."""
        return scaled(gradient, 1 / self.scale) if self.active else gradient

    def adapt(self, finite: tf.Tensor) -> None:
        """Count a step whose gradient is finite, or lower the factor."""
        if not self.active:
            return
        good_steps = self._good_steps + 1
        due = good_steps >= DOUBLE_AFTER
        raised = tf.where(due, self.scale * 2, self.scale)
        lowered = tf.maximum(self.scale / 2, 1.0)
        self.scale.assign(tf.where(finite, raised, lowered))
        self._good_steps.assign(tf.where(finite & ~due, good_steps, 0))


def _counter(value: float | int) -> tf.Variable:
    """All replicas see the same common norm, and so count alike."""
    first = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return tf.Variable(value, trainable=False, aggregation=first)
