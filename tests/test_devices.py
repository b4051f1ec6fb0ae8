"""Several devices: replicas with rows and states of their own, one common update.

Without GPUs these are the two logical CPU devices that conftest.py asks for.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import small
import tensorflow as tf
from random_text import LIMIT, N_WORDS, Text, open_text, options, write_text
from tiny import SMALL_LSTM

from bilm.checkpoint import Checkpoint
from bilm.commands.runs import n_devices
from bilm.devices import visible_devices
from bilm.errors import InputError
from bilm.evaluation import Evaluator, evaluate
from bilm.inputs import training_inputs
from bilm.options import TrainingOptions, replace_options
from bilm.trainer import StepResult, Trainer
from bilm.training import train

N_STEPS = 20

pytestmark = [
    pytest.mark.slow,  # to trace a step of several replicas takes seconds
    pytest.mark.skipif(
        len(tf.config.list_physical_devices("GPU")) == 1,
        reason="two devices are two GPUs, or without any GPU two parts of the CPU",
    ),
]


class Steps(NamedTuple):
    """What some training steps left."""

    trainer: Trainer
    results: list[StepResult]
    states: Any  # [replicas] of [K][N]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return write_text(tmp_path_factory.mktemp("text"))


def make_steps(text: Text, model: TrainingOptions, n_replicas: int) -> Steps:
    """`N_STEPS` steps from the values of seed 0, on the same rows in the same order."""
    trainer = Trainer(model, n_replicas=n_replicas)
    inputs = training_inputs(model, open_text(text, model), n_replicas, [0])
    states, results = trainer.zero_states(), []
    for _ in range(N_STEPS):
        states, result = trainer.step(next(inputs).inputs, states)
        results.append(result)
    return Steps(trainer, results, states)


@pytest.fixture(scope="module", params=[True, False], ids=["characters", "words"])
def two_and_one(request: Any, text: Text) -> tuple[Steps, Steps]:
    """Two replicas of two rows, and one of four."""
    model = options(characters=request.param)
    doubled = replace_options(model, batch_size=2 * model.batch_size)
    return make_steps(text, model, 2), make_steps(text, doubled, 1)


def test_two_replicas_are_one_with_twice_the_rows(
    two_and_one: tuple[Steps, Steps],
) -> None:
    two, one = two_and_one
    for name in ("loss", "norm", "norms"):
        found = [getattr(result, name).numpy() for result in two.results]
        expected = [getattr(result, name).numpy() for result in one.results]
        small.assert_close(found, expected)
    assert min(float(result.norm) for result in one.results) > LIMIT
    values = zip(two.trainer.network.learnt, one.trainer.network.learnt, strict=True)
    slots = zip(
        two.trainer.update.slots.values(), one.trainer.update.adagrad.slots, strict=True
    )
    for found, expected in (*values, *slots):
        small.assert_close(found.numpy(), expected.numpy())


def test_each_replica_has_the_state_of_its_rows(
    two_and_one: tuple[Steps, Steps],
) -> None:
    two, one = two_and_one
    first, second = map(tf.nest.flatten, two.states)
    (both,) = map(tf.nest.flatten, one.states)
    for upper, lower, expected in zip(first, second, both, strict=True):
        small.assert_close(np.concatenate([upper, lower]), expected)


def test_devices_hold_the_same_values(two_and_one: tuple[Steps, Steps]) -> None:
    trainer = two_and_one[0].trainer
    for variable in (*trainer.network.learnt, *trainer.update.slots.values()):
        first, second = variable.values
        assert first.device != second.device
        np.testing.assert_array_equal(first, second)


def test_rows_are_dealt_out_in_order_and_samples_are_each_replica_s_own(
    text: Text,
) -> None:
    model = options(False, sample_softmax=True, n_negative_samples_batch=20)
    doubled = replace_options(model, batch_size=2 * model.batch_size)
    first, second = next(training_inputs(model, open_text(text, model), 2, [0])).inputs
    (both,) = next(training_inputs(doubled, open_text(text, model), 1, [0])).inputs
    joined = np.concatenate([first.labels, second.labels], axis=2)
    np.testing.assert_array_equal(joined, both.labels)
    words = [each.tokens[each.places] for each in (first, second)]
    np.testing.assert_array_equal(np.concatenate(words, 2), both.tokens[both.places])
    assert (first.sampled != second.sampled).any()


@pytest.mark.parametrize("characters", [True, False])
def test_two_replicas_learn_with_samples_and_dropout(
    characters: bool, text: Text
) -> None:
    model = options(
        characters,
        n_layers=1,
        dropout=0.2,
        sample_softmax=True,
        n_negative_samples_batch=50,
    )
    steps = make_steps(text, model, 2)
    losses = [float(result.loss) for result in steps.results]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    for variable in steps.trainer.network.learnt:
        np.testing.assert_array_equal(*variable.values)


def test_a_checkpoint_of_two_replicas_evaluates_as_that_of_one(
    text: Text, tmp_path: Path
) -> None:
    perplexities = []
    for n_replicas, rows in ((2, 3), (1, 6)):
        model = replace_options(
            options(False, batch_size=rows, n_train_tokens=6 * 3 * 4), lstm=SMALL_LSTM
        )
        folder = tmp_path / str(n_replicas)
        data = open_text(text, model)
        prefix = train(model, data, n_replicas, folder, folder, seed=0)
        assert prefix.endswith("model.ckpt-4")
        heldout = open_text(text, model, test=True, shuffle_on_load=False)
        perplexities.append(evaluate(model, prefix, heldout, 2).perplexity)
    assert 1 < perplexities[1] < 2 * N_WORDS
    np.testing.assert_allclose(*perplexities, rtol=1e-5)
    slot = Checkpoint(prefix).read_optional(["lm/softmax/W/Adagrad"])
    assert slot["lm/softmax/W/Adagrad"].max() > 1


def test_held_out_text_is_evaluated_by_the_variables_of_two_replicas(
    text: Text, tmp_path: Path
) -> None:
    model = options(False, n_layers=1)
    heldout = open_text(text, model, test=True, shuffle_on_load=False)
    trainer = Trainer(model, n_replicas=2)
    found = Evaluator(trainer.network, model, heldout, 5).run()
    expected = evaluate(model, trainer.save(str(tmp_path), 1.0, 1), heldout, 5)
    np.testing.assert_allclose(found[:3], expected[:3], rtol=1e-6)


def test_more_devices_than_there_are_name_both_numbers(
    text: Text, tmp_path: Path
) -> None:
    there = len(tf.config.list_logical_devices("GPU")) or 2
    message = rf"n_gpus is {there + 1}, but {there} \w+ devices"
    model = replace_options(options(False), n_train_tokens=1000)
    with pytest.raises(InputError, match=message):
        Trainer(model, n_replicas=there + 1)
    with pytest.raises(InputError, match=message):
        data = open_text(text, model)
        train(model, data, there + 1, tmp_path / "run", tmp_path / "logs")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("n_gpus", "wanted"), [(0, 1), (1, 1), (8, 8)])
def test_all_visible_gpus_are_the_default(
    n_gpus: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def devices(kind: str) -> list[str]:
        return ["a device"] * n_gpus if kind == "GPU" else ["the CPU"]

    monkeypatch.setattr(tf.config, "list_physical_devices", devices)
    assert visible_devices() == wanted
    assert n_devices(argparse.Namespace(n_gpus=None)) == wanted
    assert n_devices(argparse.Namespace(n_gpus=2)) == 2
