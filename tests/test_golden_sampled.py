"""Single training steps against bilm-tf: the sampled softmax, and the states between.

tests/fixtures/golden/README.md says how the numbers were made. The sampled candidates
are the same in all steps, and their expected counts those of draws that may repeat.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import small
import tensorflow as tf

from bilm.checkpoint import checkpoint_values
from bilm.data import BidirectionalLMDataset, LMDataset
from bilm.inputs import StepInputs, step_inputs
from bilm.names import ADAGRAD
from bilm.options import read_training_options
from bilm.trainer import Trainer
from bilm.training import load_vocab

GOLDEN = Path(__file__).parent / "fixtures" / "golden"
FORWARD, BACKWARD = "sampled_ids/0", "sampled_ids/1"


class Trained(NamedTuple):
    """A golden training, made again step by step."""

    trainer: Trainer
    losses: list[float]
    norms: list[float]
    state: Any  # after the last step
    expected: dict[str, np.ndarray]


def log_counts(ids: np.ndarray, n_samples: int, n_words: int) -> np.ndarray:
    """Log of n * ln((i + 2) / (i + 1)) / ln(V + 1)."""
    ids = ids.astype(np.float64)
    counts = n_samples * np.log((ids + 2) / (ids + 1)) / np.log(n_words + 1)
    return np.log(counts).astype(np.float32)


def with_candidates(inputs: StepInputs, ids: list[np.ndarray], v: int) -> StepInputs:
    """Inputs of a step with these candidates, one array for each direction."""
    sampled = np.sort(np.stack(ids)).astype(np.int32)
    n_samples = sampled.shape[1]
    return inputs._replace(
        sampled=sampled,
        sampled_log_expected=log_counts(sampled, n_samples, v),
        label_log_expected=log_counts(inputs.labels, n_samples, v),
    )


def train(name: str) -> Trained:
    folder = GOLDEN / name
    options = read_training_options(folder / "init" / "options.json")
    expected = dict(np.load(folder / "expected.npz"))
    values = checkpoint_values(options, str(folder / "init" / "model.ckpt-1"))
    trainer = Trainer(options, values=values)
    kind = BidirectionalLMDataset if options.bidirectional else LMDataset
    size = options.char_cnn and options.char_cnn.max_characters_per_token
    data = kind(GOLDEN / "text.txt", load_vocab(GOLDEN / "vocab.txt", size))
    batches = data.iter_batches(options.batch_size, options.unroll_steps)
    states, losses, norms = trainer.zero_states(), [], []
    for _ in expected["loss"]:
        inputs = step_inputs(next(batches), options.char_cnn is not None)
        if FORWARD in expected:
            ids = [expected[FORWARD], expected[BACKWARD]]
            inputs = with_candidates(inputs, ids, options.n_tokens_vocab)
        states, result = trainer.step([inputs], states)
        losses.append(float(result.loss))
        norms.append(float(result.norm))
    return Trained(trainer, losses, norms, states[0], expected)


@pytest.fixture(
    scope="module",
    params=[
        "train_sampled_softmax_chars",
        "train_full_softmax_chars",
        "train_words_forward_only",
    ],
)
def trained(request: Any) -> Trained:
    return train(request.param)


def test_loss_of_each_step(trained: Trained) -> None:
    assert len(trained.losses) >= 20
    np.testing.assert_allclose(trained.losses, trained.expected["loss"], rtol=1e-5)


def test_gradient_norm_of_each_step(trained: Trained) -> None:
    np.testing.assert_allclose(trained.norms, trained.expected["grad_norm"], rtol=1e-5)


def test_state_after_the_last_step(trained: Trained) -> None:
    """Forward then backward, layers in order, c then m."""
    found = tf.nest.flatten(trained.state)
    assert f"final_state/{len(found)}" not in trained.expected
    for position, part in enumerate(found):
        small.assert_close(part, trained.expected[f"final_state/{position}"])


def test_variables_and_slots_after_the_last_step(trained: Trained) -> None:
    trainer = trained.trainer
    wanted = {
        name.removeprefix("var/"): values
        for name, values in trained.expected.items()
        if name.startswith("var/")
    }
    assert trainer.global_step == wanted.pop("global_step")
    found = dict(trainer.network.variables_by_name)
    for spec, slot in zip(
        trainer.network.specs, trainer.update.slots.values(), strict=True
    ):
        found[f"{spec.name}/{ADAGRAD}"] = slot
    assert set(found) == set(wanted)
    for name, values in wanted.items():
        small.assert_close(found[name], values)
