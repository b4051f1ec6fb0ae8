"""How many tokens text files hold, counted once and kept in the user's cache folder."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from bilm.files import replacing
from bilm.text import PathOrPattern, read_sentences

_CACHED_COUNTS = 10_000  # files remembered; the oldest are forgotten first


def count_tokens(paths: Sequence[PathOrPattern]) -> int:
    """Count the tokens of text files, without `<S>` and `</S>`.

    The counts are kept in the user's cache folder (`$XDG_CACHE_HOME/bilm` or
    `~/.cache/bilm`) by path, size and time of change, so that a large corpus is
    counted once. A progress bar shows where standard error is a terminal.

    Raises:
        FileNotFoundError, InputError: see `LineReader`.
    """
    cache = _read_cache()
    keys = [_cache_key(path) for path in paths]
    new = {key: path for key, path in zip(keys, paths, strict=True) if key not in cache}
    if new:
        cache |= {key: _count(path) for key, path in new.items()}
        _write_cache(cache)
    return sum(cache[key] for key in keys)


def _count(path: PathOrPattern) -> int:
    from tqdm import tqdm  # here, for a fast import of the vocabulary and the batchers

    count = 0
    # disable=None: no bar where standard error is not a terminal.
    with tqdm(
        desc=f"counting {os.path.basename(path)}",
        unit=" tokens",
        unit_scale=True,
        disable=None,
        leave=False,
    ) as bar:
        for tokens in read_sentences(path):
            count += len(tokens)
            bar.update(len(tokens))
    return count


def _cache_file() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(folder, "bilm", "token_counts.json")


def _cache_key(path: PathOrPattern) -> str:
    stat = os.stat(path)
    return f"{stat.st_size} {stat.st_mtime_ns} {os.path.abspath(path)}"


def _read_cache() -> dict[str, int]:
    try:
        cache = json.loads(_cache_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(cache, dict):
        return {}
    return {key: count for key, count in cache.items() if isinstance(count, int)}


def _write_cache(cache: dict[str, int]) -> None:
    """Keep the newest counts; a cache that cannot be written is only a slower start."""
    newest = dict(list(cache.items())[-_CACHED_COUNTS:])
    try:
        _cache_file().parent.mkdir(parents=True, exist_ok=True)
        with replacing(_cache_file()) as partial:
            partial.write_text(json.dumps(newest), encoding="utf-8")
    except OSError:
        pass
