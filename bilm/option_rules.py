"""What each key of `options.json` may hold, and which values contradict each other.

The rules work on the flat form of a file: `{"lstm.dim": 4096, "dropout": 0.1, ...}`, in
which a key is the path of a value. An object of the file that is none (`"lstm": 3`) is
a value of the flat form, and so breaks its rule.
"""

import difflib
import json
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

N_CHARACTERS_KEY = "char_cnn.n_characters"
# 256 bytes and 5 special characters; prediction ids add 0 for the padding of sentences.
N_CHARACTERS_TRAINING = 261
N_CHARACTERS_PREDICTION = 262

_LISTED_UNKNOWN_KEYS = 10

# Of float32; what is below the smallest may be 0 in it.
_SMALLEST, _LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127

_short = reprlib.Repr()
_short.maxlist = _short.maxtuple = 12
_short.maxstring = 80


class Rule(NamedTuple):
    """What a value must be, in words (after "must be") and as a test."""

    wording: str
    accepts: Callable[[Any], bool]


def _is_whole(value: Any, minimum: int) -> bool:
    # bool is a subclass of int.
    return type(value) is int and value >= minimum


def _is_finite(value: Any) -> bool:
    # The comparison refuses nan, infinities, and what float32 cannot hold.
    return type(value) in (int, float) and -_LARGEST <= value <= _LARGEST


def _is_filters(value: Any) -> bool:
    return bool(_is_row(value) and value) and all(
        _is_row(pair) and len(pair) == 2 and all(_is_whole(n, 1) for n in pair)
        for pair in value
    )


def _is_row(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _whole(minimum: int) -> Rule:
    return Rule(
        f"a whole number, at least {minimum}", lambda value: _is_whole(value, minimum)
    )


_POSITIVE = Rule(
    "a finite number above 0, of float32",
    lambda value: _is_finite(value) and value >= _SMALLEST,
)
_CLIP = Rule(
    "a finite number above 0, of float32, or null for no clipping",
    lambda value: value is None or _POSITIVE.accepts(value),
)
_FLAG = Rule("true or false", lambda value: isinstance(value, bool))

LR_SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt")
STATE_RESETS = ("never", "document")


def _one_of(names: tuple[str, ...]) -> Rule:
    wording = f"{', '.join(map(json.dumps, names[:-1]))} or {json.dumps(names[-1])}"
    return Rule(wording, lambda value: isinstance(value, str) and value in names)


def _object(wording: str) -> Rule:
    # In the flat form an object stands by its keys, never by itself.
    return Rule(wording, lambda value: False)


# The keys of a file in the order in which bilm writes them.
RULES = {
    "bidirectional": _FLAG,
    "lstm": _object("an object (LstmOptions)"),
    "lstm.dim": _whole(1),
    "lstm.projection_dim": _whole(1),
    "lstm.n_layers": _whole(1),
    "lstm.cell_clip": _CLIP,
    "lstm.proj_clip": _CLIP,
    "lstm.use_skip_connections": _FLAG,
    "char_cnn": _object("an object (CharCnnOptions), or null for word input"),
    "char_cnn.activation": _one_of(("relu", "tanh")),
    "char_cnn.embedding": _object("an object"),
    "char_cnn.embedding.dim": _whole(1),
    "char_cnn.filters": Rule(
        "a list of at least one [width, channels], whole numbers above 0", _is_filters
    ),
    # A token needs its begin mark, one byte and its end mark.
    "char_cnn.max_characters_per_token": _whole(3),
    N_CHARACTERS_KEY: Rule(
        "261 (training) or 262 (prediction), or left out",
        lambda value: (
            type(value) is int
            and value in (N_CHARACTERS_TRAINING, N_CHARACTERS_PREDICTION)
        ),
    ),
    "char_cnn.n_highway": _whole(0),
    "dropout": Rule(
        "a number from 0 to below 1", lambda value: _is_finite(value) and 0 <= value < 1
    ),
    "all_clip_norm_val": _POSITIVE,
    "n_epochs": _whole(1),
    "n_train_tokens": _whole(0),
    "batch_size": _whole(1),
    "n_tokens_vocab": _whole(0),
    "unroll_steps": _whole(1),
    "n_negative_samples_batch": _whole(0),
    "learning_rate": _POSITIVE,
    "lr_schedule": _one_of(LR_SCHEDULES),
    "warmup_steps": _whole(0),
    "accumulate": _whole(1),
    "reset_state": _one_of(STATE_RESETS),
    "reset_state_every": _whole(0),
    "sample_softmax": _FLAG,
    "share_embedding_softmax": _FLAG,
    "freeze_embedding": _FLAG,
}

MAX_SIDE = 2**20  # rows or steps of a batch
MAX_BATCH_TOKENS = 2**26  # of a device: beyond, the ids alone take tens of gigabytes

# What no machine can do; beyond it, files are made by mistake or with ill intent.
_LIMITS = {
    **dict.fromkeys(("lstm.n_layers", "char_cnn.n_highway"), 1000),
    "char_cnn.max_characters_per_token": 2**15 - 1,  # lengths are int16
    **dict.fromkeys(
        (
            "lstm.dim",
            "lstm.projection_dim",
            "char_cnn.embedding.dim",
            "char_cnn.filters",
        ),
        2**20,
    ),
    **dict.fromkeys(("batch_size", "unroll_steps", "accumulate"), MAX_SIDE),
    **dict.fromkeys(
        (
            "n_epochs",
            "n_tokens_vocab",
            "n_negative_samples_batch",
            "warmup_steps",
            "reset_state_every",
        ),
        2**31 - 1,  # ids and steps are int32
    ),
    "n_train_tokens": 2**63 - 1,
}

_OBJECTS = {key.rpartition(".")[0] for key in RULES if "." in key}
_TRAINING_KEYS = {key for key in RULES if "." not in key} - _OBJECTS - {"bidirectional"}


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Bring the content of a file into the flat form; `"char_cnn": null` is left out.

    Objects under unknown keys stay whole.
    """
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        # A dot within a name must not pass for a path.
        key = f"{prefix}{name!r}" if "." in str(name) else f"{prefix}{name}"
        if key in _OBJECTS and isinstance(value, Mapping):
            flat |= flatten(value, f"{key}.")
        elif key != "char_cnn" or value is not None:
            flat[key] = value
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Bring the flat form into that of a file, with keys in the order of the rules.

    None is left out: bilm-tf tests some keys by their presence.
    """
    tree: dict[str, Any] = {}
    for key in RULES:
        if flat.get(key) is None:
            continue
        *sections, name = key.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = flat[key]
    return tree


def find_problems(flat: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with the known keys: wrong values, then contradictions."""
    known = {key: flat[key] for key in RULES if key in flat}
    wrong = {k: v for k, v in known.items() if not RULES[k].accepts(v)}
    problems = [
        f"{key} must be {RULES[key].wording}, not {_short.repr(value)}"
        for key, value in wrong.items()
    ]
    valid = {key: value for key, value in known.items() if key not in wrong}
    return problems + list(_too_large(valid)) + list(_contradictions(valid))


def _too_large(valid: Mapping[str, Any]) -> Iterator[str]:
    for key, limit in _LIMITS.items():
        value = valid.get(key, 0)
        what = key
        if key == "char_cnn.filters":
            what, value = f"the channels of {key}", sum(n for _, n in value or ())
        if value > limit:
            yield f"{what} must be at most {limit:,}, not {_short.repr(value)}"


def _contradictions(valid: Mapping[str, Any]) -> Iterator[str]:
    """Compare values that keep the rules by themselves; absent ones contradict none."""
    limit = valid.get("char_cnn.max_characters_per_token", sys.maxsize)
    widest = max((w for w, _ in valid.get("char_cnn.filters", ())), default=0)
    if widest > limit:
        yield (
            f"char_cnn.filters has a filter of width {widest}, wider than "
            f"char_cnn.max_characters_per_token {limit}"
        )
    dim = valid.get("lstm.dim", sys.maxsize)
    projection_dim = valid.get("lstm.projection_dim", 0)
    if projection_dim > dim:
        yield f"lstm.projection_dim {projection_dim} is above lstm.dim {dim}"
    has_characters = any(key.startswith("char_cnn.") for key in valid)
    for key in ("share_embedding_softmax", "freeze_embedding"):
        if has_characters and valid.get(key):
            yield (
                f"{key} true needs word input, but char_cnn is an object: set the one "
                "to false or leave out the other"
            )
    n_tokens = valid.get("batch_size", 0) * valid.get("unroll_steps", 0)
    if n_tokens > MAX_BATCH_TOKENS:
        yield (
            f"batch_size * unroll_steps are {n_tokens:,} tokens, and must be at most "
            f"{MAX_BATCH_TOKENS:,}: make one of them smaller"
        )
    if valid.get("sample_softmax") and valid.get("n_negative_samples_batch") == 0:
        yield (
            "n_negative_samples_batch 0 draws no words, but sample_softmax is true: "
            "give a number of words or set sample_softmax to false"
        )


def find_missing(required: Iterable[str], flat: Mapping[str, Any]) -> list[str]:
    """Name the required keys that are not there.

    The keys of an object that is there but is none are left out, as its own problem
    tells more. A file with nothing but the network is taken for a prediction file.
    """
    missing = [
        key
        for key in required
        if key not in _OBJECTS and key not in flat
        if not any(key.startswith(f"{malformed}.") for malformed in flat)
    ]
    training = [key for key in missing if "." not in key]
    is_prediction = any(key.startswith("lstm.") for key in flat) and not any(
        key in _TRAINING_KEYS for key in flat
    )
    if not (training and is_prediction):
        return [f"{key} is missing" for key in missing]
    return [f"{key} is missing" for key in missing if key not in training] + [
        f"these are prediction options; missing for training: {', '.join(training)}"
    ]


def find_unknown(keys: Iterable[str], known: Iterable[str] = RULES) -> list[str]:
    """Name each key that is not known, with the nearest that is."""
    known = list(known)
    unknown = [key for key in keys if key not in known]
    messages = [
        f"unknown key {_short.repr(key)}{_hint(key, known)}"
        for key in unknown[:_LISTED_UNKNOWN_KEYS]
    ]
    if len(unknown) > len(messages):
        messages.append(f"{len(unknown) - len(messages)} more unknown keys")
    return messages


def _hint(key: str, known: list[str]) -> str:
    """Look for a key with a similar path, then for its last name in another object."""
    name = key.rpartition(".")[2]
    nearest = difflib.get_close_matches(key.lower(), known, n=1) or [
        other for other in known if other.endswith(f".{name}")
    ]
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""
