"""What a run was made of, to tell whether the one that goes on is the same."""

import hashlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bilm.errors import InputError
from bilm.jsonfiles import differences_of
from bilm.options import (
    TrainingOptions,
    training_dict,
    training_options_from_dict,
)
from bilm.version import __version__
from bilm.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

# The length of a run may change; of rows only their sum matters.
HARMLESS = ("n_epochs", "n_train_tokens")
_OF_ALL_DEVICES = "batch_size"


class Fingerprint(NamedTuple):
    """What must be the same, in values that JSON can hold."""

    options: dict[str, Any]  # as in options.json
    vocabulary: dict[str, Any]  # number of words, and SHA-256 of them
    shards: dict[str, str]  # name to size
    rows_of_all_devices: int
    seed: int
    mixed_precision: str | None

    @staticmethod
    def of(
        options: TrainingOptions,
        vocab: Vocabulary,
        files: Sequence[str],
        n_devices: int,
        seed: int,
        mixed_precision: str | None,
    ) -> "Fingerprint":
        """Describe a run by what it is given."""
        return Fingerprint(
            training_dict(options),
            {"words": vocab.size, "sha256": words_digest(vocab)},
            {Path(path).name: f"{os.path.getsize(path)} bytes" for path in files},
            options.batch_size * options.accumulate * n_devices,
            seed,
            mixed_precision,
        )


def words_digest(vocab: Vocabulary) -> str:
    """SHA-256 of the words of a vocabulary in their order, in hexadecimal."""
    words = "\n".join(vocab.words).encode(errors="surrogatepass")
    return hashlib.sha256(words).hexdigest()


def code_version() -> str:
    """The package's version and a digest of its code."""
    return f"{__version__} (code {code_digest()})"


def code_digest(package: Path = Path(__file__).parent) -> str:
    """First digits of the SHA-256 of a package's code: versions may have the same name.

    Args:
        package: folder of the `.py` files.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        code = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{path.relative_to(package).as_posix()} {len(code)}\n".encode())
        digest.update(code)
    return digest.hexdigest()[:12]


def check_same(then: Fingerprint, now: Fingerprint) -> None:
    """Compare a run that goes on with what it was; a warning where that is harmless.

    Raises:
        InputError: a difference is not harmless; the message has all of them.
    """
    # An option that came later had its default then.
    options = training_dict(training_options_from_dict(then.options))
    before, after = then._replace(options=options)._asdict(), now._asdict()
    differences = {
        path: f"{path.removeprefix('options.')} is {_said(new)} and was {_said(old)}"
        for path, old, new in differences_of(before, after)
    }
    harmless = [f"options.{name}" for name in HARMLESS]
    for path in harmless:
        if path in differences:
            logger.warning("the run goes on, though %s", differences.pop(path))
    differences.pop(f"options.{_OF_ALL_DEVICES}", None)
    if differences:
        raise InputError(
            "a run goes on with what it began with, but "
            + "; ".join(differences.values())
            + ": resume with the same, or take bilm restart, which begins the text anew"
        )


def _said(value: Any) -> str:
    return "not there" if value is None else str(value)
