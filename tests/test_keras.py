"""`ElmoEmbedding`, called: its numbers, masks, mixes, states and types.

How it learns is in `test_keras_training.py`, how it is saved in `test_keras_saving.py`.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_cases import classifier, padded
from test_ways import CASES
from tiny import (
    OPTIONS,
    WORDS,
    Corpus,
    Model,
    assert_near,
    write_lines,
    write_model,
)

import bilm.keras
from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    ScalarMix,
    TokenBatcher,
    dump_token_embeddings,
)
from bilm.errors import InputError
from bilm.keras import ElmoEmbedding
from bilm.options import replace_options

LENGTH = 8
SENTENCES = [["1", "2", "3"], ["8"], ["4", "5"]]
IDS = Batcher(None, LENGTH).batch_sentences(SENTENCES)
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # from 1 to the next number
W, GAMMA = [0.3, -1.2, 0.5], [1.7]


def strings() -> tf.Tensor:
    return padded(SENTENCES)  # no tensor before the tests have split the CPU


def with_weights(layer: ElmoEmbedding) -> ElmoEmbedding:
    """The layer with a mix that is not the plain average."""
    for mix in layer.mixes.values():
        mix.logits.assign(W)
        mix.gamma.assign(GAMMA)
    return layer


def expected(model: Model, ids: np.ndarray, **settings: Any) -> np.ndarray:
    """What the model and a `ScalarMix` of the same weights give."""
    mix = ScalarMix(3, **settings)
    mix.gamma.assign(GAMMA)
    if mix.logits is not None:
        mix.logits.assign(W)
    return mix(BidirectionalLanguageModel(*model, stateful=False)(ids)).numpy()


@pytest.fixture(scope="module")
def elmo(char_model: Model) -> ElmoEmbedding:
    return with_weights(ElmoEmbedding(*char_model))


@pytest.fixture(scope="module")
def in_function(elmo: ElmoEmbedding) -> Any:
    return tf.function(lambda x: elmo(x), reduce_retracing=True)


@pytest.mark.parametrize("kind", ["int32", "int64", "strings"])
@pytest.mark.parametrize("name", CASES)
def test_odd_shapes(
    name: str, kind: str, elmo: ElmoEmbedding, in_function: Any, char_model: Model
) -> None:
    sentences = CASES[name]
    if kind == "strings":  # where '' behind the last other token is padding
        sentences = [tokens if any(tokens) else [] for tokens in sentences]
    ids = Batcher(None, LENGTH).batch_sentences(sentences)
    inputs = padded(sentences) if kind == "strings" else tf.constant(ids, kind)
    vectors = elmo(inputs)
    lengths = [len(tokens) for tokens in sentences]
    longest = max(lengths, default=0)
    assert vectors.shape == (len(sentences), longest, 16) and vectors.dtype == "float32"
    assert_near(vectors, expected(char_model, ids))
    assert_near(in_function(inputs), vectors)
    mask = np.arange(longest) < np.array(lengths, int).reshape(-1, 1)
    np.testing.assert_array_equal(vectors._keras_mask, mask)
    assert not vectors.numpy()[~mask].any()


@pytest.mark.parametrize(
    "settings",
    [{"use_top_only": True}, {"do_layer_norm": True}],
    ids=["top", "layer norm"],
)
def test_settings_are_those_of_weight_layers(
    settings: dict[str, Any], char_model: Model
) -> None:
    layer = ElmoEmbedding(*char_model, **settings)
    layer.mixes["elmo"].gamma.assign(GAMMA)
    if layer.mixes["elmo"].logits is not None:
        layer.mixes["elmo"].logits.assign(W)
    assert_near(layer(IDS), expected(char_model, IDS, **settings))


def test_untrained_it_is_the_plain_average(char_model: Model) -> None:
    layers = BidirectionalLanguageModel(*char_model, stateful=False)(IDS)
    average = layers["lm_embeddings"].numpy().mean(1)
    assert_near(ElmoEmbedding(*char_model)(IDS), average)


@pytest.mark.parametrize("kind", ["ids", "strings"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.layers.LSTM(3),
        lambda: keras.layers.Bidirectional(keras.layers.GRU(3)),
        lambda: keras.layers.GlobalAveragePooling1D(),
    ],
    ids=["LSTM", "Bidirectional", "pooling"],
)
def test_layers_behind_use_the_mask(make: Any, kind: str, elmo: ElmoEmbedding) -> None:
    """As functional models too, which know the mask from the graph alone."""
    behind = make()
    inputs = keras.Input((None,), dtype="string")
    if kind == "ids":
        inputs = keras.Input((None, LENGTH), dtype="int32")
    model = keras.Model(inputs, behind(elmo(inputs)))
    given = strings() if kind == "strings" else IDS
    together = model.predict(given, verbose=0)
    assert_near(behind(elmo(given)), together)
    for row, tokens in enumerate(SENTENCES):
        alone = elmo(padded([tokens]))
        assert_near(behind(alone)[0], together[row])


class Subclassed(keras.Model):
    """A model that calls its layers itself."""

    def __init__(self, elmo: ElmoEmbedding) -> None:
        super().__init__()
        self.elmo = elmo
        self.lstm = keras.layers.LSTM(4)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.lstm(self.elmo(inputs))


def test_a_subclassed_model(elmo: ElmoEmbedding) -> None:
    model = Subclassed(elmo)
    found = model.predict(strings(), verbose=0)
    assert_near(found, model.lstm(elmo(IDS)))
    assert_near(found[1], model(padded([["8"]]))[0])


def test_shapes_alone(elmo: ElmoEmbedding) -> None:
    """What Keras builds models by: inputs without values, perhaps without a type."""
    for dtype, shape, tokens in (
        ("string", (2, 5), 5),
        ("int32", (2, 5, LENGTH), 3),
        ("float32", (2, 5), 5),  # as Keras supposes where it knows no type
    ):
        inputs = keras.KerasTensor(shape, dtype)
        vectors = keras.ops.shape(elmo(inputs))
        assert vectors[0] == 2 and vectors[2] == 16
        assert vectors[1] == (None if dtype == "float32" else tokens)
        with tf.__internal__.FuncGraph("scratch_graph").as_default():
            inside = elmo(tf.compat.v1.placeholder(dtype, shape))
            assert inside.shape == (2, tokens, 16)
            assert inside._keras_mask.shape == (2, tokens)


def whiles(layer: ElmoEmbedding) -> int:
    """Loops of the LSTMs in the graph of a call."""
    spec = tf.TensorSpec([None, None], tf.string)
    graph = tf.function(lambda x: layer(x)).get_concrete_function(spec).graph
    functions = graph.as_graph_def().library.function
    return sum("While" in node.op for f in functions for node in f.node_def)


def test_several_mixes_run_the_model_once(char_model: Model) -> None:
    both = ElmoEmbedding(*char_model, mix=("input", "output"))
    both.mixes["output"].gamma.assign([3.0])
    vectors = both(strings())
    assert list(vectors) == ["input", "output"]
    assert_near(vectors["output"], 3 * vectors["input"].numpy())
    for each in vectors.values():
        assert each._keras_mask.numpy().sum(1).tolist() == [3, 1, 2]
    single = ElmoEmbedding(*char_model, mix=["input"])
    assert_near(single(IDS)["input"], vectors["input"])  # a list of one is a list
    assert whiles(both) == whiles(single) == 4  # of two layers in two directions
    names = {w.name for w in both.trainable_weights}
    assert names == {
        f"{name}_ELMo_{w}" for name in ("input", "output") for w in ("W", "gamma")
    }


@pytest.mark.parametrize("by_file", [False, True], ids=["in weights", "in a file"])
def test_models_of_words(by_file: bool, corpus: Corpus, tmp_path: Path) -> None:
    """Their embedding is in the weights, or was dumped from a model of characters."""
    options = OPTIONS if by_file else replace_options(OPTIONS, char_cnn=None)
    files = write_model(tmp_path, options, None if by_file else len(WORDS))
    words = None
    if by_file:
        words = tmp_path / "words.hdf5"
        dump_token_embeddings(corpus.vocab, *files, words)
    layer = ElmoEmbedding(*files, vocab_file=corpus.vocab, embedding_weight_file=words)
    ids = TokenBatcher(corpus.vocab).batch_sentences([["1", "x"], ["2"], []])
    vectors = layer(tf.constant(ids, tf.int64))
    model = BidirectionalLanguageModel(*files, False, words, stateful=False)
    assert_near(vectors, model(ids)["lm_embeddings"].numpy().mean(1))
    tokens = padded([["1", "x"], ["2"], []])
    assert_near(layer(tokens), vectors)
    inputs = keras.Input((None,), dtype="int32")
    assert_near(keras.Model(inputs, layer(inputs)).predict(ids, verbose=0), vectors)
    for each in (layer(tokens), vectors):
        assert each._keras_mask.numpy().tolist() == [
            [True] * 2,
            [True, False],
            [False] * 2,
        ]
    without = ElmoEmbedding(*files, embedding_weight_file=words)
    assert_near(without(ids), vectors)
    with pytest.raises(InputError, match="strings need the vocabulary .* vocab_file"):
        without(tokens)
    other = write_lines(tmp_path / "other.txt", [[word] for word in WORDS[:-1]])
    with pytest.raises(InputError, match="vectors of 13 words, .* vocabulary has 12"):
        ElmoEmbedding(*files, vocab_file=other, embedding_weight_file=words)


def test_models_of_one_direction(tmp_path: Path) -> None:
    files = write_model(tmp_path, replace_options(OPTIONS, bidirectional=False))
    inputs = keras.Input((None,), dtype="string")
    layer = ElmoEmbedding(*files)
    assert layer(inputs).shape == (None, None, 8)
    model = BidirectionalLanguageModel(*files, stateful=False)
    assert_near(layer(strings()), model(IDS)["lm_embeddings"].numpy().mean(1))


def test_states_are_those_of_a_stateful_model(char_model: Model) -> None:
    layer = ElmoEmbedding(*char_model, stateful=True, max_batch_size=3)
    model = BidirectionalLanguageModel(*char_model, max_batch_size=3)
    inputs = keras.Input((None,), dtype="string")
    predictor = keras.Model(inputs, layer(inputs))
    for rows in (3, 2, 3):  # the third one keeps its state
        wanted = model(IDS[:rows])["lm_embeddings"].numpy().mean(1)
        assert_near(layer(IDS[:rows]), wanted)
    wanted = [model(IDS[i : i + 1])["lm_embeddings"].numpy().mean(1) for i in range(3)]
    found = predictor.predict(
        strings(), batch_size=1, verbose=0
    )  # row 0, batch by batch
    assert_near(found, np.concatenate(wanted))
    layer.reset_states()
    assert_near(layer(IDS), ElmoEmbedding(*char_model)(IDS).numpy())
    with pytest.raises(InputError, match="at most max_batch_size = 3 .* but got 4"):
        layer(padded([["1"]] * 4))
    with pytest.raises(tf.errors.InvalidArgumentError, match="takes max_batch_size"):
        predictor.predict(padded([["1"]] * 4), verbose=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision(dtype: str, char_model: Model, elmo: ElmoEmbedding) -> None:
    """Of the right type, and as near as that type's rounding allows.

    A product rounds both of its factors and its result, and the vectors are rounded at
    the end. What one rounding of all weights does is measured, in float32.
    """
    policy = f"mixed_{dtype}"
    mixed = with_weights(ElmoEmbedding(*char_model, trainable=True, dtype=policy))
    vectors = mixed(IDS)
    assert vectors.dtype == dtype
    assert vectors._keras_mask.numpy().sum() == 6
    assert {w.dtype for w in mixed.weights} == {"float32"}
    exact = elmo(IDS).numpy()
    rounded = with_weights(ElmoEmbedding(*char_model))
    for weight in rounded.bilm.weights:
        weight.assign(tf.cast(tf.cast(weight.value, dtype), "float32"))
    by_weights = np.abs(rounded(IDS) - exact).max()
    last = EPSILON[dtype] / 2 * np.abs(exact).max()
    error = np.abs(tf.cast(vectors, "float32") - exact).max()
    assert last / 10 < error < 3 * by_weights + last
    model = classifier(mixed)
    model.compile(keras.optimizers.SGD(1e-3), "mse")
    before = mixed.get_weights()
    history = model.fit(strings(), np.zeros((3, 2)), epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    for one, other in zip(before, mixed.get_weights(), strict=True):
        assert np.isfinite(other).all() and (one != other).any()


def test_other_policies(char_model: Model, elmo: ElmoEmbedding) -> None:
    """Weights and sums are float32 in all of them; the global one is the default."""
    exact = elmo(IDS).numpy()
    double = with_weights(ElmoEmbedding(*char_model, dtype="float64"))(IDS)
    assert double.dtype == "float64"
    assert_near(double, exact)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        layer = ElmoEmbedding(*char_model)
    finally:
        keras.config.set_dtype_policy(before)
    assert layer(IDS).dtype == "bfloat16"
    pure = ElmoEmbedding(*char_model, dtype="float16")
    assert pure(IDS).dtype == "float16"
    assert {w.dtype for w in pure.weights} == {"float32"}


def test_dropout_is_for_training_alone(char_model: Model) -> None:
    keras.utils.set_random_seed(1)
    layer = ElmoEmbedding(*char_model, mix=("a", "b"), dropout=0.25)
    ids = np.repeat(IDS, 50, 0)
    exact = layer(ids)["a"].numpy()
    there = exact != 0
    for training in (None, False):
        np.testing.assert_array_equal(layer(ids, training=training)["b"], exact)
    found = {name: v.numpy() for name, v in layer(ids, training=True).items()}
    for values in found.values():
        kept = values != 0
        assert_near(values[kept], exact[kept] / 0.75)
        assert 0.73 < kept.sum() / there.sum() < 0.77  # of 4,800: 3 deviations
    assert (found["a"] != found["b"]).any()


def test_l2_term_is_a_loss_of_the_layer(char_model: Model) -> None:
    layer = with_weights(ElmoEmbedding(*char_model, mix=("a", "b"), l2_coef=0.1))
    assert_near(sum(layer.losses), 2 * 0.1 * np.square(W).sum())
    assert not ElmoEmbedding(*char_model).losses
    assert not ElmoEmbedding(*char_model, l2_coef=1.0, use_top_only=True).losses


BAD = {
    "no name": ({"mix": ()}, "mix must be a name, or several different ones"),
    "a name twice": ({"mix": ["a", "a"]}, r"not \['a', 'a'\]"),
    "a path": ({"mix": "a/b"}, "without '/', as weights are called by them"),
    "a number": ({"mix": 5}, "not 5"),
    "all dropped": ({"dropout": 1.0}, "dropout must be a number from 0 to below 1"),
    "dropout below 0": ({"dropout": -0.1}, "not -0.1"),
    "trainable": ({"trainable": 1}, "trainable must be True or False, not 1"),
    "stateful": ({"stateful": "no"}, "stateful must be True or False, not 'no'"),
    "no rows": ({"max_batch_size": 0}, "max_batch_size must be a whole number from 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_arguments_are_checked(name: str, char_model: Model) -> None:
    settings, message = BAD[name]
    with pytest.raises(InputError, match=message):
        ElmoEmbedding(*char_model, **settings)


def test_files_are_checked(
    char_model: Model, word_model: Model, tmp_path: Path
) -> None:
    options_file, weight_file = char_model
    with pytest.raises(FileNotFoundError, match="none.json"):
        ElmoEmbedding(tmp_path / "none.json", weight_file)
    with pytest.raises(FileNotFoundError, match="none.hdf5"):
        ElmoEmbedding(options_file, tmp_path / "none.hdf5")
    with pytest.raises(FileNotFoundError, match="none.txt"):
        ElmoEmbedding(*word_model, vocab_file=tmp_path / "none.txt")
    with pytest.raises(InputError, match="does not fit its options"):
        ElmoEmbedding(options_file, word_model.weight_file)


INPUTS = {
    "values": (np.zeros((2, 3), np.float32), "strings or whole numbers, not float32"),
    "without characters": (IDS[:, :, 0], r"shape \[None, None, 8\]"),
    "of another width": (IDS[:, :, :7], r"are int32 of shape \[3, 5, 7\]"),
    "sentences": (np.array(["a b"]), r"split_sentences splits"),
    "ragged": (lambda: tf.ragged.constant([["a"], []]), "no ragged tensors: pad"),
    "too large": (np.full((1, 3, 8), 262), "at least 0 and below 262"),
    "nothing": (None, "takes one tensor, of ids or of strings .* not None"),
    "lists": ([["a"], ["b"]], r"tf.constant makes it of lists\), not \[\['a'\], \['b"),
    "list of a tensor": (lambda: [tf.constant([["a"]])], "takes one tensor.* not "),
    "gap": (IDS[:, ::-1], "sentence 1 of the ids has padding"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_are_checked(name: str, elmo: ElmoEmbedding) -> None:
    inputs, message = INPUTS[name]
    inputs = inputs() if callable(inputs) else inputs
    with pytest.raises(InputError, match=message):
        elmo(inputs)


SYMBOLS = {
    "of another width": (((None, 9), "int32"), r"int32 of shape \[None, None, 9\]"),
    "without </S>": (((1, 8), "int32"), r"2 tokens at least.* \[None, 1, 8\]"),
    "of sentences": (((), "string"), "split_sentences splits sentences"),
}


@pytest.mark.parametrize("name", SYMBOLS)
def test_inputs_of_functional_models_are_checked(
    name: str, elmo: ElmoEmbedding
) -> None:
    (shape, dtype), message = SYMBOLS[name]
    with pytest.raises(InputError, match=message):
        elmo(keras.Input(shape, dtype=dtype))


def test_inputs_without_a_type_are_refused_where_they_have_values(
    elmo: ElmoEmbedding,
) -> None:
    """Keras takes them for float32, also where it builds a model by shapes alone."""
    inputs = keras.Input((None, LENGTH))
    model = keras.Model(inputs, elmo(inputs))
    assert model.output_shape == (None, None, 16)
    with pytest.raises(InputError, match=r"keras.Input\(\(None, 8\), dtype='int32'"):
        model.predict(IDS, verbose=0)


def test_a_graph_has_no_layers(char_model: Model) -> None:
    with tf.Graph().as_default():
        with pytest.raises(InputError, match="take BidirectionalLanguageModel and we"):
            ElmoEmbedding(*char_model)


def test_keras_itself_stays_what_it_is() -> None:
    assert bilm.keras.keras is keras and keras.__name__ == "keras"
    assert bilm.keras.__name__ == "bilm.keras"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("config.backend", lambda: "jax", "not on jax: set KERAS_BACKEND=tensorflow"),
        ("__version__", "3.0.5", "Keras 3.3 or later, not 3.0.5: pip install --upgra"),
        ("__version__", "2.15.0", "not 2.15.0"),
    ],
)
def test_another_keras_is_refused(
    name: str, value: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"keras.{name}", value)
    monkeypatch.delitem(sys.modules, "bilm.keras_layers")
    with pytest.raises(ImportError, match=message):
        importlib.import_module("bilm.keras_layers")
