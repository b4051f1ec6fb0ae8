"""`bilm score`: log-probabilities of the words of a text."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from tqdm import tqdm

from bilm.commands import arguments, checks, runs
from bilm.commands.terminal import say, use_onednn
from bilm.commands.test import report
from bilm.errors import InputError
from bilm.files import files_of_run, replacing
from bilm.paths import check_no_input
from bilm.reading import BATCH_TOKENS, Reading
from bilm.text import find_text, read_sentences

if TYPE_CHECKING:
    from bilm.scores_file import Totals
    from bilm.scoring import SentenceScores

NAME = "score"
SUMMARY = "Write the log-probability of each token of a text, forward and backward."

STANDARD_OUTPUT = "-"

logger = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_save_dir(parser, "folder of the run")
    arguments.add_vocab_file(parser)
    arguments.add_text(parser, "--text", "to score")
    parser.add_argument(
        "--outfile",
        metavar="FILE",
        default=STANDARD_OUTPUT,
        help="file to write; - for standard output",
    )
    parser.add_argument(
        "--format",
        choices=("tsv", "hdf5"),
        default="tsv",
        help="tab-separated values, or arrays; both have natural logarithms",
    )
    parser.add_argument(
        "--per",
        choices=("token", "sentence"),
        default="token",
        help="what a row of the tsv is; hdf5 has both",
    )
    parser.add_argument(
        "--stateful",
        action="store_true",
        help="start each sentence from the state after the one before, as bilm test "
        "with --batch_size 1 (default: from zero, so that a sentence's scores depend "
        "on it alone)",
    )
    parser.add_argument(
        "--max_tokens",
        type=arguments.positive,
        metavar="N",
        default=BATCH_TOKENS,
        help="tokens of a batch, which bounds the memory",
    )


def run(args: argparse.Namespace) -> int:
    """Score and write; perplexities go to standard output, or to the log."""
    checks.check_run(args.save_dir)
    checks.check_files([args.vocab_file])
    files = find_text(args.text)
    to_file = args.outfile != STANDARD_OUTPUT
    if to_file:
        checks.check_output(args.outfile)
        inputs = [args.vocab_file, *files, *files_of_run(args.save_dir)]
        check_no_input(args.outfile, inputs)
    elif args.format == "hdf5":
        raise InputError("--format hdf5 needs a file: give --outfile")
    use_onednn()
    from bilm.scores_file import Totals
    from bilm.scoring import open_scorer

    start, totals = time.perf_counter(), Totals()
    options, ckpt_file = runs.last_checkpoint(args.save_dir)
    vocab = runs.open_vocabulary_of_run(args, options, ckpt_file)
    scorer = open_scorer(options, ckpt_file, vocab)
    reading = Reading(batch_tokens=args.max_tokens, stateful=args.stateful)
    texts: Iterable[Iterable[list[str]]] = map(read_sentences, files)
    if not options.resets_state:  # else a document ends with its file
        texts = [chain.from_iterable(texts)]
    scores = chain.from_iterable(scorer.scores(text, reading) for text in texts)
    bar = tqdm(scores, unit="sentence", disable=None)  # none without a terminal
    _write(args, totals.counting(bar))
    _say_unknown(totals)
    result = report(totals.evaluation(time.perf_counter() - start))
    say(result) if to_file else logger.info("%s", result)
    return 0


def _write(args: argparse.Namespace, scores: Iterable[SentenceScores]) -> None:
    from bilm.scores_file import sentence_table, token_table, write_hdf5

    table = token_table if args.per == "token" else sentence_table
    if args.outfile == STANDARD_OUTPUT:
        for line in table(scores):
            say(line)
        return
    with replacing(args.outfile) as partial:
        if args.format == "hdf5":
            write_hdf5(partial, scores)
            return
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in table(scores))


def _say_unknown(totals: Totals) -> None:
    if totals.n_unknown:
        logger.info(
            "%d of %d words (%.1f %%) are out of the vocabulary and scored as <UNK>",
            totals.n_unknown,
            totals.n_words,
            100 * totals.n_unknown / totals.n_words,
        )
