"""The one table of names: against the golden files, and initial values."""

from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest
import small
import tensorflow as tf

from bilm.names import (
    ADAGRAD,
    VariableSpec,
    embedding_variable,
    model_variables,
    training_variables,
)
from bilm.network import Network, initial_value
from bilm.options import TrainingOptions, read_model_options, read_training_options

GOLDEN = Path(__file__).parent / "fixtures" / "golden"
TRAININGS = sorted(path.name for path in GOLDEN.glob("train_*"))
PREDICTIONS = sorted(path.name for path in GOLDEN.glob("predict_*"))
MODELS = [
    {"n_layers": n_layers, "bidirectional": bidirectional, **more}
    for n_layers in (1, 2, 3)
    for bidirectional in (True, False)
    for more in (
        {},
        {"dim": 5, "n_highway": 2},
        {"projection_dim": 9, "dim": 9, "n_highway": 0},
        {"characters": False},
        {"characters": False, "share_embedding_softmax": True},
    )
]


def n_words(model: TrainingOptions) -> int | None:
    return None if model.char_cnn else model.n_tokens_vocab


@pytest.mark.parametrize("flags", MODELS, ids=str)
def test_names_are_distinct_in_both_files(flags: dict) -> None:
    model = small.options(**flags)
    specs = training_variables(model)
    assert len({spec.name for spec in specs}) == len(specs)
    assert len({spec.hdf5 for spec in specs}) == len(specs)
    of_the_model = model_variables(model, n_words(model))
    assert specs[: len(of_the_model)] == of_the_model
    assert [spec.name[:10] for spec in specs[len(of_the_model) :]] == (
        ["lm/softmax"] * (1 if model.share_embedding_softmax else 2)
    )


@pytest.mark.parametrize("flags", MODELS, ids=str)
def test_round_trip_between_the_files(flags: dict) -> None:
    """Checkpoint to HDF5 and back; those without softmax and LSTM differ by `lm/`."""
    model = small.options(**flags)
    specs = model_variables(model, n_words(model))
    to_hdf5 = {spec.name: spec.hdf5 for spec in specs}
    to_checkpoint = {spec.hdf5: spec.name for spec in specs}
    assert [to_checkpoint[to_hdf5[spec.name]] for spec in specs] == list(to_hdf5)
    for direction in range(model.n_directions):
        for layer in range(model.lstm.n_layers):
            cell = oracle.cell_name(model, direction, layer)
            hdf5 = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            assert to_hdf5.pop(f"{cell}/kernel") == f"{hdf5}/W_0"
            assert to_hdf5.pop(f"{cell}/bias") == f"{hdf5}/B"
            if model.lstm.dim != model.lstm.projection_dim:
                assert to_hdf5.pop(f"{cell}/projection/kernel") == f"{hdf5}/W_P_0"
    for name, hdf5 in to_hdf5.items():
        assert name == f"lm/{hdf5}" and "RNN" not in name


@pytest.mark.parametrize("name", TRAININGS)
def test_golden_checkpoints_have_these_variables(name: str) -> None:
    for stage in ("init", "final"):
        folder = GOLDEN / name / stage
        specs = training_variables(read_training_options(folder / "options.json"))
        wanted = {spec.name: list(spec.shape) for spec in specs}
        if stage == "final":
            wanted |= {f"{spec.name}/{ADAGRAD}": list(spec.shape) for spec in specs}
            wanted["global_step"] = []
        (index,) = folder.glob("*.index")
        reader = tf.train.load_checkpoint(str(index.with_suffix("")))
        assert reader.get_variable_to_shape_map() == wanted


def datasets(path: Path) -> dict[str, tuple[int, ...]]:
    found = {}

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item.shape

    with h5py.File(path) as file:
        file.visititems(add)
    return found


@pytest.mark.parametrize("name", PREDICTIONS)
def test_golden_weights_have_these_arrays(name: str) -> None:
    model = read_model_options(GOLDEN / name / "options.json")
    specs = model_variables(model)
    wanted = {spec.hdf5: spec.shape for spec in specs}
    assert datasets(GOLDEN / name / "weights.hdf5") == wanted


@pytest.mark.parametrize("name", [each for each in TRAININGS if "chars" in each])
def test_golden_dumps_have_these_arrays(name: str) -> None:
    model = read_training_options(GOLDEN / name / "final" / "options.json")
    wanted = {spec.hdf5: spec.shape for spec in model_variables(model)}
    assert datasets(GOLDEN / name / "dumped_weights.hdf5") == wanted


def large_specs(activation: str) -> dict[str, VariableSpec]:
    """Variables with enough values for statistics, by name."""
    model = small.options(
        filters=((1, 50), (3, 60)),
        activation=activation,
        dim=60,
        projection_dim=40,
        n_tokens_vocab=300,
    )
    specs = [*training_variables(model), embedding_variable(300, 40)]
    return {spec.name: spec for spec in specs}


CELL = "lm/RNN_1/rnn/multi_rnn_cell/cell_1/lstm_cell"


# Limits of uniform and deviations of normal distributions: characters have size 3,
# F is 110, D 40; Glorot's limit is sqrt(6 / (rows + columns)).
@pytest.mark.parametrize(
    ("activation", "name", "limit"),
    [
        ("relu", "lm/char_embed", 1.0),
        ("relu", "lm/embedding", 1.0),
        ("relu", "lm/CNN/W_cnn_0", 0.05),
        ("relu", "lm/CNN/W_cnn_1", 0.05),
        ("relu", f"{CELL}/kernel", (6 / (80 + 240)) ** 0.5),
        ("relu", f"{CELL}/projection/kernel", (6 / (60 + 40)) ** 0.5),
    ],
)
def test_uniform_initial_values(activation: str, name: str, limit: float) -> None:
    values = initial_value(large_specs(activation)[name], seed=1, position=2)
    assert values.dtype == np.float32
    assert np.abs(values).max() <= np.float32(limit)
    for low in (-1.0, -0.5, 0.0, 0.5):  # each quarter has its share
        share = np.mean((values >= low * limit) & (values < (low + 0.5) * limit))
        assert abs(share - 0.25) < 5 * (0.25 * 0.75 / values.size) ** 0.5


@pytest.mark.parametrize(
    ("activation", "name", "variance"),
    [
        ("tanh", "lm/CNN/W_cnn_0", 1 / (1 * 3)),
        ("tanh", "lm/CNN/W_cnn_1", 1 / (3 * 3)),
        ("relu", "lm/CNN_high_0/W_carry", 1 / 110),
        ("relu", "lm/CNN_high_0/W_transform", 1 / 110),
        ("relu", "lm/CNN_proj/W_proj", 1 / 110),
        ("relu", "lm/softmax/W", 1 / 40),
    ],
)
def test_normal_initial_values(activation: str, name: str, variance: float) -> None:
    values = initial_value(large_specs(activation)[name], seed=1, position=2)
    assert values.dtype == np.float32
    scaled = values.ravel() / variance**0.5
    noise = 5 / scaled.size**0.5
    assert abs(scaled.mean()) < noise
    assert abs(np.mean(scaled**2) - 1) < 2**0.5 * noise
    for limit, share in ((1, 0.6827), (2, 0.9545)):
        found = np.mean(np.abs(scaled) < limit)
        assert abs(found - share) < (share * (1 - share)) ** 0.5 * noise


def test_constant_initial_values() -> None:
    for name, spec in large_specs("relu").items():
        if name.endswith("b_carry"):
            np.testing.assert_array_equal(initial_value(spec, 1, 2), -2)
        elif name.endswith(("/bias", "/b")) or "/b_" in name:
            np.testing.assert_array_equal(initial_value(spec, 1, 2), 0)


def test_initial_values_follow_from_the_seed() -> None:
    model = small.options()
    specs = training_variables(model)
    one, same, other = (Network(model, specs, seed=seed) for seed in (1, 1, 2))
    random = [s.name for s in specs if s.initial.kind != "constant"]
    drawn = set()
    for name in random:
        values = one.variables_by_name[name].numpy()
        np.testing.assert_array_equal(values, same.variables_by_name[name])
        assert not np.array_equal(values, other.variables_by_name[name])
        drawn.add(values.ravel()[0])
    assert len(drawn) == len(random)  # no two variables are drawn alike
