"""Word vectors made elsewhere, as first values of a word-level model's embedding.

The text formats of word2vec and of GloVe: a word a line and its values, apart by
blanks; word2vec has the numbers of words and of values in a line before them.

Letters: V words of the vocabulary, D `projection_dim`.
"""

import logging
import os
from typing import NamedTuple

import numpy as np

from bilm.bars import progress_bar
from bilm.errors import InputError, shortened
from bilm.names import embedding_variable
from bilm.network import initial_value
from bilm.options import TrainingOptions
from bilm.text import LineReader
from bilm.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]


class WordVectors(NamedTuple):
    """What a file has for a vocabulary."""

    vectors: np.ndarray  # float32 [V, D], zeros where there is none
    found: np.ndarray  # bool [V]
    n_other: int  # lines with a word out of the vocabulary


def initial_embedding(
    path: Path, vocab: Vocabulary, options: TrainingOptions, seed: int
) -> dict[str, np.ndarray]:
    """First values of the embedding, for a new training, and say what was found.

    Args:
        path: the file of vectors, plain or gzipped.
        vocab: of the training.
        options: of the training, of a word-level model.
        seed: of the vectors of words that are not in the file.

    Returns:
        float32 [V, D] by its name in a checkpoint.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: a line breaks a rule, no word of the vocabulary is there, or the
            model reads characters.
    """
    if options.char_cnn is not None:
        raise InputError(
            "embedding_init is for word input, but the options have char_cnn: leave "
            "out the one or the other"
        )
    read = read_word_vectors(path, vocab, options.lstm.projection_dim)
    _say(path, vocab, read, options.freeze_embedding)
    spec = embedding_variable(*read.vectors.shape)
    drawn = initial_value(spec, seed, position=0)  # as without the file
    return {spec.name: np.where(read.found[:, None], read.vectors, drawn)}


def read_word_vectors(path: Path, vocab: Vocabulary, width: int) -> WordVectors:
    """Read the vectors of a vocabulary's words, checking every line of the file.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: a line breaks a rule, with its number.
    """
    vectors = np.zeros((vocab.size, width), np.float32)
    found = np.zeros(vocab.size, bool)
    n_lines, n_announced = 0, None
    with progress_bar(None, "vector") as bar:
        for number, line in enumerate(LineReader(path), 1):
            where, fields = f"{path}:{number}", line.split()
            if number == 1 and _is_header(fields, width):
                n_announced = int(fields[0])
                _check_width(where, int(fields[1]), width)
                continue
            n_lines += 1
            word, values = _parse(where, fields, width)
            bar.update()
            if word not in vocab:
                continue
            row = vocab.word_to_id(word)
            if found[row]:
                raise InputError(
                    f"{where} has the word {shortened(word)!r} again: give each word "
                    "one line"
                )
            vectors[row], found[row] = values, True
    if n_announced not in (None, n_lines):
        raise InputError(
            f"{path}:1 announces {n_announced} words, but {n_lines} follow: the file "
            "is cut short, or its first line is wrong"
        )
    return WordVectors(vectors, found, n_lines - int(found.sum()))


def _is_header(fields: list[str], width: int) -> bool:
    """Whether the first line is word2vec's; a word with a single value is none."""
    return len(fields) == 2 and all(f.isdecimal() for f in fields) and width != 1


def _parse(where: str, fields: list[str], width: int) -> tuple[str, np.ndarray]:
    """The word and its values; a word may have blanks, as some of GloVe's do."""
    n_values = len(fields) - 1
    if n_values < width or (n_values > width and _is_number(fields[1])):
        _check_width(where, max(n_values, 0), width)
    word, values = " ".join(fields[:-width]), fields[-width:]
    try:
        with np.errstate(over="ignore"):  # infinite then, and refused
            numbers = np.array(list(map(float, values))).astype(np.float32)
    except ValueError:
        numbers = np.array([np.nan])
    if not np.isfinite(numbers).all():
        wrong = next(v for v in values if not _is_number(v))
        raise InputError(
            f"{where} has {shortened(wrong)!r} where a finite number is needed"
        )
    return word, numbers


def _check_width(where: str, n_values: int, width: int) -> None:
    if n_values != width:
        raise InputError(
            f"{where} has vectors of {n_values} values, but projection_dim of the "
            f"options is {width}: give vectors of that size, or set lstm.projection_dim"
        )


def _is_number(text: str) -> bool:
    """Whether a text is a number that a float32 can hold."""
    try:
        return abs(float(text)) <= float(np.finfo(np.float32).max)
    except ValueError:
        return False


def _say(path: Path, vocab: Vocabulary, read: WordVectors, frozen: bool) -> None:
    n_found = int(read.found.sum())
    if not n_found:
        raise InputError(
            f"{path} has no word of the vocabulary: give vectors of its language, with "
            "its tokens and their case"
        )
    missing = [shortened(vocab.words[i]) for i in np.flatnonzero(~read.found)[:10]]
    logger.info(
        "%s has vectors of %d of the %d words of the vocabulary (%.1f %%), and of %d "
        "others; %s%s",
        path,
        n_found,
        vocab.size,
        100 * n_found / vocab.size,
        read.n_other,
        "frozen" if frozen else "to be trained",
        f"; drawn at random, such as {' '.join(missing)}" if missing else "",
    )
