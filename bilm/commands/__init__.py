"""The subcommands of `bilm`: one module each, listed here in the order of `--help`.

A new command is a new module with the four names of `Command`, and a line below.
Modules import TensorFlow (and what imports it) inside `run` alone, so that `--help`
and wrong arguments are answered at once.
"""

import argparse
from typing import Protocol

from bilm.commands import (
    batches,
    dump_embeddings,
    dump_tokens,
    dump_weights,
    export,
    finetune,
    import_weights,
    inspect,
    plot,
    predict,
    prepare,
    restart,
    score,
    stats,
    test,
    train,
    vocab,
)


class Command(Protocol):
    """What a module of this package defines."""

    @property
    def NAME(self) -> str:
        """The word on the command line, as in `bilm NAME`."""

    @property
    def SUMMARY(self) -> str:
        """One sentence for the list of commands and the head of `bilm NAME -h`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags of the command."""

    def run(self, args: argparse.Namespace) -> int:
        """Do what the command is for, and return the exit code."""


COMMANDS: tuple[Command, ...] = (
    prepare,
    vocab,
    stats,
    batches,
    train,
    restart,
    finetune,
    plot,
    test,
    score,
    predict,
    dump_weights,
    import_weights,
    dump_embeddings,
    dump_tokens,
    export,
    inspect,
)
