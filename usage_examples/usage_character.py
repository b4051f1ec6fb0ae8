"""Vectors in context from characters: any word, no vocabulary.

    python usage_examples/usage_character.py --model DIR

Text goes in as lists of tokens. Layer 0 of what comes out knows the word alone; the
layers above know its sentence. A downstream model takes a mix of the layers.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tiny_model import characters_per_token, folders

from bilm import Batcher, BidirectionalLanguageModel, ScalarMix

WORD = "bank"
SENTENCES = [
    "They sat on the bank of the river and counted boats .".split(),
    "The bank raised its rates .".split(),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code."""
    with folders(__doc__, argv) as (model_folder, _):
        embed(model_folder)
    return 0


def embed(folder: Path) -> None:
    """Embed the sentences, and look at the two vectors of one word."""
    options_file = folder / "options.json"
    batcher = Batcher(None, characters_per_token(options_file))
    # Stateless: a vector depends on its sentence alone, not on calls before.
    model = BidirectionalLanguageModel(
        options_file, folder / "weights.hdf5", stateful=False
    )

    ids = batcher.batch_sentences(SENTENCES)
    print(f"character ids   {ids.shape}: sentences, tokens with <S> and </S>, bytes")
    result = model(ids)
    layers = result["lm_embeddings"]
    print(f"lm_embeddings   {tuple(layers.shape)}: sentences, layers, tokens, values")
    print(f"lengths         {result['lengths'].numpy()}")
    compare(layers.numpy())

    # A mix for the input of a downstream model, another one for its output: each has
    # weights of its own there. Until these are trained, a mix is the plain average.
    for name in ("input", "output"):
        mixed = ScalarMix(n_layers=layers.shape[1], name=name)(result)
        print(f"mix {name:<11} {tuple(mixed.shape)}: sentences, tokens, values")


def compare(layers: np.ndarray) -> None:
    """Print how similar the word's vectors in the two sentences are, layer by layer."""
    first, second = (
        layers[i, :, sentence.index(WORD)] for i, sentence in enumerate(SENTENCES)
    )
    print(f"\n{WORD!r} in the one sentence and in the other, cosine:")
    for layer, (one, other) in enumerate(zip(first, second, strict=True)):
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        print(f"    layer {layer}   {cosine:.3f}")
    print()


if __name__ == "__main__":
    sys.exit(main())
