"""Lines in random order, more of them than memory holds.

They are dealt at random to buckets on disk, and each bucket is shuffled in memory; one
that is too large is dealt out again. Every order is as likely as any other (C. R. Rao,
Sankhya 1961; M. Sandelius, Journal of the Royal Statistical Society B 1962).
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

N_BUCKETS = 64

BUCKET_BYTES = 1 << 25
BUCKET_LINES = 1 << 19
"""A bucket that has more is not read into memory, which then takes 100 MB or so."""

_DRAWN_TOGETHER = 1 << 12


class Bucket(NamedTuple):
    """Lines in a file."""

    path: str
    n_lines: int
    n_bytes: int


def deal(
    lines: Iterable[bytes], random: np.random.Generator, folder: str
) -> list[Bucket]:
    """Deal lines, given without their ends, to new files in a folder."""
    n_lines = [0] * N_BUCKETS
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(tempfile.NamedTemporaryFile(dir=folder, delete=False))
            for _ in range(N_BUCKETS)
        ]
        for line, bucket in zip(lines, _draws(random), strict=False):
            files[bucket].write(line + b"\n")
            n_lines[bucket] += 1
        sizes = [file.tell() for file in files]
    names = [file.name for file in files]
    return [Bucket(*each) for each in zip(names, n_lines, sizes, strict=True)]


def _draws(random: np.random.Generator) -> Iterator[int]:
    """Numbers of buckets, without end."""
    while True:
        yield from random.integers(N_BUCKETS, size=_DRAWN_TOGETHER).tolist()


def collect(
    buckets: Iterable[Bucket], random: np.random.Generator, folder: str
) -> Iterator[bytes]:
    """Give the lines of buckets in random order, and remove the files."""
    for bucket in buckets:
        too_large = bucket.n_bytes > BUCKET_BYTES or bucket.n_lines > BUCKET_LINES
        if too_large and bucket.n_lines > 1:
            yield from collect(deal(_lines(bucket), random, folder), random, folder)
        else:
            lines = list(_lines(bucket))
            yield from (lines[i] for i in random.permutation(len(lines)))
        os.unlink(bucket.path)


def _lines(bucket: Bucket) -> Iterator[bytes]:
    with open(bucket.path, "rb") as file:
        for line in file:
            yield line[:-1]
