"""Compare the curves of training in other precisions, and compiled, with float32.

All runs have the same initial values, batches, samples and dropout masks; the table
shows the sampled perplexity of the last steps, and how many steps float16 skipped until
its loss scale was small enough. See README.md.
"""

import argparse
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bilm.data import BidirectionalLMDataset
from bilm.inputs import training_inputs
from bilm.options import TrainingOptions, read_training_options, replace_options
from bilm.prefetch import Prefetcher
from bilm.trainer import Trainer
from bilm.training import load_vocab

KINDS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bfloat16": {"mixed_precision": "bfloat16"},
    "float16": {"mixed_precision": "float16"},
    "jit": {"jit_compile": True},
}
SEED = 0


def curve(
    options: TrainingOptions, vocab: Any, text: str, n_steps: int, how: dict[str, Any]
) -> tuple[np.ndarray, int]:
    """Losses of the first steps [n_steps], and how many of them overflowed."""
    data = BidirectionalLMDataset(text, vocab, shuffle_on_load=True, seed=SEED)
    trainer = Trainer(options, SEED, **how)
    losses: list[Any] = []
    norms: list[Any] = []
    states = trainer.zero_states()
    with Prefetcher(training_inputs(options, data, 1, [SEED])) as batches:
        for batch in batches:
            states, result = trainer.step(batch.inputs, states)
            losses.append(result.loss)
            norms.append(result.norm)
            if len(losses) == n_steps:
                break
    overflowed = ~np.isfinite(np.array([float(norm) for norm in norms]))
    return np.array([float(loss) for loss in losses]), int(overflowed.sum())


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--options", required=True, help="options.json of a training")
    parser.add_argument("--vocab", required=True, help="vocabulary file")
    parser.add_argument("--text", required=True, help="shards, a pattern in quotes")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--last", type=int, default=100, help="steps of the mean")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    return parser.parse_args(argv)


def main() -> None:
    """Train with each kind in turn, and print a row when it is done."""
    args = parse()
    options = read_training_options(args.options)
    length = options.char_cnn.max_characters_per_token if options.char_cnn else None
    vocab = load_vocab(args.vocab, length)
    options = replace_options(options, n_tokens_vocab=vocab.size)
    print(f"{args.steps} steps, mean of the last {args.last}, {time.strftime('%F')}")
    print(
        f"{'':<12}{'perplexity':>12}{'difference, %':>16}{'skipped':>9}{'seconds':>10}"
    )
    expected = math.nan
    for kind in args.kinds:
        start = time.perf_counter()
        losses, skipped = curve(options, vocab, args.text, args.steps, KINDS[kind])
        seconds = time.perf_counter() - start
        perplexity = math.exp(losses[-args.last :].mean())
        expected = perplexity if math.isnan(expected) else expected
        difference = 100 * (perplexity / expected - 1)
        print(
            f"{kind:<12}{perplexity:>12.3f}{difference:>16.3f}"
            f"{skipped:>9}{seconds:>10.1f}"
        )


if __name__ == "__main__":
    main()
