"""`bilm train`: a new run."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from bilm.commands import arguments, checks, runs
from bilm.commands.terminal import in_lines, say
from bilm.options import read_training_options, replace_options
from bilm.presets import PRESETS, preset
from bilm.text import find_files

if TYPE_CHECKING:
    from bilm.data import Vocabulary
    from bilm.options import TrainingOptions

NAME = "train"
SUMMARY = "Train a biLM on shards of text."

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_save_dir(parser, "folder to write checkpoints and options.json to")
    arguments.add_vocab_file(parser)
    arguments.add_text(parser, "--train_prefix", "to train on")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--options", metavar="FILE", help="options.json to train by (default: --preset)"
    )
    source.add_argument(
        "--preset", choices=PRESETS, default="original", help="size of the model"
    )
    arguments.add_length_options(parser)
    parser.add_argument(
        "--n_train_tokens",
        type=arguments.natural,
        metavar="N",
        help="tokens of the text, from which the number of steps follows; 0: they are "
        "counted (default: that of the options)",
    )
    arguments.add_network_options(parser)
    parser.add_argument(
        "--embedding_init",
        metavar="FILE",
        help="word input: first values of the embedding, projection_dim for each word, "
        "in the text format of word2vec or GloVe, plain or gzipped (default: drawn)",
    )
    arguments.add_run_flags(parser)
    parser.add_argument(
        "--benchmark",
        type=arguments.positive,
        metavar="N",
        help="time N steps on this text and say how long the training would take; "
        "nothing is written (default: train)",
    )


def run(args: argparse.Namespace) -> int:
    """Train from new weights."""
    checks.check_files(
        path for path in (args.vocab_file, args.embedding_init) if path is not None
    )
    find_files(args.train_prefix)
    options = chosen_options(args)
    vocab = runs.open_vocabulary(args.vocab_file, options)
    options = _with_size_of(vocab, options)
    if args.benchmark:
        say(_speed(args, options, vocab))
    else:
        runs.train_on_text(args, options, vocab, embedding_init=args.embedding_init)
    return 0


def chosen_options(args: argparse.Namespace) -> TrainingOptions:
    """Return the options of the file or the preset, with those that flags set."""
    if args.options:
        options = read_training_options(args.options)
    else:
        options = preset(args.preset)
    names = (*arguments.LENGTH_OPTIONS, "n_train_tokens", *arguments.NETWORK_OPTIONS)
    return replace_options(options, **arguments.options_given(args, names))


def _with_size_of(vocab: Vocabulary, options: TrainingOptions) -> TrainingOptions:
    if options.n_tokens_vocab not in (0, vocab.size):
        logger.info(
            "the options have n_tokens_vocab %d, the vocabulary has %d words: training "
            "with %d",
            options.n_tokens_vocab,
            vocab.size,
            vocab.size,
        )
    return replace_options(options, n_tokens_vocab=vocab.size)


def _speed(
    args: argparse.Namespace, options: TrainingOptions, vocab: Vocabulary
) -> str:
    """Time some steps, and set the result in lines for people."""
    from bilm.speed import measure_training
    from bilm.training import training_schedule

    data, options = runs.open_training_text(args, vocab, options)
    n_devices = runs.n_devices(args)
    schedule = training_schedule(options, n_devices)
    speed = measure_training(
        options,
        data,
        n_devices,
        args.benchmark,
        schedule,
        mixed_precision=args.mixed_precision,
        jit_compile=args.jit_compile,
    )
    hour = 3600
    rows = [
        ("tokens/s", f"{speed.tokens_per_second:,.0f}"),
        ("seconds a step", f"{speed.step_seconds:.3f}"),
        ("steps", f"{schedule.n_steps:,}"),
        ("hours an epoch", f"{speed.epoch_seconds / hour:,.2f}"),
        ("hours in all", f"{speed.total_seconds / hour:,.2f}"),
        ("waiting for data", f"{speed.data_wait:.1%}"),
        ("memory, MiB", f"{speed.memory_bytes / 2**20:,.0f}"),
    ]
    return in_lines(rows)
