"""Files of sentence vectors: HDF5, with dataset `str(i)` for line i, in order.

While it is written the file is `NAME.partial`. What was complete at the last commit can
be continued after an interruption; `NAME.partial.npz` says how far it is, with which
settings and of which text, and holds the state of the LSTMs where that is carried.
"""

import contextlib
import itertools
import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from bilm.errors import InputError, reading
from bilm.files import replacing
from bilm.hdf5_files import (
    find_dataset,
    open_hdf5,
    read_array,
    write_array,
)

logger = logging.getLogger(__name__)

PathLike = str | os.PathLike[str]
COMMIT_SECONDS = 30.0  # what an interruption may cost
DATASET_BYTES = 400  # of a dataset beside its values, measured
INDEX = "sentence_to_index"
DTYPES = ("float32", "float16")
COMPRESSIONS = ("none", "lzf", "gzip")


class Storage(NamedTuple):
    """How vectors are stored.

    Attributes:
        dtype: `float32`, or `float16` for half the size and 3 digits.
        compression: `none`; `lzf`, which is fast; or `gzip`, which every reader knows.
    """

    dtype: str = "float32"
    compression: str = "none"

    def check(self) -> None:
        """Check what a user asks for.

        Raises:
            InputError: there is no such way.
        """
        if self.dtype not in DTYPES:
            raise InputError(f"dtype must be one of {DTYPES}, not {self.dtype!r}")
        if self.compression not in COMPRESSIONS:
            raise InputError(
                f"compression must be one of {COMPRESSIONS}, not {self.compression!r}"
            )


class Progress(NamedTuple):
    """How far a file is.

    Attributes:
        n_lines: lines that are complete.
        digest: of these lines' tokens, see `digest`.
        state: arrays that the next line needs, in order.
    """

    n_lines: int = 0
    digest: int = 0
    state: Sequence[np.ndarray] = ()


class EmbeddingsWriter:
    """Writes a file of sentence vectors, line after line.

    As a context: where the block ends, the file appears under its name; where it
    raises, the complete lines are kept for `resume`, if there are any.
    """

    def __init__(
        self,
        path: PathLike,
        storage: Storage,
        settings: Mapping[str, Any],
        resume: bool = False,
    ) -> None:
        """Open the file.

        Args:
            path: of the finished file.
            storage: how its vectors are stored.
            settings: whatever else decides what is in the file, as JSON has it.
            resume: go on with what an interrupted writing left, if anything.

        Raises:
            InputError: what is left was made with other settings, or is broken.
        """
        self._path = Path(os.path.realpath(path))  # on the disk that a link leads to
        self._partial = self._path.with_name(f"{self._path.name}.partial")
        self._record = self._path.with_name(f"{self._path.name}.partial.npz")
        self._storage = storage
        self._settings = json.dumps({**storage._asdict(), **settings})
        left_over = self._left_over() if resume else None
        if left_over is None:
            self._remove()
        self.progress = left_over or Progress()
        self._file = self._open()
        self._next = self.progress.n_lines
        self._committed = time.monotonic()

    def __enter__(self) -> "EmbeddingsWriter":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._file.close()
        if kind is None:
            os.replace(self._partial, self._path)
            self._record.unlink(missing_ok=True)
        elif self.progress.n_lines:
            self._commit()
            logger.warning(
                "%d lines are complete in %s: continue with --resume",
                self.progress.n_lines,
                self._partial,
            )
        else:
            self._remove()

    def append(self, vectors: Sequence[np.ndarray], progress: Progress) -> None:
        """Write the vectors of the next lines, and take note of the progress."""
        for array in vectors:
            write_array(
                self._file,
                str(self._next),
                array.astype(self._storage.dtype, copy=False),
                self._compression(array),
            )
            self._next += 1
        assert self._next == progress.n_lines
        self.progress = progress
        if time.monotonic() - self._committed > COMMIT_SECONDS:
            self._file.close()
            self._commit()
            self._file = self._open()

    def write_index(self, lines_of: Mapping[str, list[int]]) -> None:
        """Write the lines of each sentence, as JSON, dataset `sentence_to_index`."""
        text = json.dumps(lines_of, ensure_ascii=False)
        self._file.create_dataset(INDEX, data=[text], dtype=h5py.string_dtype())

    def _open(self) -> h5py.File:
        return h5py.File(self._partial, "a", track_order=True)

    def _commit(self) -> None:
        """Note the progress of the closed file, which is complete up to there."""
        values: dict[str, Any] = {
            f"state_{i}": part for i, part in enumerate(self.progress.state)
        }
        with replacing(self._record) as path, open(path, "wb") as file:
            np.savez(
                file,
                settings=self._settings,
                n_lines=self.progress.n_lines,
                digest=self.progress.digest,
                **values,
            )
        self._committed = time.monotonic()

    def _left_over(self) -> Progress | None:
        """What an interrupted writing left; lines after the last commit are removed."""
        if not (self._record.exists() and self._partial.exists()):
            logger.info("nothing of %s is there to resume: starting anew", self._path)
            return None
        # Nothing of it is run: pickled objects are refused.
        with (
            reading(self._record, "begin anew without --resume"),
            np.load(self._record, allow_pickle=False) as record,
        ):
            self._check_settings(json.loads(str(record["settings"])))
            n_lines, digest = int(record["n_lines"]), int(record["digest"])
            state = [record[f"state_{i}"] for i in range(len(record.files) - 3)]
        try:
            with h5py.File(self._partial, "r+", track_order=True) as file:
                for line in range(n_lines, _n_lines(file)):
                    del file[str(line)]
                file.pop(INDEX, None)
                for line in range(n_lines):
                    read_array(file[str(line)])  # whole, by its checksum
        except Exception as error:  # broken: killed amid a write of the file's tables
            logger.warning("%s is broken (%s): starting anew", self._partial, error)
            return None
        logger.info("%d lines of %s are there already", n_lines, self._path)
        return Progress(n_lines, digest, state)

    def _check_settings(self, before: dict[str, Any]) -> None:
        now = json.loads(self._settings)
        differ = sorted(key for key in now if now[key] != before.get(key))
        if differ:
            raise InputError(
                f"{self._partial} was begun with other settings ({', '.join(differ)}): "
                "give the same ones, or begin anew without --resume"
            )

    def _compression(self, array: np.ndarray) -> str | None:
        plain = self._storage.compression == "none" or array.size == 0
        return None if plain else self._storage.compression

    def _remove(self) -> None:
        for path in (self._partial, self._record):
            path.unlink(missing_ok=True)


def read_embeddings(path: PathLike) -> Iterator[np.ndarray]:
    """Read the vectors of each line, in the order of the text.

    Args:
        path: a file of `dump_bilm_embeddings`, of bilm-tf's as well.

    Yields:
        The array of each line, as it was stored.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: it is no HDF5 file or none of sentence vectors, or is damaged.
    """
    with open_hdf5(path) as file:
        with reading(path):
            n_lines = _n_lines(file)
            first = n_lines == 0 or "0" in file
        if not first:
            names = list(itertools.islice(file, 3))
            raise InputError(
                f"{path} holds no sentence vectors: its datasets are not named by "
                f"lines from 0, but {', '.join(names)}"
            )
        for line in range(n_lines):
            dataset = find_dataset(file, str(line))
            if dataset is None:
                raise InputError(
                    f"{path} has vectors of {n_lines} lines, but not of line "
                    f"{line}: make it again"
                )
            yield read_array(dataset)


def _n_lines(file: h5py.File) -> int:
    """How many lines a file has vectors of, if it is one of sentence vectors.

    Counted, not listed: HDF5 can crash where a damaged file lists its names.
    """
    return len(file) - (INDEX in file)


def digest(tokens: Sequence[str], before: int) -> int:
    """Checksum of a text with one more line."""
    line = " ".join(tokens) + "\n"
    return zlib.crc32(line.encode("utf-8", "surrogatepass"), before)


def file_digest(path: PathLike) -> int:
    """Checksum of a file."""
    value = 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def check_space(path: PathLike, n_bytes: int) -> None:
    """Refuse a file that its disk has no room for.

    Raises:
        InputError: says both sizes.
    """
    path = os.path.realpath(path)
    folder = Path(path).parent
    free = shutil.disk_usage(folder).free
    with contextlib.suppress(FileNotFoundError):  # which is replaced or continued
        free += os.stat(f"{path}.partial").st_size
    if n_bytes > free:
        raise InputError(
            f"{path} will take about {in_units(n_bytes)}, but {folder} has "
            f"{in_units(free)} free; smaller are fewer layers (top, average), float16 "
            "and mean-pooled sentences"
        )


def in_units(n_bytes: int) -> str:
    """A size for people.

    >>> in_units(12_345_678)
    '12.3 MB'
    """
    value, unit = float(n_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"
