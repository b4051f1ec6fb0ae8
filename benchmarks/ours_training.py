"""Our side of training.py: one thing in a process of its own, then one JSON line.

Called by training.py, in the manner of its peers.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bilm.data import BidirectionalLMDataset, UnicodeCharsVocabulary
from bilm.dataset import BidirectionalBatch
from bilm.options import TrainingOptions, read_training_options, replace_options
from bilm.stream import Batch

WARM_UP = 3  # steps left out, as the peer does
PRODUCT_SIZE = 4096  # rows and columns of the large matrix product
N_PRODUCTS = 3


def step(args: argparse.Namespace) -> dict[str, Any]:
    """Train `--steps` steps; a large matrix product before and after them."""
    from multiply_adds import multiply_adds

    from bilm.inputs import training_inputs
    from bilm.prefetch import Prefetcher
    from bilm.trainer import Trainer

    options, data = open_training(args)
    trainer = Trainer(
        options, mixed_precision=args.mixed_precision, jit_compile=args.jit_compile
    )
    rates = product_rates()
    times, counts, distinct, states = [], [], [], trainer.zero_states()
    with Prefetcher(training_inputs(options, data, 1, [0])) as batches:
        iterator, begin, waited = iter(batches), 0.0, 0.0
        for number in range(args.steps):
            start = time.perf_counter()
            if number == WARM_UP:
                begin, waited = start, batches.waited
            inputs = next(iterator).inputs
            states, result = trainer.step(inputs, states)
            loss = float(result.loss)  # waits for the device
            times.append(time.perf_counter() - start)
            counts.append(multiply_adds(options, inputs[0]))
            distinct.append(len(inputs[0].tokens))
        wait = (batches.waited - waited) / (time.perf_counter() - begin)
    rates += product_rates()
    rates_of_steps = [
        2 * count / taken
        for count, taken in zip(counts[WARM_UP:], times[WARM_UP:], strict=True)
    ]
    seconds = statistics.median(times[WARM_UP:])
    return {
        "step_s": seconds,
        "tokens_per_s": options.batch_size * options.unroll_steps / seconds,
        "flops_per_s": statistics.median(rates_of_steps),
        "product_flops_per_s": statistics.median(rates),
        "distinct_tokens": statistics.mean(distinct),
        "data_wait": wait,
        "loss": loss,
        "values_mb": 2 * values_bytes(trainer) / 2**20,  # variables and slots
    }


def read(args: argparse.Namespace) -> dict[str, Any]:
    """Read the text once in both directions, or `--batches` of it, without TensorFlow.

    `added_mb` is what memory grew by after the vocabulary was there.
    """
    options = read_training_options(args.options)
    vocab = open_vocabulary(args, options)
    before = memory_mb("VmRSS")
    data = BidirectionalLMDataset(
        args.text, vocab, test=args.batches == 0, shuffle_on_load=args.batches > 0
    )
    start, n_batches = time.perf_counter(), 0
    for _ in data.iter_batches(options.batch_size, options.unroll_steps):
        n_batches += 1
        if n_batches == args.batches:
            break
    seconds = time.perf_counter() - start
    ids = 2 * n_batches * options.batch_size * options.unroll_steps
    return {
        "seconds": seconds,
        "ids": ids,
        "tokens_per_s": ids / seconds,
        "added_mb": memory_mb("VmHWM") - before,
    }


def checkpoint(args: argparse.Namespace) -> dict[str, Any]:
    """Write a checkpoint after `--steps` steps, for `test` of both sides."""
    from bilm.training import train

    options, data = open_training(args)
    n_tokens = args.steps * options.batch_size * options.unroll_steps
    options = replace_options(options, n_train_tokens=n_tokens, n_epochs=1)
    with tempfile.TemporaryDirectory() as logs:
        return {"prefix": train(options, data, 1, args.save_dir, logs, seed=0)}


def test(args: argparse.Namespace) -> dict[str, Any]:
    """Perplexity of a held-out text, without its incomplete last batch, as the peer."""
    from bilm.commands.terminal import use_onednn

    use_onednn()  # as `bilm test` does, before it imports TensorFlow
    from bilm.evaluation import evaluate
    from bilm.training import load_options_latest_checkpoint

    options, prefix = load_options_latest_checkpoint(args.save_dir)
    length = options["char_cnn"]["max_characters_per_token"]
    vocab = UnicodeCharsVocabulary(args.vocab, length)
    data = BidirectionalLMDataset(args.text, vocab, test=True)
    start = time.perf_counter()
    result = evaluate(options, prefix, data, args.batch, drop_incomplete=True)
    seconds = time.perf_counter() - start
    return {"perplexity": result.perplexity, "seconds": seconds}


class SpreadWords:
    """A data set whose words to predict are spread over `n_words` ids."""

    def __init__(self, data: BidirectionalLMDataset, n_words: int):
        self.vocab = data.vocab
        self._data, self._n_words = data, n_words

    def batches(self, rows: int, steps: int) -> Iterator[BidirectionalBatch]:
        """Batches of the data set, with other labels."""
        for batch in self._data.batches(rows, steps):
            yield BidirectionalBatch(*map(self._spread, batch))

    def _spread(self, batch: Batch) -> Batch:
        ids = batch.next_token_id.astype(np.int64) * self._n_words // self.vocab.size
        return batch._replace(next_token_id=ids.astype(np.int32))


def open_vocabulary(
    args: argparse.Namespace, options: TrainingOptions
) -> UnicodeCharsVocabulary:
    """The vocabulary with the characters of its words."""
    assert options.char_cnn is not None
    length = options.char_cnn.max_characters_per_token
    return UnicodeCharsVocabulary(args.vocab, length)


def open_training(args: argparse.Namespace) -> tuple[TrainingOptions, Any]:
    """Options and shuffled training text; `--n_words` for a softmax of another size."""
    options = read_training_options(args.options)
    vocab = open_vocabulary(args, options)
    data: Any = BidirectionalLMDataset(args.text, vocab, shuffle_on_load=True, seed=0)
    if args.n_words:
        data = SpreadWords(data, args.n_words)
    return replace_options(options, n_tokens_vocab=args.n_words or vocab.size), data


def product_rates() -> list[float]:
    """Floating point operations a second of a large float32 matrix product."""
    import tensorflow as tf

    matrix = tf.random.stateless_uniform([PRODUCT_SIZE, PRODUCT_SIZE], [0, 0])
    product = tf.function(lambda: tf.reduce_sum(tf.linalg.matmul(matrix, matrix)))
    float(product())
    rates = []
    for _ in range(N_PRODUCTS):
        start = time.perf_counter()
        float(product())
        rates.append(2 * PRODUCT_SIZE**3 / (time.perf_counter() - start))
    return rates


def values_bytes(trainer: Any) -> int:
    """Bytes of the variables."""
    return sum(4 * int(np.prod(spec.shape)) for spec in trainer.network.specs)


def memory_mb(field: str) -> float:
    """MiB of this process: `VmRSS` now, `VmHWM` at its peak (Linux).

    Not `ru_maxrss`, which begins with the peak of the process that started this one.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def main() -> None:
    """Run one of the functions above."""
    parser = argparse.ArgumentParser(description=__doc__)
    sides = {f.__name__: f for f in (step, read, checkpoint, test)}
    parser.add_argument("side", choices=sides)
    for flag in ("--options", "--vocab", "--text", "--save_dir", "--mixed_precision"):
        parser.add_argument(flag)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--n_words", type=int, default=0)
    parser.add_argument("--batches", type=int, default=0)
    parser.add_argument("--jit_compile", action="store_true")
    args = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        result = sides[args.side](args)
    result["peak_mb"] = memory_mb("VmHWM")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
