"""Steps of several batches, and steps whose loss or gradient is not finite."""

from typing import Any

import numpy as np
import pytest
import small
import tensorflow as tf

from bilm.characters import BOS, EOS, UNK
from bilm.data import BidirectionalLMDataset, Vocabulary
from bilm.inputs import StepInputs, training_inputs
from bilm.names import N_CHARACTERS
from bilm.options import TrainingOptions
from bilm.trainer import Trainer
from bilm.training import training_schedule

N_WORDS = N_CHARACTERS + 9  # above it the gradients of word vectors are sparse


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> BidirectionalLMDataset:
    folder, draw = tmp_path_factory.mktemp("text"), np.random.default_rng(0)
    words = [BOS, EOS, UNK, *(f"{n:x}" for n in range(N_WORDS - 3))]
    (folder / "vocab.txt").write_text("\n".join(words))
    lines = [" ".join(draw.choice(words[3:], draw.integers(1, 8))) for _ in range(60)]
    (folder / "text.txt").write_text("\n".join(lines))
    return BidirectionalLMDataset(
        folder / "text.txt", Vocabulary(folder / "vocab.txt"), seed=1
    )


def options(**training: Any) -> TrainingOptions:
    return small.options(
        characters=False,
        n_layers=1,
        n_tokens_vocab=N_WORDS,
        all_clip_norm_val=0.5,
        **{"cell_clip": 3, "proj_clip": 3} | training,
    )


def first_inputs(
    model: TrainingOptions, text: BidirectionalLMDataset, n_steps: int
) -> list[list[StepInputs]]:
    vocab = text.vocab
    data = BidirectionalLMDataset(text.files, vocab, seed=1)
    inputs = training_inputs(model, data, 1, [0])
    return [next(inputs).inputs for _ in range(n_steps)]


def values_of(trainer: Trainer) -> list[np.ndarray]:
    return [
        v.numpy() for v in (*trainer.network.learnt, *trainer.update.slots.values())
    ]


def test_accumulated_batches_are_one_with_as_many_times_the_rows(
    text: BidirectionalLMDataset,
) -> None:
    together = options(batch_size=6)
    apart = options(batch_size=2, accumulate=3)
    found = []
    for model in (apart, together):
        trainer = Trainer(model)
        states, results = trainer.zero_states(), []
        for inputs in first_inputs(model, text, 10):
            states, result = trainer.step(inputs, states, learning_rate=0.3)
            results.append((float(result.loss), float(result.norm)))
        rows = [
            np.concatenate(s) for s in zip(*map(tf.nest.flatten, states), strict=True)
        ]
        found.append((results, values_of(trainer), rows))
    (results, values, rows), (expected, expected_values, expected_rows) = found
    small.assert_close(results, expected)
    assert trainer.global_step == 10 and min(norm for _, norm in expected) > 0.5
    for pair in zip(values + rows, expected_values + expected_rows, strict=True):
        small.assert_close(*pair)


def test_a_step_of_several_batches_counts_them_in_the_length_of_a_run() -> None:
    model = options(batch_size=2, accumulate=3, n_train_tokens=100, n_epochs=2)
    schedule = training_schedule(model, 2)  # 2 rows of 3 steps, 3 times, 2 devices
    assert schedule == (4, 2, 36)


def with_nan(pieces: list[StepInputs], place: int) -> list[StepInputs]:
    """Labels that no draw expects: the loss of one piece is not a number."""
    bad = pieces[place].label_log_expected.copy()
    bad[0, 1, 1] = np.nan
    changed = list(pieces)
    changed[place] = pieces[place]._replace(label_log_expected=bad)
    return changed


@pytest.mark.parametrize(
    ("accumulate", "place", "precision"),
    [(1, 0, None), (2, 0, None), (1, 0, "float16")],
)
def test_a_step_that_is_not_finite_changes_nothing(
    accumulate: int, place: int, precision: str | None, text: BidirectionalLMDataset
) -> None:
    model = options(
        accumulate=accumulate, sample_softmax=True, n_negative_samples_batch=20
    )
    first, second = first_inputs(model, text, 2)
    runs = []
    for batches in ([first, second], [first, with_nan(second, place), second]):
        trainer = Trainer(model, mixed_precision=precision)
        states, finite = trainer.zero_states(), []
        for inputs in batches:
            states, result = trainer.step(inputs, states)
            finite.append(bool(result.finite))
        assert trainer.global_step == len(batches)
        runs.append((finite, values_of(trainer) + tf.nest.flatten(states)))
    assert runs[0][0] == [True, True] and runs[1][0] == [True, False, True]
    for expected, found in zip(runs[0][1], runs[1][1], strict=True):
        if precision is None:
            np.testing.assert_array_equal(found, expected)
        else:  # the factor of the loss was halved in between
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_the_rate_of_a_step_is_that_of_the_options_unless_told(
    text: BidirectionalLMDataset,
) -> None:
    model = options(learning_rate=0.25)
    (inputs,) = first_inputs(model, text, 1)
    moves = []
    for rate in (None, 0.125):
        trainer = Trainer(model)
        before = values_of(trainer)[1]
        trainer.step(inputs, trainer.zero_states(), rate)
        moves.append(values_of(trainer)[1] - before)
    np.testing.assert_allclose(moves[1], moves[0] / 2, rtol=1e-3, atol=1e-7)
