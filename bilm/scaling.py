"""How fast a training is on several machines: measured, or reckoned from its traffic.

What is not measured is taken to be the time of a step alone and that of sending its
gradients, one after the other, by a bandwidth that the user states. Where the two
overlap it is faster, where the network is shared it is slower.
"""

from collections.abc import Sequence
from typing import NamedTuple

from bilm.traffic import GradientSize, Traffic

RECKONED = (2, 8, 64)  # workers
DEFAULT_BANDWIDTH = 10.0  # Gbit/s
_BYTES = 1e9 / 8  # of a Gbit


class Scaling(NamedTuple):
    """A training by a number of workers.

    Attributes:
        workers: W.
        tokens_per_second: of each direction, all workers together.
        efficiency: that number over W times the one of a worker alone.
        traffic: bytes that each device, and so each machine, sends in a step.
        measured: or else reckoned.
    """

    workers: int
    tokens_per_second: float
    efficiency: float
    traffic: Traffic
    measured: bool


def scaling(
    tokens: float,
    measured: dict[int, float],
    devices: int,
    sizes: Sequence[GradientSize],
    bandwidth: float,
) -> list[Scaling]:
    """Reckon from what was measured.

    Args:
        tokens: of a step of one worker.
        measured: seconds of a step by the number of workers, one number at least.
        devices: of each worker.
        sizes: of the gradients.
        bandwidth: of each machine's network, in Gbit/s.
    """

    def sending(workers: int) -> float:
        if workers == 1:
            return 0.0  # inside the machine
        return sum(Traffic.of(sizes, workers * devices)) / (bandwidth * _BYTES)

    fewest = min(measured)
    alone = max(measured[fewest] - sending(fewest), 0.0)
    lines = []
    for workers in sorted({1, *measured, *RECKONED}):
        seconds = measured.get(workers, alone + sending(workers))
        lines.append(
            Scaling(
                workers,
                workers * tokens / seconds,
                alone / seconds,
                Traffic.of(sizes, workers * devices) if workers > 1 else Traffic(0, 0),
                workers in measured,
            )
        )
    return lines
