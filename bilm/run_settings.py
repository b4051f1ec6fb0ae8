"""How a training run goes: when it saves, reports, evaluates and stops."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from bilm.intervals import Interval, as_interval

MAX_BAD_STEPS = 20
"""In a row. Float16 may need 15, in which the factor of its loss falls from 2^15."""


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """How a run goes, not what it trains.

    Attributes:
        seed: of initial values, dropout and negative samples; None for a new one, or
            for that of the run that goes on.
        checkpoint_every: steps between two checkpoints, or minutes such as `"30m"`; the
            last step has one too.
        keep: number of last checkpoints that are kept.
        log_every: steps between two log lines and TensorBoard points.
        mixed_precision: `bfloat16` or `float16` for the products of encoder and LSTM
            layers; variables, states, softmax, loss and clipping stay float32.
        jit_compile: compile the LSTM layers by XLA.
        stop_after: steps after which this process stops with a checkpoint, or minutes
            such as `"90m"`; None for the end of the training.
        stop_requested: asked after each step whether to stop with a checkpoint.
        max_bad_steps: steps in a row without a finite loss and gradient, with which the
            run ends.
        valid_every: steps between two evaluations of held-out text; the last step has
            one too.
        patience: evaluations in a row without a better one, with which the run ends;
            None for no limit.
    """

    seed: int | None = None
    checkpoint_every: int | str = 1250
    keep: int = 5
    log_every: int = 100
    mixed_precision: str | None = None
    jit_compile: bool = False
    stop_after: int | str | None = None
    stop_requested: Callable[[], bool] = lambda: False
    max_bad_steps: int = MAX_BAD_STEPS
    valid_every: int = 1250
    patience: int | None = None

    def __post_init__(self) -> None:
        _ = self.checkpoints, self.end  # they can be read

    def flags(self) -> dict[str, Any]:
        """All that can be compared with another process, in values of JSON."""
        names = [field.name for field in dataclasses.fields(self)]
        names.remove("stop_requested")
        return {name: getattr(self, name) for name in names}

    @property
    def checkpoints(self) -> Interval:
        """Between two checkpoints."""
        return as_interval("checkpoint_every", self.checkpoint_every)

    @property
    def end(self) -> Interval:
        """After which this process stops."""
        if self.stop_after is None:
            return Interval(math.inf, in_minutes=False)
        return as_interval("stop_after", self.stop_after)
