"""Embeddings of a vocabulary or of a data set, written to HDF5.

Letters: V words, N layers, K directions, D `projection_dim`.
"""

import contextlib
import logging
import math
import os
from collections.abc import Iterable, Iterator

import h5py
import numpy as np
import tensorflow as tf

from bilm.bars import progress_bar
from bilm.batcher import Batcher, TokenBatcher
from bilm.bidirectional import BidirectionalLanguageModel
from bilm.characters import encode_words
from bilm.dump_text import Lines, TextSize, measure
from bilm.embeddings_file import (
    DATASET_BYTES,
    EmbeddingsWriter,
    Progress,
    Storage,
    check_space,
    digest,
    file_digest,
    in_units,
)
from bilm.errors import InputError
from bilm.files import replacing
from bilm.graph_mode import eagerly
from bilm.hdf5_files import checksum, write_sum
from bilm.network import BilmState
from bilm.options import ModelOptions, read_model_options
from bilm.paths import check_no_input
from bilm.reading import (
    BATCH_TOKENS,
    Layers,
    Reading,
    check_reading,
    vectors_shape,
)
from bilm.standard_input import STANDARD_INPUT, shown, standard_input
from bilm.token_vectors import encode_by_length
from bilm.vocabulary import Vocabulary
from bilm.weights import check_words, read_embedding

logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]
WORDS_AT_ONCE = 8192


@eagerly
def dump_token_embeddings(
    vocab_file: Path, options_file: Path, weight_file: Path, outfile: Path
) -> None:
    """Write the context-free vectors of a vocabulary's words.

    The file has the dataset `embedding` float32 [V, D], rows in the order of the
    vocabulary. A word-level model's own embedding is copied.

    Raises:
        FileNotFoundError: a file is missing.
        InputError: a file breaks a rule, they do not fit each other, or `outfile` is
            one of them.
    """
    check_no_input(outfile, [vocab_file, options_file, weight_file])
    words = Vocabulary(vocab_file, require_unk=False).words
    options = read_model_options(options_file)
    width = options.lstm.projection_dim
    if options.char_cnn is None:
        pieces: Iterable[np.ndarray] = [_word_vectors(weight_file, words, width)]
    else:
        model = BidirectionalLanguageModel(options_file, weight_file, stateful=False)
        size = options.char_cnn.max_characters_per_token
        pieces = (
            encode_by_length(model.embedder.encode, encode_words(piece, size) + 1)
            for piece in _pieces(words, WORDS_AT_ONCE)
        )
    _say_size(outfile, 4 * width * len(words))
    with replacing(outfile) as partial, h5py.File(partial, "w") as file:
        dataset = file.create_dataset("embedding", (len(words), width), "float32")
        start = found = 0
        with progress_bar(len(words), "word") as bar:
            for piece in pieces:
                dataset[start : start + len(piece)] = piece
                found = checksum(np.asarray(piece), found)
                start += len(piece)
                bar.update(len(piece))
        write_sum(dataset, found)


@eagerly
def dump_bilm_embeddings(
    vocab_file: Path | None,
    dataset_file: Path,
    options_file: Path,
    weight_file: Path,
    outfile: Path,
    *,
    stateful: bool = True,
    batch_size: int | None = None,
    max_tokens: int = BATCH_TOKENS,
    layers: Layers = "all",
    pool: str | None = None,
    dtype: str = "float32",
    compression: str = "none",
    sentence_to_index: bool = False,
    resume: bool = False,
) -> None:
    """Write the embeddings of each line of a text.

    The file has for line i, counted from 0, the dataset `str(i)` [N + 1, tokens, K *
    D], in this order. A blank line has 0 tokens. `read_embeddings` reads it. A text
    without a line gives a file without datasets, as in bilm-tf, and a warning; `bilm
    dump-embeddings` refuses it.

    Args:
        vocab_file: the vocabulary; needed by word-level models alone.
        dataset_file: tokenised text, one sentence a line, plain or gzipped; `-` is
            standard input, which is copied to a temporary file first.
        options_file: `options.json`.
        weight_file: `weights.hdf5`.
        outfile: the file to write; it appears whole or not at all.
        stateful: as bilm-tf, each line starts from the state after the line before;
            else a line's vectors depend on that line alone.
        batch_size: most sentences of a batch where not stateful.
        max_tokens: tokens that are embedded at once, which bounds the memory beside
            that of the longest line's vectors. The default fits 4 GiB with the
            original size. Longer lines are cut, and their states carried.
        layers: `all`; `top`, `average` or the number of one, without the first axis.
        pool: `mean` for the mean over the tokens of each line, without their axis
            (zeros for a blank line).
        dtype: `float32` or `float16`.
        compression: `none`, `lzf` or `gzip`.
        sentence_to_index: also write the dataset `sentence_to_index`: JSON of each
            distinct sentence, its tokens joined by blanks, with its lines.
        resume: go on where an interrupted dump of the same text, model and settings
            was; `outfile.partial` holds what is complete.

    Raises:
        FileNotFoundError: a file is missing.
        InputError: a file or an argument breaks a rule, files do not fit each other,
            or the disk has not enough room.
    """
    check_no_input(outfile, [vocab_file, dataset_file, options_file, weight_file])
    reading = Reading(layers, pool, max_tokens, batch_size, stateful)
    storage = Storage(dtype, compression)
    storage.check()
    check_reading(reading, read_model_options(options_file))
    model, batcher = _model_and_batcher(vocab_file, options_file, weight_file)
    settings = {
        "layers": layers,
        "pool": pool,
        "stateful": stateful,
        "model": [file_digest(options_file), file_digest(weight_file)],
        "vocabulary": vocab_file and file_digest(vocab_file),
    }
    text = standard_input() if dataset_file == STANDARD_INPUT else dataset_file
    size = measure(text)
    _say_size(outfile, _file_bytes(size, model.options, reading, storage))
    if not size.n_lines:
        logger.warning("%s has no line, so there is nothing to embed", shown(text))
    if size.n_blank:
        logger.warning(
            "%d blank lines of %s have a dataset with 0 tokens",
            size.n_blank,
            shown(text),
        )
    with EmbeddingsWriter(outfile, storage, settings, resume) as writer:
        lines = Lines(text, size, sentence_to_index)
        lines.skip(writer.progress)
        _write(writer, lines, model, batcher, reading)


def _write(
    writer: EmbeddingsWriter,
    lines: Lines,
    model: BidirectionalLanguageModel,
    batcher: Batcher | TokenBatcher,
    reading: Reading,
) -> None:
    """Embed the lines that are not complete yet."""
    n_lines, text_digest, arrays = writer.progress
    state: BilmState | None = None
    if arrays:
        state = tf.nest.pack_sequence_as(model.network.zero_state(1), list(arrays))
    with contextlib.closing(lines):
        for window in model.embed_windows(lines, reading, batcher, state):
            for tokens in window.sentences:
                text_digest = digest(tokens, text_digest)
            n_lines += len(window.sentences)
            arrays = [np.asarray(part) for part in tf.nest.flatten(window.state)]
            kept = arrays if reading.stateful else ()
            writer.append(window.vectors, Progress(n_lines, text_digest, kept))
            lines.advance(len(window.sentences))
    if lines.keep_index:
        writer.write_index(lines.lines_of)


def _file_bytes(
    size: TextSize, options: ModelOptions, reading: Reading, storage: Storage
) -> int:
    """Size of the file; compression makes it smaller, by how much is not known."""
    values = math.prod(vectors_shape(1, options, reading))
    n_vectors = size.n_tokens if reading.pool is None else size.n_lines
    itemsize = np.dtype(storage.dtype).itemsize
    return n_vectors * values * itemsize + size.n_lines * DATASET_BYTES


def _say_size(outfile: Path, n_bytes: int) -> None:
    logger.info("%s will take about %s", outfile, in_units(n_bytes))
    check_space(outfile, n_bytes)


def _model_and_batcher(
    vocab_file: Path | None, options_file: Path, weight_file: Path
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
        stateful=False,
    )
    if isinstance(batcher, TokenBatcher):
        n_vectors = model.network.variables_by_name["lm/embedding"].shape[0]
        check_words(weight_file, n_vectors, batcher.n_words)
    return model, batcher


def _word_vectors(weight_file: Path, words: list[str], width: int) -> np.ndarray:
    embedding = read_embedding(weight_file, width)
    check_words(weight_file, len(embedding), len(words))
    return embedding


def _pieces(items: list[str], size: int) -> Iterator[list[str]]:
    """The items in lists of `size`, the last perhaps shorter."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
