"""`bilm stats`: what a text is like."""

import argparse
import itertools
from collections import Counter

from bilm.commands import arguments, checks
from bilm.commands.terminal import in_lines, say
from bilm.counting import available_cores
from bilm.plots import check_plot, plot_lengths
from bilm.text import find_text
from bilm.text_statistics import TextStatistics, mean, measure_text, quantile

NAME = "stats"
SUMMARY = "Print the size of a text, its lengths, and how a vocabulary covers it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_text(parser, "--input", "to measure")
    parser.add_argument(
        "--vocab_file",
        metavar="FILE",
        help="vocabulary whose coverage is measured (default: none)",
    )
    parser.add_argument(
        "--max_characters",
        type=arguments.positive,
        metavar="N",
        default=50,
        help="max_characters_per_token of a model, which reads N - 2 bytes of a token",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="drawing to make of the lengths, .png, .pdf or .svg; needs matplotlib "
        "(default: none)",
    )
    arguments.add_processes(parser)


def run(args: argparse.Namespace) -> int:
    """Measure, print and draw."""
    checks.check_files([args.vocab_file])
    if args.plot:
        check_plot(args.plot)
        checks.check_output(args.plot)
    statistics = measure_text(
        find_text(args.input),
        vocab_file=args.vocab_file,
        max_characters=args.max_characters,
        processes=args.processes or available_cores(),
    )
    say(report(statistics, args.max_characters - 2))
    if args.plot:
        plot_lengths(statistics, args.plot)
    return 0


def report(statistics: TextStatistics, n_bytes: int) -> str:
    """Set the statistics in lines for people."""
    everything, known = statistics.all, statistics.known
    rows = [
        ("sentences", f"{statistics.sentence_lengths.total():,}"),
        ("blank lines", f"{statistics.n_blank:,}"),
        ("tokens", f"{everything.n_tokens:,}"),
        ("distinct words", f"{everything.n_types:,}"),
        ("that occur once", f"{statistics.once.n_types:,}"),
        (f"above {n_bytes} bytes", f"{statistics.cut.n_types:,}"),
        ("tokens cut there", f"{statistics.cut.n_tokens:,}"),
        ("share of all", f"{statistics.cut.n_tokens / everything.n_tokens:.2%}"),
    ]
    if known is not None:
        rows += [
            ("in the vocabulary", f"{known.n_types:,}"),
            ("share of words", f"{known.n_types / everything.n_types:.2%}"),
            ("share of tokens", f"{known.n_tokens / everything.n_tokens:.2%}"),
            ("not in the text", f"{statistics.n_unused:,}"),
        ]
    lengths = {
        "tokens a sentence": statistics.sentence_lengths,
        "bytes a token": statistics.token_bytes,
    }
    table = {"": ["mean", "median", "90 %", "99 %", "most"]}
    table |= {name: _spread(histogram) for name, histogram in lengths.items()}
    cells = itertools.chain.from_iterable(table.values())
    width = max(8, *(len(cell) + 2 for cell in cells))
    lines = [
        f"{name:<20}{''.join(cell.rjust(width) for cell in row)}"
        for name, row in table.items()
    ]
    return "\n".join([in_lines(rows), "", *lines])


def _spread(histogram: Counter[int]) -> list[str]:
    """Mean, median, and so on, for people."""
    quantiles = (quantile(histogram, share) for share in (0.5, 0.9, 0.99, 1))
    return [f"{mean(histogram):,.1f}", *(f"{value:,}" for value in quantiles)]
