"""`bilm dump-embeddings`: contextual vectors of a whole data set."""

import argparse

from bilm.commands import arguments, checks

NAME = "dump-embeddings"
SUMMARY = "Embed the sentences of a file, all layers, to an HDF5 file."


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
        help="text to embed: a sentence a line, its tokens apart by white space",
    )
    arguments.add_model_files(parser)
    arguments.add_outfile(
        parser, "file to write, with data set 'I' [layers, tokens, values] for line I"
    )
    parser.add_argument(
        "--stateless",
        action="store_true",
        help="start each sentence from zero, so that its vectors depend on it alone; "
        "faster, as sentences go in batches",
    )
    parser.add_argument(
        "--batch_size",
        type=arguments.positive,
        metavar="N",
        default=128,
        help="sentences of a batch, with --stateless",
    )


def run(args: argparse.Namespace) -> int:
    """Embed the file."""
    options_file, weight_file = arguments.model_files(args)
    vocab_file = [args.vocab_file] if args.vocab_file else []
    checks.check_files([*vocab_file, args.dataset_file])
    checks.check_model([options_file, weight_file])
    checks.check_output(args.outfile)
    from bilm.model import dump_bilm_embeddings

    dump_bilm_embeddings(
        args.vocab_file,
        args.dataset_file,
        options_file,
        weight_file,
        args.outfile,
        stateful=not args.stateless,
        batch_size=args.batch_size,
    )
    return 0
