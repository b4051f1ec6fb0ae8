"""What TensorBoard reads: the event files that a training leaves."""

import glob
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.util import event_pb2


class Point(NamedTuple):
    """A value of a tag."""

    step: int
    value: np.ndarray  # a scalar, or [buckets, 3] of a histogram
    plugin: str  # "scalars" or "histograms"


def read_events(log_dir: Path) -> dict[str, list[Point]]:
    """Points of each tag, in the order of the files."""
    points: dict[str, list[Point]] = {}
    files = sorted(glob.glob(f"{log_dir}/events.out.tfevents.*"))
    for record in tf.data.TFRecordDataset(files):
        event = event_pb2.Event.FromString(record.numpy())
        for value in event.summary.value:
            point = Point(
                event.step,
                tf.make_ndarray(value.tensor),
                value.metadata.plugin_data.plugin_name,
            )
            points.setdefault(value.tag, []).append(point)
    return points


def scalars(events: dict[str, list[Point]], tag: str) -> np.ndarray:
    """The values of a scalar."""
    assert {point.plugin for point in events[tag]} == {"scalars"}
    return np.array([float(point.value) for point in events[tag]])
