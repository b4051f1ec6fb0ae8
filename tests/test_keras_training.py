"""`ElmoEmbedding` in training: the mixes alone, or the biLM with them.

The gradient of the biLM is compared with that of the training network, which computes
the same loss by other loops: `bilm.unrolled_lstm`, with its gradient by hand.
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_cases import SMALL, classifier, padded
from tiny import (
    OPTIONS,
    WORDS,
    Corpus,
    Model,
    assert_near,
    random_values,
    with_lstm,
    write_arrays,
    write_model,
)

from bilm import Batcher
from bilm.characters import encode_words
from bilm.inputs import StepInputs, step_inputs
from bilm.keras import ElmoEmbedding
from bilm.language_model import token_losses, training_loss
from bilm.names import model_variables, training_variables
from bilm.network import Network, no_dropout
from bilm.options import (
    TrainingOptions,
    prediction_dict,
    replace_options,
    write_options,
)
from bilm.softmax import full_softmax_loss
from bilm.workers import Workers

SENTENCES = [["1", "2", "3"], ["8"], ["4", "5"]]
LABELS = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], np.float32)
# As long as one another, for training has no padding.
EQUAL = [["1", "2", "2", "9"], ["7", "0", "7", "1"], ["3", "3", "3", "3"]]


def values_of(layer: keras.layers.Layer) -> dict[str, np.ndarray]:
    return {weight.path: weight.numpy().copy() for weight in layer.weights}


def changed(before: dict[str, np.ndarray], layer: keras.layers.Layer) -> set[str]:
    """Paths of the weights that have other values now."""
    after = values_of(layer)
    return {path for path in before if (before[path] != after[path]).any()}


def fit(model: keras.Model, **settings: Any) -> list[float]:
    """Train on three sentences, as strings out of a data set; the losses."""
    data = tf.data.Dataset.from_tensor_slices((padded(SENTENCES), LABELS)).batch(3)
    model.compile(keras.optimizers.SGD(0.05), "mse", **settings)
    return model.fit(data, epochs=3, verbose=0, shuffle=False).history["loss"]


@pytest.mark.parametrize("eagerly", [False, True])
def test_frozen_only_the_mixes_learn(eagerly: bool, char_model: Model) -> None:
    elmo = ElmoEmbedding(*char_model, mix=("a", "b"), dropout=0.1)
    assert not elmo.bilm.trainable_weights and not elmo.bilm.trainable
    inputs = keras.Input((None,), dtype="string")
    vectors = elmo(inputs)
    both = keras.layers.Concatenate()([vectors["a"], vectors["b"]])
    outputs = keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(both))
    model, before = keras.Model(inputs, outputs), values_of(elmo)
    fit(model, run_eagerly=eagerly)
    mixes = {w.path for mix in elmo.mixes.values() for w in mix.weights}
    assert changed(before, elmo) == mixes and len(mixes) == 4


def test_trainable_every_weight_learns(char_model: Model) -> None:
    elmo = ElmoEmbedding(*char_model, trainable=True)
    before = values_of(elmo)
    losses = fit(classifier(elmo))
    assert losses[-1] < losses[0]
    assert changed(before, elmo) == before.keys()
    assert len(before) == len(model_variables(OPTIONS)) + 2


def test_the_model_is_frozen_and_thawed_later(tmp_path: Path) -> None:
    elmo = ElmoEmbedding(*write_model(tmp_path, SMALL))
    model = classifier(elmo)
    fit(model)
    elmo.bilm.trainable = True
    before = values_of(elmo)
    fit(model)  # which compiles again
    assert changed(before, elmo) == before.keys()
    elmo.trainable = False  # all of it, as in all of Keras
    before = values_of(elmo)
    fit(model)
    assert not changed(before, elmo) and len(model.trainable_weights) == 2


def test_the_l2_term_is_in_the_loss(char_model: Model) -> None:
    losses = []
    for coefficient in (None, 2.0):
        elmo = ElmoEmbedding(*char_model, l2_coef=coefficient)
        elmo.mixes["elmo"].logits.assign([1.0, 2.0, 0.0])
        keras.utils.set_random_seed(1)
        losses.append(fit(classifier(elmo))[0])
    np.testing.assert_allclose(losses[1] - losses[0], 2.0 * 5, rtol=1e-4)


def test_states_go_on_in_fit(char_model: Model) -> None:
    """At a rate of 0 each epoch has the loss that three calls in turn have."""
    elmo = ElmoEmbedding(*char_model, stateful=True)
    model = classifier(elmo)
    model.compile(keras.optimizers.SGD(0.0), "mse")
    strings = padded(SENTENCES)
    found = model.fit(strings, LABELS, epochs=3, verbose=0, shuffle=False)
    elmo.reset_states()
    wanted = [np.square(model(strings) - LABELS).mean() for _ in range(3)]
    np.testing.assert_allclose(found.history["loss"], wanted, rtol=1e-5)
    assert len({round(float(loss), 6) for loss in wanted}) == 3


@pytest.mark.slow
def test_two_devices_train_as_one(tmp_path: Path) -> None:
    """With ids: Keras would add up the strings of both devices."""
    files = write_model(tmp_path, SMALL)
    ids = Batcher(None, 8).batch_sentences([["1", "2"], ["3"], ["4", "5"], ["6", "7"]])
    labels = np.linspace(0, 1, 8).reshape(4, 2)
    data = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(4)
    losses = []
    # A process has one strategy of two devices, whoever asks for it.
    for strategy in (Workers(1).strategy, Workers(2).strategy):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = classifier(ElmoEmbedding(*files, trainable=True), "int32")
            model.compile(keras.optimizers.SGD(0.05), "mse")
        history = model.fit(data, epochs=3, verbose=0, shuffle=False).history
        losses.append(history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert losses[0][2] < losses[0][0]


def test_xla_is_left_out(char_model: Model) -> None:
    model = classifier(ElmoEmbedding(*char_model))
    with pytest.warns(UserWarning, match="Proceeding with `jit_compile=False`"):
        model.compile("sgd", "mse", jit_compile=True)


MODELS = {
    "characters": OPTIONS,
    "characters, no clips, no skips": with_lstm(
        OPTIONS, cell_clip=None, proj_clip=None, use_skip_connections=False
    ),
    "words, forward, no projection": with_lstm(
        replace_options(OPTIONS, char_cnn=None, bidirectional=False),
        dim=8,
        projection_dim=8,
        n_layers=1,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradient_is_that_of_the_training_network(
    name: str, corpus: Corpus, tmp_path: Path
) -> None:
    """Of the language model's loss at each word, to every weight."""
    options = MODELS[name]
    values = random_values(training_variables(options))
    network = Network(options, training_variables(options), values)
    with tf.GradientTape() as tape:
        loss = loss_of_training(network)
    variables = network.variables_by_name
    wanted = dict(zip(variables, tape.gradient(loss, variables.values()), strict=True))
    files = write_values(tmp_path, options, values)
    elmo = ElmoEmbedding(
        *files, trainable=True, use_top_only=True, vocab_file=corpus.vocab
    )
    with tf.GradientTape() as tape:
        vectors = elmo(padded(EQUAL))
        found = loss_of_vectors(network, vectors)
    np.testing.assert_allclose(found, loss, rtol=1e-5)
    gradients = tape.gradient(found, [w.value for w in elmo.bilm.weights])
    assert len(gradients) == len(wanted) - 2  # all but the softmax
    for spec, gradient in zip(elmo.bilm.network.specs, gradients, strict=True):
        dense = tf.convert_to_tensor(gradient)
        assert np.abs(dense).max() > 0
        assert_near(dense, tf.convert_to_tensor(wanted[spec.name]), spec.name)


def write_values(
    folder: Path, options: TrainingOptions, values: dict[str, np.ndarray]
) -> Model:
    """Write those of a training's values that a model has."""
    specs = model_variables(options, len(WORDS) if options.char_cnn is None else None)
    arrays = {spec.hdf5: values[spec.name] for spec in specs}
    write_arrays(folder / "weights.hdf5", arrays)
    write_options(folder / "options.json", prediction_dict(options))
    return Model(folder / "options.json", folder / "weights.hdf5")


def word_rows(sentences: list[list[str]]) -> np.ndarray:
    return np.array([[WORDS.index(word) for word in words] for words in sentences])


def loss_of_training(network: Network) -> tf.Tensor:
    """By the loop of training; the outputs at `<S>` and `</S>` do not count."""
    inputs = training_inputs(network.options)
    losses = token_losses(
        network,
        inputs,
        network.zero_state(len(EQUAL)),
        no_dropout,
        training_loss(network, inputs, sampled=False),
    ).losses
    by_steps = tf.reshape(losses, inputs.labels.shape)  # [K, T, B]
    return tf.reduce_sum(by_steps[:, 1:])


def training_inputs(options: TrainingOptions) -> StepInputs:
    """A batch in which each row is one sentence, from its beginning."""
    batch = {}
    for suffix, first, last in (("", "<S>", "</S>"), ("_reverse", "</S>", "<S>")):
        texts = [s[::-1] if suffix else s for s in EQUAL]
        words = [[first, *text] for text in texts]
        batch[f"token_ids{suffix}"] = word_rows(words)
        batch[f"next_token_id{suffix}"] = word_rows([[*text, last] for text in texts])
        flat = [word for row in words for word in row]
        characters = encode_words(flat, 8).reshape(len(EQUAL), -1, 8)
        batch[f"tokens_characters{suffix}"] = characters
    if not options.bidirectional:
        batch = {key: batch[key] for key in batch if "_reverse" not in key}
    inputs = step_inputs(batch, options.char_cnn is not None)
    return StepInputs(*map(tf.constant, inputs))


def loss_of_vectors(network: Network, vectors: tf.Tensor) -> tf.Tensor:
    """The same loss, from vectors [B, T, K * D] of the last layer."""
    labels = [
        word_rows([[*words[1:], "</S>"] for words in EQUAL]),
        word_rows([["<S>", *words[:-1]] for words in EQUAL]),
    ]
    loss = tf.constant(0.0)
    for direction in range(network.options.n_directions):
        size = network.options.lstm.projection_dim
        hidden = tf.reshape(vectors[..., size * direction :][..., :size], [-1, size])
        expected = tf.constant(labels[direction].reshape(-1), tf.int32)
        loss += tf.reduce_sum(full_softmax_loss(network.softmax, hidden, expected))
    return loss
