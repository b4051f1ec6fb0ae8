"""The command `bilm`: finds the subcommand, runs it, and turns errors into one line.

Exit codes: 0 done; 2 the user can mend it (a wrong flag, file or option); 130 stopped
by Ctrl-C, 143 by SIGTERM. Each subcommand is a module of `bilm.commands`.
"""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from bilm.commands import COMMANDS, Command
from bilm.commands.arguments import replace_errors
from bilm.commands.quiet_import import import_tensorflow_quietly
from bilm.commands.terminal import logging_to_stderr
from bilm.errors import InputError
from bilm.version import __version__

EXIT_INPUT = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_EXHAUSTED = "ResourceExhaustedError"  # of TensorFlow, which need not be loaded
_SHOWN_OF_MEMORY = 200  # characters of what a library says of it
_LESS_MEMORY = "--batch_size, --max_tokens or the model"
# What the system says of a path leaves open what to do.
_WAYS_OUT = {
    errno.EACCES: "; ask for the right to, or name another path",
    errno.EROFS: "; name another path",
    errno.ENAMETOOLONG: "; give a shorter name",
    errno.ENOSPC: "; make room, or name a path on another disk",
    errno.EDQUOT: "; make room, or name a path on another disk",
}


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Show the default of each flag that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False):
            return action.help
        return super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Take flags by their full names only, and report an error in one line."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        settings = {"allow_abbrev": False, "formatter_class": HelpFormatter}
        super().__init__(*args, **{**settings, **kwargs})  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        self.exit(
            EXIT_INPUT, f"{self.prog}: error: {message}; see {self.prog} --help\n"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run `bilm SUBCOMMAND ...`.

    Args:
        argv: the arguments after `bilm`; by default those of the process.

    Returns:
        The exit code.

    Raises:
        SystemExit: the arguments are wrong (code 2), or ask for help (code 0).
    """
    parser = Parser(prog="bilm", description="Train and use ELMo biLMs.")
    parser.add_argument("--version", action="version", version=f"bilm {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.NAME, help=command.SUMMARY, description=command.SUMMARY
        )
        _declare(command, subparser)
    return _run(parser.parse_args(argv))


def script(name: str, argv: Sequence[str] | None = None) -> int:
    """Run one subcommand under the name of a script of `bin/`.

    Args:
        name: `NAME` of the subcommand.
        argv: its arguments; by default those of the process.

    Returns:
        The exit code.
    """
    (command,) = (command for command in COMMANDS if command.NAME == name)
    parser = Parser(description=command.SUMMARY)
    _declare(command, parser)
    return _run(parser.parse_args(argv))


def _declare(command: Command, parser: argparse.ArgumentParser) -> None:
    command.add_arguments(parser)
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error, log more"
    )
    parser.set_defaults(run=command.run, prog=parser.prog)


def _run(args: argparse.Namespace) -> int:
    # Before TensorFlow is imported: its remarks on the machine are not for our users,
    # not even those that it calls errors, such as that there is no GPU.
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if args.debug else "3") == "3":
        import_tensorflow_quietly()
    if sys.stderr is None:  # closed by who started us; another file must not be it
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", closefd=False)
    with logging_to_stderr(args.debug):
        try:
            replace_errors(args)
            return args.run(args)
        except KeyboardInterrupt:
            sys.stderr.write(f"\n{args.prog}: stopped by Ctrl-C\n")
            return EXIT_INTERRUPTED
        except Exception as error:
            message = _in_one_line(error)
            if args.debug or message is None:
                raise
            sys.stderr.write(f"{args.prog}: error: {message}\n")
            return EXIT_INPUT


def _in_one_line(error: Exception) -> str | None:
    """What a user can mend; None for all else, of which a traceback tells more."""
    if isinstance(error, MemoryError) or type(error).__name__ == _EXHAUSTED:
        what = next(iter(str(error).splitlines()), "")[:_SHOWN_OF_MEMORY]
        return f"not enough memory ({what}): make {_LESS_MEMORY} smaller"
    if not isinstance(error, InputError | OSError):
        return None
    if isinstance(error, OSError) and error.strerror is not None:
        way_out = _WAYS_OUT.get(error.errno or 0, "")
        place = "" if error.filename is None else f"{error.filename}: "
        return f"{place}{error.strerror}{way_out}"
    return " ".join(str(error).splitlines())
