"""What several test files share: a corpus, one finished training, and two models."""

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest
from tiny import (
    OPTIONS,
    WORDS,
    Corpus,
    Model,
    Run,
    counting_sentences,
    write_lines,
    write_model,
)

from bilm.options import replace_options

TempPaths = pytest.TempPathFactory
collect_ignore = ["peers", "programs"]  # scripts, run as processes of their own


def pytest_collection_finish() -> None:
    """Split the CPU, for the tests of several devices, before TensorFlow starts."""
    if "tensorflow" in sys.modules:  # else no test collected computes anything
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: TempPaths) -> Corpus:
    """The counting language: vocabulary, training and held-out text."""
    folder = tmp_path_factory.mktemp("corpus")
    return Corpus(
        vocab=write_lines(folder / "vocab.txt", [[word] for word in WORDS]),
        train=write_lines(folder / "train.txt", counting_sentences(300, seed=1)),
        heldout=write_lines(folder / "heldout.txt", counting_sentences(40, seed=2)),
    )


@pytest.fixture(scope="session")
def data(corpus: Corpus) -> Any:
    """Make a data set that fits given options, of the training text or another."""
    from bilm.data import BidirectionalLMDataset, LMDataset
    from bilm.training import load_vocab

    def make(options: Any, text: Any = corpus.train, **settings: Any) -> Any:
        chars = options.char_cnn
        vocab = load_vocab(corpus.vocab, chars and chars.max_characters_per_token)
        kind = BidirectionalLMDataset if options.bidirectional else LMDataset
        return kind(text, vocab, **settings)

    return make


@pytest.fixture(scope="session")
def trained(tmp_path_factory: TempPaths, data: Any) -> Run:
    """A character model that has learnt the counting language, in 400 steps.

    Checkpoints every 150 steps of which 2 are kept, lines and scalars every 50.
    """
    from bilm.training import train

    options = replace_options(
        OPTIONS,
        batch_size=16,
        n_train_tokens=20 * 48,
        n_epochs=20,
        learning_rate=0.5,
        all_clip_norm_val=1.5,  # clips some of the gradients
    )
    save_dir = tmp_path_factory.mktemp("run")
    log_dir = tmp_path_factory.mktemp("logs")
    with _logged() as log:
        prefix = train(
            options,
            data(options, shuffle_on_load=True, seed=1),
            1,
            save_dir,
            log_dir,
            seed=1,
            checkpoint_every=150,
            keep=2,
            log_every=50,
        )
    return Run(options, save_dir, log_dir, prefix, log.getvalue())


@pytest.fixture(scope="session")
def char_model(tmp_path_factory: TempPaths) -> Model:
    """Random weights of a character model."""
    return write_model(tmp_path_factory.mktemp("char_model"), OPTIONS)


@pytest.fixture(scope="session")
def word_model(tmp_path_factory: TempPaths) -> Model:
    """Random weights of a word-level model, whose vocabulary is that of `corpus`."""
    options = replace_options(OPTIONS, char_cnn=None)
    return write_model(tmp_path_factory.mktemp("word_model"), options, len(WORDS))


@contextmanager
def _logged() -> Iterator[io.StringIO]:
    """What the package logs inside the block; `caplog` is of one test alone."""
    lines = io.StringIO()
    handler, logger = logging.StreamHandler(lines), logging.getLogger("bilm")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
