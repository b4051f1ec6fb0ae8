"""From text as it comes to shards: shuffled sentences, some of them held out."""

import itertools
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from bilm.bars import progress_bar
from bilm.errors import InputError
from bilm.files import replacing_folder
from bilm.paths import check_folder, check_no_input, check_output_folder
from bilm.shuffling import collect, deal
from bilm.text import LineReader, no_text

HELD_OUT = "heldout.txt"
_OUTPUT = re.compile(r"train-\d+\.txt|heldout\.txt")


class Size(NamedTuple):
    """What a text holds."""

    n_sentences: int
    n_tokens: int


class Prepared(NamedTuple):
    """Where the sentences of a text have gone.

    Attributes:
        text: what was read, without blank lines.
        n_blank: blank lines, which are left out.
        heldout: what was held out.
        shards: what each shard has.
    """

    text: Size
    n_blank: int
    heldout: Size
    shards: list[Size]

    @property
    def training(self) -> Size:
        """What all shards have."""
        return _sum(self.shards)


def prepare_text(
    files: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    n_shards: int = 10,
    heldout: float | int = 0.01,
    seed: int | None = None,
    overwrite: bool = False,
) -> Prepared:
    """Shuffle the sentences of a text over shards, and hold some out.

    The folder gets `train-0.txt` and so on, whose numbers of sentences differ by one
    at most, and `heldout.txt`. Lines are written as they were read, but for blank ones,
    which are left out: where the order is random, they separate nothing. Memory does
    not depend on the text; on disk, there are two copies of it for a while.

    Args:
        files: of the text, see `bilm.text.find_files`.
        folder: the folder to make; it appears whole or not at all.
        n_shards: number of training files.
        heldout: sentences to hold out, a share of them (a float below 1) or their
            number (an int).
        seed: of the order; by default from the operating system.
        overwrite: replace a folder that an earlier call has made.

    Raises:
        FileNotFoundError, InputError: see `LineReader`; the folder is not empty, or an
            input lies in it; or there are too few sentences.
    """
    _check_folder(Path(folder), files, overwrite)
    random = np.random.default_rng(seed)
    source = _Sentences(files)
    with (
        replacing_folder(folder) as partial,
        tempfile.TemporaryDirectory(dir=partial) as place,
    ):
        buckets = deal(source, random, place)
        lines = collect(buckets, random, place)
        n_sentences = source.n_sentences
        if not n_sentences:
            raise no_text(files, "token")
        n_held_out = (
            heldout if isinstance(heldout, int) else round(heldout * n_sentences)
        )
        sizes = _shares(n_sentences, n_held_out, n_shards)
        with progress_bar(n_sentences, "sentence", "writing") as bar:
            held_out, *shards = (
                _write(partial / name, lines, size, bar)
                for name, size in zip(_names(n_shards), sizes, strict=True)
            )
        if not n_held_out:
            (partial / HELD_OUT).unlink()  # no file is clearer than one without text
    read = Size(n_sentences, source.n_tokens)
    assert _sum([held_out, *shards]) == read
    return Prepared(read, source.n_blank, held_out, shards)


class _Sentences:
    """The lines of a text but for blank ones, without their ends, and their number."""

    def __init__(self, files: Sequence[str]) -> None:
        self.n_sentences = self.n_blank = self.n_tokens = 0
        self._files = files

    def __iter__(self) -> Iterator[bytes]:
        with progress_bar(None, "line", "reading") as bar:
            for line in itertools.chain.from_iterable(map(LineReader, self._files)):
                bar.update()
                if n_tokens := len(line.split()):
                    self.n_sentences += 1
                    self.n_tokens += n_tokens
                    yield line.removesuffix("\n").encode()
                else:
                    self.n_blank += 1


def _names(n_shards: int) -> list[str]:
    digits = len(str(n_shards - 1))
    return [HELD_OUT, *(f"train-{shard:0{digits}}.txt" for shard in range(n_shards))]


def _shares(n_sentences: int, n_held_out: int, n_shards: int) -> list[int]:
    """Sentences of each file: those held out, and of each shard."""
    n_training = n_sentences - n_held_out
    if n_training < n_shards:
        raise InputError(
            f"each of {n_shards} shards needs a sentence, but the text has "
            f"{n_sentences:,}, of which {n_held_out:,} are held out: make fewer shards "
            "or hold out less"
        )
    smaller, n_larger = divmod(n_training, n_shards)
    return [n_held_out, *(smaller + (shard < n_larger) for shard in range(n_shards))]


def _write(path: Path, lines: Iterator[bytes], n_lines: int, bar: tqdm) -> Size:
    """Write the next lines."""
    n_tokens = 0
    with open(path, "wb") as file:
        for line in itertools.islice(lines, n_lines):
            file.write(line + b"\n")
            n_tokens += len(line.decode().split())
            bar.update()
    return Size(n_lines, n_tokens)


def _sum(sizes: Sequence[Size]) -> Size:
    return Size(*map(sum, zip(*sizes, strict=True)))


def _check_folder(folder: Path, files: Sequence[str], overwrite: bool) -> None:
    """Refuse to put the output where something else is."""
    check_folder(folder.parent)
    check_output_folder(folder, _OUTPUT, "bilm prepare", overwrite)
    for path in folder.glob("*"):
        check_no_input(path, files)
