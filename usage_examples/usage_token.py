"""Vectors in context from cached token vectors: the encoder runs once for each word.

    python usage_examples/usage_token.py --model DIR

Where the words of a data set are known, their context-free vectors are written to a
file once. Sentences then go in as word ids, and only the LSTMs run.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tiny_model import characters_per_token, folders

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    TokenBatcher,
    dump_token_embeddings,
)

SENTENCES = [
    "A heron waits at the edge of the pond .".split(),
    "The pond is still .".split(),
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code."""
    with folders(__doc__, argv) as (model_folder, work):
        embed(model_folder, work)
    return 0


def embed(folder: Path, work: Path) -> None:
    """Cache the vectors of all words, embed by them, and compare with characters."""
    options_file, weight_file = folder / "options.json", folder / "weights.hdf5"
    vocab_file, token_file = work / "words.txt", work / "token_embeddings.hdf5"
    # The ids are of this data set alone; that the model never saw the file is fine.
    words = sorted({token for sentence in SENTENCES for token in sentence})
    lines = "".join(f"{word}\n" for word in ["<S>", "</S>", *words])
    vocab_file.write_text(lines, encoding="utf-8")
    dump_token_embeddings(vocab_file, options_file, weight_file, token_file)
    print(f"cached the vectors of {len(words)} words and of <S> and </S>")

    ids = TokenBatcher(vocab_file).batch_sentences(SENTENCES)
    print(f"word ids        {ids.shape}: sentences, tokens with <S> and </S>")
    model = BidirectionalLanguageModel(
        options_file,
        weight_file,
        use_character_inputs=False,
        embedding_weight_file=token_file,
        stateful=False,
    )
    layers = model(ids)["lm_embeddings"].numpy()
    print(f"lm_embeddings   {layers.shape}: sentences, layers, tokens, values")

    batcher = Batcher(None, characters_per_token(options_file))
    by_characters = BidirectionalLanguageModel(
        options_file, weight_file, stateful=False
    )
    expected = by_characters(batcher.batch_sentences(SENTENCES))["lm_embeddings"]
    difference = np.abs(layers - expected.numpy()).max()
    print(f"largest difference from the vectors by characters: {difference:.1e}")


if __name__ == "__main__":
    sys.exit(main())
