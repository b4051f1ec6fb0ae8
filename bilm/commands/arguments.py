"""Flags that several commands share, and the types of their values."""

import argparse
from pathlib import Path
from typing import Any

from bilm.errors import InputError
from bilm.option_rules import LR_SCHEDULES, STATE_RESETS

LENGTH_OPTIONS = (
    "batch_size",
    "accumulate",
    "n_epochs",
    "learning_rate",
    "lr_schedule",
    "warmup_steps",
    "reset_state",
    "reset_state_every",
)
NETWORK_OPTIONS = ("dropout", "n_negative_samples_batch", "freeze_embedding")
_INHERITED = "(default: that of the options)"


def positive(text: str) -> int:
    """The type of a flag that counts something.

    >>> positive("20")
    20
    """
    return _whole_number(text, smallest=1)


def natural(text: str) -> int:
    """The type of a flag that may also be 0."""
    return _whole_number(text, smallest=0)


def interval(text: str) -> int | str:
    """The type of a flag in steps or minutes: `5000`, `90m`.

    >>> interval("90m")
    '90m'
    """
    if not text.endswith("m"):
        return _whole_number(text, smallest=1, more=", or minutes such as 90m")
    return f"{_whole_number(text[:-1], smallest=1)}m"


def _whole_number(text: str, smallest: int, more: str = "") -> int:
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
    parser.add_argument(
        flag,
        required=True,
        nargs="+",
        metavar="PATTERN",
        help=f"text {purpose}: files, folders, or glob patterns in quotation marks, "
        "plain or gzipped, - for standard input; with a sentence a line and its tokens "
        "apart by white space",
    )


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


def add_length_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `LENGTH_OPTIONS`, which a restarted run may change too."""
    parser.add_argument(
        "--batch_size",
        type=positive,
        metavar="N",
        help=f"rows of a batch on each device {_INHERITED}",
    )
    parser.add_argument(
        "--accumulate",
        type=positive,
        metavar="K",
        help="batches that one update sums up: K times the rows in the memory of one "
        f"batch {_INHERITED}",
    )
    parser.add_argument(
        "--n_epochs",
        type=positive,
        metavar="N",
        help=f"passes over the text {_INHERITED}",
    )
    parser.add_argument(
        "--learning_rate",
        type=float,
        metavar="X",
        help=f"step size of Adagrad {_INHERITED}",
    )
    parser.add_argument(
        "--lr_schedule",
        choices=LR_SCHEDULES,
        help="how the learning rate falls until the end of the run, or by the square "
        f"root of the steps over those of the warm-up {_INHERITED}",
    )
    parser.add_argument(
        "--warmup_steps",
        type=natural,
        metavar="N",
        help=f"steps in which the learning rate rises from nearly 0 {_INHERITED}",
    )
    parser.add_argument(
        "--reset_state",
        choices=STATE_RESETS,
        help="document: zero a row's state between two documents, which blank lines "
        f"set apart; needs --no-shuffle {_INHERITED}",
    )
    parser.add_argument(
        "--reset_state_every",
        type=natural,
        metavar="STEPS",
        help=f"zero the states of all rows after so many steps; 0: never {_INHERITED}",
    )


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `NETWORK_OPTIONS`, which only a new run may set."""
    parser.add_argument(
        "--dropout",
        type=float,
        metavar="X",
        help=f"share of values dropped, from 0 to below 1 {_INHERITED}",
    )
    parser.add_argument(
        "--n_negative_samples_batch",
        type=positive,
        metavar="N",
        help=f"words that the softmax of a batch samples {_INHERITED}",
    )
    parser.add_argument(
        "--freeze_embedding",
        action="store_true",
        default=None,
        help="word input: the embedding keeps its first values, also where it is the "
        f"softmax's {_INHERITED}",
    )


def options_given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the options that flags have set, by name."""
    given = {name: getattr(args, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


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


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how a training run goes, not what it trains."""
    parser.add_argument(
        "--n_gpus",
        type=positive,
        metavar="N",
        help="number of devices to train on (default: all GPUs that are visible, or "
        "the CPU)",
    )
    parser.add_argument(
        "--mixed_precision",
        choices=("bfloat16", "float16"),
        help="precision of the products of encoder and LSTM layers (default: float32)",
    )
    parser.add_argument(
        "--jit_compile",
        action="store_true",
        help="compile the LSTM layers by XLA: a slow start, and perhaps faster steps",
    )
    parser.add_argument(
        "--seed",
        type=natural,
        metavar="N",
        help="number that initial values, dropout, samples and shuffles follow from "
        "(default: another one each time)",
    )
    add_shuffle(parser)
    parser.add_argument(
        "--log_dir",
        metavar="DIR",
        help="folder of the TensorBoard files (default: --save_dir)",
    )
    parser.add_argument(
        "--log_every",
        type=positive,
        metavar="N",
        default=100,
        help="steps between log lines",
    )
    parser.add_argument(
        "--valid_prefix",
        nargs="+",
        metavar="PATTERN",
        help="held-out text to evaluate while training, as --train_prefix; the best "
        "checkpoint is kept in the folder best of --save_dir (default: none)",
    )
    parser.add_argument(
        "--valid_every",
        type=positive,
        metavar="N",
        default=1250,
        help="steps between evaluations of --valid_prefix; the end has one in any case",
    )
    parser.add_argument(
        "--patience",
        type=positive,
        metavar="N",
        help="end the training after so many evaluations in a row without a better one "
        "(default: at the end of the epochs)",
    )
    parser.add_argument(
        "--max_bad_steps",
        type=positive,
        metavar="N",
        default=20,
        help="end the training after so many steps in a row whose loss or gradient was "
        "not finite",
    )
    parser.add_argument(
        "--checkpoint_every",
        type=interval,
        metavar="STEPS|MINUTES",
        default=1250,
        help="steps between checkpoints, or minutes such as 30m; the end of the run is "
        "saved in any case",
    )
    parser.add_argument(
        "--keep",
        type=positive,
        metavar="N",
        default=5,
        help="number of last checkpoints kept",
    )
    parser.add_argument(
        "--stop_after",
        type=interval,
        metavar="STEPS|MINUTES",
        help="stop with a checkpoint after so many steps (5000) or minutes (90m) of "
        "this command; the last step and the saving come on top (default: the end of "
        "the training)",
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
        return str(folder / "options.json"), str(folder / "weights.hdf5")
    if args.model or None in given:
        raise InputError(
            "name the model either by --model or by --options_file and --weight_file"
        )
    return given
