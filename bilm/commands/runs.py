"""What the commands on a training run share: its vocabulary, its text, the training."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bilm.cluster import find_cluster
from bilm.commands import checks
from bilm.commands.signals import StopSignals
from bilm.errors import InputError, reading
from bilm.fingerprint import Fingerprint, words_digest
from bilm.options import replace_options, training_options_from_dict
from bilm.run_state import SUFFIX, read_run_state
from bilm.text import find_text, no_text

if TYPE_CHECKING:
    from bilm.data import BidirectionalLMDataset, LMDataset, Vocabulary
    from bilm.options import TrainingOptions
    from bilm.saved_run import SavedRun

logger = logging.getLogger(__name__)

_NEW_WORDS = (
    ", or train on with another one by bilm finetune --init_from --init_vocab_file"
)


def open_vocabulary(vocab_file: str, options: TrainingOptions) -> Vocabulary:
    """Load a vocabulary, with the characters of its words for a character model."""
    from bilm.training import load_vocab

    chars = options.char_cnn
    return load_vocab(vocab_file, chars.max_characters_per_token if chars else None)


def open_vocabulary_of_run(
    args: argparse.Namespace, options: TrainingOptions, ckpt_file: str
) -> Vocabulary:
    """Load the vocabulary that the run in `--save_dir` was trained with.

    Raises:
        InputError: the vocabulary has not as many words as the softmax of the run, or
            not the same.
    """
    vocab = open_vocabulary(args.vocab_file, options)
    if vocab.size != options.n_tokens_vocab:
        raise InputError(
            f"{args.vocab_file} has {vocab.size} words, but the run in {args.save_dir} "
            f"has {options.n_tokens_vocab}: give the vocabulary it was trained with"
            f"{_NEW_WORDS}"
        )
    known = _words_of_run(ckpt_file)
    if known and known != words_digest(vocab):
        raise InputError(
            f"{args.vocab_file} has {vocab.size} words, as many as the run in "
            f"{args.save_dir} was trained with, but other ones or in another order: "
            f"give the vocabulary it was trained with{_NEW_WORDS}"
        )
    return vocab


def _words_of_run(ckpt_file: str) -> str | None:
    """The digest of a run's words; None where the checkpoint does not tell it."""
    if not os.path.exists(ckpt_file + SUFFIX):
        return None  # as of bilm-tf
    try:
        with reading(ckpt_file + SUFFIX):
            values = read_run_state(ckpt_file).values
            return Fingerprint(**values["fingerprint"]).vocabulary["sha256"]
    except InputError:  # which only a resume needs
        return None


def last_checkpoint(save_dir: str) -> tuple[TrainingOptions, str]:
    """Find the options of a run and the prefix of its last checkpoint."""
    from bilm.training import load_options_latest_checkpoint

    options, ckpt_file = load_options_latest_checkpoint(save_dir)
    return training_options_from_dict(options), ckpt_file


def find_run(save_dir: str) -> SavedRun | None:
    """Find the run to go on with; None where there is no checkpoint yet."""
    from bilm.saved_run import find_saved_run

    return find_saved_run(save_dir)


def options_of_run(
    args: argparse.Namespace, options: TrainingOptions, saved: SavedRun
) -> TrainingOptions:
    """Take from a run that goes on what the options leave open, and its devices.

    Args:
        args: `n_gpus` is set where it was not given; `cluster` as of `check_paths`.
        options: of the run, or given in their place.
        saved: the run.
    """
    from bilm.devices import visible_devices
    from bilm.saved_run import on_devices

    n_workers = args.cluster.n_workers if args.cluster else 1
    if args.n_gpus is None:
        of_each = max(1, saved.n_devices // n_workers)
        args.n_gpus = min(of_each, visible_devices())
    n_tokens = options.n_train_tokens or saved.fingerprint.options["n_train_tokens"]
    options = replace_options(options, n_train_tokens=n_tokens)
    return on_devices(options, saved, args.n_gpus * n_workers)


def open_text(
    patterns: Sequence[str],
    vocab: Vocabulary,
    options: TrainingOptions,
    **settings: Any,
) -> LMDataset | BidirectionalLMDataset:
    """Open shards of text, in both directions where the options say so.

    Args:
        patterns: names and glob patterns of the shards.
        vocab: turns tokens into ids.
        options: those of the model.
        **settings: `test`, `shuffle_on_load` and `seed` of the data set.
    """
    from bilm.data import BidirectionalLMDataset, LMDataset

    kind = BidirectionalLMDataset if options.bidirectional else LMDataset
    return kind(patterns, vocab, **settings)


def check_paths(args: argparse.Namespace) -> None:
    """Check that the texts of a training are there, and its folders can be made.

    And that the cluster can be read: in the place of the text of `--cluster` comes a
    `bilm.cluster.Cluster`, or None.

    Raises:
        FileNotFoundError: a pattern matches no file.
        InputError: a folder is a file; a text has no sentence; there is `--patience`,
            but no text for it; the cluster is none.
    """
    args.cluster = find_cluster(args.cluster, args.worker_index)
    checks.check_new_folders([args.save_dir, args.log_dir])
    find_text(args.train_prefix)
    if args.valid_prefix:
        find_text(args.valid_prefix)
    elif args.patience:
        raise InputError(
            "--patience counts evaluations of held-out text, but there is none: give "
            "it by --valid_prefix"
        )


class TrainingText(NamedTuple):
    """What a training reads."""

    data: LMDataset | BidirectionalLMDataset
    valid_data: LMDataset | BidirectionalLMDataset | None  # held out
    options: TrainingOptions  # with `n_train_tokens`


def open_training_text(
    args: argparse.Namespace, vocab: Vocabulary, options: TrainingOptions
) -> TrainingText:
    """Open the texts of a training, and count their tokens where that is due.

    Args:
        args: the parsed command line of a command that trains.
        vocab: the vocabulary, as many words as the options say.
        options: final, but for `n_train_tokens`, which is counted where it is 0.
    """
    data = open_text(
        args.train_prefix, vocab, options, shuffle_on_load=args.shuffle, seed=args.seed
    )
    if not options.n_train_tokens:
        options = replace_options(options, n_train_tokens=_count_tokens(data))
    valid_data = None
    if args.valid_prefix:
        valid_data = open_text(args.valid_prefix, vocab, options, test=True)
        _count_tokens(valid_data)
    return TrainingText(data, valid_data, options)


def _count_tokens(data: LMDataset | BidirectionalLMDataset) -> int:
    """Count the tokens of a text that needs some.

    Raises:
        InputError: it has none.
    """
    if n_tokens := data.count_tokens():
        return n_tokens
    raise no_text(data.files, "token")


def train_on_text(
    args: argparse.Namespace,
    text: TrainingText,
    restart_ckpt_file: str | None = None,
    **how: Any,
) -> int:
    """Train as the flags of a command that trains say.

    Args:
        args: the parsed command line.
        text: of the training, with its options.
        restart_ckpt_file: checkpoint to go on from, none for new weights.
        **how: `embedding_init`, `initial_values`, `resume` or `overwrite` of `train`.

    Returns:
        The exit code: 0, or that of the signal which stopped the training.
    """
    from bilm.training import train
    from bilm.workers import Workers

    # TensorFlow takes SIGTERM for itself when workers meet; we take it back.
    workers = Workers(n_devices(args), args.cluster)
    with StopSignals() as signals:
        train(
            text.options,
            text.data,
            workers.devices,
            args.save_dir,
            args.log_dir or args.save_dir,
            restart_ckpt_file,
            seed=args.seed,
            checkpoint_every=args.checkpoint_every,
            keep=args.keep,
            log_every=args.log_every,
            mixed_precision=args.mixed_precision,
            jit_compile=args.jit_compile,
            stop_after=args.stop_after,
            stop_requested=signals.requested,
            max_bad_steps=args.max_bad_steps,
            valid_data=text.valid_data,
            valid_every=args.valid_every,
            patience=args.patience,
            workers=workers,
            **how,
        )
    return signals.exit_code


def n_devices(args: argparse.Namespace) -> int:
    """Number of devices that `--n_gpus` asks for."""
    from bilm.devices import visible_devices

    return args.n_gpus or visible_devices()
