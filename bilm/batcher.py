"""Batches of sentences for prediction, from lists of tokens.

Prediction ids are training ids + 1, so that 0 can pad sentences: character ids here
(262 in all, see `bilm.characters`) and word ids.

Letters: n sentences, T tokens of the longest, C characters per token.
"""

import logging
import os
from collections.abc import Sequence

import numpy as np

from bilm.characters import (
    BOS,
    BOS_CHARACTER,
    EOS,
    EOS_CHARACTER,
    EOW_CHARACTER,
    encode_words,
)
from bilm.errors import InputError
from bilm.vocabulary import Vocabulary, check_tokens, check_word_length
from bilm.wordtable import WordTable

logger = logging.getLogger(__name__)

MAX_CACHED_WORDS = 1 << 17
"""Encoded words that a batcher remembers before it starts afresh (13 MB at C = 50)."""

Sentences = Sequence[Sequence[str]]


class _SentenceBatcher:
    """What both batchers share: tokens to padded ids, each distinct word encoded once.

    A subclass says what a word is by `_encode`, and how to know `<S>` and `</S>`.
    """

    def __init__(self) -> None:
        self._table = WordTable(self._encode)
        self._warned: set[str] = set()

    def _encode(self, words: Sequence[str]) -> np.ndarray:
        raise NotImplementedError

    def _check(self, values: np.ndarray, n_sentences: int) -> None:
        raise NotImplementedError

    def batch_sentences(
        self, sentences: Sentences, max_length: int | None = None
    ) -> np.ndarray:
        """Encode sentences, with `<S>` and `</S>` added and 0 behind shorter ones.

        Args:
            sentences: n lists of tokens; a list may be empty.
            max_length: T: shorter sentences are padded to it, longer ones are cut
                and keep their `</S>`. By default the longest sentence decides.

        Returns:
            Ids + 1, int32: [n, T + 2, C] for characters, [n, T + 2] for words.

        Raises:
            InputError: a sentence is a text, or a token is not.
        """
        if max_length is not None and max_length < 0:
            raise InputError(f"max_length must not be negative, but is {max_length}")
        check_tokens(sentences)
        sentences = list(sentences)  # which may come one by one
        for sentence in sentences:
            check_tokens(sentence)
        delimited = [[BOS, *list(tokens)[:max_length], EOS] for tokens in sentences]
        values = self._values([word for words in delimited for word in words])
        self._check(values, len(delimited))
        lengths = np.array([len(words) for words in delimited], np.int64)
        width = lengths.max(initial=2) if max_length is None else max_length + 2
        batch = np.zeros((len(delimited), width, *values.shape[1:]), np.int32)
        batch[np.arange(width) < lengths[:, None]] = values
        return batch

    def _values(self, words: list[str]) -> np.ndarray:
        if len(self._table) > MAX_CACHED_WORDS:
            self._table = WordTable(self._encode)
        rows = self._table.rows(words)
        return self._table.column(0)[rows]

    def _warn_of_special(self, special: np.ndarray, n_sentences: int) -> None:
        self._warn_once(
            int(special.sum()) - 2 * n_sentences,
            f"tokens are {BOS} or {EOS}, which the batcher adds to every sentence "
            "itself; they are taken for these special words",
        )

    def _warn_once(self, count: int, what: str) -> None:
        if count and what not in self._warned:
            self._warned.add(what)
            logger.warning("%d %s", count, what)


class Batcher(_SentenceBatcher):
    """Sentences to character ids."""

    def __init__(
        self, lm_vocab_file: str | os.PathLike[str] | None, max_token_length: int
    ) -> None:
        """Make a batcher.

        Args:
            lm_vocab_file: the vocabulary file, or None. Characters need no vocabulary:
                a file that is given is only checked.
            max_token_length: C, as `max_characters_per_token` in the options; 50 in
                published models.

        Raises:
            FileNotFoundError, InputError: the file is no vocabulary, or C is under 3.
        """
        check_word_length(max_token_length)
        if lm_vocab_file is not None:
            Vocabulary(lm_vocab_file, require_unk=False)
        self._max_token_length = max_token_length
        super().__init__()

    def _encode(self, words: Sequence[str]) -> np.ndarray:
        return encode_words(words, self._max_token_length) + 1

    def _check(self, values: np.ndarray, n_sentences: int) -> None:
        first = values[:, 1] - 1  # the first character after begin-of-word
        empty = first == EOW_CHARACTER
        self._warn_once(
            int(empty.sum()),
            "tokens have no characters (empty, or halves of a surrogate pair) and are "
            "taken for words of no letters; to pad sentences use max_length",
        )
        special = (first == BOS_CHARACTER) | (first == EOS_CHARACTER)
        self._warn_of_special(special, n_sentences)


class TokenBatcher(_SentenceBatcher):
    """Sentences to word ids, for models of word input and for cached token vectors."""

    def __init__(self, lm_vocab_file: str | os.PathLike[str]) -> None:
        """Make a batcher.

        Args:
            lm_vocab_file: the vocabulary file. It may lack `<UNK>`, if no sentence has
                a word out of it.

        Raises:
            FileNotFoundError, InputError: the file is no vocabulary.
        """
        self._vocabulary = Vocabulary(lm_vocab_file, require_unk=False)
        super().__init__()

    @property
    def n_words(self) -> int:
        """V, the words of the vocabulary."""
        return self._vocabulary.size

    def _encode(self, words: Sequence[str]) -> np.ndarray:
        return self._vocabulary.words_to_ids(words) + 1

    def _check(self, values: np.ndarray, n_sentences: int) -> None:
        special = (values == self._vocabulary.bos + 1) | (
            values == self._vocabulary.eos + 1
        )
        self._warn_of_special(special, n_sentences)
