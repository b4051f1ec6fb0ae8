"""The index of a checkpoint, looked through before TensorFlow reads it.

Where the shape of a variable cannot be, with a right checksum, TensorFlow does not
raise an error: it ends the process. Who was sent a checkpoint deserves a sentence.

The file is a table of LevelDB: blocks of entries, a key and a value each, which share
the beginning of their keys. Behind a block stand a byte, 0 where it is not compressed,
and a checksum, which is TensorFlow's to check. The last 48 bytes say where the block is
that lists the others. A value is a message of `tensor_bundle.proto`.
"""

import math
import os
from collections.abc import Iterator

from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto

from bilm.errors import InputError

MAX_BYTES = 1 << 24
"""A larger file is no index: one of ours has some hundred bytes for each variable."""

_FOOTER_BYTES = 48
_MAGIC = bytes.fromhex("57fb808b247547db")
_MAX_RANK = 8
_MAX_VALUES = 2**62


def check_index(path: str | os.PathLike[str]) -> None:
    """Check that all variables of an index have shapes.

    Raises:
        ValueError, IndexError: the file is damaged, or hostile.
        InputError: it is too large.
    """
    with open(path, "rb") as file:
        table = file.read(MAX_BYTES + 1)
    if len(table) > MAX_BYTES:
        raise InputError(
            f"{os.fspath(path)} has more than {MAX_BYTES:,} bytes, too many for the "
            "index of a checkpoint: name another one"
        )
    if len(table) < _FOOTER_BYTES or not table.endswith(_MAGIC):
        raise ValueError("it is no index of a checkpoint, or cut short")
    for _, place in _entries(_block(table, table[-_FOOTER_BYTES:], skipped=2)):
        for key, value in _entries(_block(table, place)):
            if key:  # the first one is about the file
                _check(key.decode(), BundleEntryProto.FromString(value))


def _check(name: str, entry: BundleEntryProto) -> None:
    sizes = [dimension.size for dimension in entry.shape.dim]
    n_values = math.prod(max(size, 1) for size in sizes)
    if (
        entry.slices
        or len(sizes) > _MAX_RANK
        or min(sizes, default=0) < 0
        or n_values > _MAX_VALUES
    ):
        raise ValueError(f"{name} has no possible shape")


def _block(table: bytes, handle: bytes, skipped: int = 0) -> bytes:
    """The block that a handle names by its offset and size, behind other numbers."""
    place = 0
    for _ in range(skipped):
        _, place = _number(handle, place)
    offset, place = _number(handle, place)
    size, place = _number(handle, place)
    if offset + size >= len(table) or table[offset + size]:
        raise ValueError("a block lies outside of the file, or is compressed")
    return table[offset : offset + size]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values; behind them stand places where keys are whole, and how many."""
    n_places = int.from_bytes(block[-4:], "little")
    place, end, key = 0, len(block) - 4 * (n_places + 1), b""
    while place < end:
        n_shared, place = _number(block, place)
        n_more, place = _number(block, place)
        n_value, place = _number(block, place)
        key = key[:n_shared] + block[place : place + n_more]
        place += n_more + n_value
        yield key, block[place - n_value : place]


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A number in groups of 7 bits, the lowest first, and the place behind it."""
    value = shift = 0
    while shift < 64:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
    raise ValueError("a number of more than 64 bits")
