"""The processes of a training on several machines: their addresses, and which is this.

Each process is a worker. Worker 0 is the chief, which alone writes files. Sources: the
variable `TF_CONFIG` of TensorFlow, a list of addresses, or SLURM's variables.
"""

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from bilm.errors import InputError

SLURM = "slurm"
FLAG = "--cluster"
_FIRST_PORT = 8888  # of a machine's processes under SLURM
_JOBS = ("chief", "worker")  # of TF_CONFIG: the chief, where it has a job, comes first
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[^\s:,]+):(\d{1,5})")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a training.

    Attributes:
        addresses: `host:port` of each, in the same order everywhere.
        index: of this process.
    """

    addresses: tuple[str, ...]
    index: int

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return len(self.addresses)

    def place(self, index: int) -> tuple[str, int]:
        """Host and port of a worker."""
        host, _, port = self.addresses[index].rpartition(":")
        return host.strip("[]"), int(port)

    def name(self, index: int) -> str:
        """A worker as messages call it."""
        return f"worker {index} ({self.addresses[index]})"


def find_cluster(
    flag: str | None = None,
    index: int | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Cluster | None:
    """The cluster that this process belongs to; None where it is the only one.

    Args:
        flag: `slurm`, or addresses with commas between them; None for that of
            `TF_CONFIG`, if there is one.
        index: of this process in the addresses; the others know it themselves.
        environment: variables.

    Raises:
        InputError: a rule is broken.
    """
    if index is not None and flag in (None, SLURM):
        raise InputError(
            f"--worker_index {index} counts the addresses of --cluster "
            f"host1:port,host2:port, but {_said(flag)}"
        )
    if flag is None:
        found = _of_tf_config(environment.get("TF_CONFIG", ""))
    elif flag == SLURM:
        found = _of_slurm(environment)
    else:
        found = _of_addresses(flag, index)
    return found if found is not None and found.n_workers > 1 else None


def _said(flag: str | None) -> str:
    if flag is None:
        return "there is no --cluster"
    return f"--cluster {flag} knows the worker itself: leave one of them out"


def _of_addresses(flag: str, index: int | None) -> Cluster:
    addresses = tuple(flag.split(","))
    if index is None:
        raise InputError(
            f"--cluster {flag} needs --worker_index, from 0 to {len(addresses) - 1}: "
            "which of the addresses this process has"
        )
    return _checked(FLAG, addresses, index)


def _of_tf_config(text: str) -> Cluster | None:
    """The cluster of TF_CONFIG; None where it has none."""
    if not text.strip():
        return None
    try:
        values = json.loads(text)
        jobs: dict[str, list[str]] = values.get("cluster") or {}
        if not jobs:
            return None
        kind, index = values["task"]["type"], int(values["task"]["index"])
        others = sorted(set(jobs) - set(_JOBS) - {"evaluator"})
        before = 0 if kind == _JOBS[0] else len(jobs.get(_JOBS[0], []))
        addresses = tuple(a for job in _JOBS for a in jobs.get(job, []))
        n_mine = len(jobs.get(kind, []))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"TF_CONFIG must be JSON with cluster and task, but cannot be read "
            f"({type(error).__name__}: {error}): mend it, or unset it to train on "
            "this machine alone"
        ) from None
    if others or kind not in _JOBS or not 0 <= index < n_mine:
        raise InputError(
            "TF_CONFIG must describe workers and perhaps a chief, of which this "
            f"process is one, but has the jobs {', '.join(sorted(jobs))} and the task "
            f"{kind} {index}"
        )
    return _checked("TF_CONFIG", addresses, before + index)


def _of_slurm(environment: Mapping[str, str]) -> Cluster:
    """By TensorFlow's resolver, which names a machine's processes by their ports."""
    import tensorflow as tf

    needed = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST")
    missing = [name for name in needed if name not in environment]
    if missing:
        raise InputError(
            f"--cluster slurm reads SLURM's variables, but {missing[0]} is not set: "
            "start bilm train by srun, one task for each machine"
        )
    try:
        resolver: Any = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=_FIRST_PORT,
            # Which GPUs a task sees is up to SLURM: these numbers limit nothing.
            gpus_per_node=int(environment["SLURM_STEP_NUM_TASKS"]),
            gpus_per_task=1,
            auto_set_gpu=False,
        )
        addresses = resolver.cluster_spec().as_dict()["worker"]
        _, index = resolver.get_task_info()
        if node := environment.get("SLURMD_NODENAME"):
            # The resolver sorts nodes by name, which is not always SLURM's order.
            port = _FIRST_PORT + int(environment.get("SLURM_LOCALID", 0))
            index = addresses.index(f"{node}:{port}")
    except (ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"SLURM's variables cannot be read: {error}") from None
    return _checked("--cluster slurm", tuple(addresses), index)


def _checked(source: str, addresses: tuple[str, ...], index: int) -> Cluster:
    """A cluster of sound addresses."""
    for address in addresses:
        match = isinstance(address, str) and _ADDRESS.fullmatch(address)
        if not match or not 0 < int(match[2]) < 2**16:
            raise InputError(
                f"{source} has addresses such as gpu1:2222, but {address!r} is none"
            )
        if addresses.count(address) > 1:
            raise InputError(
                f"{source} has each worker's address once, but {address} more often: "
                "give two workers of a machine two ports"
            )
    if not 0 <= index < len(addresses):
        raise InputError(
            f"{source} has {len(addresses)} addresses, so that --worker_index is from "
            f"0 to {len(addresses) - 1}, but it is {index}"
        )
    return Cluster(addresses, index)
