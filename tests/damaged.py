"""Damages files and reads them, for `test_damage.py`: a line for each kind of file.

A line is the kind, how many were refused by an `InputError`, how many gave what was
written, and all else that happened.
"""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tiny import (
    OPTIONS,
    counting_sentences,
    random_values,
    write_arrays,
    write_lines,
    write_run,
)

from bilm.checkpoint import checkpoint_values
from bilm.embeddings_file import (
    EmbeddingsWriter,
    Progress,
    Storage,
    read_embeddings,
)
from bilm.errors import InputError
from bilm.hdf5_files import is_finite
from bilm.names import embedding_variable, model_variables
from bilm.run_state import RunState, read_run_state, write_run_state
from bilm.text import read_sentences
from bilm.weights import read_embedding, read_weights, write_weights

N_FAULTS = 200
SPECS = model_variables(OPTIONS)
Read = Callable[[], Any]


def main(folder: Path) -> None:
    """Make the files, and damage each of them."""
    _report("weights", folder / "weights.hdf5", *_weights(folder / "weights.hdf5"))
    _report("old_weights", folder / "old.hdf5", *_old_weights(folder / "old.hdf5"))
    _report("tokens", folder / "tokens.hdf5", *_tokens(folder / "tokens.hdf5"))
    _report("sentences", folder / "lines.hdf5", *_sentences(folder / "lines.hdf5"))
    prefix = write_run(folder, OPTIONS)
    values = checkpoint_values(OPTIONS, prefix)
    for suffix in (".index", ".data-00000-of-00001"):
        path = Path(prefix + suffix)
        _report(suffix, path, lambda: checkpoint_values(OPTIONS, prefix), _same(values))
    _report("state", Path(prefix + ".state.npz"), *_state(prefix))
    _report("gzip", folder / "text.gz", *_text(folder / "text.gz"))


def _report(kind: str, path: Path, read: Read, is_right: Callable) -> None:
    good = path.read_bytes()
    random = np.random.default_rng(0)
    counts, wrong = {"refused": 0, "right": 0}, list[str]()
    assert is_right(read())
    for fault in range(N_FAULTS):
        place, bit = random.integers(len(good)), random.integers(8)
        bad = bytearray(good[:place] if fault % 2 else good)
        if not fault % 2:
            bad[place] ^= 1 << bit
        path.write_bytes(bad)
        try:
            result = "right" if is_right(read()) else "numbers"
        except InputError as error:
            result = "lines" if "\n" in str(error) else "refused"
        except Exception as error:
            result = f"{type(error).__name__}:{error}".replace(" ", "_")
        if result in counts:
            counts[result] += 1
        else:
            wrong.append(f"{fault}:{result}")
    path.write_bytes(good)
    print(kind, *counts.values(), *wrong, flush=True)


def _same(expected: dict[str, np.ndarray]) -> Callable[[dict[str, np.ndarray]], bool]:
    def is_right(found: dict[str, np.ndarray]) -> bool:
        return found.keys() == expected.keys() and all(
            np.array_equal(found[name], value) for name, value in expected.items()
        )

    return is_right


def _weights(path: Path) -> tuple[Read, Callable]:
    values = random_values(SPECS)
    write_weights(path, SPECS, values)
    return lambda: read_weights(path, SPECS), _same(values)


def _old_weights(path: Path) -> tuple[Read, Callable]:
    """Without checksums it can be told alone that the numbers are finite."""
    values = random_values(SPECS)
    write_arrays(path, {spec.hdf5: values[spec.name] for spec in SPECS})
    return (
        lambda: read_weights(path, SPECS),
        lambda found: all(is_finite(each) for each in found.values()),
    )


def _tokens(path: Path) -> tuple[Read, Callable]:
    spec = embedding_variable(40, 8)
    values = random_values([spec])[spec.name]
    write_weights(path, [spec], {spec.name: values})
    return lambda: read_embedding(path, 8), lambda found: np.array_equal(found, values)


def _sentences(path: Path) -> tuple[Read, Callable]:
    random = np.random.default_rng(0)
    arrays = [random.normal(size=(3, n, 4)).astype(np.float32) for n in range(12)]
    with EmbeddingsWriter(path, Storage(), {}) as writer:
        writer.append(arrays, Progress(12))
    return (
        lambda: list(read_embeddings(path)),
        lambda found: len(found) == 12 and all(map(np.array_equal, found, arrays)),
    )


def _state(prefix: str) -> tuple[Read, Callable]:
    state = RunState([np.ones((4, 9), np.float32)] * 3, {"position": [1, 2, 3]})
    write_run_state(prefix, state)

    def is_right(found: RunState) -> bool:
        same = all(map(np.array_equal, found.arrays, state.arrays))
        return same and len(found.arrays) == 3 and found.values == state.values

    return lambda: read_run_state(prefix), is_right


def _text(path: Path) -> tuple[Read, Callable]:
    lines = counting_sentences(100, seed=0)
    plain = write_lines(path.with_suffix(".txt"), lines)
    path.write_bytes(gzip.compress(plain.read_bytes()))
    return lambda: list(read_sentences(path)), lambda found: found == lines


if __name__ == "__main__":
    main(Path(sys.argv[1]))
