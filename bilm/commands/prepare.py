"""`bilm prepare`: a text becomes shards to train on and a part held out."""

import argparse

from bilm.commands import arguments
from bilm.commands.terminal import in_lines, say
from bilm.preparation import Prepared, prepare_text
from bilm.text import find_text

NAME = "prepare"
SUMMARY = "Shuffle the sentences of a text over shards, and hold some out."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_text(parser, "--input", "to prepare")
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="folder to make, with train-0.txt and so on, and heldout.txt",
    )
    parser.add_argument(
        "--n_shards",
        type=arguments.positive,
        metavar="N",
        default=10,
        help="files to spread the training sentences over",
    )
    parser.add_argument(
        "--heldout",
        type=share_or_number,
        metavar="X",
        default=0.01,
        help="sentences to hold out: a share of them, from 0. to below 1, or their "
        "number, a whole one",
    )
    arguments.add_order_seed(parser)
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="replace the files of an earlier call in --out",
    )


def share_or_number(text: str) -> float | int:
    """The type of `--heldout`.

    >>> share_or_number("0.05"), share_or_number("2000")
    (0.05, 2000)
    """
    if text.isdecimal():
        return int(text)
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(
            f"must be a share from 0 to below 1 or a whole number, not {text!r}"
        )
    return share


def run(args: argparse.Namespace) -> int:
    """Read, shuffle and write."""
    prepared = prepare_text(
        find_text(args.input),
        args.out,
        n_shards=args.n_shards,
        heldout=args.heldout,
        seed=args.seed,
        overwrite=args.overwrite,
    )
    say(report(prepared))
    return 0


def report(prepared: Prepared) -> str:
    """Set what was read and what was written in lines for people."""
    rows = [("", "sentences        tokens")]
    parts = {
        "read": prepared.text,
        "held out": prepared.heldout,
        f"in {len(prepared.shards)} shards": prepared.training,
    }
    rows += [
        (name, f"{size.n_sentences:,}{size.n_tokens:>14,}")
        for name, size in parts.items()
    ]
    return in_lines([*rows, ("blank lines left out", f"{prepared.n_blank:,}")])
