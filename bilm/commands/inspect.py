"""`bilm inspect`: what is inside a model's files."""

import argparse

from bilm.commands.terminal import say

NAME = "inspect"
SUMMARY = "Print what is in a checkpoint, an HDF5 file, options, or a folder of these."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    parser.add_argument(
        "path",
        metavar="FILE_OR_DIR",
        help="checkpoint (its prefix or one of its files), weights.hdf5, file of "
        "vectors or options.json; or a folder, for all of them and the last checkpoint",
    )
    parser.add_argument(
        "--values",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="read all values, for means and Euclidean norms",
    )


def run(args: argparse.Namespace) -> int:
    """Print the trees."""
    from bilm.inspection import inspect

    say(inspect(args.path, args.values))
    return 0
