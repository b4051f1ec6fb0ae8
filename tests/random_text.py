"""Sentences of random words, and models for them whose gradients are partly sparse."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import small
from tiny import write_lines

from bilm.data import BidirectionalLMDataset
from bilm.names import N_CHARACTERS
from bilm.options import TrainingOptions
from bilm.training import load_vocab

N_WORDS = N_CHARACTERS + 50  # above it the gradients of word vectors are sparse
LIMIT = 0.5  # clips the gradient of every step here


class Text(NamedTuple):
    """Sentences of random words, some longer than a batch."""

    vocab: Path
    train: Path


def write_text(folder: Path) -> Text:
    words = [f"{number:x}" for number in range(N_WORDS - 3)]
    random = np.random.default_rng(0)
    sentences = [
        [words[i] for i in random.integers(0, len(words), random.integers(1, 8))]
        for _ in range(120)
    ]
    vocab = [["<S>"], ["</S>"], ["<UNK>"], *([word] for word in words)]
    return Text(
        write_lines(folder / "vocab.txt", vocab),
        write_lines(folder / "train.txt", sentences),
    )


def options(characters: bool, **training: Any) -> TrainingOptions:
    return small.options(
        characters=characters,
        n_tokens_vocab=N_WORDS,
        all_clip_norm_val=LIMIT,
        **{"cell_clip": 3, "proj_clip": 3, "skip": True} | training,
    )


def open_text(text: Text, model: TrainingOptions, **settings: Any) -> Any:
    chars = model.char_cnn
    vocab = load_vocab(text.vocab, chars and chars.max_characters_per_token)
    settings = {"shuffle_on_load": True, "seed": 1} | settings
    return BidirectionalLMDataset(text.train, vocab, **settings)
