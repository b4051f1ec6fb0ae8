"""How fast a training would go: some steps on the user's own data, nothing written."""

import resource
import statistics
import sys
import time
from typing import NamedTuple

import tensorflow as tf
from tqdm.auto import tqdm

from bilm.inputs import Dataset, check_dataset, training_inputs
from bilm.options import TrainingOptions
from bilm.prefetch import Prefetcher
from bilm.progress import Schedule
from bilm.traffic import GradientSize
from bilm.trainer import Trainer
from bilm.workers import Workers

WARM_UP = 3  # steps that trace, allocate and fill caches, and are not counted


class TrainingSpeed(NamedTuple):
    """What `measure_training` found."""

    tokens_per_second: float  # of each direction, all devices together
    step_seconds: float  # median
    epoch_seconds: float
    total_seconds: float  # all epochs
    data_wait: float  # share of the time, 0 to 1
    memory_bytes: int  # most that was in use: of the first GPU, or of the process
    gradient_sizes: list[GradientSize]  # what a step sends to other devices


def measure_training(
    options: TrainingOptions,
    data: Dataset,
    n_gpus: int,
    n_steps: int,
    schedule: Schedule,
    *,
    mixed_precision: str | None = None,
    jit_compile: bool = False,
    workers: Workers | None = None,
) -> TrainingSpeed:
    """Make a few warm-up steps and then `n_steps` steps, and forget the model.

    Args:
        options: of the training that is planned.
        data: its data.
        n_gpus: its devices.
        n_steps: steps to time.
        schedule: of `bilm.training.training_schedule`.
        mixed_precision: as of `bilm.training.train`.
        jit_compile: as of `bilm.training.train`.
        workers: who takes part; None for `n_gpus` devices of this process.

    Raises:
        InputError: options and data do not fit each other.
    """
    check_dataset(options, data)
    workers = workers or Workers(n_gpus)
    trainer = Trainer(
        options,
        mixed_precision=mixed_precision,
        jit_compile=jit_compile,
        workers=workers,
    )
    states, times = trainer.zero_states(), []
    inputs = training_inputs(
        options,
        data,
        workers.n_replicas,
        [0],
        pieces=workers.pieces(options.accumulate),
    )
    with Prefetcher(inputs) as batches:
        quiet = not (workers.is_chief and sys.stderr.isatty())
        bar = tqdm(total=n_steps, unit="step", disable=quiet)
        iterator, waited_before, begin = iter(batches), 0.0, 0.0
        for number in range(WARM_UP + n_steps):
            if number == WARM_UP:
                waited_before, begin = batches.waited, time.perf_counter()
            start = time.perf_counter()
            states, result = trainer.step(next(iterator).inputs, states)
            float(result.loss)  # waits for the device
            times.append(time.perf_counter() - start)
            bar.update(number >= WARM_UP)
        bar.close()
        waited = batches.waited - waited_before
    step_seconds = statistics.median(times[WARM_UP:])
    epoch_seconds = step_seconds * schedule.steps_per_epoch
    return TrainingSpeed(
        tokens_per_second=schedule.tokens_per_step / step_seconds,
        step_seconds=step_seconds,
        epoch_seconds=epoch_seconds,
        total_seconds=epoch_seconds * options.n_epochs,
        data_wait=waited / (time.perf_counter() - begin),
        memory_bytes=_peak_memory(),
        gradient_sizes=trainer.update.sizes,
    )


def _peak_memory() -> int:
    if tf.config.list_logical_devices("GPU"):
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # in KiB on Linux
