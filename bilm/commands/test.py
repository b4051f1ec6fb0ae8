"""`bilm test`: the perplexity of held-out text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bilm.commands import arguments, checks, runs
from bilm.commands.terminal import in_lines, say, use_onednn
from bilm.text import find_text

if TYPE_CHECKING:
    from bilm.evaluation import Evaluation

NAME = "test"
SUMMARY = "Print the perplexity of held-out text by the last checkpoint of a run."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_save_dir(parser, "folder of the run")
    arguments.add_vocab_file(parser)
    arguments.add_text(parser, "--test_prefix", "held out from training")
    parser.add_argument(
        "--batch_size",
        type=arguments.side,
        metavar="N",
        default=256,
        help="rows of a batch; more are faster, but each starts without context",
    )
    parser.add_argument(
        "--unroll_steps",
        type=arguments.side,
        metavar="N",
        default=20,
        help="tokens of each row in one call; the result does not depend on it",
    )


def run(args: argparse.Namespace) -> int:
    """Evaluate and print."""
    checks.check_run(args.save_dir)
    checks.check_files([args.vocab_file])
    find_text(args.test_prefix)
    use_onednn()
    from bilm.evaluation import evaluate

    options, ckpt_file = runs.last_checkpoint(args.save_dir)
    vocab = runs.open_vocabulary_of_run(args, options, ckpt_file)
    text = runs.open_text(args.test_prefix, vocab, options, test=True)
    result = evaluate(
        options, ckpt_file, text, args.batch_size, unroll_steps=args.unroll_steps
    )
    say(report(result))
    return 0


def report(result: Evaluation) -> str:
    """Set the result in lines for people."""
    rows = [
        ("forward perplexity", f"{result.forward:,.2f}"),
        ("perplexity", f"{result.perplexity:,.2f}"),
        ("tokens", f"{result.n_tokens:,}"),
        ("tokens/s", f"{result.n_tokens / result.seconds:,.0f}"),
    ]
    if result.backward is not None:
        rows.insert(1, ("backward perplexity", f"{result.backward:,.2f}"))
    return in_lines(rows)
