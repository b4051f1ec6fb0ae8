"""A sample of a training text, and the warnings that it gives before the first step.

What is wrong with a vocabulary or a tokenisation shows in a million tokens, and costs
weeks where it is found at the end of a training.
"""

import logging
import os
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bilm.options import TrainingOptions
from bilm.text import LineReader, is_gzip
from bilm.text_statistics import Amount, warn_of_cut
from bilm.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

SAMPLE_TOKENS = 1_000_000
MANY_UNKNOWN = 0.2
MANY_MISPLACED = 0.02
MISCOUNTED = 0.2
"""Larger shares of tokens deserve a warning."""

_FREQUENT = 10  # occurrences, from which a word's place among the others is sure
_FAR = 10  # times the line that a word would have by its frequency


class CorpusSample(NamedTuple):
    """The beginnings of all files of a text."""

    counts: Counter[str]  # of each word
    all_tokens: float | None  # of the whole text, estimated; None where it is gzipped


def read_sample(files: Sequence[str], n_tokens: int = SAMPLE_TOKENS) -> CorpusSample:
    """Read the beginning of each file, about so many tokens in all.

    Raises:
        FileNotFoundError, InputError: see `bilm.text.LineReader`.
    """
    counts, estimate, is_known = Counter[str](), 0.0, True
    for path in files:
        reader, taken = LineReader(path), 0.0
        size = os.path.getsize(path)
        for line in reader:
            tokens = line.split()
            counts.update(tokens)
            taken += len(tokens)
            if taken * len(files) >= n_tokens:
                is_known &= not is_gzip(path)  # of which the size says nothing
                taken *= size / reader.position.offset
                break
        estimate += taken
    return CorpusSample(counts, estimate if is_known else None)


def warn_of_text(
    files: Sequence[str], vocab: Vocabulary, options: TrainingOptions
) -> None:
    """Warn, with numbers, of what would spoil a training on this text.

    Words out of the vocabulary, tokens cut at the character limit, a vocabulary that is
    not in order of frequency, a wrong `n_train_tokens`.

    Raises:
        FileNotFoundError, InputError: see `bilm.text.LineReader`.
    """
    sample = read_sample(files)
    n_tokens = sample.counts.total()
    if not n_tokens:
        return
    _warn_of_unknown(sample.counts, n_tokens, vocab)
    if options.char_cnn is not None:
        n_bytes = options.char_cnn.max_characters_per_token - 2
        _warn_of_cut(sample.counts, n_tokens, n_bytes)
    if options.samples:
        _warn_of_order(sample.counts, n_tokens, vocab)
    if sample.all_tokens is not None:
        _warn_of_count(options.n_train_tokens, sample.all_tokens)


def _warn_of_unknown(counts: Counter[str], n_tokens: int, vocab: Vocabulary) -> None:
    unknown = sum(count for word, count in counts.items() if word not in vocab)
    if unknown > MANY_UNKNOWN * n_tokens:
        logger.warning(
            "%.1f %% of the tokens are not in the vocabulary and are <UNK> as targets: "
            "are text and vocabulary of the same language and tokenisation? bilm vocab "
            "makes one of the text",
            100 * unknown / n_tokens,
        )


def _warn_of_cut(counts: Counter[str], n_tokens: int, n_bytes: int) -> None:
    cut = [n for word, n in counts.items() if len(word.encode()) > n_bytes]
    warn_of_cut(Amount(sum(cut), len(cut)), Amount(n_tokens, len(counts)), n_bytes)


def _warn_of_order(counts: Counter[str], n_tokens: int, vocab: Vocabulary) -> None:
    """Compare the line of each frequent word with its place by frequency."""
    known = [(word, n) for word, n in counts.most_common() if word in vocab]
    frequent = [(word, n) for word, n in known if n >= _FREQUENT]
    ids = vocab.words_to_ids([word for word, _ in frequent])
    late = [
        (word, n, int(line))
        for rank, ((word, n), line) in enumerate(zip(frequent, ids, strict=True), 1)
        if line > _FAR * (rank + 3)  # <S>, </S> and <UNK> may stand before it
    ]
    n_late = sum(n for _, n, _ in late)
    if n_late > MANY_MISPLACED * n_tokens:
        word, n, line = late[0]
        logger.warning(
            "the vocabulary is not in order of frequency: %.1f %% of the tokens are "
            "words that stand far too late, such as %r, %d times in %d tokens and "
            "on line %d; the sampled softmax hardly ever draws them, and the test "
            "perplexity will be far above that of training: make the vocabulary by "
            "bilm vocab",
            100 * n_late / n_tokens,
            word,
            n,
            n_tokens,
            line + 1,
        )


def _warn_of_count(given: int, estimated: float) -> None:
    if given and abs(given - estimated) > MISCOUNTED * estimated:
        logger.warning(
            "n_train_tokens is %s, but the text has about %s tokens, by which the "
            "number of steps of an epoch should go: with 0 they are counted",
            f"{given:,}",
            f"{estimated:,.0f}",
        )
