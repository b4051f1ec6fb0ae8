"""`bilm vocab`: the vocabulary of a text."""

import argparse

from bilm.commands import arguments, checks
from bilm.commands.terminal import in_lines, say
from bilm.counting import available_cores
from bilm.text import find_text
from bilm.vocabulary_file import VocabularySummary, counts_file, write_vocabulary

NAME = "vocab"
SUMMARY = "Count the words of a text, and write its vocabulary."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_text(parser, "--train_prefix", "to count")
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="vocabulary to write: <S>, </S>, <UNK>, then a word a line, the most "
        "frequent first, ties by code point; the counts go to a file beside it "
        "(vocab.counts.tsv for vocab.txt)",
    )
    parser.add_argument(
        "--min_count",
        type=arguments.positive,
        metavar="N",
        default=1,
        help="words that occur less often are left out",
    )
    parser.add_argument(
        "--max_size",
        type=arguments.positive,
        metavar="N",
        help="most words of the vocabulary, <S>, </S> and <UNK> included (default: no "
        "limit)",
    )
    arguments.add_processes(parser)


def run(args: argparse.Namespace) -> int:
    """Count and write."""
    checks.check_output(args.out)
    files = find_text(args.train_prefix)
    summary = write_vocabulary(
        files,
        args.out,
        min_count=args.min_count,
        max_size=args.max_size,
        processes=args.processes or available_cores(),
    )
    say(report(summary, args.out))
    return 0


def report(summary: VocabularySummary, vocab_file: str) -> str:
    """Set the summary in lines for people."""
    rows = [
        ("sentences", f"{summary.n_sentences:,}"),
        ("blank lines", f"{summary.n_blank:,}"),
        ("tokens", f"{summary.n_tokens:,}"),
        ("distinct words", f"{summary.n_types:,}"),
        ("words left out", f"{summary.n_left_out:,}"),
        ("their tokens", f"{summary.n_unknown:,}"),
        ("share of all", f"{summary.n_unknown / summary.n_tokens:.2%}"),
        *((f"{word} in the text", f"{n:,}") for word, n in summary.special.items()),
        ("vocabulary", f"{summary.n_words:,}"),
    ]
    return f"{in_lines(rows)}\nwrote {vocab_file} and {counts_file(vocab_file)}"
