"""`bilm import-weights`: a model to embed with becomes a run to train on."""

import argparse

from bilm.commands import arguments, checks

NAME = "import-weights"
SUMMARY = (
    "Make a training checkpoint of options.json and weights.hdf5, and of the softmax "
    "where there is a file of it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_model_files(parser)
    parser.add_argument(
        "--softmax_file",
        metavar="FILE",
        help="softmax of the model, as of bilm dump-weights --include_softmax "
        "(default: none, it is drawn anew)",
    )
    parser.add_argument(
        "--vocab_file",
        metavar="FILE",
        help="vocabulary of the run, for its number of words (default: that of the "
        "softmax, of a word-level model or of the options)",
    )
    arguments.add_save_dir(parser, "folder to write the checkpoint and options.json to")
    parser.add_argument(
        "--seed",
        type=arguments.natural,
        metavar="N",
        default=0,
        help="number that newly drawn values follow from",
    )


def run(args: argparse.Namespace) -> int:
    """Write the checkpoint."""
    options_file, weight_file = arguments.model_files(args)
    checks.check_files([options_file, weight_file, args.softmax_file, args.vocab_file])
    checks.check_new_folders([args.save_dir])
    from bilm.training import import_weights

    import_weights(
        options_file,
        weight_file,
        args.save_dir,
        softmax_file=args.softmax_file,
        vocab_file=args.vocab_file,
        seed=args.seed,
    )
    return 0
