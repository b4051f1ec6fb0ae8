"""Flags of the commands that train: what a run changes of the options, how it goes."""

import argparse
from typing import Any

from bilm.commands import arguments
from bilm.option_rules import LR_SCHEDULES, STATE_RESETS
from bilm.run_settings import RunSettings

LENGTH_OPTIONS = (
    "batch_size",
    "accumulate",
    "n_epochs",
    "n_train_tokens",
    "learning_rate",
    "lr_schedule",
    "warmup_steps",
    "reset_state",
    "reset_state_every",
)
NETWORK_OPTIONS = ("dropout", "n_negative_samples_batch", "freeze_embedding")
ALL_OPTIONS = LENGTH_OPTIONS + NETWORK_OPTIONS
_INHERITED = "(default: that of the options)"


def add_length_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `LENGTH_OPTIONS`, which a restarted run may change too."""
    parser.add_argument(
        "--batch_size",
        type=arguments.side,
        metavar="N",
        help=f"rows of a batch on each device {_INHERITED}",
    )
    parser.add_argument(
        "--accumulate",
        type=arguments.side,
        metavar="K",
        help="batches that one update sums up: K times the rows in the memory of one "
        f"batch {_INHERITED}",
    )
    parser.add_argument(
        "--n_epochs",
        type=arguments.positive,
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
        type=arguments.natural,
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
        type=arguments.natural,
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
        type=arguments.positive,
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


def add_tokens_of_new_text(parser: argparse.ArgumentParser) -> None:
    """Add `--n_train_tokens`, where the text need not be that of the options."""
    parser.add_argument(
        "--n_train_tokens",
        type=arguments.natural,
        metavar="N",
        default=0,
        help="tokens of the text, from which the number of steps follows; 0: they are "
        "counted",
    )


def options_given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the options that flags have set, by name."""
    given = {name: getattr(args, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how a training run goes, not what it trains."""
    _add_computing(parser)
    _add_watching(parser)
    _add_saving(parser)


def _add_computing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--n_gpus",
        type=arguments.positive,
        metavar="N",
        help="number of devices to train on, of each machine (default: all GPUs that "
        "are visible, or the CPU)",
    )
    parser.add_argument(
        "--cluster",
        metavar="slurm|HOST:PORT,...",
        help="train on several machines, on each of which the same command runs: the "
        "addresses of all in the same order, or slurm under srun (default: that of "
        "TF_CONFIG, or this machine alone)",
    )
    parser.add_argument(
        "--worker_index",
        type=arguments.natural,
        metavar="I",
        help="which of the addresses of --cluster this process has, from 0; the first "
        "one writes log and files (default: as slurm or TF_CONFIG say)",
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
        type=arguments.natural,
        metavar="N",
        help="number that initial values, dropout, samples and shuffles follow from "
        "(default: another one each time)",
    )
    arguments.add_shuffle(parser)


def _add_watching(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log_dir",
        metavar="DIR",
        help="folder of the TensorBoard files (default: --save_dir)",
    )
    parser.add_argument(
        "--log_every",
        type=arguments.positive,
        metavar="N",
        default=RunSettings.log_every,
        help="steps between log lines",
    )
    arguments.add_errors(parser, "--valid_prefix")
    parser.add_argument(
        "--valid_prefix",
        nargs="+",
        metavar="PATTERN",
        help="held-out text to evaluate while training, as --train_prefix; the best "
        "checkpoint is kept in the folder best of --save_dir (default: none)",
    )
    parser.add_argument(
        "--valid_every",
        type=arguments.positive,
        metavar="N",
        default=RunSettings.valid_every,
        help="steps between evaluations of --valid_prefix; the end has one in any case",
    )
    parser.add_argument(
        "--patience",
        type=arguments.positive,
        metavar="N",
        help="end the training after so many evaluations in a row without a better one "
        "(default: at the end of the epochs)",
    )
    parser.add_argument(
        "--max_bad_steps",
        type=arguments.positive,
        metavar="N",
        default=RunSettings.max_bad_steps,
        help="end the training after so many steps in a row whose loss or gradient was "
        "not finite",
    )


def _add_saving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint_every",
        type=arguments.interval,
        metavar="STEPS|MINUTES",
        default=RunSettings.checkpoint_every,
        help="steps between checkpoints, or minutes such as 30m; the end of the run is "
        "saved in any case",
    )
    parser.add_argument(
        "--keep",
        type=arguments.positive,
        metavar="N",
        default=RunSettings.keep,
        help="number of last checkpoints kept",
    )
    parser.add_argument(
        "--stop_after",
        type=arguments.interval,
        metavar="STEPS|MINUTES",
        help="stop with a checkpoint after so many steps (5000) or minutes (90m) of "
        "this command; the last step and the saving come on top (default: the end of "
        "the training)",
    )
