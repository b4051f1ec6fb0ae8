"""`bilm plot`: the curves of trainings as a picture."""

import argparse
import os

from bilm.commands import checks
from bilm.commands.terminal import say

NAME = "plot"
SUMMARY = "Draw the curves of one run, or of several over each other."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    parser.add_argument(
        "save_dirs", nargs="+", metavar="SAVE_DIR", help="folders of runs"
    )
    parser.add_argument(
        "--outfile",
        metavar="FILE",
        help="picture to write, such as .png or .pdf (default: curve.png in the first "
        "folder)",
    )


def run(args: argparse.Namespace) -> int:
    """Draw."""
    outfile = args.outfile or os.path.join(args.save_dirs[0], "curve.png")
    for folder in args.save_dirs:
        checks.check_folder(folder)
    checks.check_output(outfile)
    from bilm.curves import plot_curves

    plot_curves(args.save_dirs, outfile)
    say(outfile)
    return 0
