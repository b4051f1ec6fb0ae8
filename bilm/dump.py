"""Embeddings of a vocabulary or of a data set, written to HDF5.

Letters: V words, N layers, K directions, D `projection_dim`.
"""

import itertools
import logging
import os
import sys
from collections.abc import Iterable, Iterator

import h5py
import numpy as np
from tqdm.auto import tqdm

from bilm.batcher import Batcher, TokenBatcher
from bilm.bidirectional import BidirectionalLanguageModel
from bilm.characters import encode_words
from bilm.errors import InputError
from bilm.files import replacing
from bilm.options import read_model_options
from bilm.text import read_sentences
from bilm.vocabulary import Vocabulary
from bilm.weights import read_embedding

logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]
WORDS_AT_ONCE = 4096


def dump_token_embeddings(
    vocab_file: Path, options_file: Path, weight_file: Path, outfile: Path
) -> None:
    """Write the context-free vectors of a vocabulary's words.

    The file has the dataset `embedding` float32 [V, D], rows in the order of the
    vocabulary. A word-level model's own embedding is copied.

    Raises:
        FileNotFoundError: a file is missing.
        InputError: a file breaks a rule, or they do not fit each other.
    """
    words = Vocabulary(vocab_file, require_unk=False).words
    options = read_model_options(options_file)
    width = options.lstm.projection_dim
    if options.char_cnn is None:
        pieces: Iterable[np.ndarray] = [_word_vectors(weight_file, words, width)]
    else:
        model = BidirectionalLanguageModel(options_file, weight_file, stateful=False)
        size = options.char_cnn.max_characters_per_token
        pieces = (
            model.encode_tokens(encode_words(piece, size)[:, None] + 1)[:, 0].numpy()
            for piece in _pieces(words, WORDS_AT_ONCE)
        )
    with replacing(outfile) as partial, h5py.File(partial, "w") as file:
        dataset = file.create_dataset("embedding", (len(words), width), "float32")
        start = 0
        with _progress(len(words), "word") as bar:
            for piece in pieces:
                dataset[start : start + len(piece)] = piece
                start += len(piece)
                bar.update(len(piece))


def dump_bilm_embeddings(
    vocab_file: Path | None,
    dataset_file: Path,
    options_file: Path,
    weight_file: Path,
    outfile: Path,
    *,
    stateful: bool = True,
    batch_size: int = 32,
) -> None:
    """Write the embeddings of each line of a text.

    The file has for line i, counted from 0, the dataset `str(i)` float32 [N + 1,
    tokens, K * D]. A blank line has 0 tokens.

    Args:
        vocab_file: the vocabulary; needed by word-level models alone.
        dataset_file: tokenised text, one sentence a line.
        options_file: `options.json`.
        weight_file: `weights.hdf5`.
        outfile: the file to write; it appears whole or not at all.
        stateful: as bilm-tf, each line starts from the state after the line before;
            else a line's vectors depend on that line alone.
        batch_size: sentences at once where not stateful.

    Raises:
        FileNotFoundError: a file is missing.
        InputError: a file breaks a rule, or they do not fit each other.
    """
    rows = 1 if stateful else batch_size
    model, batcher = _model_and_batcher(vocab_file, options_file, weight_file, stateful)
    line = blank = 0
    with (
        replacing(outfile) as partial,
        h5py.File(partial, "w") as file,
        _progress(None, "line") as bar,
    ):
        for sentences in _pieces(read_sentences(dataset_file), rows):
            vectors = model(batcher.batch_sentences(sentences))["lm_embeddings"].numpy()
            for sentence, layers in zip(sentences, vectors, strict=True):
                file.create_dataset(str(line), data=layers[:, : len(sentence)])
                line += 1
                blank += not sentence
                bar.update()
    if blank:
        logger.warning(
            "%d blank lines of %s have a dataset with 0 tokens", blank, dataset_file
        )


def _model_and_batcher(
    vocab_file: Path | None, options_file: Path, weight_file: Path, stateful: bool
) -> tuple[BidirectionalLanguageModel, Batcher | TokenBatcher]:
    char_cnn = read_model_options(options_file).char_cnn
    batcher: Batcher | TokenBatcher
    if char_cnn is None:
        if vocab_file is None:
            raise InputError(
                f"{options_file} is of a word-level model, which needs vocab_file"
            )
        batcher = TokenBatcher(vocab_file)
    else:
        batcher = Batcher(vocab_file, char_cnn.max_characters_per_token)
    model = BidirectionalLanguageModel(
        options_file,
        weight_file,
        use_character_inputs=char_cnn is not None,
        max_batch_size=1,
        stateful=stateful,
    )
    return model, batcher


def _word_vectors(weight_file: Path, words: list[str], width: int) -> np.ndarray:
    embedding = read_embedding(weight_file, width)
    if len(embedding) != len(words):
        raise InputError(
            f"{weight_file} has vectors of {len(embedding)} words, but the vocabulary "
            f"has {len(words)}; take the vocabulary of the training"
        )
    return embedding


def _pieces(items: Iterable, size: int) -> Iterator[list]:
    """The items in lists of `size`, the last perhaps shorter."""
    iterator = iter(items)
    while piece := list(itertools.islice(iterator, size)):
        yield piece


def _progress(total: int | None, unit: str) -> tqdm:
    return tqdm(total=total, unit=unit, disable=not sys.stderr.isatty())
