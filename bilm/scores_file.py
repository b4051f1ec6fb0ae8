"""Files of log-probabilities: tables for people and spreadsheets, HDF5 for programs.

Letters: S sentences, n tokens of a sentence, K directions.
"""

import itertools
import os
from collections.abc import Iterable, Iterator

import h5py
import numpy as np

from bilm.characters import BOS, EOS
from bilm.errors import InputError
from bilm.evaluation import Evaluation, perplexities
from bilm.scoring import SentenceScores

Path = str | os.PathLike[str]
SENTENCES_AT_ONCE = 1024


class Totals:
    """Sums over all sentences that went through.

    Attributes:
        n_words: of the text.
        n_unknown: of them out of the vocabulary.
        n_tokens: predicted in each direction, one more than words in each sentence.
    """

    def __init__(self) -> None:
        self.n_words = self.n_unknown = self.n_tokens = 0
        self._sums = np.zeros(1)

    def counting(self, scores: Iterable[SentenceScores]) -> Iterator[SentenceScores]:
        """Give the scores on, and count them.

        Raises:
            InputError: there was no sentence.
        """
        for each in scores:
            self.n_words += len(each.tokens)
            self.n_unknown += len(each.tokens) - int(each.known.sum())
            self.n_tokens += len(each.forward)
            self._sums = self._sums + each.sums
            yield each
        if not self.n_tokens:
            raise InputError("the text has no sentence to score: give one a line")

    def evaluation(self, seconds: float) -> Evaluation:
        """Perplexities of the text."""
        return perplexities(-self._sums / self.n_tokens, self.n_tokens, seconds)


def token_table(scores: Iterable[SentenceScores]) -> Iterator[str]:
    """Lines of tab-separated values, with a head: a row for each token.

    Sentences count from 0, positions from 0 for `<S>`, which the backward direction
    alone predicts, to n + 1 for `</S>`, which the forward direction alone predicts. A
    word out of the vocabulary, scored as `<UNK>`, has 0 in the column `known`.
    """
    for number, each in enumerate(scores):
        tokens = [BOS, *each.tokens, EOS]
        known = [True, *each.known, True]
        columns = [["", *_values(each.forward)]]
        if each.backward is not None:
            columns.append([*_values(each.backward), ""])
        if number == 0:
            directions = ["forward", "backward"][: len(columns)]
            yield _row(["sentence", "position", "token", "known", *directions])
        for position, row in enumerate(zip(tokens, known, *columns, strict=True)):
            if any(row[2:]):  # `<S>` is predicted backward alone
                token, is_known, *log_probs = row
                yield _row([number, position, token, int(is_known), *log_probs])


def sentence_table(scores: Iterable[SentenceScores]) -> Iterator[str]:
    """Lines of tab-separated values, with a head: a row for each sentence.

    `tokens` are those predicted in each direction, `forward` and `backward` sums of
    log-probabilities, `perplexity` that of both.
    """
    for number, each in enumerate(scores):
        sums, n_tokens = each.sums, len(each.forward)
        if number == 0:
            directions = ["forward", "backward"][: len(sums)]
            yield _row(["sentence", "tokens", "unknown", *directions, "perplexity"])
        n_unknown = n_tokens - 1 - int(each.known.sum())
        perplexity = float(_perplexity(each))
        yield _row([number, n_tokens, n_unknown, *_values(sums), f"{perplexity:.6g}"])


def write_hdf5(path: Path, scores: Iterable[SentenceScores]) -> None:
    """Write scores as arrays.

    `forward` and `backward` float32 hold the log-probabilities of all sentences one
    after the other, as in `SentenceScores`; `tokens` int64 [S] how many of each belong
    to a sentence; `unknown` int64 [S] its words out of the vocabulary; `sums` float64
    [S, K] and `perplexity` float64 [S].
    """
    remaining = iter(scores)
    with h5py.File(path, "w") as file:
        while some := list(itertools.islice(remaining, SENTENCES_AT_ONCE)):
            _append(file, "forward", np.concatenate([s.forward for s in some]))
            backward = [s.backward for s in some if s.backward is not None]
            if backward:
                _append(file, "backward", np.concatenate(backward))
            _append(file, "tokens", np.array([len(s.forward) for s in some]))
            unknown = [len(s.tokens) - int(s.known.sum()) for s in some]
            _append(file, "unknown", np.array(unknown))
            _append(file, "sums", np.stack([s.sums for s in some]))
            _append(file, "perplexity", np.array([_perplexity(s) for s in some]))


def _perplexity(scores: SentenceScores) -> np.float64:
    return np.exp(-scores.sums.mean() / len(scores.forward))


def _append(file: h5py.File, name: str, values: np.ndarray) -> None:
    """Put values behind those that a dataset has already."""
    if name not in file:
        shape = (None, *values.shape[1:])
        file.create_dataset(name, data=values, maxshape=shape, chunks=True)
        return
    dataset = file[name]
    dataset.resize(len(dataset) + len(values), axis=0)
    dataset[-len(values) :] = values


def _values(numbers: np.ndarray) -> list[str]:
    """Nine digits give each float32 back."""
    return [f"{number:.9g}" for number in numbers.tolist()]


def _row(cells: list) -> str:
    return "\t".join(map(str, cells))
