"""`bilm train --benchmark`: how long a training takes, here and elsewhere."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bilm.commands import runs
from bilm.commands.terminal import in_lines, say
from bilm.fingerprint import code_version
from bilm.options import training_dict
from bilm.tree import columns

if TYPE_CHECKING:
    from bilm.progress import Schedule
    from bilm.scaling import Scaling
    from bilm.speed import TrainingSpeed
    from bilm.traffic import GradientSize

HOUR = 3600
MIB = 2**20


def run(args: argparse.Namespace, text: runs.TrainingText) -> int:
    """Time some steps, and print the result; worker 0 of several does it.

    With one device for each of several workers, the steps of one alone are timed too.
    """
    from bilm.scaling import scaling
    from bilm.speed import measure_training
    from bilm.training import training_schedule
    from bilm.workers import Workers

    workers = Workers(runs.n_devices(args), args.cluster)
    seconds = {}
    with workers.watched():
        workers.check_same(
            {
                "benchmark": args.benchmark,
                "the version of bilm": code_version(),
                "options": training_dict(text.options),
            }
        )
        groups = [Workers()] if workers.count > 1 and workers.devices == 1 else []
        for group in (*groups, workers):
            schedule = training_schedule(text.options, group.n_replicas)
            speed = measure_training(
                text.options,
                text.data,
                group.devices,
                args.benchmark,
                schedule,
                mixed_precision=args.mixed_precision,
                jit_compile=args.jit_compile,
                workers=group,
            )
            seconds[group.count] = speed.step_seconds
    if workers.is_chief:
        tokens = schedule.tokens_per_step / workers.count
        sizes, devices = speed.gradient_sizes, workers.devices
        lines = scaling(tokens, seconds, devices, sizes, args.bandwidth)
        say(_of_this_training(speed, schedule))
        say(_of_more_machines(lines, args.bandwidth))
        say(_of_sparse_gradients(sizes, [line.workers * devices for line in lines]))
    return 0


def _of_this_training(speed: TrainingSpeed, schedule: Schedule) -> str:
    rows = [
        ("tokens/s", f"{speed.tokens_per_second:,.0f}"),
        ("seconds a step", f"{speed.step_seconds:.3f}"),
        ("steps", f"{schedule.n_steps:,}"),
        ("hours an epoch", f"{speed.epoch_seconds / HOUR:,.2f}"),
        ("hours in all", f"{speed.total_seconds / HOUR:,.2f}"),
        ("waiting for data", f"{speed.data_wait:.1%}"),
        ("memory, MiB", f"{speed.memory_bytes / MIB:,.0f}"),
    ]
    return in_lines(rows)


def _of_more_machines(lines: list[Scaling], bandwidth: float) -> str:
    """MiB are those that a machine sends in a step, of dense and sparse gradients."""
    head = ("workers", "tokens/s", "efficiency", "dense MiB", "sparse MiB", "")
    rows = [
        (
            str(line.workers),
            f"{line.tokens_per_second:,.0f}",
            f"{line.efficiency:.0%}",
            f"{line.traffic.dense / MIB:,.1f}",
            f"{line.traffic.sparse / MIB:,.1f}",
            "measured" if line.measured else f"reckoned by {bandwidth:g} Gbit/s",
        )
        for line in lines
    ]
    return "\n" + "\n".join(columns([head, *rows]))


def _of_sparse_gradients(sizes: list[GradientSize], n_devices: list[int]) -> str:
    """What the gradients of words cost in both forms; nothing where all are dense."""
    rows = [
        (
            size.name,
            str(count),
            f"{size.sparse_bytes(count) / MIB:,.1f}",
            f"{size.dense_bytes(count) / MIB:,.1f}",
            "sparse" if size.is_sent_sparse(count) else "dense",
        )
        for size in sizes
        if size.rows is not None
        for count in n_devices
        if count > 1
    ]
    if not rows:
        return "\nall gradients of a step are dense"
    head = ("variable", "devices", "sparse MiB", "dense MiB", "is sent")
    return "\n" + "\n".join(columns([head, *rows]))
