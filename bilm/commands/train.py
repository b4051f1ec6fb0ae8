"""`bilm train`: a new run."""

from __future__ import annotations

import argparse
import logging
import os
from typing import TYPE_CHECKING

from bilm.commands import arguments, checks, run_arguments, runs, speed_report
from bilm.files import OPTIONS_FILE
from bilm.options import read_training_options, replace_options
from bilm.presets import PRESETS, preset
from bilm.scaling import DEFAULT_BANDWIDTH

if TYPE_CHECKING:
    from bilm.data import Vocabulary
    from bilm.options import TrainingOptions
    from bilm.saved_run import SavedRun

NAME = "train"
SUMMARY = "Train a biLM on shards of text."
DEFAULT_PRESET = "original"
HOW = ("embedding_init", "resume", "overwrite")  # arguments of `train`

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
        "--preset",
        choices=PRESETS,
        help=f"size of the model (default: {DEFAULT_PRESET}), unless a run goes on",
    )
    held = parser.add_mutually_exclusive_group()
    held.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in --save_dir from its last checkpoint, as if it had "
        "not stopped; begin it where there is none yet",
    )
    held.add_argument(
        "--overwrite",
        action="store_true",
        help="remove the run that --save_dir holds, and begin a new one",
    )
    run_arguments.add_length_options(parser)
    parser.add_argument(
        "--n_train_tokens",
        type=arguments.natural,
        metavar="N",
        help="tokens of the text, from which the number of steps follows; 0: they are "
        "counted (default: that of the options)",
    )
    run_arguments.add_network_options(parser)
    parser.add_argument(
        "--embedding_init",
        metavar="FILE",
        help="word input: first values of the embedding, projection_dim for each word, "
        "in the text format of word2vec or GloVe, plain or gzipped (default: drawn)",
    )
    run_arguments.add_run_flags(parser)
    parser.add_argument(
        "--benchmark",
        type=arguments.positive,
        metavar="N",
        help="time N steps on this text and say how long the training would take, "
        "also on more machines; nothing is written (default: train)",
    )
    parser.add_argument(
        "--bandwidth",
        type=arguments.above_zero,
        metavar="GBIT",
        default=DEFAULT_BANDWIDTH,
        help="with --benchmark: Gbit/s of each machine's network, by which the speed "
        "of more machines is reckoned",
    )


def run(args: argparse.Namespace) -> int:
    """Train from new weights, or go on with a run."""
    checks.check_files([args.vocab_file, args.embedding_init, args.options])
    runs.check_paths(args)
    if not (args.resume or args.overwrite or args.benchmark):
        checks.check_no_run(args.save_dir, args.options)
    saved = runs.find_run(args.save_dir) if args.resume else None
    options = chosen_options(args, saved)
    vocab = runs.open_vocabulary(args.vocab_file, options)
    options = _with_size_of(vocab, options)
    text = runs.open_training_text(args, vocab, options)
    if args.benchmark:
        return speed_report.run(args, text)
    how = {name: getattr(args, name) for name in HOW}
    return runs.train_on_text(args, text, **how)


def chosen_options(
    args: argparse.Namespace, saved: SavedRun | None = None
) -> TrainingOptions:
    """Return the options of the file or the preset, with those that flags set.

    Where a run goes on, its own options take the place of the preset, and it keeps its
    number of devices if there are as many; to another number its rows are dealt out.
    """
    if args.options:
        options = read_training_options(args.options)
    elif saved is None or args.preset:
        options = preset(args.preset or DEFAULT_PRESET)
    else:
        options = read_training_options(os.path.join(args.save_dir, OPTIONS_FILE))
    given = run_arguments.options_given(args, run_arguments.ALL_OPTIONS)
    options = replace_options(options, **given)
    return options if saved is None else runs.options_of_run(args, options, saved)


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
