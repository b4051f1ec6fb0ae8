"""TensorFlow imported without its remarks on the machine.

While it is loaded, its native code tells standard error of the GPU that it did not
find and of the products that it takes, whatever `TF_CPP_MIN_LOG_LEVEL` says: several
lines above the one that tells a user what to mend.
"""

import contextlib
import importlib.abc
import importlib.machinery
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

_STDERR = 2
# The lines of level INFO, and what stands above the first line of any level.
_FILTER = r"""
import re, sys
remark = re.compile(rb"I\d{4} |WARNING: All log messages before absl::InitializeLog")
for line in sys.stdin.buffer:
    if not remark.match(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""


def import_tensorflow_quietly() -> None:
    """From now on, let the first import of TensorFlow leave its remarks out."""
    if "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


@contextlib.contextmanager
def remarks_left_out() -> Iterator[None]:
    """Pass on standard error inside the block but for the remarks of TensorFlow.

    A process of its own passes the lines on, so that a crash keeps its last words.
    """
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _FILTER],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us
    ) as process:
        assert process.stdin is not None
        sys.stderr.flush()
        before = os.dup(_STDERR)
        os.dup2(process.stdin.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(before, _STDERR)
            os.close(before)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow where Python does, and loads it quietly."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_quietly(module: ModuleType) -> None:
                with remarks_left_out():
                    load(module)

            spec.loader.exec_module = load_quietly  # type: ignore[method-assign]
        return spec
