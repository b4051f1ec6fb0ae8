"""What a text is like: its size, its lengths, and how a vocabulary covers it."""

import itertools
import logging
import os
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bilm.counting import counted_text
from bilm.vocabulary import Vocabulary, check_word_length

logger = logging.getLogger(__name__)

MANY_CUT = 0.01
"""A larger share of tokens that are cut deserves a warning."""


class Amount(NamedTuple):
    """Some of the words of a text."""

    n_tokens: int
    n_types: int  # distinct words


class TextStatistics(NamedTuple):
    """What a text is like.

    Attributes:
        n_blank: blank lines.
        all: its words.
        once: words that occur once.
        cut: words that are longer than the encoder reads.
        known: words of the vocabulary, None without one.
        n_unused: words of the vocabulary that the text lacks, without one 0.
        sentence_lengths: sentences (blank lines included) by their number of tokens.
        token_bytes: tokens by their number of bytes.
    """

    n_blank: int
    all: Amount
    once: Amount
    cut: Amount
    known: Amount | None
    n_unused: int
    sentence_lengths: Counter[int]
    token_bytes: Counter[int]


def measure_text(
    files: Sequence[str],
    *,
    vocab_file: str | os.PathLike[str] | None = None,
    max_characters: int = 50,
    processes: int = 1,
) -> TextStatistics:
    """Measure a text.

    Args:
        files: of the text, see `bilm.text.find_files`.
        vocab_file: a vocabulary, whose coverage is measured.
        max_characters: `max_characters_per_token` of a model, which reads this minus 2
            bytes of a token.
        processes: see `counted_text`.

    Raises:
        FileNotFoundError, InputError: see `counted_text` and `Vocabulary`.
    """
    check_word_length(max_characters)
    words = None if vocab_file is None else set(Vocabulary(vocab_file).words)
    # The words of each kind, by the number of tokens that they make.
    kinds = {name: Counter[int]() for name in ("all", "cut", "known")}
    token_bytes = Counter[int]()
    with counted_text(files, processes=processes) as text:
        for word, count in text.words():
            size = len(word.encode())
            token_bytes[size] += count
            kinds["all"][count] += 1
            if size > max_characters - 2:
                kinds["cut"][count] += 1
            if words is not None and word in words:
                kinds["known"][count] += 1
        everything, cut, known = map(_amount, kinds.values())
        n_once = kinds["all"][1]
        warn_of_cut(cut, everything, max_characters - 2)
        return TextStatistics(
            n_blank=text.n_blank,
            all=everything,
            once=Amount(n_once, n_once),
            cut=cut,
            known=None if words is None else known,
            n_unused=0 if words is None else len(words) - known.n_types,
            sentence_lengths=text.lengths,
            token_bytes=token_bytes,
        )


def quantile(histogram: Counter[int], share: float) -> int:
    """The smallest value that this share of all is not above.

    >>> quantile(Counter({3: 1, 5: 8, 9: 1}), 0.9)
    5
    """
    values = sorted(histogram)
    below = itertools.accumulate(histogram[value] for value in values)
    needed = share * histogram.total()
    return next(v for v, n in zip(values, below, strict=True) if n >= needed)


def mean(histogram: Counter[int]) -> float:
    """The mean of the values."""
    return sum(value * n for value, n in histogram.items()) / histogram.total()


def _amount(types_by_count: Counter[int]) -> Amount:
    n_tokens = sum(count * n for count, n in types_by_count.items())
    return Amount(n_tokens, types_by_count.total())


def warn_of_cut(cut: Amount, everything: Amount, n_bytes: int) -> None:
    """Warn where many tokens of a text are longer than the encoder reads."""
    share = cut.n_tokens / everything.n_tokens
    if share > MANY_CUT:
        logger.warning(
            "%.1f %% of the tokens are longer than %d bytes and are cut there: is the "
            "text tokenised? Scripts of several bytes a character may need a larger "
            "max_characters_per_token",
            100 * share,
            n_bytes,
        )
