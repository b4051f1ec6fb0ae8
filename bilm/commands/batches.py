"""`bilm batches`: what a model is trained on, as a person reads it."""

import argparse
import itertools

from bilm.commands import arguments, checks
from bilm.commands.terminal import say
from bilm.dataset import BidirectionalLMDataset
from bilm.errors import InputError
from bilm.samples import continued, table
from bilm.text import find_text
from bilm.vocabulary import UnicodeCharsVocabulary, Vocabulary

NAME = "batches"
SUMMARY = "Print training samples: input tokens, their characters, and targets."

STEPS_SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_vocab_file(parser, "--vocab")
    arguments.add_text(parser, "--train_prefix", "of the training")
    parser.add_argument(
        "-n",
        "--n_samples",
        type=arguments.positive,
        metavar="N",
        default=2,
        help="samples to print, the first rows of the first batch",
    )
    parser.add_argument(
        "--step",
        nargs="?",
        type=arguments.positive,
        metavar="N",
        const=STEPS_SHOWN,
        help="print the inputs of N batches, one after the other, to see how rows go "
        f"on; without N of {STEPS_SHOWN} (default: the first batch in full)",
    )
    parser.add_argument(
        "--batch_size",
        type=arguments.side,
        metavar="N",
        default=128,
        help="rows of a batch, which the sentences are dealt out to",
    )
    parser.add_argument(
        "--unroll_steps",
        type=arguments.side,
        metavar="N",
        default=20,
        help="tokens of each row in a batch",
    )
    parser.add_argument(
        "--max_characters",
        type=arguments.natural,
        metavar="N",
        default=50,
        help="max_characters_per_token of the model; 0 for a model with word input",
    )
    arguments.add_shuffle(parser)
    arguments.add_order_seed(parser)


def run(args: argparse.Namespace) -> int:
    """Read and print."""
    checks.check_files([args.vocab_file])
    if args.n_samples > args.batch_size:
        raise InputError(
            f"a batch of {args.batch_size} rows (--batch_size) has no {args.n_samples} "
            "to print (-n): ask for fewer, or for larger batches"
        )
    files = find_text(args.train_prefix)
    vocab = _vocabulary(args.vocab_file, args.max_characters)
    data = BidirectionalLMDataset(
        files, vocab, shuffle_on_load=args.shuffle, seed=args.seed
    )
    batches = data.batches(args.batch_size, args.unroll_steps)
    shown = list(itertools.islice(batches, args.step or 1))
    for row in range(args.n_samples):
        for direction, of_direction in (
            ("forward", [batch.forward for batch in shown]),
            ("backward", [batch.reverse for batch in shown]),
        ):
            text = (
                continued(of_direction, row)
                if args.step
                else table(of_direction[0], row, vocab)
            )
            say(f"row {row}, {direction}\n{text}\n")
    return 0


def _vocabulary(path: str, max_characters: int) -> Vocabulary:
    if max_characters:
        return UnicodeCharsVocabulary(path, max_characters)
    return Vocabulary(path)
