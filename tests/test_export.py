"""The SavedModel of a biLM: loaded where there is no bilm, against the Python path."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal
from tiny import OPTIONS, SMALL_LSTM, WORDS, Corpus, Model, assert_near, write_model

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    TokenBatcher,
    export_saved_model,
    served_model,
)
from bilm.cli import main
from bilm.elmo import mix_layers
from bilm.errors import InputError
from bilm.options import replace_options

# Run by a python that cannot import bilm: each signature on each batch.
LOADER = """
import json, sys
sys.modules["bilm"] = None  # from here on its import is an error
import numpy as np
import tensorflow as tf

job = json.load(open("job.json", encoding="utf-8"))
results = {}
for name, path in job["models"].items():
    signatures = tf.saved_model.load(path).signatures
    for k, sentences in enumerate(job["batches"]):
        size = max(map(len, sentences), default=0)
        rows = [tokens + ["junk"] * (size - len(tokens)) for tokens in sentences]
        tokens = tf.constant(rows, tf.string, [len(rows), size])
        lengths = tf.constant([len(s) for s in sentences], tf.int32)
        texts = ["\\u3000".join(tokens) for tokens in sentences]
        inputs = {
            "default": {"strings": tf.constant(texts, tf.string, [len(texts)])},
            "tokens": {"tokens": tokens, "sequence_len": lengths},
            "ids": {"ids": tf.constant(np.load(f"{name}-{k}.npy"))},
        }
        inputs["serving_default"] = inputs["default"]
        for signature, values in inputs.items():
            for key, value in signatures[signature](**values).items():
                results[f"{name}/{k}/{signature}/{key}"] = value.numpy()
np.savez("results.npz", **results)
"""

BATCHES: list[list[list[str]]] = [
    [["1", "2", "3"], [], ["5"], ["<S>", "7", "8", "</S>", "new"]],
    [["4"]],
    [[]],
    [],
    [["Ωμέγα", "שלום", "😀😀", "tokens-of-many-bytes", "9"]] * 2,
]


class Case(NamedTuple):
    """An exported model, and what embeds in Python."""

    path: Path
    model: BidirectionalLanguageModel
    batcher: Batcher | TokenBatcher

    def layers(self, sentences: list[list[str]]) -> np.ndarray:
        ids = self.batcher.batch_sentences(sentences)
        return self.model(ids)["lm_embeddings"].numpy()


def make_case(path: Path, files: Model, vocab: Path | None, **flags: Any) -> Case:
    written = export_saved_model(*files, path, vocab_file=vocab, **flags)
    chars = vocab is None
    model = BidirectionalLanguageModel(
        *files, use_character_inputs=chars, stateful=False
    )
    batcher = Batcher(None, 8) if vocab is None else TokenBatcher(vocab)
    return Case(Path(written), model, batcher)


@pytest.fixture(scope="module")
def cases(
    tmp_path_factory: pytest.TempPathFactory,
    char_model: Model,
    word_model: Model,
    corpus: Corpus,
) -> dict[str, Case]:
    """Character and word input, one direction, one layer, no projection."""
    folder = tmp_path_factory.mktemp("exported")
    forward = replace_options(
        OPTIONS,
        bidirectional=False,
        lstm=replace_options(SMALL_LSTM, dim=5, projection_dim=5),
    )
    (folder / "forward_model").mkdir()
    files = write_model(folder / "forward_model", forward, seed=3)
    return {
        "char": make_case(folder / "char", char_model, None),
        "word": make_case(folder / "word", word_model, corpus.vocab, version=7),
        "forward": make_case(folder / "forward", files, None),
    }


@pytest.fixture(scope="module")
def results(
    cases: dict[str, Case], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, np.ndarray]:
    """What a process without bilm gets out of the SavedModels."""
    folder = tmp_path_factory.mktemp("elsewhere")
    models = {name: str(case.path) for name, case in cases.items()}
    job = json.dumps({"models": models, "batches": BATCHES})
    (folder / "job.json").write_text(job, encoding="utf-8")
    for name, case in cases.items():
        for k, sentences in enumerate(BATCHES):
            ids = case.batcher.batch_sentences(sentences)
            np.save(folder / f"{name}-{k}.npy", ids)
    done = subprocess.run(
        [sys.executable, "-c", LOADER], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "results.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def loaded(cases: dict[str, Case]) -> Any:
    return tf.saved_model.load(str(cases["char"].path))


@pytest.mark.slow
@pytest.mark.parametrize("signature", ["default", "serving_default", "tokens", "ids"])
@pytest.mark.parametrize("k", range(len(BATCHES)))
@pytest.mark.parametrize("name", ["char", "word", "forward"])
def test_equals_the_python_path_in_a_process_without_bilm(
    name: str,
    k: int,
    signature: str,
    cases: dict[str, Case],
    results: dict[str, np.ndarray],
) -> None:
    prefix = f"{name}/{k}/{signature}/"
    found = {
        key.removeprefix(prefix): value
        for key, value in results.items()
        if key.startswith(prefix)
    }
    layers = cases[name].layers(BATCHES[k])
    width = cases[name].model.options.lstm.projection_dim
    lengths = [max(len(tokens), 1) for tokens in BATCHES[k]]
    elmo = layers.mean(1)
    expected = {
        "word_emb": layers[:, 0, :, :width],
        "elmo": elmo,
        "default": elmo.sum(1) / np.reshape(lengths, [-1, 1]),
    }
    for number in range(1, layers.shape[1]):
        expected[f"lstm_outputs{number}"] = layers[:, number]
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key].dtype == np.float32
        assert found[key].shape == value.shape
        assert_near(found[key], value, key)


def test_keeps_no_state_and_a_sentence_depends_on_itself_alone(loaded: Any) -> None:
    embed = loaded.signatures["default"]
    first = embed(tf.constant(["1 2 3"]))["elmo"]
    embed(tf.constant(["7 7", "1 2 3 4 5 6"]))
    assert_array_equal(embed(tf.constant(["1 2 3"]))["elmo"], first)
    beside = embed(tf.constant(["9 9 9 9 9", " 1\t2 3 "]))["elmo"]
    assert_allclose(beside[1, :3], first[0], atol=1e-6)
    assert_array_equal(beside[1, 3:], np.zeros([2, 16]))


def test_an_empty_token_within_the_length_is_a_word_of_no_letters(
    loaded: Any, cases: dict[str, Case]
) -> None:
    tokens = tf.constant([["a", "", "b", ""], ["", "c", "", ""]])
    vectors = loaded.signatures["tokens"](
        tokens=tokens, sequence_len=tf.constant([3, 3])
    )
    expected = cases["char"].layers([["a", "", "b"], ["", "c", ""]])
    assert vectors["lstm_outputs2"].shape == (2, 4, 16)
    assert_near(vectors["lstm_outputs2"][:, :3], expected[:, 2])
    assert_array_equal(vectors["lstm_outputs2"][:, 3], np.zeros([2, 16]))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([3, 0], "sequence_len must not be more than a row has tokens"),
        ([-1, 1], "sequence_len must not be negative"),
        ([1], "sequence_len needs a number for each row"),
    ],
)
def test_lengths_that_do_not_fit_are_errors(
    lengths: list[int], message: str, loaded: Any
) -> None:
    tokens = tf.constant([["a", "b"], ["c", "d"]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        loaded.signatures["tokens"](tokens=tokens, sequence_len=tf.constant(lengths))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[4, -3, 5]], "ids must not be negative"),
        ([[4]], "each sentence of ids needs <S> and </S>"),
    ],
)
def test_ids_that_are_none_are_errors(
    ids: list[list[int]], message: str, cases: dict[str, Case]
) -> None:
    served = tf.saved_model.load(str(cases["word"].path)).signatures["ids"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        served(ids=tf.constant(ids))


@pytest.mark.parametrize("name", ["char", "word"])
def test_loads_as_tensorflow_serving_loads_it(
    name: str, cases: dict[str, Case]
) -> None:
    """By the tag, into a session, with inputs and outputs by their tensors' names."""
    case = cases[name]
    assert (case.path / "saved_model.pb").exists()
    assert case.path.name == {"char": "char", "word": "7"}[name]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(case.path))
        signature = graph.signature_def["serving_default"]
        assert signature.method_name == "tensorflow/serving/predict"
        assert list(signature.inputs) == ["strings"]
        output, texts = signature.outputs["elmo"], signature.inputs["strings"]
        elmo = session.run(output.name, {texts.name: ["1 2 3", "4"]})
    assert_near(elmo, case.layers([["1", "2", "3"], ["4"]]).mean(1))


def test_weights_are_variables_and_no_constants(cases: dict[str, Case]) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    saved = SavedModel()
    saved.ParseFromString((cases["char"].path / "saved_model.pb").read_bytes())
    (meta_graph,) = saved.meta_graphs
    graph = meta_graph.graph_def
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    constants = [node.attr["value"].tensor for node in nodes if node.op == "Const"]
    sizes = [c.ByteSize() for c in constants if c.dtype != tf.string.as_datatype_enum]
    assert max(sizes) < 200  # bytes; the names of the variables are longer
    # A loop for each layer and direction: the signatures share one network.
    assert sum(node.op in ("While", "StatelessWhile") for node in nodes) == 4


@pytest.mark.slow
def test_a_trained_mix_is_taken_and_can_be_trained_on(
    char_model: Model,
    cases: dict[str, Case],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights, gamma = [0.5, -1.0, 2.0], 1.5
    embed = Mock(side_effect=served_model.embed_sentences)
    monkeypatch.setattr(served_model, "embed_sentences", embed)
    path = export_saved_model(
        *char_model, tmp_path / "out", mix_weights=weights, gamma=gamma
    )
    assert embed.call_count == 1  # the network is traced once for all signatures
    loaded = tf.saved_model.load(path)
    with tf.GradientTape() as tape:
        outputs = loaded.signatures["default"](tf.constant(["1 2 3", "4"]))
        loss = tf.reduce_sum(outputs["default"] ** 2)
    variables = [loaded.elmo_weights, loaded.elmo_gamma]
    watched = {variable.ref() for variable in tape.watched_variables()}
    assert watched == {variable.ref() for variable in variables}  # the biLM is frozen
    layers = tf.constant(cases["char"].layers([["1", "2", "3"], ["4"]]))
    with tf.GradientTape() as tape_of_ours:
        mix = [tf.constant(weights), tf.constant([gamma])]
        tape_of_ours.watch(mix)
        elmo = mix_layers(layers, *mix)
        mean = tf.reduce_sum(elmo, 1) / [[3.0], [1.0]]
        loss_of_ours = tf.reduce_sum(mean**2)
    assert_near(outputs["elmo"], elmo)
    expected = tape_of_ours.gradient(loss_of_ours, mix)
    for gradient, other in zip(tape.gradient(loss, variables), expected, strict=True):
        assert_near(gradient, other)


@pytest.mark.parametrize(
    ("weights", "gamma"),
    [
        ([1.0, 2.0], 1.0),
        ([0.0, float("nan"), 0.0], 1.0),
        ([1e39, 0.0, 0.0], 1.0),  # finite, but not as float32
        (None, float("inf")),
        (None, 1e39),
    ],
)
def test_a_mix_that_does_not_fit_is_an_error(
    weights: Any, gamma: float, char_model: Model, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="a mix needs 3 weights that float32 can"):
        export_saved_model(
            *char_model, tmp_path / "out", mix_weights=weights, gamma=gamma
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("version", [0, 2**63])
def test_a_version_that_serving_cannot_read_is_an_error(
    version: int, char_model: Model, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="version must be from 1 to 9223372036854775"):
        export_saved_model(*char_model, tmp_path / "out", version=version)


class TestFolder:
    """What is there already is not lost, and what is new is whole or not there."""

    @pytest.fixture
    def folder(self, cases: dict[str, Case], tmp_path: Path) -> Iterator[Path]:
        shutil.copytree(cases["forward"].path, tmp_path / "out")
        yield tmp_path / "out"
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_a_savedmodel_is_replaced_where_asked_for(
        self, folder: Path, char_model: Model
    ) -> None:
        with pytest.raises(InputError, match="is not empty .* or add --overwrite"):
            export_saved_model(*char_model, folder)
        before = (folder / "saved_model.pb").read_bytes()
        export_saved_model(*char_model, folder, overwrite=True)
        assert (folder / "saved_model.pb").read_bytes() != before

    def test_other_files_are_never_replaced(
        self, folder: Path, char_model: Model
    ) -> None:
        (folder / "notes.txt").write_text("mine")
        with pytest.raises(InputError, match=r"did not make \(notes.txt\)"):
            export_saved_model(*char_model, folder, overwrite=True)
        with pytest.raises(
            InputError, match="notes.txt is a file, where a folder is needed"
        ):
            export_saved_model(*char_model, folder / "notes.txt", overwrite=True)

    def test_a_write_that_fails_leaves_what_was_there(
        self, folder: Path, char_model: Model, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(module: Any, path: str, signatures: Any) -> None:
            Path(path, "saved_model.pb").write_bytes(b"half")
            raise tf.errors.ResourceExhaustedError(None, None, "No space left")

        before = (folder / "saved_model.pb").read_bytes()
        monkeypatch.setattr(tf.saved_model, "save", fail)
        with pytest.raises(OSError, match="out could not be written: No space left"):
            export_saved_model(*char_model, folder, overwrite=True)
        assert (folder / "saved_model.pb").read_bytes() == before


def test_the_command_writes_a_version(
    word_model: Model, corpus: Corpus, tmp_path: Path, capsys: Any
) -> None:
    flags = [
        *("export", "--out", f"{tmp_path}/served", "--version", "2"),
        *("--model", f"{word_model.options_file.parent}"),
    ]
    assert main(flags) == 2
    assert "is of a word-level model, which needs vocab_file" in capsys.readouterr().err
    mix = ["--gamma", "-2", "--mix_weights", "-1", "0", "3"]
    assert main([*flags, "--vocab_file", f"{corpus.vocab}", *mix]) == 0
    assert "served/2, with the signatures" in capsys.readouterr().err
    loaded = tf.saved_model.load(str(tmp_path / "served" / "2"))
    assert_array_equal(loaded.elmo_weights, [-1, 0, 3])
    assert_array_equal(loaded.elmo_gamma, [-2])
    assert main([*flags, "--vocab_file", f"{corpus.vocab}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_vocabulary_must_be_that_of_the_model(
    word_model: Model, corpus: Corpus, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text(corpus.vocab.read_text() + "more\n")
    message = f"has vectors of {len(WORDS)} words, but the vocabulary has 14"
    with pytest.raises(InputError, match=message):
        export_saved_model(*word_model, tmp_path / "out", vocab_file=other)
    assert not (tmp_path / "out").exists()
