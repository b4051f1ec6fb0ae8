"""What a training says before its first step and after its last one."""

import json
import logging
import os
import platform

import numpy as np
import tensorflow as tf

from bilm.files import CHECKPOINT_INDEX
from bilm.options import TrainingOptions, training_dict
from bilm.progress import Schedule
from bilm.saved_run import BEST, SavedRun
from bilm.trainer import Trainer
from bilm.training_loop import TrainingLoop
from bilm.version import __version__
from bilm.workers import Workers

logger = logging.getLogger(__name__)

MANY_WORDS = 1_000_000
"""More words of a vocabulary deserve a warning."""


def warn_of_best(save_dir: str) -> None:
    """Warn of the best checkpoint of a run before, which a new one replaces."""
    folder = os.path.join(save_dir, BEST)
    if os.path.exists(os.path.join(folder, CHECKPOINT_INDEX)):
        logger.warning(
            "%s is of a run before, and will be replaced when this one evaluates its "
            "held-out text; move it to keep it",
            folder,
        )


def warn_of_devices(workers: Workers, saved: SavedRun) -> None:
    """Say so where a run goes on with other devices or workers."""
    n_devices, n_workers = workers.n_replicas, workers.count
    if (n_devices, n_workers) == (saved.n_devices, saved.n_workers):
        return
    logger.warning(
        "the run goes on with %s instead of %s%s",
        _devices(n_devices, n_workers),
        _devices(saved.n_devices, saved.n_workers),
        ": the same rows, but other samples and dropout than with as many as before"
        if n_devices != saved.n_devices
        else "",
    )


def _devices(count: int, workers: int) -> str:
    devices = "1 device" if count == 1 else f"{count} devices"
    return devices + (f" of {workers} workers" if workers > 1 else "")


def say_what_is_next(loop: TrainingLoop, save_dir: str) -> None:
    """How to go on with a run that stopped, or what to do with one that is done."""
    if not loop.done:
        logger.info(
            "stopped after step %d; to go on: bilm train --resume with the same "
            "--save_dir, --vocab_file and --train_prefix, and the same other flags",
            loop.trainer.global_step,
        )
        return
    logger.info(
        "training is done; next: bilm test --save_dir %s ..., "
        "bilm dump-weights --save_dir %s --outfile weights.hdf5",
        save_dir,
        save_dir,
    )
    if loop.validation is not None:
        logger.info(
            "the best held-out perplexity was %.2f, after step %d: %s",
            loop.validation.best,
            loop.validation.best_step,
            os.path.join(save_dir, BEST),
        )


def _warn_of_size(options: TrainingOptions) -> None:
    if options.n_tokens_vocab > MANY_WORDS:
        n_values = options.n_tokens_vocab * (options.lstm.projection_dim + 1)
        logger.warning(
            "the vocabulary has %s words: the softmax alone takes %.1f GiB of memory "
            "with its Adagrad slots, on each device; bilm vocab --max_size makes a "
            "smaller one, and words out of it still get vectors",
            f"{options.n_tokens_vocab:,}",
            2 * 4 * n_values / 2**30,
        )


def announce(trainer: Trainer, schedule: Schedule, seed: int) -> None:
    """What a run is made of, before its first step."""
    options = trainer.options
    logger.info(
        "bilm %s of %s, Python %s, TensorFlow %s",
        __version__,
        os.path.dirname(os.path.abspath(__file__)),
        platform.python_version(),
        tf.__version__,
    )
    learnt = sum(int(np.prod(spec.shape)) for spec in trainer.network.learnt_specs)
    logger.info(
        "training %s parameters on %s tokens for %d steps of %d tokens, %d an epoch, "
        "seed %d",
        f"{learnt:,}",
        f"{options.n_train_tokens:,}",
        schedule.n_steps,
        schedule.tokens_per_step,
        schedule.steps_per_epoch,
        seed,
    )
    _warn_of_size(options)
    logger.debug("options: %s", json.dumps(training_dict(options)))
    if options.sample_softmax and not options.samples:
        logger.info(
            "full softmax: the %d samples asked for reach the vocabulary's %d words",
            options.n_negative_samples_batch,
            options.n_tokens_vocab,
        )
