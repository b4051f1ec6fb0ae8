"""`bilm predict`: the words that come next, or that stand before."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bilm.commands import arguments, checks, runs
from bilm.commands.terminal import say, use_onednn
from bilm.errors import shortened

if TYPE_CHECKING:
    from bilm.data import Vocabulary
    from bilm.next_words import DrawnText
    from bilm.options import TrainingOptions

NAME = "predict"
SUMMARY = "List the most probable next words of a sentence, or draw how it goes on."

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_save_dir(parser, "folder of the run")
    arguments.add_vocab_file(parser)
    parser.add_argument(
        "text",
        nargs="*",
        help="words of the sentence so far, apart by white space (default: none, to "
        "begin a sentence)",
    )
    parser.add_argument(
        "--direction",
        choices=("forward", "backward"),
        default="forward",
        help="predict what comes next, or what stands before the end of a sentence",
    )
    parser.add_argument(
        "--topk",
        type=arguments.positive,
        metavar="N",
        default=10,
        help="number of words to list",
    )
    parser.add_argument(
        "--sample",
        type=arguments.positive,
        metavar="N",
        help="draw N sentences that go on so, one a line (default: list words)",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        metavar="X",
        default=1.0,
        help="of --sample: below 1 for what is probable, above 1 for variety",
    )
    parser.add_argument(
        "--max_words",
        type=arguments.positive,
        metavar="N",
        default=50,
        help="of --sample: words that are drawn at most",
    )
    parser.add_argument(
        "--seed",
        type=arguments.natural,
        metavar="N",
        help="of --sample: number that the draws follow from (default: another one "
        "each time)",
    )


def run(args: argparse.Namespace) -> int:
    """Predict and print."""
    checks.check_run(args.save_dir)
    checks.check_files([args.vocab_file])
    use_onednn()
    from bilm.next_words import open_predictor

    options, ckpt_file = runs.last_checkpoint(args.save_dir)
    vocab = runs.open_vocabulary_of_run(args, options, ckpt_file)
    words = " ".join(args.text).split()
    predictor = open_predictor(options, ckpt_file, vocab, args.direction)
    _say_unknown(words, vocab, options)
    if args.sample is None:
        for word, probability in predictor.next_words(words, args.topk):
            say(f"{probability:<10.4g}  {shortened(word)}")
        return 0
    texts = predictor.draw(
        words,
        args.sample,
        temperature=args.temperature,
        max_words=args.max_words,
        seed=args.seed,
    )
    _say_texts(words, texts, args)
    return 0


def _say_texts(
    words: list[str], texts: Sequence[DrawnText], args: argparse.Namespace
) -> None:
    for text in texts:
        pieces = [words, text.words]
        say(" ".join(sum(pieces if args.direction == "forward" else pieces[::-1], [])))
    if cut := sum(not text.complete for text in texts):
        logger.info(
            "%d of %d sentences have no end within --max_words %d",
            cut,
            len(texts),
            args.max_words,
        )


def _say_unknown(words: list[str], vocab: Vocabulary, options: TrainingOptions) -> None:
    unknown = [word for word in words if word not in vocab]
    if unknown:
        logger.info(
            "out of the vocabulary, and read %s: %s",
            "as <UNK>" if options.char_cnn is None else "by their characters",
            " ".join(map(shortened, unknown)),
        )
