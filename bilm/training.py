"""Training from files to files, and the public names of `bilm.training` in bilm-tf."""

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bilm.announcements import (
    announce,
    say_what_is_next,
    warn_of_best,
    warn_of_devices,
)
from bilm.checkpoint import checkpoint_values, latest_checkpoint
from bilm.cluster import find_cluster
from bilm.corpus_sample import warn_of_text
from bilm.data import UnicodeCharsVocabulary, Vocabulary
from bilm.errors import InputError
from bilm.evaluation import test
from bilm.files import OPTIONS_FILE
from bilm.fingerprint import Fingerprint, check_same, code_version
from bilm.inputs import Dataset, TrainingBatch, check_dataset, training_inputs
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
from bilm.saved_run import SavedRun, find_saved_run, remove_run
from bilm.trainer import Trainer
from bilm.training_loop import TrainingLoop
from bilm.word_vectors import initial_embedding
from bilm.workers import Workers

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
    embedding_init: str | os.PathLike[str] | None = None,
    initial_values: Mapping[str, np.ndarray] | None = None,
    valid_data: Dataset | None = None,
    resume: bool = False,
    overwrite: bool = False,
    workers: Workers | None = None,
    **settings: Any,
) -> str:
    """Train a biLM for `n_epochs`, or until it is to stop.

    Args:
        options: training options, a dict as in `options.json` or `TrainingOptions`.
        data: the training data; `LMDataset` where `bidirectional` is false.
        n_gpus: devices of this machine, and of each other one in a cluster; each has
            `batch_size` rows of its own.
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
        workers: of several machines, each of which calls this with the same arguments;
            see `bilm.workers`. By default those of `TF_CONFIG`, if it has some. Worker
            0 writes all files; the others only read what the run goes on from.
        **settings: fields of `bilm.run_settings.RunSettings`.

    Returns:
        Prefix of the last checkpoint.

    Raises:
        InputError: options, data and checkpoint do not fit each other; workers of a
            cluster differ, or one is lost; or no checkpoint can be written any more.
    """
    checked = as_training_options(options)
    for each in [data] if valid_data is None else [data, valid_data]:
        check_dataset(checked, each)
    how = RunSettings(**settings)
    cluster = workers.cluster if workers else find_cluster()
    n_devices = n_gpus * (cluster.n_workers if cluster else 1)
    schedule = training_schedule(checked, n_devices)
    save_dir, log_dir = os.fspath(tf_save_dir), os.fspath(tf_log_dir)
    saved = find_saved_run(save_dir) if resume else None
    workers = workers or Workers(n_gpus, cluster)
    with workers.watched(), workers.one_voice():
        seed = workers.chief_s(_seed(how, saved))
        precision = how.mixed_precision
        made_of = Fingerprint.of(
            checked, data.vocab, data.files, n_devices, seed, precision
        )
        flags = {"resume": resume, "overwrite": overwrite} | _flags(
            how, data, valid_data, restart_ckpt_file, embedding_init, initial_values
        )
        _agree(workers, data, made_of, saved, flags)
        if saved is not None:
            check_same(saved.fingerprint, made_of)
            restart_ckpt_file, embedding_init = saved.prefix, None
        values = {**(initial_values or {})} if saved is None else {}
        values |= _values(checked, data, restart_ckpt_file, embedding_init, seed)
        trainer = Trainer(
            checked,
            seed,
            values,
            mixed_precision=precision,
            jit_compile=how.jit_compile,
            workers=workers,
        )
        warn_of_text(data.files, data.vocab, checked)
        if overwrite and workers.is_chief:
            logger.info("removed %d files of a run", remove_run(save_dir, log_dir))
        loop = TrainingLoop(
            trainer, schedule, how, made_of, save_dir, log_dir, valid_data
        )
        _begin(loop, saved, seed, resume, inherits=bool(initial_values))
        prefix = loop.run(_inputs(loop, data, seed))
        say_what_is_next(loop, save_dir)
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


def _begin(
    loop: TrainingLoop, saved: SavedRun | None, seed: int, resume: bool, inherits: bool
) -> None:
    """Say what the run is, and bring it to where it begins."""
    announce(loop.trainer, loop.progress.schedule, seed)
    if resume:
        _resume(loop, saved)
    if saved is None and loop.validation is not None:
        warn_of_best(loop.save_dir)
    elif inherits:
        loop.save()  # what the run inherits is to be found by a resume


def _resume(loop: TrainingLoop, saved: SavedRun | None) -> None:
    if saved is None:
        logger.info("there is no checkpoint yet to go on from: this is a new run")
        if loop.has_begun:  # and died before its first checkpoint
            loop.cut_back()
        return
    loop.restore(saved.prefix, saved.state)
    logger.info("going on from %s, after %d steps", saved.prefix, loop.progress.done)
    warn_of_devices(loop.workers, saved)


def _flags(
    how: RunSettings,
    data: Dataset,
    valid_data: Dataset | None,
    restart_ckpt_file: str | os.PathLike[str] | None,
    embedding_init: str | os.PathLike[str] | None,
    initial_values: Mapping[str, np.ndarray] | None,
) -> dict[str, Any]:
    """What else the workers of a training must be given alike.

    By most of it they know, each for itself, when to bring something together.
    """
    files = {"restart_ckpt_file": restart_ckpt_file, "embedding_init": embedding_init}
    return {
        **how.flags(),
        "held-out text": "given" if valid_data is not None else None,
        "shuffling of the text": data.shuffles,
        **{name: path and os.path.basename(path) for name, path in files.items()},
        "initial_values": sorted(initial_values) if initial_values else None,
    }


def _agree(
    workers: Workers,
    data: Dataset,
    made_of: Fingerprint,
    saved: SavedRun | None,
    flags: dict[str, Any],
) -> None:
    """See that all workers go by the same, and give them the same random order.

    Raises:
        InputError: they do not.
    """
    if workers.count == 1:
        return
    workers.check_same(
        {
            "the version of bilm": code_version(),
            "the last checkpoint in the folder": saved and saved.description,
            **made_of._asdict(),
            **flags,
        }
    )
    data.reseed(workers.chief_s(data.entropy))


def _inputs(loop: TrainingLoop, data: Dataset, seed: int) -> Iterator[TrainingBatch]:
    workers = loop.workers
    return training_inputs(
        loop.trainer.options,
        data,
        workers.n_replicas,
        [seed, loop.trainer.global_step],
        loop.position,
        workers.pieces(loop.trainer.options.accumulate),
    )
