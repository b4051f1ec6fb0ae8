"""Training from files to files, and the public names of `bilm.training` in bilm-tf."""

import json
import logging
import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bilm.checkpoint import checkpoint_values, latest_checkpoint
from bilm.corpus_sample import warn_of_text
from bilm.data import UnicodeCharsVocabulary, Vocabulary
from bilm.errors import InputError
from bilm.evaluation import test
from bilm.files import CHECKPOINT_INDEX, OPTIONS_FILE
from bilm.fingerprint import Fingerprint, check_same
from bilm.inputs import Dataset, check_dataset, training_inputs
from bilm.model_files import (
    dump_weights,
    import_weights,
    save_initial_checkpoint,
)
from bilm.options import (
    TrainingOptions,
    as_training_options,
    read_training_options,
    training_dict,
)
from bilm.progress import Schedule
from bilm.run_settings import RunSettings
from bilm.saved_run import BEST, SavedRun, find_saved_run, remove_run
from bilm.trainer import Trainer
from bilm.training_loop import TrainingLoop
from bilm.version import __version__
from bilm.word_vectors import initial_embedding

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

MANY_WORDS = 1_000_000
"""More words of a vocabulary deserve a warning."""

Options = TrainingOptions | Mapping[str, Any]


def train(
    options: Options,
    data: Dataset,
    n_gpus: int,
    tf_save_dir: str | os.PathLike[str],
    tf_log_dir: str | os.PathLike[str],
    restart_ckpt_file: str | os.PathLike[str] | None = None,
    *,
    embedding_init: str | os.PathLike[str] | None = None,
    initial_values: Mapping[str, np.ndarray] | None = None,
    valid_data: Dataset | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **settings: Any,
) -> str:
    """Train a biLM for `n_epochs`, or until it is to stop.

    Args:
        options: training options, a dict as in `options.json` or `TrainingOptions`.
        data: the training data; `LMDataset` where `bidirectional` is false.
        n_gpus: devices; each has `batch_size` rows of its own.
        tf_save_dir: folder of checkpoints and `options.json`; made where missing.
        tf_log_dir: folder of the TensorBoard files.
        restart_ckpt_file: prefix of a checkpoint to start from: its variables, and its
            Adagrad slots and step where it has them. Data and epochs start anew.
        embedding_init: word vectors in the text format of word2vec or GloVe, for a new
            training of a word-level model.
        initial_values: of the variables of a new training, by their names in a
            checkpoint; those not given are drawn.
        valid_data: held-out text, opened with `test=True`, to be evaluated every
            `valid_every` steps; the best checkpoint is kept in the folder `best`.
        resume: go on with the run in `tf_save_dir` from its last checkpoint, as if it
            had not stopped; begin one where there is none yet.
        overwrite: remove the run in `tf_save_dir` before the first step.
        **settings: fields of `bilm.run_settings.RunSettings`.

    Returns:
        Prefix of the last checkpoint.

    Raises:
        InputError: options, data and checkpoint do not fit each other; or no checkpoint
            can be written any more.
    """
    checked = as_training_options(options)
    for each in [data] if valid_data is None else [data, valid_data]:
        check_dataset(checked, each)
    schedule = training_schedule(checked, n_gpus)
    how = RunSettings(**settings)
    warn_of_text(data.files, data.vocab, checked)
    save_dir, log_dir = os.fspath(tf_save_dir), os.fspath(tf_log_dir)
    saved = find_saved_run(save_dir) if resume else None
    seed = _seed(how, saved)
    made_of = Fingerprint.of(
        checked, data.vocab, data.files, n_gpus, seed, how.mixed_precision
    )
    if saved is not None:
        check_same(saved.fingerprint, made_of)
        restart_ckpt_file, embedding_init = saved.prefix, None
    values = {**(initial_values or {})} if saved is None else {}
    values |= _values(checked, data, restart_ckpt_file, embedding_init, seed)
    trainer = Trainer(
        checked, seed, values, n_gpus, how.mixed_precision, how.jit_compile
    )
    _announce(trainer, schedule, seed)
    if overwrite:
        logger.info("removed %d files of a run", remove_run(save_dir, log_dir))
    loop = TrainingLoop(trainer, schedule, how, made_of, save_dir, log_dir, valid_data)
    if resume:
        _resume(loop, saved)
    if saved is None and valid_data is not None:
        _warn_of_best(os.path.join(save_dir, BEST))
    elif initial_values:
        loop.saver.save()  # what the run inherits is to be found by a resume
    step = trainer.global_step
    inputs = training_inputs(checked, data, n_gpus, [seed, step], loop.position)
    prefix = loop.run(inputs)
    _say_what_is_next(loop, save_dir)
    return prefix


def training_schedule(options: TrainingOptions, n_devices: int) -> Schedule:
    """Steps of a training: epochs * tokens // tokens of a step.

    A step has batch_size * unroll_steps * accumulate tokens on each device.

    Raises:
        InputError: `n_train_tokens` is unknown, or too small for one step.
    """
    tokens_per_row = options.unroll_steps * options.accumulate
    tokens_per_step = options.batch_size * tokens_per_row * n_devices
    steps_per_epoch = options.n_train_tokens // tokens_per_step
    if not steps_per_epoch:
        raise InputError(
            f"n_train_tokens must be at least the {tokens_per_step} tokens of a step "
            "(batch_size * unroll_steps * accumulate * devices), but is "
            f"{options.n_train_tokens}; count the tokens of the data, or make "
            "batch_size smaller"
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


def _values(
    options: TrainingOptions,
    data: Dataset,
    ckpt_file: str | os.PathLike[str] | None,
    embedding_init: str | os.PathLike[str] | None,
    seed: int,
) -> dict[str, np.ndarray]:
    """Values to begin with, of a checkpoint or of word vectors; others are drawn."""
    values = {}
    if ckpt_file is not None:
        values = checkpoint_values(options, os.fspath(ckpt_file))
    if embedding_init is not None:
        values |= initial_embedding(embedding_init, data.vocab, options, seed)
    return values


def _seed(settings: RunSettings, saved: SavedRun | None) -> int:
    if settings.seed is not None:
        return settings.seed
    if saved is not None:
        return saved.fingerprint.seed
    return int(np.random.SeedSequence().generate_state(1)[0] >> 1)


def _resume(loop: TrainingLoop, saved: SavedRun | None) -> None:
    if saved is None:
        logger.info("there is no checkpoint yet to go on from: this is a new run")
        if loop.has_begun:  # and died before its first checkpoint
            loop.cut_back()
        return
    loop.restore(saved.prefix, saved.state)
    logger.info("going on from %s, after %d steps", saved.prefix, loop.progress.done)
    if loop.trainer.n_replicas != saved.n_devices:
        logger.warning(
            "the run goes on with %d devices instead of %d: the same rows, but other "
            "samples and dropout than with as many as before",
            loop.trainer.n_replicas,
            saved.n_devices,
        )


def _warn_of_best(folder: str) -> None:
    if os.path.exists(os.path.join(folder, CHECKPOINT_INDEX)):
        logger.warning(
            "%s is of a run before, and will be replaced when this one evaluates its "
            "held-out text; move it to keep it",
            folder,
        )


def _say_what_is_next(loop: TrainingLoop, save_dir: str) -> None:
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


def _announce(trainer: Trainer, schedule: Schedule, seed: int) -> None:
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
        "training %s parameters for %d steps of %d tokens, %d an epoch, seed %d",
        f"{learnt:,}",
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
