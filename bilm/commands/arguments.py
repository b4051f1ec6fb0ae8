"""Flags that several commands share, and the types of their values."""

import argparse
import math
from pathlib import Path

from bilm.errors import InputError
from bilm.files import OPTIONS_FILE, WEIGHTS_FILE
from bilm.option_rules import MAX_SIDE
from bilm.replaced_text import replaced_files

_MOST_DIGITS = 18  # of a number that 64 bits hold


def positive(text: str) -> int:
    """The type of a flag that counts something.

    >>> positive("20")
    20
    """
    return _whole_number(text, smallest=1)


def side(text: str) -> int:
    """The type of a side of a batch, rows or steps, bounded as in options."""
    number = positive(text)
    if number > MAX_SIDE:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_SIDE:,}, not {text}")
    return number


def natural(text: str) -> int:
    """The type of a flag that may also be 0."""
    return _whole_number(text, smallest=0)


def above_zero(text: str) -> float:
    """The type of a flag that is any number above 0.

    >>> above_zero("2.5")
    2.5
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


def interval(text: str) -> int | str:
    """The type of a flag in steps or minutes: `5000`, `90m`.

    >>> interval("90m")
    '90m'
    """
    if not text.endswith("m"):
        return _whole_number(text, smallest=1, more=", or minutes such as 90m")
    return f"{_whole_number(text[:-1], smallest=1)}m"


def _whole_number(text: str, smallest: int, more: str = "") -> int:
    if text.isdecimal() and len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(
            f"must have at most {_MOST_DIGITS} digits, not {len(text)}"
        )
    if not text.isdecimal() or int(text) < smallest:
        raise argparse.ArgumentTypeError(
            f"must be a whole number, {smallest} or more{more}, not {text!r}"
        )
    return int(text)


def add_save_dir(parser: argparse.ArgumentParser, help: str) -> None:
    """Add `--save_dir`, which each command has its own use for."""
    parser.add_argument("--save_dir", required=True, metavar="DIR", help=help)


def add_vocab_file(parser: argparse.ArgumentParser, *other_names: str) -> None:
    """Add `--vocab_file` to a command that cannot do without."""
    parser.add_argument(
        "--vocab_file",
        *other_names,
        required=True,
        metavar="FILE",
        help="vocabulary: a word a line, <S>, </S> and <UNK> among them",
    )


def add_text(parser: argparse.ArgumentParser, flag: str, purpose: str) -> None:
    """Add the flag that names text: `--train_prefix`, `--test_prefix`, `--input`."""
    add_errors(parser, flag)
    parser.add_argument(
        flag,
        required=True,
        nargs="+",
        metavar="PATTERN",
        help=f"text {purpose}: files, folders, or glob patterns in quotation marks, "
        "plain or gzipped, - for standard input; with a sentence a line and its tokens "
        "apart by white space",
    )


def add_errors(parser: argparse.ArgumentParser, flag: str) -> None:
    """Let `--errors` be of this flag, too; add it with the first one."""
    texts = parser.get_default("texts") or []
    parser.set_defaults(texts=[*texts, flag.lstrip("-")])
    if not texts:
        parser.add_argument(
            "--errors",
            choices=["strict", "replace"],
            default="strict",
            help="bytes of the text that are not UTF-8: refuse them, or read a "
            "temporary copy in which U+FFFD replaces them, and say how many",
        )


def replace_errors(args: argparse.Namespace) -> None:
    """Replace the texts of a command by copies, where `--errors` wants it.

    Raises:
        FileNotFoundError, InputError: see `replaced_files`.
    """
    if getattr(args, "errors", "strict") == "strict":
        return
    flags = vars(args)
    outputs = [flags[name] for name in ("out", "outfile") if flags.get(name)]
    for flag in args.texts:
        given = flags[flag]
        if isinstance(given, str):  # one file, or -
            (flags[flag],) = replaced_files(given, outputs)
        elif given:
            flags[flag] = replaced_files(given, outputs)


def add_processes(parser: argparse.ArgumentParser) -> None:
    """Add `--processes`, the number of those that count."""
    parser.add_argument(
        "--processes",
        type=positive,
        metavar="N",
        help="processes that count (default: one for each core)",
    )


def add_outfile(parser: argparse.ArgumentParser, help: str) -> None:
    """Add `--outfile`, the file that the command writes."""
    parser.add_argument("--outfile", required=True, metavar="FILE", help=help)


def add_shuffle(parser: argparse.ArgumentParser) -> None:
    """Add `--shuffle`, of the text of a training."""
    parser.add_argument(
        "--shuffle",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="shuffle the sentences of each shard",
    )


def add_order_seed(parser: argparse.ArgumentParser) -> None:
    """Add `--seed` to a command that gives the same order each time."""
    parser.add_argument(
        "--seed",
        type=natural,
        metavar="N",
        default=0,
        help="number that the order of the sentences follows from",
    )


def add_model_files(parser: argparse.ArgumentParser) -> None:
    """Add the two ways to name a trained model's files; see `model_files`."""
    parser.add_argument(
        "--model", metavar="DIR", help="folder with options.json and weights.hdf5"
    )
    parser.add_argument(
        "--options_file", metavar="FILE", help="options of the model, without --model"
    )
    parser.add_argument(
        "--weight_file", metavar="FILE", help="weights of the model, without --model"
    )


def model_files(args: argparse.Namespace) -> tuple[str, str]:
    """Return the paths of the options and of the weights that the flags name.

    Raises:
        InputError: neither a folder nor both files are given, or more than that.
    """
    given = (args.options_file, args.weight_file)
    if args.model and given == (None, None):
        folder = Path(args.model)
        return str(folder / OPTIONS_FILE), str(folder / WEIGHTS_FILE)
    if args.model or None in given:
        raise InputError(
            "name the model either by --model or by --options_file and --weight_file"
        )
    return given
