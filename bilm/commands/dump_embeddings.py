"""`bilm dump-embeddings`: contextual vectors of a whole data set."""

import argparse

from bilm.commands import arguments, checks, terminal
from bilm.reading import BATCH_TOKENS
from bilm.standard_input import STANDARD_INPUT, standard_input
from bilm.text import check_text

NAME = "dump-embeddings"
SUMMARY = "Embed the sentences of a file, all layers, to an HDF5 file."

_SETTINGS = (
    "batch_size",
    "max_tokens",
    "layers",
    "pool",
    "dtype",
    "compression",
    "sentence_to_index",
    "resume",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    parser.add_argument(
        "--vocab_file",
        metavar="FILE",
        help="vocabulary of the model: a word a line (default: none, which is enough "
        "for a model that reads characters)",
    )
    parser.add_argument(
        "--dataset_file",
        required=True,
        metavar="FILE",
        help="text to embed, plain or gzipped: a sentence a line, its tokens apart by "
        "white space; - for standard input",
    )
    arguments.add_errors(parser, "--dataset_file")
    arguments.add_model_files(parser)
    arguments.add_outfile(
        parser, "file to write, with data set 'I' [layers, tokens, values] for line I"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on where an interrupted run with the same text, model and flags was "
        "(its complete lines are in OUTFILE.partial)",
    )
    _add_reading(parser)
    _add_storage(parser)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how the text is read."""
    parser.add_argument(
        "--stateless",
        action="store_true",
        help="start each sentence from zero, so that its vectors depend on it alone; "
        "faster, as sentences go in batches",
    )
    parser.add_argument(
        "--max_tokens",
        type=arguments.positive,
        metavar="N",
        default=BATCH_TOKENS,
        help="tokens embedded at once, which bounds the memory beside the vectors of "
        "the longest line; the default fits 4 GiB with the original size",
    )
    parser.add_argument(
        "--batch_size",
        type=arguments.positive,
        metavar="N",
        help="most sentences of a batch, with --stateless (default: as many as "
        "--max_tokens allows)",
    )


def _add_storage(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say what is stored."""
    parser.add_argument(
        "--layers",
        type=_layers,
        metavar="LAYERS",
        default="all",
        help="all, top, average (the plain mean), or the number of one layer, 0 being "
        "the token vector; but for all, data sets have no axis of layers",
    )
    parser.add_argument(
        "--pool",
        choices=["mean"],
        help="store one vector a sentence, the mean over its tokens (default: one a "
        "token)",
    )
    parser.add_argument(
        "--dtype",
        choices=["float32", "float16"],
        default="float32",
        help="type of the values; float16 takes half the space and has 3 digits",
    )
    parser.add_argument(
        "--compression",
        choices=["none", "lzf", "gzip"],
        default="none",
        help="of each data set: lzf is fast, gzip smaller",
    )
    parser.add_argument(
        "--sentence_to_index",
        action="store_true",
        help="also store the data set 'sentence_to_index': JSON of each sentence with "
        "the list of its lines",
    )


def _layers(text: str) -> str | int:
    """The type of `--layers`; which numbers there are, the model knows."""
    return int(text) if text.isdecimal() else text


def run(args: argparse.Namespace) -> int:
    """Embed the file."""
    options_file, weight_file = arguments.model_files(args)
    text = args.dataset_file
    if text == STANDARD_INPUT:
        text = standard_input()
    checks.check_files([args.vocab_file, text, options_file, weight_file])
    checks.check_output(args.outfile)
    check_text([text])
    terminal.use_onednn()
    from bilm.model import dump_bilm_embeddings

    dump_bilm_embeddings(
        args.vocab_file,
        text,
        options_file,
        weight_file,
        args.outfile,
        stateful=not args.stateless,
        **{name: getattr(args, name) for name in _SETTINGS},
    )
    return 0
