"""Training from files to files, and the public names of `bilm.training` in bilm-tf."""

import json
import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from bilm.checkpoint import latest_checkpoint
from bilm.data import UnicodeCharsVocabulary, Vocabulary
from bilm.errors import InputError
from bilm.evaluation import test
from bilm.inputs import Dataset, StepInputs, check_dataset, training_inputs
from bilm.model_files import (
    OPTIONS_FILE,
    dump_weights,
    import_weights,
    save_initial_checkpoint,
)
from bilm.options import (
    TrainingOptions,
    as_training_options,
    read_training_options,
    training_dict,
    write_options,
)
from bilm.prefetch import Prefetcher
from bilm.progress import Progress, Schedule
from bilm.summaries import Summaries
from bilm.trainer import Trainer, checkpoint_values

__all__ = [
    "dump_weights",
    "import_weights",
    "load_options_latest_checkpoint",
    "load_vocab",
    "save_initial_checkpoint",
    "test",
    "train",
]

logger = logging.getLogger(__name__)

Options = TrainingOptions | Mapping[str, Any]


def train(
    options: Options,
    data: Dataset,
    n_gpus: int,
    tf_save_dir: str | os.PathLike[str],
    tf_log_dir: str | os.PathLike[str],
    restart_ckpt_file: str | os.PathLike[str] | None = None,
    *,
    seed: int | None = None,
    checkpoint_every: int = 1250,
    keep: int = 5,
    log_every: int = 100,
    mixed_precision: str | None = None,
    jit_compile: bool = False,
) -> str:
    """Train a biLM for `n_epochs`.

    Args:
        options: training options, a dict as in `options.json` or `TrainingOptions`.
        data: the training data; `LMDataset` where `bidirectional` is false.
        n_gpus: devices; each has `batch_size` rows of its own.
        tf_save_dir: folder of checkpoints and `options.json`; made where missing.
        tf_log_dir: folder of the TensorBoard files.
        restart_ckpt_file: prefix of a checkpoint to start from: its variables, and its
            Adagrad slots and step where it has them. Data and epochs start anew.
        seed: of initial values, dropout and negative samples; None for a new one.
        checkpoint_every: steps between two checkpoints; the last step has one too.
        keep: number of last checkpoints that are kept.
        log_every: steps between two log lines and TensorBoard points.
        mixed_precision: `bfloat16` or `float16` for the products of encoder and LSTM
            layers; variables, states, softmax, loss and clipping stay float32.
        jit_compile: compile the LSTM layers by XLA.

    Returns:
        Prefix of the last checkpoint.

    Raises:
        InputError: options, data and checkpoint do not fit each other.
    """
    checked = as_training_options(options)
    check_dataset(checked, data)
    schedule = training_schedule(checked, n_gpus)
    seed = _new_seed() if seed is None else seed
    values = {}
    if restart_ckpt_file is not None:
        values = checkpoint_values(checked, os.fspath(restart_ckpt_file))
    trainer = Trainer(checked, seed, values, n_gpus, mixed_precision, jit_compile)
    _announce(trainer, schedule, seed)
    save_dir = os.fspath(tf_save_dir)
    os.makedirs(save_dir, exist_ok=True)
    write_options(os.path.join(save_dir, OPTIONS_FILE), training_dict(checked))
    inputs = training_inputs(checked, data, n_gpus, [seed, trainer.global_step])
    with (
        Prefetcher(inputs) as batches,
        Progress(schedule, log_every, checked.samples) as progress,
        Summaries(os.fspath(tf_log_dir), trainer) as summaries,
    ):
        return _run(
            trainer, batches, progress, summaries, save_dir, checkpoint_every, keep
        )


def training_schedule(options: TrainingOptions, n_devices: int) -> Schedule:
    """Steps of a training: epochs * tokens // (rows * unroll_steps * devices).

    Raises:
        InputError: `n_train_tokens` is unknown, or too small for one step.
    """
    tokens_per_step = options.batch_size * options.unroll_steps * n_devices
    steps_per_epoch = options.n_train_tokens // tokens_per_step
    if not steps_per_epoch:
        raise InputError(
            f"n_train_tokens must be at least the {tokens_per_step} tokens of a step "
            f"(batch_size * unroll_steps * devices), but is {options.n_train_tokens}; "
            "count the tokens of the data, or make batch_size smaller"
        )
    n_steps = options.n_epochs * steps_per_epoch
    return Schedule(n_steps, steps_per_epoch, tokens_per_step)


def load_vocab(
    vocab_file: str | os.PathLike[str], max_word_length: int | None = None
) -> Vocabulary:
    """Read a vocabulary file, with character ids where `max_word_length` is given."""
    if max_word_length:
        return UnicodeCharsVocabulary(vocab_file, max_word_length, validate_file=True)
    return Vocabulary(vocab_file, validate_file=True)


def load_options_latest_checkpoint(
    tf_save_dir: str | os.PathLike[str],
) -> tuple[dict[str, Any], str]:
    """Training options, as a dict, and the prefix of the last checkpoint of a folder.

    Raises:
        FileNotFoundError: one of them is missing.
        InputError: the options break a rule.
    """
    options = read_training_options(os.path.join(tf_save_dir, OPTIONS_FILE))
    return training_dict(options), latest_checkpoint(tf_save_dir)


def _run(
    trainer: Trainer,
    batches: Prefetcher[list[StepInputs]],
    progress: Progress,
    summaries: Summaries,
    save_dir: str,
    checkpoint_every: int,
    keep: int,
) -> str:
    """The loop over all steps; returns the prefix of the last checkpoint."""
    states = trainer.zero_states()
    saved = ""
    for inputs in batches:
        states, result = trainer.step(inputs, states)
        progress.add(result.loss)
        if progress.due(progress.log_every):
            progress.report(trainer.global_step, float(result.norm), batches.waited)
            summaries.scalars(result, progress.perplexity)
        if progress.due(checkpoint_every):
            summaries.histograms(result)
            saved = trainer.save(save_dir, progress.perplexity, keep)
            logger.info("saved %s", saved)
        if progress.finished:
            break
    logger.info(
        "training is done; next: bilm test --save_dir %s ..., "
        "bilm dump-weights --save_dir %s --outfile weights.hdf5",
        save_dir,
        save_dir,
    )
    return saved


def _new_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0] >> 1)


def _announce(trainer: Trainer, schedule: Schedule, seed: int) -> None:
    options = trainer.options
    learnt = sum(int(np.prod(spec.shape)) for spec in trainer.network.specs)
    logger.info(
        "training %s parameters for %d steps of %d tokens, %d an epoch, seed %d",
        f"{learnt:,}",
        schedule.n_steps,
        schedule.tokens_per_step,
        schedule.steps_per_epoch,
        seed,
    )
    logger.debug("options: %s", json.dumps(training_dict(options)))
    if options.sample_softmax and not options.samples:
        logger.info(
            "full softmax: the %d samples asked for reach the vocabulary's %d words",
            options.n_negative_samples_batch,
            options.n_tokens_vocab,
        )
