"""Options: bilm-tf's files load and round-trip; every fault is named, all at once."""

import copy
import dataclasses
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from bilm.errors import InputError, InvalidNumberOfCharacters
from bilm.jsonfiles import MAX_BYTES
from bilm.options import (
    CharCnnOptions,
    LstmOptions,
    ModelOptions,
    TrainingOptions,
    as_training_options,
    model_options_from_dict,
    prediction_dict,
    read_model_options,
    read_training_options,
    replace_options,
    training_dict,
    training_options_from_dict,
    write_options,
)
from bilm.presets import PRESETS, preset

GOLDEN = Path(__file__).parent / "fixtures" / "golden"
GOLDEN_FILES = sorted(GOLDEN.rglob("options.json"))
TRAINING = GOLDEN / "train_full_softmax_chars" / "init" / "options.json"
WORDS = GOLDEN / "train_words_forward_only" / "init" / "options.json"
DEFAULTS = {
    "learning_rate": 0.2,
    "lr_schedule": "constant",
    "warmup_steps": 0,
    "accumulate": 1,
    "reset_state": "never",
    "reset_state_every": 0,
    "sample_softmax": True,
    "share_embedding_softmax": False,
    "freeze_embedding": False,
}
MODEL_KEYS = ("lstm", "char_cnn", "bidirectional")


@pytest.fixture
def tree():
    """The content of a training file with characters."""
    return json.loads(TRAINING.read_text())


def write(path, content):
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_bytes(text.encode("utf-8"))
    return path


def with_value(tree, key, value):
    """A copy of `tree` with the value at a dotted key replaced."""
    tree = copy.deepcopy(tree)
    *sections, name = key.split(".")
    place = tree
    for section in sections:
        place = place[section]
    place[name] = value
    return tree


def problems_of(tree, build=training_options_from_dict):
    """The problems of a tree, one an entry."""
    with pytest.raises(InputError) as caught:
        build(tree, "options.json")
    message = str(caught.value)
    assert "\n" not in message
    source, _, problems = message.partition(": ")
    assert source == "options.json"
    return problems.split("; ")


# Files of bilm-tf.


def test_there_are_golden_files():
    assert len(GOLDEN_FILES) == 11


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda p: str(p.relative_to(GOLDEN)))
def test_known_files_keep_every_value(path):
    before = json.loads(path.read_text())
    options = read_training_options(path)
    after = training_dict(options)
    if "char_cnn" in before:
        assert after["char_cnn"].pop("n_characters") == 261
        assert before["char_cnn"].pop("n_characters") in (261, 262)
    assert after == DEFAULTS | before
    # As text too: 3 does not become 3.0.
    assert json.dumps(after, sort_keys=True) == json.dumps(
        DEFAULTS | before, sort_keys=True
    )


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda p: str(p.relative_to(GOLDEN)))
def test_reading_what_was_written_is_the_identity(path, tmp_path):
    options = read_training_options(path)
    copied = tmp_path / "options.json"
    for content in (training_dict(options), prediction_dict(options)):
        write_options(copied, content)
        assert read_training_options(copied) == options
    model = read_model_options(path)
    write_options(copied, prediction_dict(model))
    assert read_model_options(copied) == model
    assert sorted(json.loads(copied.read_text())) == sorted(
        key for key in MODEL_KEYS if key in json.loads(path.read_text())
    )


def test_values_reach_their_fields(tree):
    options = training_options_from_dict(
        tree | {"learning_rate": 0.5, "share_embedding_softmax": False}
    )
    assert options == TrainingOptions(
        lstm=LstmOptions(24, 10, 2, 3, 3, True),
        char_cnn=CharCnnOptions(((1, 4), (2, 8), (3, 12), (4, 16)), 5, 50, 2, "relu"),
        bidirectional=True,
        dropout=0.0,
        all_clip_norm_val=10.0,
        n_epochs=1,
        n_train_tokens=10000,
        batch_size=4,
        n_tokens_vocab=93,
        unroll_steps=6,
        n_negative_samples_batch=16,
        learning_rate=0.5,
        sample_softmax=False,
        share_embedding_softmax=False,
    )


def test_prediction_reads_the_network_of_a_training_file():
    training = read_training_options(TRAINING)
    model = read_model_options(TRAINING)
    assert type(model) is ModelOptions
    assert model == ModelOptions(training.lstm, training.char_cnn, True)


def test_dict_and_options_both_serve_as_options(tree):
    options = as_training_options(tree)
    assert options == read_training_options(TRAINING)
    assert as_training_options(options) is options
    with pytest.raises(InputError, match="dropout"):
        as_training_options(tree | {"dropout": 2})


def test_old_file_with_optional_keys_missing_loads(tree):
    for key in ("bidirectional", "n_train_tokens", "sample_softmax"):
        del tree[key]
    for key in ("cell_clip", "proj_clip", "use_skip_connections"):
        del tree["lstm"][key]
    for key in ("n_highway", "activation", "n_characters"):
        del tree["char_cnn"][key]
    options = training_options_from_dict(tree)
    assert options.lstm == LstmOptions(dim=24, projection_dim=10, n_layers=2)
    assert options.char_cnn.n_highway == 0
    assert options.char_cnn.activation == "relu"
    assert options.bidirectional and options.sample_softmax
    assert options.n_train_tokens == 0
    assert options.learning_rate == 0.2
    assert not options.share_embedding_softmax


def test_prediction_file_may_hold_the_network_alone(tree):
    alone = {"lstm": tree["lstm"], "char_cnn": tree["char_cnn"]}
    options = model_options_from_dict(alone)
    assert options.bidirectional
    assert options == read_model_options(TRAINING)


def test_absent_and_null_mean_none(tree):
    for absent in ({}, {"char_cnn": None}):
        words = {k: v for k, v in tree.items() if k != "char_cnn"} | absent
        assert training_options_from_dict(words).char_cnn is None
        assert model_options_from_dict(words).char_cnn is None
    tree["lstm"] |= {"cell_clip": None, "proj_clip": None}
    options = training_options_from_dict(tree)
    assert options.lstm.cell_clip is None and options.lstm.proj_clip is None
    # bilm-tf asks whether these keys are there, so null must not be written.
    written = training_dict(dataclasses.replace(options, char_cnn=None))
    assert "char_cnn" not in written
    assert not {"cell_clip", "proj_clip"} & written["lstm"].keys()


def test_word_files_round_trip_without_char_cnn():
    options = read_training_options(WORDS)
    assert options.char_cnn is None and options.n_directions == 1
    assert "char_cnn" not in prediction_dict(options)


@pytest.mark.parametrize("read", [training_options_from_dict, model_options_from_dict])
def test_both_numbers_of_characters_are_read_in_each_phase(tree, read):
    read_options = [
        read(with_value(tree, "char_cnn.n_characters", n)) for n in (261, 262)
    ]
    del tree["char_cnn"]["n_characters"]
    assert read_options == [read(tree)] * 2


@pytest.mark.parametrize("read", [training_options_from_dict, model_options_from_dict])
@pytest.mark.parametrize("number", [250, 263, 261.0, True, "261", None, [261]])
def test_other_numbers_of_characters_are_refused(tree, read, number):
    with pytest.raises(InvalidNumberOfCharacters, match="char_cnn.n_characters"):
        read(with_value(tree, "char_cnn.n_characters", number))


def test_wrong_number_of_characters_is_reported_with_the_rest(tree):
    tree = with_value(tree, "char_cnn.n_characters", 250) | {"dropout": 2}
    with pytest.raises(InvalidNumberOfCharacters, match=r"250.*dropout"):
        training_options_from_dict(tree)


def test_the_number_of_characters_of_the_phase_is_written():
    options = read_training_options(TRAINING)
    assert training_dict(options)["char_cnn"]["n_characters"] == 261
    prediction = prediction_dict(options)
    assert prediction["char_cnn"]["n_characters"] == 262
    assert prediction["n_tokens_vocab"] == 93


def test_written_file_is_plain_utf8_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "options.json"
    content = training_dict(read_training_options(TRAINING))
    write_options(path, content)
    first = path.read_bytes()
    assert first.startswith(b'{\n  "bidirectional": true,\n  "lstm": {\n    "dim": 24')
    assert first.endswith(b"}\n")
    write_options(path, content)
    assert path.read_bytes() == first
    with pytest.raises(ValueError):
        write_options(path, {"dropout": float("nan")})
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


# Wrong values.

WRONG = [
    *[
        (key, value)
        for key in (
            "lstm.dim",
            "lstm.projection_dim",
            "lstm.n_layers",
            "char_cnn.embedding.dim",
            "char_cnn.max_characters_per_token",
            "n_epochs",
            "batch_size",
            "accumulate",
            "unroll_steps",
        )
        for value in (0, -1, 3.0, 2.5, True, "4", None, [4], {"a": 4}, float("nan"))
    ],
    *[
        (key, value)
        for key in (
            "char_cnn.n_highway",
            "n_train_tokens",
            "n_tokens_vocab",
            "n_negative_samples_batch",
            "warmup_steps",
        )
        for value in (-1, 1.0, False, "1", None)
    ],
    *[
        (key, value)
        for key in ("all_clip_norm_val", "learning_rate")
        for value in (0, -0.1, True, "1", None, float("nan"), float("inf"), 10**400)
    ],
    *[
        (key, value)
        for key in ("lstm.cell_clip", "lstm.proj_clip")
        for value in (0, -3, True, "3", float("inf"))
    ],
    *[("dropout", value) for value in (-0.1, 1, 1.0, float("nan"), True, "0", None)],
    *[
        (key, value)
        for key in ("bidirectional", "sample_softmax", "lstm.use_skip_connections")
        for value in (0, 1, "true", None)
    ],
    *[
        (key, value)
        for key in ("lr_schedule", "reset_state")
        for value in ("Linear", "always", "", None, True, [])
    ],
    *[("char_cnn.activation", value) for value in ("Relu", "gelu", "", None, 1, [])],
    *[
        ("char_cnn.filters", value)
        for value in (
            [],
            None,
            7,
            {},
            "ab",
            [1, 32],
            [[1]],
            [[1, 32, 3]],
            [[1, 0]],
            [[0, 32]],
            [[1, 32], [2, -1]],
            [[1, 32.0]],
            [[True, 32]],
            ["ab"],
        )
    ],
    ("char_cnn.max_characters_per_token", 2),
    ("lstm", 3),
    ("lstm", None),
    ("lstm", []),
    ("char_cnn", []),
    ("char_cnn", False),
    ("char_cnn.embedding", 16),
]


@pytest.mark.parametrize("key, value", WRONG, ids=lambda v: str(v)[:40])
def test_wrong_value_is_the_one_problem(tree, key, value):
    # Filters of width 1, or a short limit would contradict them.
    tree["char_cnn"]["filters"] = [[1, 4]]
    tree["lstm"]["projection_dim"] = 1
    (problem,) = problems_of(with_value(tree, key, value))
    assert problem.startswith(f"{key} must be ")
    assert len(problem) < 250


@pytest.mark.parametrize(
    "key, value",
    [
        ("dropout", 0),
        ("dropout", 0.999),
        ("learning_rate", 1),
        ("lr_schedule", "inverse_sqrt"),
        ("warmup_steps", 10**6),
        ("accumulate", 64),
        ("reset_state", "document"),
        ("reset_state_every", 250),
        ("all_clip_norm_val", 10),
        ("lstm.cell_clip", 0.4),
        ("char_cnn.max_characters_per_token", 4),
        ("char_cnn.n_highway", 0),
        ("char_cnn.activation", "tanh"),
        ("n_tokens_vocab", 0),
        ("n_train_tokens", 0),
        ("n_negative_samples_batch", 10**6),
        ("lstm.projection_dim", 24),
    ],
)
def test_values_at_the_edge_are_accepted_and_kept(tree, key, value):
    tree = with_value(tree, key, value)
    written = training_dict(training_options_from_dict(tree))
    for name in key.split("."):
        written = written[name]
    assert written == value and type(written) is type(value)


def test_value_shown_is_cut_and_on_one_line(tree):
    deep = []
    for _ in range(300):
        deep = [deep]
    for value in ("a\nb" * 1000, [7] * 1000, deep, "\ud83d"):
        (problem,) = problems_of(with_value(tree, "dropout", value))
        assert len(problem) < 250
        problem.encode("utf-8")


@pytest.mark.parametrize("value", [3, [3], "lstm", None])
def test_content_must_be_an_object(value):
    with pytest.raises(InputError, match="options must be an object"):
        training_options_from_dict(value)


# Missing keys.


@pytest.mark.parametrize(
    "key",
    [
        "lstm.dim",
        "lstm.projection_dim",
        "lstm.n_layers",
        "char_cnn.embedding.dim",
        "char_cnn.filters",
        "char_cnn.max_characters_per_token",
        "dropout",
        "all_clip_norm_val",
        "n_epochs",
        "batch_size",
        "n_tokens_vocab",
        "unroll_steps",
    ],
)
def test_missing_key_is_the_one_problem(tree, key):
    *sections, name = key.split(".")
    place = tree
    for section in sections:
        place = place[section]
    del place[name]
    assert problems_of(tree) == [f"{key} is missing"]


def test_missing_objects_name_their_keys(tree):
    del tree["lstm"], tree["char_cnn"]["embedding"]
    assert problems_of(tree) == [
        "lstm.dim is missing",
        "lstm.projection_dim is missing",
        "lstm.n_layers is missing",
        "char_cnn.embedding.dim is missing",
    ]


def test_empty_char_cnn_is_not_word_input(tree):
    problems = problems_of(tree | {"char_cnn": {}}, model_options_from_dict)
    assert problems == [
        "char_cnn.filters is missing",
        "char_cnn.embedding.dim is missing",
        "char_cnn.max_characters_per_token is missing",
    ]


def test_samples_may_be_missing_only_with_the_full_softmax(tree):
    del tree["n_negative_samples_batch"]
    assert training_options_from_dict(tree).n_negative_samples_batch == 0
    for sampled in (tree | {"sample_softmax": True}, dict(tree)):
        if sampled == tree:
            del sampled["sample_softmax"]  # True by default.
        assert problems_of(sampled) == ["n_negative_samples_batch is missing"]


def test_prediction_options_given_to_training_say_so(tree):
    alone = {key: tree[key] for key in MODEL_KEYS}
    assert problems_of(alone) == [
        "these are prediction options",
        "missing for training: dropout, all_clip_norm_val, n_epochs, batch_size, "
        "n_tokens_vocab, unroll_steps, n_negative_samples_batch",
    ]


def test_empty_file_is_not_called_prediction_options():
    problems = problems_of({})
    assert "dropout is missing" in problems and "lstm.dim is missing" in problems
    assert not any("prediction" in problem for problem in problems)
    assert problems_of({}, model_options_from_dict) == [
        "lstm.dim is missing",
        "lstm.projection_dim is missing",
        "lstm.n_layers is missing",
    ]


# Unknown keys.


@pytest.mark.parametrize(
    "section, key, nearest",
    [
        ((), "dropuot", "dropout"),
        ((), "learning-rate", "learning_rate"),
        ((), "BATCH_SIZE", "batch_size"),
        ((), "projection_dim", "lstm.projection_dim"),
        ((), "n_layers", "lstm.n_layers"),
        (("lstm",), "projecton_dim", "lstm.projection_dim"),
        (("char_cnn",), "filter", "char_cnn.filters"),
        (("char_cnn", "embedding"), "dims", "char_cnn.embedding.dim"),
    ],
)
def test_unknown_key_names_the_nearest(tree, caplog, section, key, nearest):
    place = tree
    for name in section:
        place = place[name]
    place[key] = 1
    path = ".".join((*section, key))
    assert problems_of(tree) == [f"unknown key {path!r} (did you mean {nearest!r}?)"]
    assert not caplog.records

    with caplog.at_level(logging.WARNING, "bilm"):
        options = model_options_from_dict(tree, "weights/options.json")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert repr(path) in record.getMessage() and repr(nearest) in record.getMessage()
    assert record.getMessage().startswith("weights/options.json: ignored: unknown")
    assert options == read_model_options(TRAINING)


def test_unknown_key_like_no_other_has_no_hint(tree):
    assert problems_of(tree | {"zzz": {"lstm": 3}}) == ["unknown key 'zzz'"]


def test_a_dotted_name_is_no_path(tree):
    (problem,) = problems_of(tree | {"lstm.dim": 512})
    assert problem.startswith("unknown key")


def test_another_json_file_gives_a_short_message():
    vocabulary = {f"word{i}": i for i in range(5000)}
    problems = problems_of(vocabulary)
    assert "4990 more unknown keys" in problems
    assert len(problems) < 30


def test_known_files_warn_of_nothing(caplog):
    for path in GOLDEN_FILES:
        read_model_options(path)
    assert not caplog.records


# Contradictions.


def test_contradictions_name_both_fields_and_values(tree):
    tree["char_cnn"] |= {"max_characters_per_token": 6, "filters": [[7, 8], [1, 9]]}
    tree["lstm"]["projection_dim"] = 25
    tree |= {"sample_softmax": True, "n_negative_samples_batch": 0}
    tree["share_embedding_softmax"] = True
    wide, projection, share, samples = problems_of(tree)
    for problem, words in (
        (wide, ("char_cnn.filters", "7", "char_cnn.max_characters_per_token", "6")),
        (projection, ("lstm.projection_dim", "25", "lstm.dim", "24")),
        (share, ("share_embedding_softmax", "true", "char_cnn")),
        (samples, ("n_negative_samples_batch 0 draws no words", "sample_softmax is t")),
    ):
        for word in words:
            assert word in problem
    # Prediction has no softmax.
    assert problems_of(tree, model_options_from_dict) == [wide, projection]


def test_contradiction_with_a_default(tree):
    del tree["sample_softmax"]
    tree["n_negative_samples_batch"] = 0
    (problem,) = problems_of(tree)
    assert "sample_softmax is true" in problem


def test_neighbours_of_contradictions_are_fine(tree):
    tree["char_cnn"] |= {"max_characters_per_token": 7, "filters": [[7, 8]]}
    tree["lstm"]["projection_dim"] = 24
    # More samples than words mean the full softmax.
    tree |= {"sample_softmax": True, "n_negative_samples_batch": 100}
    training_options_from_dict(tree)
    words = json.loads(WORDS.read_text()) | {"share_embedding_softmax": True}
    assert training_options_from_dict(words).share_embedding_softmax


def test_all_problems_of_a_file_at_once(tree, tmp_path):
    del tree["unroll_steps"], tree["lstm"]["n_layers"]
    tree["lstm"] |= {"projection_dim": 30, "celclip": 3}
    tree["char_cnn"]["n_highway"] = -1
    tree |= {"n_epochs": "ten", "dropuot": 0.1}
    text = json.dumps(tree).replace('"batch_size"', '"batch_size": 5, "batch_size"')
    path = write(tmp_path / "options.json", text)
    with pytest.raises(InputError) as caught:
        read_training_options(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    for part in (
        "'batch_size' stands 2 times",
        "unknown key 'lstm.celclip' (did you mean 'lstm.cell_clip'?)",
        "unknown key 'dropuot' (did you mean 'dropout'?)",
        "unroll_steps is missing",
        "lstm.n_layers is missing",
        "char_cnn.n_highway must be a whole number, at least 0, not -1",
        "n_epochs must be a whole number, at least 1, not 'ten'",
        "lstm.projection_dim 30 is above lstm.dim 24",
    ):
        assert part in message
    assert message.count(";") == 7


# Built by hand.


def test_built_by_hand_is_checked():
    with pytest.raises(InputError, match="lstm.projection_dim 9 is above lstm.dim 8"):
        LstmOptions(dim=8, projection_dim=9, n_layers=1)
    with pytest.raises(InputError, match="lstm.dim must.*lstm.n_layers must"):
        LstmOptions(dim=0, projection_dim=9, n_layers=0)
    with pytest.raises(InputError, match="char_cnn.embedding.dim must be"):
        CharCnnOptions(((1, 4),), 0, 50)
    with pytest.raises(InputError, match="filter of width 5, wider than"):
        CharCnnOptions(((1, 4), (5, 4)), 16, 4)
    with pytest.raises(InputError, match="lstm must be an object"):
        ModelOptions({"dim": 8}, None)
    with pytest.raises(InputError, match="char_cnn must be an object"):
        ModelOptions(LstmOptions(8, 8, 1), {"filters": []})
    with pytest.raises(InputError, match="share_embedding_softmax true needs word"):
        dataclasses.replace(preset("small"), share_embedding_softmax=True)


def test_options_are_frozen_and_hashable():
    options = preset("small")
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.dropout = 0.5
    with_lists = dataclasses.replace(
        options.char_cnn, filters=[list(pair) for pair in options.char_cnn.filters]
    )
    assert with_lists == options.char_cnn
    assert hash(dataclasses.replace(options, char_cnn=with_lists)) == hash(options)


def test_derived_sizes():
    lstm = LstmOptions(dim=8, projection_dim=6, n_layers=1)
    both, forward = ModelOptions(lstm, None), ModelOptions(lstm, None, False)
    assert (both.n_directions, both.output_dim) == (2, 12)
    assert (forward.n_directions, forward.output_dim) == (1, 6)
    assert CharCnnOptions(((1, 4), (2, 8), (2, 3)), 16, 50).n_filters == 15


# Presets and flags.


@pytest.mark.parametrize(
    "name, dim, projection_dim, n_highway",
    [("small", 1024, 128, 1), ("medium", 2048, 256, 1), ("original", 4096, 512, 2)],
)
def test_presets_have_the_published_sizes(name, dim, projection_dim, n_highway):
    options = preset(name)
    channels = (32, 32, 64, 128, 256, 512, 1024)
    assert training_dict(options) == {
        "bidirectional": True,
        "char_cnn": {
            "activation": "relu",
            "embedding": {"dim": 16},
            "filters": [[w, n] for w, n in zip(range(1, 8), channels, strict=True)],
            "max_characters_per_token": 50,
            "n_characters": 261,
            "n_highway": n_highway,
        },
        "dropout": 0.1,
        "lstm": {
            "cell_clip": 3,
            "dim": dim,
            "n_layers": 2,
            "proj_clip": 3,
            "projection_dim": projection_dim,
            "use_skip_connections": True,
        },
        "all_clip_norm_val": 10.0,
        "n_epochs": 10,
        "n_train_tokens": 0,
        "batch_size": 128,
        "n_tokens_vocab": 0,
        "unroll_steps": 20,
        "n_negative_samples_batch": 8192,
        **DEFAULTS,
    }
    assert options.char_cnn.n_filters == 2048
    assert PRESETS[name] is options


def test_unknown_preset_lists_those_there_are():
    with pytest.raises(InputError, match="'orignal'.*'original'.*small, medium, orig"):
        preset("orignal")


def test_flags_replace_and_are_checked():
    options = preset("small")
    changed = replace_options(options, n_tokens_vocab=93, dropout=0)
    assert (changed.n_tokens_vocab, changed.dropout) == (93, 0)
    assert dataclasses.replace(changed, n_tokens_vocab=0, dropout=0.1) == options
    assert type(changed) is TrainingOptions
    with pytest.raises(InputError, match="dropout must.*batch_size must"):
        replace_options(options, dropout=1.5, batch_size=0)
    with pytest.raises(InputError, match="'batchsize' .did you mean 'batch_size'"):
        replace_options(options, batchsize=3)


# Files that are none of ours.


def test_byte_order_mark_is_dropped(tmp_path):
    path = tmp_path / "options.json"
    path.write_bytes(b"\xef\xbb\xbf" + TRAINING.read_bytes())
    assert read_training_options(path) == read_training_options(TRAINING)


@pytest.mark.parametrize(
    "content, words",
    [
        (b'{\n "lstm": {\n  "dim": 3,,\n', [":3 ", "line 3, column 12"]),
        (b"", [":1 ", "line 1, column 1"]),
        (b"<S>\n</S>\n", [":1 ", "not JSON"]),
        (b"[1, 2]", ["JSON object", "list"]),
        (b'{"lstm": 3', [":1 ", "line 1, column 11"]),
        ('{"é": 1}'.encode("utf-16"), ["UTF-16", "UTF-8"]),
        ('{"a": 1}'.encode("utf-16-le"), ["UTF-16"]),
        ('{"a": 1}'.encode("utf-16-be"), ["UTF-16"]),
        (b'{\n"\xe9": 1}', [":2 ", "not UTF-8", "0xe9"]),
        (b'\xef\xbb\xbf{\n"\xe9": 1}', [":2 ", "not UTF-8", "0xe9"]),
        (b"\x89HDF\r\n\x1a\n\0\0", ["HDF5"]),
        (b"\x89HDF\r\n\x1a\n" + b"\0" * MAX_BYTES, ["HDF5"]),
        (b"{" + b" " * MAX_BYTES + b"}", ["too large"]),
        (b"[" * 200_000, ["too deeply"]),
        (b'{"a":' * 100_000, ["too deeply"]),
        (b'{"dropout": ' + b"1" * 10_000 + b"}", ["dropout", "options.json"]),
    ],
    ids=lambda v: str(v)[:24],
)
def test_unreadable_file_is_named_with_a_guess(tmp_path, content, words):
    path = tmp_path / "options.json"
    path.write_bytes(content)
    for read in (read_training_options, read_model_options):
        with pytest.raises(InputError) as caught:
            read(path)
        message = str(caught.value)
        assert message.startswith(str(path)) and "\n" not in message
        if b"dropout" not in content:
            assert all(word in message for word in words), message


def test_folder_given_as_file(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        read_training_options(tmp_path)


def test_missing_file_says_what_is_there(tmp_path):
    path = tmp_path / "options.json"
    with pytest.raises(FileNotFoundError, match="holds nothing"):
        read_training_options(path)
    for name in ("weights.hdf5", "elmo_options.json"):
        (tmp_path / name).touch()
    with pytest.raises(FileNotFoundError) as caught:
        read_model_options(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "elmo_options.json, weights.hdf5" in message
    assert "looks like" not in message
    with pytest.raises(FileNotFoundError, match=f"no folder {tmp_path}/none"):
        read_model_options(tmp_path / "none" / "options.json")


@pytest.mark.parametrize(
    "names, family",
    [
        (["config.json", "encoder.pkl", "token_embedder.pkl"], "ELMoForManyLangs"),
        (["config.json", "weights.th"], "AllenNLP"),
        (["model.tar.gz"], "AllenNLP"),
    ],
)
def test_models_of_other_programs_are_recognised(tmp_path, names, family):
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(FileNotFoundError, match=f"looks like a model of {family}"):
        read_model_options(tmp_path / "options.json")


def test_long_folder_is_listed_in_part(tmp_path):
    for i in range(50):
        (tmp_path / f"shard-{i:02}").touch()
    with pytest.raises(FileNotFoundError, match="shard-19 and 30 more"):
        read_model_options(tmp_path / "options.json")


def test_options_do_not_import_tensorflow():
    code = (
        "import sys, bilm.options, bilm.presets;"
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
