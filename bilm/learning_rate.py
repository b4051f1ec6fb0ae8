"""The learning rate of each update.

Sources: a linear warm-up as in Goyal et al. 2017, "Accurate, Large Minibatch SGD"; the
cosine of Loshchilov and Hutter 2017, "SGDR", without restarts; the inverse square root
of Vaswani et al. 2017, "Attention Is All You Need".
"""

import math

from bilm.options import TrainingOptions


def learning_rate(options: TrainingOptions, step: int, n_steps: int) -> float:
    """The learning rate of an update.

    It rises linearly to `learning_rate` in the first `warmup_steps` updates, and then
    stays there, or falls: `linear` and `cosine` reach 0 with the update that would
    follow the last one, `inverse_sqrt` falls by the square root of the number of
    updates over that of the warm-up.

    Args:
        options: of the training.
        step: number of the update in this run, 0 for the first.
        n_steps: updates of this run.
    """
    warmup = options.warmup_steps
    if step < warmup:
        return options.learning_rate * (step + 1) / warmup
    if options.lr_schedule == "constant":
        return options.learning_rate  # to the last bit
    if options.lr_schedule == "inverse_sqrt":
        return options.learning_rate * math.sqrt(max(warmup, 1) / (step + 1))
    left = (n_steps - step) / (n_steps - warmup)
    if options.lr_schedule == "cosine":
        left = (1 - math.cos(math.pi * left)) / 2
    return options.learning_rate * left
