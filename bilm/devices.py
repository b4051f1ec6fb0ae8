"""The devices of a training, as a `tf.distribute` strategy."""

import functools
import os

import tensorflow as tf

from bilm.cluster import Cluster
from bilm.errors import InputError


def visible_devices() -> int:
    """Number of devices that training uses by default: all visible GPUs, or the CPU."""
    return max(1, len(tf.config.list_physical_devices("GPU")))


def check_devices_of_each(n_devices: int) -> None:
    """Check what a worker of several machines needs, before it waits for the others.

    Raises:
        InputError: there are not as many devices.
    """
    n_gpus = len(tf.config.list_physical_devices("GPU"))
    if not 1 <= n_devices <= max(1, n_gpus):
        raise InputError(
            f"n_gpus is {n_devices}, but {n_gpus} GPU devices are visible, and without "
            "a GPU each worker of several has one CPU device"
        )


@functools.cache
def make_strategy(n_devices: int, cluster: Cluster | None) -> tf.distribute.Strategy:
    """A strategy of `n_devices` replicas: TensorFlow's default one for a single one.

    In a cluster it is one of as many on each machine, which waits for the others.

    Without a GPU the CPU is split into as many logical devices, which shows that a
    training on several devices works but makes nothing faster.

    The strategy of a number is made once: two of them in one process count their
    reductions alike, and mix them up.

    Raises:
        InputError: there are not as many devices.
    """
    if n_devices < 1:
        raise InputError(f"n_gpus must be at least 1, but is {n_devices}")
    if cluster is not None:
        return _strategy_of_machines(n_devices, cluster)
    if n_devices == 1:
        return tf.distribute.get_strategy()
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    if kind == "CPU":
        _split_cpu(n_devices)
    found = tf.config.list_logical_devices(kind)
    if len(found) < n_devices:
        raise InputError(
            f"n_gpus is {n_devices}, but {len(found)} {kind} devices are visible"
        )
    return tf.distribute.MirroredStrategy([d.name for d in found[:n_devices]])


def check_memory(n_values: int) -> None:
    """Refuse a network that the memory of this machine could not hold.

    Args:
        n_values: float32 values of its variables.

    Raises:
        InputError: they take more than there is, whatever else is in it.
    """
    if not hasattr(os, "sysconf"):  # Windows
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 4 * n_values > memory:
        raise InputError(
            f"the network of the options has {n_values:,} parameters, which take "
            f"{4e-9 * n_values:,.0f} GB, but this machine has {1e-9 * memory:,.0f} GB: "
            "make lstm.dim, the filters or the vocabulary smaller"
        )


def replica_number() -> int:
    """The replica whose code this is, from 0, of all machines."""
    context = tf.distribute.get_replica_context()
    return int(tf.get_static_value(context.replica_id_in_sync_group))


def mean_over_replicas(values: list) -> list:
    """Of the tensors that each replica calls this with, in all of them."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return values
    return context.all_reduce(tf.distribute.ReduceOp.MEAN, values)


def _strategy_of_machines(n_devices: int, cluster: Cluster) -> tf.distribute.Strategy:
    n_gpus = len(tf.config.list_physical_devices("GPU"))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
        task_type="worker",
        task_id=cluster.index,
        num_accelerators={"GPU": n_devices if n_gpus else 0},
    )
    return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


def _split_cpu(count: int) -> None:
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    configuration = [tf.config.LogicalDeviceConfiguration()] * count
    try:
        tf.config.set_logical_device_configuration(cpu, configuration)
    except RuntimeError:
        pass  # TensorFlow already runs: what is there now has to do
