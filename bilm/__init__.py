"""Trains ELMo's bidirectional language models, and embeds text by them.

The public names are loaded when they are first used, so that the vocabulary and the
batchers can be had without waiting for TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from bilm.version import __version__

if TYPE_CHECKING:  # what `__getattr__` gives, for type checkers and editors
    from bilm.batcher import Batcher, TokenBatcher
    from bilm.elmo import ScalarMix, mean_pool, weight_layers
    from bilm.embeddings_file import read_embeddings
    from bilm.export import export_saved_model
    from bilm.model import (
        BidirectionalLanguageModel,
        dump_bilm_embeddings,
        dump_token_embeddings,
    )

__all__ = [
    "Batcher",
    "BidirectionalLanguageModel",
    "ScalarMix",
    "TokenBatcher",
    "__version__",
    "dump_bilm_embeddings",
    "dump_token_embeddings",
    "export_saved_model",
    "mean_pool",
    "read_embeddings",
    "weight_layers",
]

_MODULE_OF = {
    "Batcher": "bilm.batcher",
    "TokenBatcher": "bilm.batcher",
    "BidirectionalLanguageModel": "bilm.model",
    "dump_bilm_embeddings": "bilm.model",
    "dump_token_embeddings": "bilm.model",
    "export_saved_model": "bilm.export",
    "mean_pool": "bilm.elmo",
    "read_embeddings": "bilm.embeddings_file",
    "ScalarMix": "bilm.elmo",
    "weight_layers": "bilm.elmo",
}


def __getattr__(name: str) -> Any:
    """Imports the module of a public name at its first use (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
