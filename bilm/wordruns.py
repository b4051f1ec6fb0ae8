"""Words with their counts in sorted runs on disk: more of them than memory holds.

A run is a file of lines `WORD TAB COUNT`. A word has no white space in it, so that it
needs no quoting.
"""

import heapq
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

WordCount = tuple[str, int]
Key = Callable[[WordCount], tuple[int, str]]

MAX_OPEN = 128
"""Runs that are merged at a time: systems limit the number of open files."""


def by_frequency(item: WordCount) -> tuple[int, str]:
    """The key of the order of a vocabulary: descending count, ties by code point."""
    word, count = item
    return -count, word


def write_run(folder: str, items: Iterable[WordCount]) -> str:
    """Write words as a file of its own in a folder, in the order given.

    Returns:
        Its path.
    """
    handle, path = tempfile.mkstemp(dir=folder)
    with open(handle, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"{word}\t{count}\n" for word, count in items)
    return path


def read_run(path: str) -> Iterator[WordCount]:
    """Read the words of a run."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            word, _, count = line.partition("\t")
            yield word, int(count)


def join_runs(paths: Sequence[str], folder: str) -> str:
    """Merge runs ordered by code point into one; counts of equal words are added up.

    Args:
        paths: one run or more; where several were merged, they are removed.
        folder: place of those that are made.

    Returns:
        The path of the one that is left.
    """
    while len(paths) > 1:
        some = paths[:MAX_OPEN]
        paths = [*paths[MAX_OPEN:], write_run(folder, _summed(_merged(some)))]
        for path in some:
            os.unlink(path)
    return paths[0]


def most_frequent_first(
    items: Iterable[WordCount], folder: str, max_words: int
) -> Iterator[WordCount]:
    """Order distinct words as in a vocabulary.

    Args:
        items: any number of words, ordered by code point.
        folder: place of runs.
        max_words: how many are held in memory.
    """
    items, paths = iter(items), list[str]()
    while run := list(itertools.islice(items, max_words)):
        run.sort(key=itemgetter(1), reverse=True)  # stable: ties keep their order
        if not paths and len(run) < max_words:
            return iter(run)
        paths.append(write_run(folder, run))
    return _merged(paths, by_frequency)


def _merged(paths: Sequence[str], key: Key | None = None) -> Iterator[WordCount]:
    return heapq.merge(*map(read_run, paths), key=key)


def _summed(items: Iterable[WordCount]) -> Iterator[WordCount]:
    for word, same in itertools.groupby(items, itemgetter(0)):
        yield word, sum(count for _, count in same)
