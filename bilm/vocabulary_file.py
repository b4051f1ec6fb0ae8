"""Making a vocabulary from text: `<S>`, `</S>`, `<UNK>`, then words by frequency.

The sampled softmax draws the first words of a vocabulary more often than the last, and
relies on this order.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bilm.characters import BOS, EOS, UNK
from bilm.counting import MEMORY_WORDS, TextCounts, counted_text
from bilm.errors import InputError
from bilm.files import replacing
from bilm.paths import check_no_input
from bilm.wordruns import WordCount, most_frequent_first

SPECIAL = (BOS, EOS, UNK)


class VocabularySummary(NamedTuple):
    """What the words of a text have become.

    Attributes:
        n_sentences: lines of the text, blank ones included.
        n_blank: blank lines.
        n_tokens: tokens of the text.
        n_types: distinct words among them.
        n_words: lines of the vocabulary, the three special ones included.
        n_left_out: distinct words that the vocabulary lacks.
        n_unknown: tokens that they make, which `<UNK>` stands for.
        special: how often the text itself has each of the special words.
    """

    n_sentences: int
    n_blank: int
    n_tokens: int
    n_types: int
    n_words: int
    n_left_out: int
    n_unknown: int
    special: dict[str, int]


def counts_file(vocab_file: str | os.PathLike[str]) -> Path:
    """The path of the counts that lie beside a vocabulary.

    >>> counts_file("vocab.txt").name
    'vocab.counts.tsv'
    """
    path = Path(vocab_file)
    return path.with_name(f"{path.name.removesuffix('.txt')}.counts.tsv")


def write_vocabulary(
    files: Sequence[str],
    vocab_file: str | os.PathLike[str],
    *,
    min_count: int = 1,
    max_size: int | None = None,
    processes: int = 1,
    memory_words: int = MEMORY_WORDS,
) -> VocabularySummary:
    """Write the vocabulary of a text, and the counts of its words beside it.

    The counts are lines `WORD TAB COUNT` in the order of the vocabulary. That of
    `<UNK>` includes the tokens of the words left out, so that they add up to the tokens
    of the text.

    Args:
        files: of the training text, see `bilm.text.find_files`.
        vocab_file: the file to write; both files appear whole or not at all.
        min_count: words that occur less often are left out.
        max_size: most lines of the vocabulary; by default as many as there are words.
        processes, memory_words: see `counted_text`.

    Raises:
        FileNotFoundError, InputError: see `counted_text`; or an output is an input.
    """
    counts_path = counts_file(vocab_file)
    for path in (vocab_file, counts_path):
        check_no_input(path, files)
    if max_size is not None and max_size <= len(SPECIAL):
        raise InputError(
            f"a vocabulary needs {', '.join(SPECIAL)} and a word at least, so that "
            f"max_size must be 4 or more, not {max_size}"
        )
    most = None if max_size is None else max_size - len(SPECIAL)
    folder = Path(vocab_file).absolute().parent  # for /tmp may lie in memory
    with counted_text(
        files, processes=processes, memory_words=memory_words, folder=folder
    ) as text:
        tally = _Tally(text, min_count)
        ordered = most_frequent_first(tally, text.folder, memory_words)
        with replacing(vocab_file) as one, replacing(counts_path) as other:
            n_kept, n_unknown = _write(
                one, other, itertools.islice(ordered, most), tally
            )
        return VocabularySummary(
            n_sentences=text.n_sentences,
            n_blank=text.n_blank,
            n_tokens=text.n_tokens,
            n_types=tally.n_types,
            n_words=n_kept + len(SPECIAL),
            n_left_out=tally.n_types - n_kept - sum(map(bool, tally.special.values())),
            n_unknown=n_unknown,
            special=tally.special,
        )


class _Tally:
    """The words of a text that may enter the vocabulary, and a tally of all.

    Attributes:
        text: the text.
        n_types: distinct words met.
        special: counts of the special words met.
    """

    def __init__(self, text: TextCounts, min_count: int) -> None:
        self.text = text
        self.n_types = 0
        self.special = dict.fromkeys(SPECIAL, 0)
        self._min_count = min_count

    def __iter__(self) -> Iterator[WordCount]:
        for item in self.text.words():
            word, count = item
            self.n_types += 1
            if word in self.special:
                self.special[word] = count
            elif count >= self._min_count:
                yield item


def _write(
    vocab_file: Path, counts_path: Path, kept: Iterable[WordCount], tally: _Tally
) -> tuple[int, int]:
    """Write both files; returns how many words were kept, and the unknown tokens."""
    n_kept = n_known = 0
    with (
        open(vocab_file, "w", encoding="utf-8", newline="") as words,
        open(counts_path, "w", encoding="utf-8", newline="") as counts,
        tempfile.TemporaryFile(
            "w+", dir=tally.text.folder, encoding="utf-8", newline=""
        ) as body,  # behind the special words, whose counts are not known before
    ):
        words.writelines(f"{word}\n" for word in SPECIAL)
        for word, count in kept:
            words.write(f"{word}\n")
            body.write(f"{word}\t{count}\n")
            n_kept += 1
            n_known += count
        n_unknown = tally.text.n_tokens - n_known - sum(tally.special.values())
        special = tally.special | {UNK: tally.special[UNK] + n_unknown}
        counts.writelines(f"{word}\t{count}\n" for word, count in special.items())
        body.seek(0)
        shutil.copyfileobj(body, counts)
    return n_kept, n_unknown
