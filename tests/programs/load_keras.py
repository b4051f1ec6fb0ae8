"""Loads models of Keras as a process that has nothing but their archives.

    python tests/programs/load_keras.py FOLDER

For each NAME.keras of the folder it predicts what NAME.json has, lists of strings, and
writes NAME.npy.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import bilm.keras  # noqa: F401  (so that Keras knows the layer)


@keras.saving.register_keras_serializable("tests")
class Tagger(keras.Model):
    """A subclassed model that has the layer in its configuration."""

    def __init__(self, elmo: keras.layers.Layer, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.elmo = elmo
        self.dense = keras.layers.Dense(2)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return self.dense(self.elmo(inputs))

    def get_config(self) -> dict[str, object]:
        elmo = keras.saving.serialize_keras_object(self.elmo)
        return {**super().get_config(), "elmo": elmo}

    @classmethod
    def from_config(cls, config: dict[str, object]) -> "Tagger":
        elmo = keras.saving.deserialize_keras_object(config.pop("elmo"))
        return cls(elmo, **config)


def main(folder: Path) -> None:
    """Load and predict."""
    for path in sorted(folder.glob("*.keras")):
        strings = tf.constant(json.loads(path.with_suffix(".json").read_text()))
        model = keras.models.load_model(path)
        np.save(path.with_suffix(".npy"), model.predict(strings, verbose=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
