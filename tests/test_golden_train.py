"""Training, evaluation and dumped weights against bilm-tf, from files to files.

tests/fixtures/golden/README.md says how the numbers were made.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from events import read_events, scalars
from tiny import GOLDEN, assert_near, read_arrays

from bilm import training
from bilm.data import BidirectionalLMDataset, LMDataset
from bilm.names import GLOBAL_STEP, TRAIN_PERPLEXITY
from bilm.training import dump_weights, load_vocab, train

CHARS, WORDS = "train_full_softmax_chars", "train_words_forward_only"
SAMPLED = "train_sampled_softmax_chars"
N_STEPS = {CHARS: 30, WORDS: 20}
TOKENS_PER_STEP = 24
# In these dumps bilm-tf has other names than in those of two directions; ours do not.
OUR_NAMES = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


class Trained(NamedTuple):
    """A golden training, made again."""

    name: str
    save_dir: Path
    prefix: str
    expected: Any


def open_text(options: dict[str, Any], test: bool = False) -> Any:
    """The golden text, as the options need it."""
    chars = options.get("char_cnn")
    length = chars and chars["max_characters_per_token"]
    kind = BidirectionalLMDataset if options["bidirectional"] else LMDataset
    return kind(
        GOLDEN / "text.txt", load_vocab(GOLDEN / "vocab.txt", length), test=test
    )


@pytest.fixture(scope="module", params=[CHARS, WORDS])
def trained(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    name = request.param
    save_dir = tmp_path_factory.mktemp(name)
    init = GOLDEN / name / "init"
    options = json.loads((init / "options.json").read_text())
    options["n_train_tokens"] = N_STEPS[name] * TOKENS_PER_STEP
    start = init / "model.ckpt-1"
    prefix = train(
        options, open_text(options), 1, save_dir, save_dir, start, log_every=1
    )
    return Trained(name, save_dir, prefix, np.load(GOLDEN / name / "expected.npz"))


def test_training_ends_with_the_same_checkpoint(trained: Trained) -> None:
    steps = N_STEPS[trained.name]
    assert trained.prefix == str(trained.save_dir / f"model.ckpt-{steps}")
    expected = {
        name.removeprefix("var/"): trained.expected[name]
        for name in trained.expected
        if name.startswith("var/")
    }
    assert expected.pop(GLOBAL_STEP) == steps
    reader = tf.train.load_checkpoint(trained.prefix)
    found = set(reader.get_variable_to_shape_map())
    assert found == {*expected, GLOBAL_STEP, TRAIN_PERPLEXITY}
    assert reader.get_tensor(GLOBAL_STEP) == steps
    for name, values in expected.items():
        assert_near(reader.get_tensor(name), values, name)


def test_losses_and_gradient_norms_are_the_same_at_each_step(trained: Trained) -> None:
    events = read_events(trained.save_dir)
    losses = np.log(scalars(events, "train_perplexity"))
    assert_near(losses, trained.expected["loss"], "loss")
    norms = scalars(events, "norm_grad")
    assert_near(norms, trained.expected["grad_norm"], "grad_norm")


@pytest.mark.parametrize("name", [CHARS, WORDS, SAMPLED])
def test_perplexities(name: str) -> None:
    final = GOLDEN / name / "final"
    (index,) = final.glob("*.index")
    options = json.loads((final / "options.json").read_text())
    expected = np.load(GOLDEN / name / "expected.npz")

    def perplexity(rows: int, **settings: Any) -> float:
        prefix, text = index.with_suffix(""), open_text(options, test=True)
        # Not imported by its name, which pytest would take for a test.
        return training.test(options, prefix, text, rows, **settings)

    steps = (1, 4, 20) if name == WORDS else (4,)
    for unroll_steps in steps:
        for rows, settings in ((1, {}), (3, {"drop_incomplete": True})):
            settings["unroll_steps"] = unroll_steps
            golden = float(expected[f"test_perplexity_b{rows}"])
            assert math.isclose(perplexity(rows, **settings), golden, rel_tol=1e-5)


@pytest.mark.parametrize("name", [CHARS, SAMPLED])
def test_dumped_weights_are_the_same_to_the_bit(name: str, tmp_path: Path) -> None:
    dump_weights(GOLDEN / name / "final", tmp_path / "weights.hdf5")
    actual = read_arrays(tmp_path / "weights.hdf5")
    expected = read_arrays(GOLDEN / name / "dumped_weights.hdf5")
    assert actual.keys() == expected.keys()
    for path, values in expected.items():
        assert actual[path].dtype == values.dtype
        np.testing.assert_array_equal(actual[path], values, path)


def test_dumped_weights_of_one_direction_have_our_names(tmp_path: Path) -> None:
    dump_weights(GOLDEN / WORDS / "final", tmp_path / "weights.hdf5")
    actual = read_arrays(tmp_path / "weights.hdf5")
    dumped = read_arrays(GOLDEN / WORDS / "dumped_weights.hdf5")
    expected = {"embedding": dumped.pop("embedding")}
    for path, values in dumped.items():
        _, multi, cell, lstm, name = path.split("/", 4)
        expected[f"RNN_0/RNN/{multi}/{cell}/{lstm}/{OUR_NAMES[name]}"] = values
    assert actual.keys() == expected.keys()
    for path, values in expected.items():
        np.testing.assert_array_equal(actual[path], values, path)
