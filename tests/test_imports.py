"""What an import brings with it: TensorFlow only where something is computed."""

import subprocess
import sys
from pathlib import Path

import pytest

import bilm

ROOT = Path(__file__).parent.parent


def modules_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after `code`."""
    report = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\n{report}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    [
        "import bilm",
        "import bilm.data",
        "import bilm.options",
        "from bilm import Batcher, TokenBatcher",
        "from bilm.data import UnicodeCharsVocabulary, BidirectionalLMDataset",
        "import bilm.cli",
    ],
)
def test_does_not_import_tensorflow(code: str) -> None:
    loaded = modules_after(code)
    assert "bilm" in loaded
    assert loaded.isdisjoint({"tensorflow", "keras", "h5py"})


@pytest.mark.parametrize("name", [n for n in bilm.__all__ if n != "__version__"])
def test_public_names_are_those_of_their_modules(name: str) -> None:
    value = getattr(bilm, name)
    assert value.__name__ == name
    assert value.__module__.startswith("bilm.")
    assert getattr(bilm, name) is value


def test_public_names_of_bilm_tf_are_there() -> None:
    assert {
        "Batcher",
        "TokenBatcher",
        "BidirectionalLanguageModel",
        "weight_layers",
        "dump_token_embeddings",
        "dump_bilm_embeddings",
    } <= set(dir(bilm))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'bilm' has no attribute 'Bather'"):
        bilm.Bather  # noqa: B018
    with pytest.raises(ImportError, match="Bather"):
        exec("from bilm import Bather")


def test_version_is_that_of_the_distribution() -> None:
    parts = bilm.__version__.split(".")
    assert len(parts) == 3 and all(part.isdecimal() for part in parts)
