"""JSON objects in files, read with errors that say what the file is instead."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bilm.errors import InputError
from bilm.files import replacing
from bilm.paths import check_file

# An options file has about one thousand bytes; far above is some other file.
MAX_BYTES = 2**20
MAX_DEPTH = 20


def read_object(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[str]]:
    """Read a file that holds one JSON object, in UTF-8 with or without a BOM.

    Returns:
        The object, and a problem for each key that stands twice in one object (the
        last one is in the result). The caller reports them with its own.

    Raises:
        FileNotFoundError: There is no such file; says what lies beside it.
        InputError: The file is no JSON object, with line and column where known.
    """
    text = _decode(_read_bytes(path), path)
    repeated: list[str] = []

    def note_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _ in pairs)
        repeated.extend(
            f"the key {key!r} stands {n} times in one object"
            for key, n in counts.items()
            if n > 1
        )
        return dict(pairs)

    try:
        tree = json.loads(text, object_pairs_hook=note_repeated)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(
            f"{path}:{error.lineno} is not JSON ({where}: {error.msg})"
        ) from None
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:  # A number of thousands of digits.
        raise InputError(f"{path} cannot be read as JSON: {error}") from None
    if not _is_flat_enough(tree):
        raise _too_deep(path)
    if not isinstance(tree, dict):
        raise InputError(f"{path} must hold a JSON object, not a {type(tree).__name__}")
    return tree, repeated


def _is_flat_enough(tree: Any) -> bool:
    """Whether there are at most `MAX_DEPTH` levels, so that who reads it may recur."""
    level = [tree]
    for _ in range(MAX_DEPTH):
        lists = [list(e.values()) if isinstance(e, dict) else e for e in level]
        level = [child for each in lists if isinstance(each, list) for child in each]
    return not level


def _too_deep(path: str | os.PathLike[str]) -> InputError:
    return InputError(f"{path} is nested too deeply to be an options file")


def write_object(path: str | os.PathLike[str], tree: dict[str, Any]) -> None:
    """Write `tree` as UTF-8 JSON, two spaces a level, keys in the order given.

    The file appears whole or not at all.
    """
    with replacing(path) as partial:
        text = json.dumps(tree, indent=2, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")


def _read_bytes(path: str | os.PathLike[str]) -> bytes:
    check_file(path)
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if data.startswith(b"\x89HDF"):
        raise InputError(f"{path} looks like HDF5 (weights?), not like JSON")
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{path} has more than {MAX_BYTES:,} bytes, too large for an options file"
        )
    return data


def _decode(data: bytes, path: str | os.PathLike[str]) -> str:
    # UTF-16 has a byte order mark or, as JSON begins in ASCII, a zero byte early on.
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
        raise InputError(f"{path} looks like UTF-16: save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # error.start counts within error.object, which may lack the BOM.
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}:{line} is not UTF-8 (byte 0x{error.object[error.start]:02x}): "
            "save the file as UTF-8"
        ) from None


def differences_of(
    one: Any, other: Any, path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Where two values of JSON differ: `outer.inner`, and what both have there.

    What one of them has not is None.

    >>> list(differences_of({"a": {"b": 1}}, {"a": {"b": 2}, "c": 3}))
    [('a.b', 1, 2), ('c', None, 3)]
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            inner = f"{path}.{key}" if path else key
            yield from differences_of(one.get(key), other.get(key), inner)
    elif one != other:
        yield path, one, other
