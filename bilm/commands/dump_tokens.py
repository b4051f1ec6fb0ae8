"""`bilm dump-tokens`: context-free vectors of the words of a vocabulary."""

import argparse

from bilm.commands import arguments, checks, terminal

NAME = "dump-tokens"
SUMMARY = "Embed each word of a vocabulary, without context, to an HDF5 file."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_vocab_file(parser)
    arguments.add_model_files(parser)
    arguments.add_outfile(
        parser, "file to write, with data set 'embedding' [words, values]"
    )


def run(args: argparse.Namespace) -> int:
    """Embed the vocabulary."""
    options_file, weight_file = arguments.model_files(args)
    checks.check_files([args.vocab_file, options_file, weight_file])
    checks.check_output(args.outfile)
    terminal.use_onednn()
    from bilm.model import dump_token_embeddings

    dump_token_embeddings(args.vocab_file, options_file, weight_file, args.outfile)
    return 0
