"""Words and their ids, from a vocabulary file.

The file has one word a line, in UTF-8; its line number, from 0, is the word's id. The
lines `<S>`, `</S>` and `<UNK>` are needed. For training the words are in descending
order of frequency, because the sampled softmax draws low ids more often.

Letters: V words in the vocabulary, C characters per word.
"""

import functools
import logging
import os
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bilm import characters
from bilm.characters import BOS, EOS, UNK, encode_words
from bilm.errors import InputError, shortened
from bilm.text import LineReader

logger = logging.getLogger(__name__)


class Vocabulary:
    """The words of a vocabulary file, with their ids.

    Attributes:
        size: V, the number of lines of the file.
        bos: id of `<S>`, which begins a sentence.
        eos: id of `</S>`, which ends it.
        words: the words in the order of the file; not to be changed.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        validate_file: bool = False,
        *,
        require_unk: bool = True,
    ) -> None:
        """Read the file.

        Args:
            filename: the vocabulary file, plain or gzipped.
            validate_file: taken for the sake of bilm-tf's callers; the checks that it
                asked for are always made.
            require_unk: whether `<UNK>` must be there. Token embeddings may be made
                for the words of one data set alone, without it; a word out of such a
                vocabulary is an error when it is met.

        Raises:
            FileNotFoundError: there is no such file.
            InputError: it is not text, a line is blank, or a special word is missing.
        """
        self._filename = os.fspath(filename)
        self.words = _read_words(self._filename)
        # Of a word that stands twice, the last line counts, as in bilm-tf.
        self._ids = {word: i for i, word in enumerate(self.words)}
        self.size = len(self.words)
        _check_special(self._filename, self._ids, (BOS, EOS, UNK)[: 2 + require_unk])
        self.bos = self._ids[BOS]
        self.eos = self._ids[EOS]
        if duplicates := self.size - len(self._ids):
            logger.warning(
                "%s has %d lines with a word that comes again further down; "
                "the last line of such a word is its id",
                self._filename,
                duplicates,
            )

    @property
    def unk(self) -> int:
        """Id of `<UNK>`, which stands for all words out of the vocabulary."""
        if UNK not in self._ids:
            raise InputError(f"{self._filename} lacks the word {UNK}")
        return self._ids[UNK]

    @property
    def encoders(self) -> list[Callable[[Sequence[str]], np.ndarray]]:
        """What makes numbers of n words, for the columns of a `WordTable`: ids."""
        return [self.words_to_ids]

    def __contains__(self, word: object) -> bool:
        """Whether a word has a line of its own."""
        return word in self._ids

    def word_to_id(self, word: str) -> int:
        """Give the id of a word, that of `<UNK>` for an unknown one."""
        return int(self.words_to_ids([word])[0])

    def words_to_ids(self, words: Sequence[str]) -> np.ndarray:
        """Give the ids of n words, [n] int32.

        Raises:
            InputError: a word is unknown and the vocabulary has no `<UNK>`.
        """
        unk = self._ids.get(UNK)
        ids = [self._ids.get(word, unk) for word in words]
        if unk is None and None in ids:
            word = shortened(words[ids.index(None)])
            raise InputError(
                f"the word {word!r} is not in {self._filename}, "
                f"which has no {UNK} to stand for it: add either of them as a line"
            )
        return np.array(ids, np.int32)

    def id_to_word(self, word_id: int) -> str:
        """Give the word of an id.

        Raises:
            InputError: the id is not one of 0 to V - 1.
        """
        if not 0 <= word_id < self.size:
            raise InputError(
                f"a word id must be from 0 to {self.size - 1} ({self._filename} has "
                f"{self.size} words), not {word_id}"
            )
        return self.words[word_id]

    def decode(self, ids: Iterable[int]) -> str:
        """Join the words of ids by blanks."""
        return " ".join(self.id_to_word(word_id) for word_id in ids)

    def encode(
        self, sentence: str | Sequence[str], reverse: bool = False, split: bool = True
    ) -> np.ndarray:
        """Encode a sentence as word ids.

        Args:
            sentence: n tokens, as text where `split` is true, else as a list.
            reverse: from the last token to the first, `</S>` in front.
            split: whether to split the sentence by white space.

        Returns:
            Ids of `<S>`, the tokens and `</S>`, [n + 2] int32.

        Raises:
            InputError: a text without `split`, or a list with it.
        """
        return self.words_to_ids(_delimited(sentence, reverse, split))


class UnicodeCharsVocabulary(Vocabulary):
    """A vocabulary that gives the characters of words too, of unknown ones as well.

    Characters are UTF-8 bytes (see `bilm.characters`), whatever the script.

    Attributes:
        max_word_length: C, characters per word with its begin and end.
        bos_char, eos_char: ids of the characters of `<S>` and `</S>`.
        bow_char, eow_char: ids of begin and end of a word.
        pad_char: id that fills a word up to C.
    """

    bos_char = characters.BOS_CHARACTER
    eos_char = characters.EOS_CHARACTER
    bow_char = characters.BOW_CHARACTER
    eow_char = characters.EOW_CHARACTER
    pad_char = characters.PAD_CHARACTER

    def __init__(
        self, filename: str | os.PathLike[str], max_word_length: int, **kwargs: Any
    ) -> None:
        """Read the file.

        Args:
            filename: the vocabulary file.
            max_word_length: C, at least 3; longer words are cut.
            **kwargs: see `Vocabulary`.

        Raises:
            FileNotFoundError, InputError: see `Vocabulary`.
        """
        check_word_length(max_word_length)
        super().__init__(filename, **kwargs)
        self.max_word_length = max_word_length

    @property
    def encoders(self) -> list[Callable[[Sequence[str]], np.ndarray]]:
        """Ids, and characters [n, C]."""
        return [self.words_to_ids, self.words_to_char_ids]

    @functools.cached_property
    def word_char_ids(self) -> np.ndarray:
        """Characters of all words of the vocabulary, [V, C] int32, made when asked."""
        return self.words_to_char_ids(self.words).astype(np.int32)

    def word_to_char_ids(self, word: str) -> np.ndarray:
        """Give the characters of a word, [C] int32."""
        return self.words_to_char_ids([word])[0].astype(np.int32)

    def words_to_char_ids(self, words: Sequence[str]) -> np.ndarray:
        """Give the characters of n words, [n, C] int16."""
        return encode_words(words, self.max_word_length)

    def encode_chars(
        self, sentence: str | Sequence[str], reverse: bool = False, split: bool = True
    ) -> np.ndarray:
        """Encode a sentence as characters, [n + 2, C] int32; arguments as `encode`."""
        words = _delimited(sentence, reverse, split)
        return self.words_to_char_ids(words).astype(np.int32)


def check_word_length(length: int) -> None:
    """Refuse a number of characters per word that leaves no room for one byte."""
    if length < characters.MIN_WORD_LENGTH:
        raise InputError(
            f"a word needs at least {characters.MIN_WORD_LENGTH} characters (begin, "
            f"one byte, end), not {length}; 50 is usual"
        )


def check_tokens(sentence: object) -> None:
    """Refuse a text, or what is no list at all, where a list of tokens is needed."""
    if isinstance(sentence, (str, bytes)):
        raise InputError(
            f"a sentence must be a list of tokens, not the text {sentence[:40]!r}: "
            "split it first"
        )
    if not isinstance(sentence, Iterable):
        raise InputError(
            f"sentences must be lists of tokens, not {reprlib.repr(sentence)}"
        )


def _delimited(sentence: str | Sequence[str], reverse: bool, split: bool) -> list[str]:
    if not split:
        check_tokens(sentence)
        tokens = list(sentence)
    elif isinstance(sentence, str):
        tokens = sentence.split()
    else:
        raise InputError(
            f"a sentence to split must be a text, not {type(sentence).__name__}: give "
            "split=False with a list of tokens"
        )
    words = [BOS, *tokens, EOS]
    return words[::-1] if reverse else words


def _read_words(filename: str) -> list[str]:
    words = []
    for number, line in enumerate(LineReader(filename), 1):
        word = line.strip()
        if not word:
            raise InputError(
                f"{filename}:{number} is empty: a vocabulary has one word on "
                "each line; remove the line"
            )
        words.append(word)
    return words


def _check_special(filename: str, ids: dict[str, int], needed: tuple[str, ...]) -> None:
    missing = [word for word in needed if word not in ids]
    if missing:
        raise InputError(
            f"{filename} lacks {' and '.join(missing)}: a vocabulary needs the lines "
            f"{BOS}, {EOS} and {UNK}; add what is missing as a line of its own, before "
            "a model is trained with it (in a trained model the ids are fixed)"
        )
