"""`bilm finetune`: a new run that starts from the weights of another model."""

import argparse

from bilm.commands import arguments, checks, run_arguments, runs
from bilm.options import replace_options

NAME = "finetune"
SUMMARY = "Train a new run that starts from the weights of another model."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the command."""
    parser.add_argument(
        "--init_from",
        required=True,
        metavar="PATH",
        help="the folder of a run, the prefix of a checkpoint, or a folder with "
        "options.json and weights.hdf5 (and softmax_weights.hdf5)",
    )
    parser.add_argument(
        "--init_vocab_file",
        metavar="FILE",
        help="vocabulary that model was trained with (default: --vocab_file)",
    )
    arguments.add_save_dir(parser, "folder of the new run")
    arguments.add_vocab_file(parser)
    arguments.add_text(parser, "--train_prefix", "to train on")
    run_arguments.add_length_options(parser)
    run_arguments.add_tokens_of_new_text(parser)
    run_arguments.add_network_options(parser)
    run_arguments.add_run_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Train from the weights of the model."""
    checks.check_files([args.vocab_file, args.init_vocab_file])
    runs.check_paths(args)
    checks.check_no_run(args.save_dir, None)
    from bilm.inheritance import inherited_options, inherited_values, read_ancestor
    from bilm.training import load_vocab

    n_words = load_vocab(args.vocab_file).size
    ancestor = read_ancestor(args.init_from, n_words)
    vocab = runs.open_vocabulary(args.vocab_file, ancestor.options)
    old_vocab = load_vocab(args.init_vocab_file) if args.init_vocab_file else None
    given = run_arguments.options_given(args, run_arguments.ALL_OPTIONS)
    options = replace_options(inherited_options(ancestor, vocab), **given)
    text = runs.open_training_text(args, vocab, options)
    values = inherited_values(ancestor, text.options, vocab, old_vocab, args.seed or 0)
    return runs.train_on_text(args, text, initial_values=values)
