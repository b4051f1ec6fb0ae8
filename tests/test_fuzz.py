"""Any bytes at all where a file is expected: an `InputError`, or what is in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import OPTIONS

from bilm import text
from bilm.errors import InputError
from bilm.inspection import inspect
from bilm.jsonfiles import MAX_DEPTH
from bilm.options import (
    CharCnnOptions,
    LstmOptions,
    ModelOptions,
    TrainingOptions,
    read_model_options,
    read_training_options,
    replace_options,
    training_dict,
)
from bilm.trainer import Trainer
from bilm.vocabulary import Vocabulary
from bilm.word_vectors import read_word_vectors

FUZZ = settings(max_examples=200, deadline=None)
TREE = training_dict(OPTIONS)

# Bytes as they come, and such as are nearly right.
PIECES = st.sampled_from(
    [b"<S>\n", b"</S>\n", b"<UNK>\n", b"\n", b"a", b" ", b"\r\n", b"\xef\xbb\xbf"]
    + [b"\x1f\x8b\x08", b"\xff\xfe", b"\x89HDF", b"\0", "\u3000é".encode(), b"1 2.5\n"]
)
BYTES = st.binary(max_size=200) | st.lists(PIECES | st.binary(max_size=3)).map(b"".join)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "file"


def refused(error: InputError, path: Path) -> bool:
    """Whether the message is one line that names the file."""
    return str(path) in str(error) and "\n" not in str(error)


@given(content=BYTES)
@FUZZ
def test_text(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    try:
        found = list(text.read_sentences(file))
    except InputError as error:
        assert refused(error, file)
    else:
        if content.startswith(b"\x1f\x8b"):
            return
        lines = content.decode("utf-8-sig").split("\n")
        assert found == [x.split() for x in lines[:-1] + lines[-1:] * bool(lines[-1])]


SPECIAL = b"<S>\n</S>\n<UNK>\n"


@given(content=BYTES, before=st.booleans())
@FUZZ
def test_vocabulary(file: Path, content: bytes, before: bool) -> None:
    file.write_bytes(SPECIAL * before + content)
    try:
        vocab = Vocabulary(file)
    except InputError as error:
        assert refused(error, file)
        return
    for i, word in enumerate(vocab.words):
        assert word and word == word.strip() and "\n" not in word
        assert vocab.word_to_id(word) >= i  # of one that comes again, the last counts
        assert vocab.words[vocab.word_to_id(word)] == word


@given(content=BYTES)
@FUZZ
def test_word_vectors(file: Path, content: bytes) -> None:
    vocab_file = file.with_name("vocab")
    vocab_file.write_bytes(SPECIAL + b"a\n")
    file.write_bytes(content)
    try:
        read_word_vectors(file, Vocabulary(vocab_file), 2)
    except InputError as error:
        assert refused(error, file)


def read_options(path: Path) -> None:
    """By every reader; each refuses the file, or gives options that are right."""
    for read, kind in (
        (read_training_options, TrainingOptions),
        (read_model_options, ModelOptions),
    ):
        try:
            options = read(path)
        except InputError as error:
            assert refused(error, path)
        else:
            assert isinstance(options, kind)
            assert isinstance(options.lstm, LstmOptions)
            assert isinstance(options.char_cnn, CharCnnOptions | None)
    try:
        inspect(path)
    except InputError as error:
        assert refused(error, path)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**12, -1, 10**400, 2**31, 2**63])
    | st.floats()
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.sampled_from(sorted(TREE)), inner)
    ),
    max_leaves=8,
)


@given(content=BYTES | JSON.map(lambda tree: json.dumps(tree).encode()))
@FUZZ
def test_options(file: Path, content: bytes) -> None:
    path = file.with_suffix(".json")
    path.write_bytes(content)
    read_options(path)


def paths(tree: Any, prefix: tuple = ()) -> list[tuple]:
    """Of every value of an object."""
    if not isinstance(tree, dict):
        return [prefix]
    inner = [p for name, value in tree.items() for p in paths(value, (*prefix, name))]
    return [prefix, *inner] if prefix else inner


@given(
    changes=st.lists(
        st.tuples(st.sampled_from(paths(TREE)), JSON, st.booleans()),
        min_size=1,
        max_size=3,
    )
)
@FUZZ
def test_options_with_changes(
    file: Path, changes: list[tuple[tuple, Any, bool]]
) -> None:
    tree = json.loads(json.dumps(TREE))
    for place, value, removes in changes:
        *above, name = place
        part = tree
        for each in above:
            part = part.get(each) if isinstance(part, dict) else None
        if isinstance(part, dict):
            part.pop(name, None) if removes else part.update({name: value})
    path = file.with_suffix(".json")
    path.write_text(json.dumps(tree))
    read_options(path)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 500, 900, 5_000, 100_000])
def test_json_that_is_deep_is_refused(file: Path, depth: int) -> None:
    for begin, end in (("[", "]"), ('{"a":', "}")):
        inner = begin * depth + "0" * (begin != "[") + end * depth
        path = file.with_suffix(".json")
        path.write_text(json.dumps(TREE).replace("{", f'{{"more": {inner}, ', 1))
        for read in (read_training_options, read_model_options, inspect):
            with pytest.raises(InputError, match="nested too deeply"):
                read(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lstm": {"n_layers": 10**9}}, "lstm.n_layers must be at most 1,000, not 10"),
        ({"lstm": {"dim": 10**400}}, "lstm.dim must be at most 1,048,576, not 1000"),
        ({"batch_size": 2**31}, "batch_size must be at most"),
        ({"n_tokens_vocab": 2**31}, "n_tokens_vocab must be at most 2,147,483,647"),
        (
            {"char_cnn": {"max_characters_per_token": 2**15}},
            "max_characters_per_token must be at most 32,767",
        ),
        (
            {"char_cnn": {"filters": [[1, 2**20], [2, 1]]}},
            "channels of char_cnn.filters must be at most 1,048,576, not 1048577",
        ),
    ],
)
def test_numbers_that_no_machine_can_serve_are_refused(
    change: dict[str, Any], message: str, file: Path
) -> None:
    tree = {
        key: {**value, **change.get(key, {})} if isinstance(value, dict) else value
        for key, value in TREE.items()
    } | {key: value for key, value in change.items() if not isinstance(value, dict)}
    file.write_text(json.dumps(tree))
    with pytest.raises(InputError, match=message):
        read_training_options(file)


def test_a_network_that_memory_cannot_hold_is_refused() -> None:
    lstm = replace_options(OPTIONS.lstm, dim=2**20, projection_dim=2**18)
    with pytest.raises(InputError, match="take .* GB, but this machine has"):
        Trainer(replace_options(OPTIONS, lstm=lstm))
