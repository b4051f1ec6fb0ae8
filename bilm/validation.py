"""Held-out perplexity while a training runs: the best checkpoint, and when to stop."""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from bilm.evaluation import Evaluation, Evaluator

logger = logging.getLogger(__name__)


class Validation:
    """Evaluates, keeps the best checkpoint, and counts in vain evaluations.

    The states of the evaluation are its own: training goes on as if there were none.

    Args:
        evaluator: of the network in training.
        save_best: writes a checkpoint of this moment, and returns its prefix.
        patience: evaluations in a row without a better one, after which to stop; None
            for no limit.

    Attributes:
        best: the lowest perplexity so far.
        best_step: when it was found.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        save_best: Callable[[], str],
        patience: int | None = None,
    ):
        self.best = math.inf
        self.best_step = 0
        self._evaluator = evaluator
        self._save_best = save_best
        self._patience = patience
        self._in_vain = 0

    @property
    def exhausted(self) -> bool:
        """Whether the patience is at its end."""
        return self._patience is not None and self._in_vain >= self._patience

    def run(self, step: int) -> Evaluation:
        """Evaluate after a step.

        Raises:
            InputError: the held-out data is not text, or has no token.
        """
        result = self._evaluator.run()
        better = result.perplexity < self.best
        logger.info(
            "held-out perplexity after step %d: %.2f (%s, full softmax)%s, %d tokens "
            "in %.0f s",
            step,
            result.perplexity,
            _directions(result),
            ", the best so far" if better else f"; best: {self.best:.2f}",
            result.n_tokens,
            result.seconds,
        )
        self._in_vain = 0 if better else self._in_vain + 1
        if better:
            self._keep(step, result.perplexity)
        elif self.exhausted:
            logger.info(
                "%d evaluations in a row were not better than %.2f of step %d: the "
                "training ends here",
                self._in_vain,
                self.best,
                self.best_step,
            )
        return result

    def state(self) -> dict[str, Any]:
        """What `restore` needs, in values that JSON can hold."""
        return {
            "best": self.best,
            "best_step": self.best_step,
            "in_vain": self._in_vain,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was asked for."""
        self.best, self.best_step = state["best"], state["best_step"]
        self._in_vain = state["in_vain"]

    def _keep(self, step: int, perplexity: float) -> None:
        """Write the checkpoint; where that fails, the next better one is tried."""
        try:
            logger.info("saved %s", self._save_best())
        except (OSError, tf.errors.OpError) as error:
            logger.warning("the best checkpoint cannot be written: %s", error)
            return
        self.best, self.best_step = perplexity, step


def _directions(result: Evaluation) -> str:
    if result.backward is None:
        return "forward"
    return f"forward {result.forward:.2f}, backward {result.backward:.2f}"
