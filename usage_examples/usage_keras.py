"""ELMo as a layer of Keras: sentences in, a tag for each token out.

    python usage_examples/usage_keras.py --model DIR

The layer takes tokens as they are. It has two mixes of the biLM's layers, one for the
input of a tagger and one for its output. First they are trained with the tagger, then
the biLM too; at last the whole is saved, and loaded without the files of the biLM.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")  # before Keras is imported

import keras
import numpy as np
import tensorflow as tf
from tiny_model import folders

from bilm.keras import ElmoEmbedding

# A word, and behind the stroke its tag.
TAGGED = [
    "The/- bank/N raised/V its/- rates/N ./-",
    "They/- bank/V on/- rain/N ./-",
    "A/- heron/N waits/V at/- the/- edge/N of/- the/- pond/N ./-",
    "The/- wait/N ends/V ./-",
    "It/- rains/V ./-",
]
TAGS = ["-", "N", "V"]
N_STEPS = 20
RATE, FINE_RATE = 0.02, 0.002  # without the biLM, and with it


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code."""
    with folders(__doc__, argv) as (model_folder, work):
        train(model_folder, work / "tagger.keras")
    return 0


def train(folder: Path, saved: Path) -> None:
    """Train a tagger, and save it."""
    keras.utils.set_random_seed(1)
    tokens, tags = read(TAGGED)
    elmo = ElmoEmbedding(
        folder / "options.json",
        folder / "weights.hdf5",
        mix=("input", "output"),
        dropout=0.1,
        l2_coef=0.001,
    )
    print(f"tokens          {tuple(tokens.shape)}: sentences, tokens; strings")
    for name, vectors in elmo(tokens).items():
        print(f"mix {name:<11} {tuple(vectors.shape)}: sentences, tokens, values")
    model = tagger(elmo)

    first, last = fit(model, tokens, tags, RATE)
    print(f"of the biLM     {len(elmo.bilm.trainable_weights)} weights are trained")
    print(f"loss            {first:.3f}, after {N_STEPS} steps {last:.3f}")
    elmo.bilm.trainable = True
    _, last = fit(model, tokens, tags, FINE_RATE)
    print(f"of the biLM     {len(elmo.bilm.trainable_weights)} weights are trained")
    print(f"loss            after {N_STEPS} steps more {last:.3f}")

    model.save(saved)
    again = keras.models.load_model(saved)
    largest = np.abs(
        again.predict(tokens, verbose=0) - model.predict(tokens, verbose=0)
    )
    print(f"saved, loaded   largest difference {largest.max():.1e}")


def tagger(elmo: ElmoEmbedding) -> keras.Model:
    """A small LSTM on one mix; the other mix goes past it. All of them use the mask."""
    tokens = keras.Input((None,), dtype="string")
    vectors = elmo(tokens)
    lstm = keras.layers.LSTM(16, return_sequences=True)
    context = keras.layers.Bidirectional(lstm)(vectors["input"])
    both = keras.layers.Concatenate()([context, vectors["output"]])
    return keras.Model(tokens, keras.layers.Dense(len(TAGS))(both))


def fit(
    model: keras.Model, tokens: tf.Tensor, tags: np.ndarray, rate: float
) -> tuple[float, float]:
    """Train some steps; the first loss and the last, of all tokens that are there."""
    # What `trainable` says counts from here on.
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    losses = model.fit(tokens, tags, epochs=N_STEPS, verbose=0).history["loss"]
    return losses[0], losses[-1]


def read(tagged: Sequence[str]) -> tuple[tf.Tensor, np.ndarray]:
    """Tokens [sentences, longest] padded with '', and numbers of their tags."""
    pairs = [[pair.rsplit("/", 1) for pair in line.split()] for line in tagged]
    longest = max(map(len, pairs))
    tokens = [
        [token for token, _ in row] + [""] * (longest - len(row)) for row in pairs
    ]
    tags = np.zeros((len(pairs), longest), np.int32)
    for number, row in enumerate(pairs):
        tags[number, : len(row)] = [TAGS.index(tag) for _, tag in row]
    return tf.constant(tokens), tags


if __name__ == "__main__":
    sys.exit(main())
