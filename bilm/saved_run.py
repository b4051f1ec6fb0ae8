"""A run that a folder holds: to go on with, or to be removed."""

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from bilm import event_files
from bilm.checkpoint import latest_checkpoint
from bilm.errors import InputError, reading
from bilm.files import CHECKPOINT_INDEX, OPTIONS_FILE
from bilm.fingerprint import Fingerprint
from bilm.metrics_file import METRICS_FILE
from bilm.options import TrainingOptions, replace_options
from bilm.run_state import SUFFIX, WAY_OUT, RunState, read_run_state

BEST = "best"  # folder of the checkpoint with the lowest held-out perplexity
BAD_BATCHES = "bad_batches.txt"
# What a run leaves in its folder.
_CHECKPOINTS = (CHECKPOINT_INDEX, "model.ckpt-*", ".model.ckpt-*", OPTIONS_FILE)
FILES = (
    *_CHECKPOINTS,
    *(f"{BEST}/{name}" for name in _CHECKPOINTS),
    METRICS_FILE,
    BAD_BATCHES,
)


class SavedRun(NamedTuple):
    """The last checkpoint of a run, with what an exact resume needs."""

    prefix: str
    state: RunState

    @property
    def fingerprint(self) -> Fingerprint:
        """What the run was made of."""
        return Fingerprint(**self.state.values["fingerprint"])

    @property
    def n_devices(self) -> int:
        """On how many devices it ran."""
        return self.state.values["n_devices"]

    @property
    def n_workers(self) -> int:
        """In how many processes it ran; one before there could be several."""
        return self.state.values.get("n_workers", 1)

    @property
    def description(self) -> str:
        """Its name, and a digest of its state: two runs may be at the same step."""
        state = json.dumps(self.state.values, sort_keys=True).encode()
        digest = hashlib.sha256(state).hexdigest()[:8]
        return f"{os.path.basename(self.prefix)} (state {digest})"


def find_saved_run(save_dir: str | os.PathLike[str]) -> SavedRun | None:
    """Find the last checkpoint of a folder; None where there is none yet.

    Raises:
        InputError: it has no state to go on from.
    """
    try:
        prefix = latest_checkpoint(save_dir)
    except FileNotFoundError:
        return None
    saved = SavedRun(prefix, read_run_state(prefix))
    with reading(prefix + SUFFIX, WAY_OUT):
        _ = saved.fingerprint, saved.n_devices  # they are there
    return saved


def on_devices(
    options: TrainingOptions, saved: SavedRun, n_devices: int
) -> TrainingOptions:
    """The options with the run's rows dealt out to so many devices.

    On as many as before, the rows are those that the options say.

    Raises:
        InputError: the rows cannot be divided by the devices.
    """
    if n_devices == saved.n_devices:
        return options
    rows = saved.fingerprint.rows_of_all_devices
    n_pieces = n_devices * options.accumulate
    if rows % n_pieces:
        raise InputError(
            f"the run has {rows} rows on {saved.n_devices} devices, which {n_devices} "
            "devices cannot share evenly: take a number that divides them, by "
            "--n_gpus and the workers of --cluster"
        )
    return replace_options(options, batch_size=rows // n_pieces)


def remove_run(
    save_dir: str | os.PathLike[str], log_dir: str | os.PathLike[str]
) -> int:
    """Remove the files of a run, and of nothing else; returns how many there were."""
    files = [path for pattern in FILES for path in Path(save_dir).glob(pattern)]
    files += Path(log_dir).glob(event_files.PATTERN)
    for path in files:
        path.unlink()
    return len(files)
