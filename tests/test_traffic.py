"""What is sent in a step, and how fast more machines would be."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from random_text import open_text, options, write_text

from bilm.inputs import training_inputs
from bilm.names import training_variables
from bilm.options import replace_options
from bilm.presets import preset
from bilm.scaling import scaling
from bilm.traffic import GradientSize, Traffic, gradient_sizes
from bilm.trainer import Trainer


def test_rings_by_hand() -> None:
    """100 words of 10 values, of which a step looks up 12."""
    size = GradientSize("W", 1000, 12, 10)
    assert size.dense_bytes(2) == 2 * 1 / 2 * 4000
    assert size.dense_bytes(4) == 2 * 3 / 4 * 4000
    assert size.sparse_bytes(2) == 12 * 44 and size.sparse_bytes(4) == 3 * 12 * 44
    assert size.is_sent_sparse(15) and not size.is_sent_sparse(16)
    bias = GradientSize("b", 50, None, 1)
    assert not bias.is_sent_sparse(2)
    assert Traffic.of([size, bias], 2) == (200, 528)
    assert Traffic.of([size, bias], 16) == (2 * 15 / 16 * 4200, 0)


@pytest.mark.parametrize(
    "training",
    [
        {"characters": False},
        {"characters": True, "sample_softmax": True, "n_negative_samples_batch": 20},
        {"characters": False, "sample_softmax": True, "n_negative_samples_batch": 20},
        {
            "characters": False,
            "sample_softmax": True,
            "n_negative_samples_batch": 20,
            "share_embedding_softmax": True,
        },
        {"characters": False, "share_embedding_softmax": True},
        {"characters": False, "accumulate": 2},
    ],
)
def test_rows_are_those_of_a_step(
    training: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sparse where the step's gradients are, and as many rows as they have."""
    model = options(n_layers=1, **training)
    found: list[tf.Tensor | None] = []
    original = Trainer._gradients

    def gradients(trainer: Trainer, *args: object) -> object:
        batch, gradients = original(trainer, *args)
        assert not found
        for each in gradients:
            sparse = isinstance(each, tf.IndexedSlices)
            found.append(tf.size(each.indices) if sparse else None)
        return batch, gradients

    monkeypatch.setattr(Trainer, "_gradients", gradients)
    trainer = Trainer(model)
    data = open_text(write_text(tmp_path), model)
    inputs = next(training_inputs(model, data, 1, [0])).inputs[0]
    inputs = type(inputs)(*map(tf.constant, inputs))

    @tf.function(autograph=False)
    def rows() -> list[tf.Tensor]:
        trainer._gradients(inputs, trainer.zero_states()[0], tf.constant([0, 0]))
        return [tf.constant(-1) if each is None else each for each in found]

    expected = [-1 if size.rows is None else size.rows for size in trainer.update.sizes]
    if model.accumulate > 1:
        assert set(expected) == {-1}
    else:
        assert [int(each) for each in rows()] == expected


@pytest.mark.parametrize(
    ("n_words", "dense", "devices"), [(793_471, 1550, 73), (50_000, 98, 4)]
)
def test_the_numbers_of_the_original_size(
    n_words: int, dense: int, devices: int
) -> None:
    """Those of the README, in MiB and devices."""
    model = replace_options(preset("original"), n_tokens_vocab=n_words)
    sizes = gradient_sizes(training_variables(model), model)
    (softmax,) = (size for size in sizes if size.name == "lm/softmax/W")
    assert softmax.rows == 2 * (20 * 128 + 8192)
    assert round(softmax.sparse_bytes(2) / 2**20) == 42
    assert round(softmax.dense_bytes(2) / 2**20) == dense
    assert softmax.is_sent_sparse(devices) and not softmax.is_sent_sparse(devices + 1)
    assert round(Traffic.of(sizes, 2).dense / 2**20) == 357


def test_more_machines_are_reckoned_from_what_was_measured() -> None:
    sizes = [GradientSize("W", 10**9, None, 1)]  # 4 GB: 32 Gbit of dense gradients
    lines = {line.workers: line for line in scaling(1000, {1: 2.0}, 1, sizes, 16.0)}
    assert sorted(lines) == [1, 2, 8, 64]
    one, two = lines[1], lines[2]
    assert one[:3] == (1, 500.0, 1.0) and one.measured and not two.measured
    np.testing.assert_allclose(two[1:3], (2 * 1000 / 4.0, 0.5))
    np.testing.assert_allclose(lines[64].efficiency, 2 / (2 + 2 * 2 * 63 / 64))
    lines = {line.workers: line for line in scaling(1000, {2: 4.0}, 1, sizes, 16.0)}
    np.testing.assert_allclose(lines[1].tokens_per_second, 500)  # without sending
    assert lines[2].measured and not lines[1].measured
