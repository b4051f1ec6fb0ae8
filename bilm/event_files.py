"""TensorBoard's event files, cut back to a step from which a run goes on.

Source: the record format of TensorFlow: length (uint64, little-endian), its checksum
(4 bytes), the record, its checksum (4 bytes).
"""

import logging
import os
import struct
from pathlib import Path
from typing import BinaryIO

import tensorflow as tf

logger = logging.getLogger(__name__)

PATTERN = "events.out.tfevents.*"
_HEADER, _CHECKSUM = 12, 4


def cut_back(log_dir: str | os.PathLike[str], step: int) -> None:
    """Remove what comes after a step, so that no step will be there twice.

    A half-written record at the end of a file is removed, too.
    """
    for path in sorted(Path(log_dir).glob(PATTERN)):
        with open(path, "rb") as file:
            steps, ends = _events(file)
        kept = next((i for i, at in enumerate(steps) if at > step), len(steps))
        if (size := ends[kept]) < path.stat().st_size:
            os.truncate(path, size)
            dropped = len(steps) - kept
            logger.info("removed %d events after step %d of %s", dropped, step, path)


def _events(file: BinaryIO) -> tuple[list[int], list[int]]:
    """The step of each event, and where each event ends, after that of none."""
    steps, ends = [], [0]
    while len(header := file.read(_HEADER)) == _HEADER:
        (length,) = struct.unpack("<Q", header[:8])
        record = file.read(length)
        if len(record) < length or len(file.read(_CHECKSUM)) < _CHECKSUM:
            break
        steps.append(tf.compat.v1.Event.FromString(record).step)
        ends.append(file.tell())
    return steps, ends
