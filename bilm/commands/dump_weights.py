"""`bilm dump-weights`: a checkpoint becomes a model to embed with."""

import argparse

from bilm.commands import arguments, checks

NAME = "dump-weights"
SUMMARY = (
    "Write the weights of a run's last checkpoint to HDF5, and options.json beside it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_save_dir(parser, "folder of the run")
    arguments.add_outfile(parser, "file to write the weights to, as weights.hdf5")
    parser.add_argument(
        "--include_softmax",
        action="store_true",
        help="also write the softmax, to softmax_ and the name of --outfile beside it "
        "(default: the network alone, which is enough to embed)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the files."""
    checks.check_run(args.save_dir)
    checks.check_output(args.outfile)
    from bilm.training import dump_weights

    dump_weights(args.save_dir, args.outfile, include_softmax=args.include_softmax)
    return 0
