"""`bilm export`: a model becomes a SavedModel."""

import argparse

from bilm.commands import arguments, checks

NAME = "export"
SUMMARY = "Write a model as a SavedModel that takes text, without this package."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_model_files(parser)
    parser.add_argument(
        "--vocab_file",
        metavar="FILE",
        help="vocabulary of a word-level model, which becomes part of the SavedModel "
        "(default: none, which is enough for a model that reads characters)",
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="folder to write the SavedModel to"
    )
    parser.add_argument(
        "--version",
        type=arguments.positive,
        metavar="N",
        help="write to OUT/N, as TensorFlow Serving reads it from OUT (default: to OUT "
        "itself)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a SavedModel that is there"
    )
    parser.add_argument(
        "--mix_weights",
        nargs="+",
        type=float,
        metavar="W",
        help="weights of a trained mix before their softmax, one for each layer from "
        "layer 0 on (default: zeros, which give the plain average)",
    )
    parser.add_argument(
        "--gamma", type=float, default=1.0, help="factor of a trained mix"
    )


def run(args: argparse.Namespace) -> int:
    """Write the SavedModel."""
    options_file, weight_file = arguments.model_files(args)
    checks.check_files([args.vocab_file, options_file, weight_file])
    checks.check_new_folders([args.out])
    from bilm.export import export_saved_model

    export_saved_model(
        options_file,
        weight_file,
        args.out,
        vocab_file=args.vocab_file,
        mix_weights=args.mix_weights,
        gamma=args.gamma,
        version=args.version,
        overwrite=args.overwrite,
    )
    return 0
