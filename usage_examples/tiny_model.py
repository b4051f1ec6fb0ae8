"""What the examples share: the flag `--model`, and a tiny model for want of one.

The tiny model has random weights, so that its vectors mean nothing, but their shapes
and the way to them are those of a trained model.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bilm.names import model_variables
from bilm.network import initial_value
from bilm.options import (
    CharCnnOptions,
    LstmOptions,
    ModelOptions,
    prediction_dict,
    read_model_options,
    write_options,
)
from bilm.weights import write_weights

SEED = 1

OPTIONS = ModelOptions(
    lstm=LstmOptions(
        dim=64,
        projection_dim=16,
        n_layers=2,
        cell_clip=3,
        proj_clip=3,
        use_skip_connections=True,
    ),
    char_cnn=CharCnnOptions(
        filters=((1, 8), (2, 16), (3, 32)),
        embedding_dim=16,
        max_characters_per_token=50,
        n_highway=1,
    ),
)


def write_tiny_model(folder: Path) -> None:
    """Write `options.json` and `weights.hdf5` of a model with random weights."""
    specs = model_variables(OPTIONS)
    values = {spec.name: initial_value(spec, SEED, i) for i, spec in enumerate(specs)}
    write_weights(folder / "weights.hdf5", specs, values)
    write_options(folder / "options.json", prediction_dict(OPTIONS))


def characters_per_token(options_file: Path) -> int:
    """Give the length of a token's row of character ids, as the model wants it."""
    char_cnn = read_model_options(options_file).char_cnn
    if char_cnn is None:
        raise SystemExit(f"{options_file} is of a word-level model, without characters")
    return char_cnn.max_characters_per_token


@contextlib.contextmanager
def folders(purpose: str, argv: Sequence[str] | None) -> Iterator[tuple[Path, Path]]:
    """Give the model's folder and a temporary one for what the example writes.

    Args:
        purpose: What the example is for, for its `--help`.
        argv: Its arguments; None for those of the process.
    """
    parser = argparse.ArgumentParser(description=purpose.splitlines()[0])
    parser.add_argument(
        "--model",
        type=Path,
        metavar="DIR",
        help="folder with options.json and weights.hdf5 (default: a tiny model with "
        "random weights)",
    )
    model = parser.parse_args(argv).model
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        if model is None:
            print("No --model given: a tiny model with random weights.\n")
            write_tiny_model(work)
        yield model or work, work
