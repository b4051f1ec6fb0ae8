"""`bilm restart`: a run goes on from its last checkpoint."""

import argparse

from bilm.commands import arguments, checks, run_arguments, runs
from bilm.options import replace_options

NAME = "restart"
SUMMARY = (
    "Go on from the last checkpoint of a run, by its options, on the same text or new."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    arguments.add_save_dir(parser, "folder of the run, where it goes on writing")
    arguments.add_vocab_file(parser)
    arguments.add_text(parser, "--train_prefix", "to train on")
    run_arguments.add_length_options(parser)
    run_arguments.add_tokens_of_new_text(parser)
    run_arguments.add_run_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Train on from the last checkpoint."""
    checks.check_run(args.save_dir)
    checks.check_files([args.vocab_file])
    runs.check_paths(args)
    options, ckpt_file = runs.last_checkpoint(args.save_dir)
    vocab = runs.open_vocabulary_of_run(args, options, ckpt_file)
    given = run_arguments.options_given(args, run_arguments.LENGTH_OPTIONS)
    options = replace_options(options, **given)
    text = runs.open_training_text(args, vocab, options)
    return runs.train_on_text(args, text, restart_ckpt_file=ckpt_file)
