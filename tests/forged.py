"""Checkpoints' indexes with other entries and right checksums, as by ill intent."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tensorflow.core.protobuf.tensor_bundle_pb2 import BundleEntryProto

from bilm.checkpoint_index import _block, _entries

MAGIC = 0xDB4775248B80FB57


def forge(path: Path, name: str, change: Callable[[BundleEntryProto], object]) -> None:
    """Write the index anew, with the entry of one variable changed."""
    entries = dict(_all_entries(path.read_bytes()))
    entry = BundleEntryProto.FromString(entries[name.encode()])
    change(entry)
    entries[name.encode()] = entry.SerializeToString()
    table, handles = b"", []
    # A block of entries, one of nothing, and the one that lists the first.
    for block in (entries, {}, {b"~": b""}):
        if b"~" in block:
            block = {b"~": handles[0]}
        content = _written(block)
        handles.append(_number(len(table)) + _number(len(content)))
        checksum = _masked(_crc32c(content + b"\0"))
        table += content + b"\0" + struct.pack("<I", checksum)
    footer = (handles[1] + handles[2]).ljust(40, b"\0") + struct.pack("<Q", MAGIC)
    path.write_bytes(table + footer)


def _all_entries(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    for _, place in _entries(_block(table, table[-48:], skipped=2)):
        yield from _entries(_block(table, place))


def _written(entries: dict[bytes, bytes]) -> bytes:
    """A block in which each key is whole."""
    block, places = b"", []
    for key, value in entries.items():
        places.append(len(block))
        block += _number(0) + _number(len(key)) + _number(len(value)) + key + value
    places = places or [0]
    return block + struct.pack(f"<{len(places) + 1}I", *places, len(places))


def _number(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def _masked(value: int) -> int:
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
