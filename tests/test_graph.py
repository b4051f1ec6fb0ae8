"""TensorFlow 1 graphs: programs written for bilm-tf, under `compat.v1`.

`programs/old_graph.py` is one that has called `disable_v2_behavior`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from test_golden_predict import (
    MAX_BATCH_SIZE,
    assert_golden,
    batches_of_ids,
    read_model,
)
from tiny import (
    GOLDEN,
    OPTIONS,
    WORDS,
    Corpus,
    Model,
    assert_near,
    read_arrays,
    with_lstm,
    write_model,
)

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    TokenBatcher,
    dump_bilm_embeddings,
    dump_token_embeddings,
    weight_layers,
)
from bilm.errors import InputError

v1 = tf.compat.v1
LENGTH = 8
BATCHER = Batcher(None, LENGTH)
IDS = BATCHER.batch_sentences([["1", "2", "3"], ["8"]])
CHARACTERS = (None, None, LENGTH)


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    """Each test builds a graph, and eager execution is as before afterwards."""
    with tf.Graph().as_default() as graph:
        yield graph
    assert tf.executing_eagerly()


def placeholder(shape: tuple[int | None, ...] | None = CHARACTERS) -> tf.Tensor:
    return v1.placeholder("int32", shape)


def initialised() -> v1.Session:
    session = v1.Session()
    session.run(v1.global_variables_initializer())
    return session


def eager_vectors(model: Model, ids: np.ndarray) -> np.ndarray:
    """What a model made outside the graph gives."""
    with tf.__internal__.eager_context.eager_mode():
        outside = BidirectionalLanguageModel(*model, stateful=False)
        return outside(ids)["lm_embeddings"].numpy()


@pytest.mark.parametrize("name", ["predict_relu_skip", "predict_tokens"])
def test_placeholders_have_states_of_their_own(name: str) -> None:
    """Two of them over one model, the second a batch behind: both are golden."""
    expected = np.load(GOLDEN / name / "expected.npz")
    batches = list(batches_of_ids(GOLDEN / name))
    model = read_model(GOLDEN / name)
    shape = (None, None, *batches[0].shape[2:])
    first, second = placeholder(shape), placeholder(shape)
    ops = [model(first), model(second)]
    assert model(first) is ops[0]  # and no third one
    found: list[list[Any]] = [[], []]
    with initialised() as session:
        for one, other in zip([*batches, None], [None, *batches], strict=True):
            for place, ids in enumerate((one, other)):
                if ids is not None:
                    fed = {(first, second)[place]: ids}
                    found[place].append(session.run(ops[place], fed))
        states = session.run(model.states(first))
    for results in found:
        assert_golden(results, expected)
    assert states[0][0].c.shape[0] == MAX_BATCH_SIZE
    assert_near(states[1][0].c, expected["final_state/backward/0/c"])


def test_state_is_carried_by_whatever_is_fetched(char_model: Model) -> None:
    ids = placeholder()
    model = BidirectionalLanguageModel(*char_model)
    ops, reset = model(ids), model.reset_states()
    with initialised() as session:

        def run(fetched: Any) -> Any:
            return session.run(fetched, {ids: IDS})

        vectors = [run(ops["lm_embeddings"]) for _ in range(2)]
        session.run(reset)
        run(ops["lengths"])
        np.testing.assert_array_equal(run(ops["lm_embeddings"]), vectors[1])
    assert np.abs(vectors[1] - vectors[0])[:, 1:].max() > 0.1


def test_variables_of_a_program_with_two_mixes(char_model: Model) -> None:
    model = BidirectionalLanguageModel(*char_model)
    context, question = model(placeholder()), model(placeholder())
    weight_layers("input", context, l2_coef=0.5)
    with v1.variable_scope("", reuse=True):
        weight_layers("input", question, l2_coef=0.5)
    weight_layers("output", context, l2_coef=0.0)
    names = {
        f"{mix}_ELMo_{kind}" for mix in ("input", "output") for kind in ("W", "gamma")
    }
    assert {each.op.name for each in v1.trainable_variables()} == names
    assert len(v1.losses.get_regularization_losses()) == 2  # once for each name
    weights = [v for v in v1.global_variables() if v.op.name.startswith("lm/CNN")]
    assert len(weights) == 2 * 3 + 4 + 2  # filters, a highway layer, projection


def test_global_initializer_gives_the_weights_of_the_file(char_model: Model) -> None:
    model = BidirectionalLanguageModel(*char_model)
    stored = read_arrays(char_model.weight_file)
    with initialised() as session, initialised() as other:
        variables = list(model.network.variables_by_name.values())
        session.run(variables[0].assign_add(tf.ones_like(variables[0])))
        for each in (other, initialised()):  # has memory of its own
            for spec in model.network.specs:
                found = each.run(model.network.variables_by_name[spec.name])
                np.testing.assert_array_equal(found, stored[spec.hdf5])


def test_graph_is_as_large_whatever_the_weights(tmp_path: Path) -> None:
    sizes = []
    for dim in (16, 2048):
        folder = tmp_path / str(dim)
        folder.mkdir()
        files = write_model(folder, with_lstm(OPTIONS, dim=dim))
        with tf.Graph().as_default() as graph:
            weight_layers("input", BidirectionalLanguageModel(*files)(placeholder()))
            sizes.append(len(graph.as_graph_def().SerializeToString()))
    assert (tmp_path / "2048/weights.hdf5").stat().st_size > 2_000_000 > 4 * sizes[0]
    assert abs(sizes[1] - sizes[0]) < 1000


def test_mix_is_trained_and_the_model_is_not(char_model: Model) -> None:
    ids = placeholder()
    model = BidirectionalLanguageModel(*char_model, stateful=False)
    mix = weight_layers("input", model(ids), l2_coef=0.1)
    loss = tf.reduce_mean((mix["weighted_op"] - 1) ** 2)
    loss += tf.add_n(v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES))
    step = v1.train.AdamOptimizer(0.1).minimize(loss)
    frozen = model.network.variables_by_name
    with initialised() as session:
        losses = [session.run([loss, step], {ids: IDS})[0] for _ in range(30)]
        values = session.run(frozen)
    assert losses[-1] < 0.9 * losses[0]
    stored = read_arrays(char_model.weight_file)
    for spec in model.network.specs:
        np.testing.assert_array_equal(values[spec.name], stored[spec.hdf5])


def test_saver_and_monitored_session(char_model: Model, tmp_path: Path) -> None:
    ids = placeholder()
    model = BidirectionalLanguageModel(*char_model)
    mixed = weight_layers("input", model(ids))["weighted_op"]
    gamma = v1.trainable_variables()[0]
    assign, saver = gamma.assign([3.0]), v1.train.Saver()
    with initialised() as session:
        session.run(assign)
        expected = [session.run(mixed, {ids: IDS}) for _ in range(3)]
        session.run(model.reset_states())
        session.run(mixed, {ids: IDS})
        saver.save(session, str(tmp_path / "model"))
    with v1.Session() as session:  # the weights come from the checkpoint alone
        saver.restore(session, str(tmp_path / "model"))
        np.testing.assert_array_equal(session.run(mixed, {ids: IDS}), expected[1])
    scaffold = v1.train.Scaffold(saver=saver)
    with v1.train.MonitoredSession(
        v1.train.ChiefSessionCreator(scaffold, checkpoint_dir=str(tmp_path))
    ) as session:
        np.testing.assert_array_equal(session.run(mixed, {ids: IDS}), expected[1])
        np.testing.assert_array_equal(session.run(mixed, {ids: IDS}), expected[2])


def test_placeholders_of_other_kinds(char_model: Model) -> None:
    model = BidirectionalLanguageModel(*char_model, stateful=False)
    kinds = [v1.placeholder("int64", CHARACTERS), placeholder(None), tf.constant(IDS)]
    ops = [model(ids)["lm_embeddings"] for ids in kinds]
    with initialised() as session:
        found = session.run(ops, {kinds[0]: IDS, kinds[1]: IDS})
    expected = eager_vectors(char_model, IDS)
    for vectors in found:
        assert_near(vectors, expected)


def test_datasets_of_a_graph(char_model: Model) -> None:
    model = BidirectionalLanguageModel(*char_model, stateful=False)
    dataset = v1.data.Dataset.from_tensor_slices(IDS).batch(1).map(model)
    iterator = v1.data.make_initializable_iterator(dataset)
    vectors = iterator.get_next()["lm_embeddings"]
    expected = eager_vectors(char_model, IDS)
    with initialised() as session:
        session.run(iterator.initializer)
        for row in expected:
            assert_near(session.run(vectors)[0], row)


def test_what_a_graph_cannot_do_is_said(char_model: Model) -> None:
    model = BidirectionalLanguageModel(*char_model)
    with pytest.raises(InputError, match="embed gives arrays, which a graph cannot"):
        model.embed([["1"]])
    with pytest.raises(InputError, match="are float32 of shape"):
        model(v1.placeholder("float32", CHARACTERS))
    with tf.Graph().as_default():
        with pytest.raises(InputError, match="works in the graph it was made in"):
            model(placeholder())
    with tf.__internal__.eager_context.eager_mode():
        outside = BidirectionalLanguageModel(*char_model)
        with pytest.raises(InputError, match="make a BidirectionalLanguageModel in"):
            model(IDS)
    with pytest.raises(InputError, match="works in the graph it was made in"):
        outside(placeholder())


def test_dumps_leave_no_trace_in_the_graph(
    char_model: Model, corpus: Corpus, graph: tf.Graph, tmp_path: Path
) -> None:
    dump_token_embeddings(corpus.vocab, *char_model, tmp_path / "words.hdf5")
    text = tmp_path / "text.txt"
    text.write_text("1 2 3\n8\n")
    dump_bilm_embeddings(None, text, *char_model, tmp_path / "text.hdf5")
    assert not graph.get_operations()
    ids = placeholder((None, None))
    model = BidirectionalLanguageModel(
        *char_model, False, tmp_path / "words.hdf5", stateful=False
    )
    vectors = model(ids)["lm_embeddings"]
    batch = TokenBatcher(corpus.vocab).batch_sentences([["1", "2", "3"], ["8"]])
    with initialised() as session:
        found = session.run(vectors, {ids: batch})
    assert_near(found, eager_vectors(char_model, IDS))
    assert_near(read_arrays(tmp_path / "text.hdf5")["0"], found[0])


@pytest.mark.slow
def test_program_that_has_disabled_v2_behavior(
    char_model: Model, corpus: Corpus, tmp_path: Path
) -> None:
    program = Path(__file__).parent / "programs" / "old_graph.py"
    files = [*char_model, corpus.vocab, tmp_path]
    done = subprocess.run(
        [sys.executable, str(program), *map(str, files)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "found.npz")
    expected = eager_vectors(char_model, IDS)
    assert_near(found["characters"], expected)
    assert_near(found["tokens"], expected)
    assert_near(found["again"], expected)
    assert_near(found["mixed"], expected.mean(1))
    normed = found["normed"][:, :, 0][np.array([[1, 1, 1], [1, 0, 0]], bool)]
    assert np.isfinite(normed).all()
    names = json.loads((tmp_path / "names.json").read_text())
    assert names["trainable"] == ["input_ELMo_W", "input_ELMo_gamma"]
    assert names["losses"] == 1
    assert "tf_keras" not in names["modules"] and "bilm" in names["modules"]
    with tf.__internal__.eager_context.eager_mode():
        dump_token_embeddings(corpus.vocab, *char_model, tmp_path / "ours.hdf5")
    for name in ("before.hdf5", "after.hdf5"):
        vectors = read_arrays(tmp_path / name)["embedding"]
        assert vectors.shape[0] == len(WORDS)
        assert_near(vectors, read_arrays(tmp_path / "ours.hdf5")["embedding"])
