"""`BidirectionalLanguageModel`: ways of calling it that must agree, and errors."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tiny import (
    DIGITS,
    OPTIONS,
    WORDS,
    Corpus,
    Model,
    assert_near,
    counting_sentences,
    read_arrays,
    write_arrays,
)

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    TokenBatcher,
    dump_token_embeddings,
)
from bilm.options import prediction_dict, replace_options, training_dict, write_options

LENGTH = 8
BATCHER = Batcher(None, LENGTH)
SENTENCES = [DIGITS[3:6], DIGITS[8:9], DIGITS, ["naïve", "7", "1" * 20]]
IDS = BATCHER.batch_sentences(SENTENCES)


@pytest.fixture(scope="module")
def stateless(char_model: Model) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(*char_model, stateful=False)


@pytest.fixture(scope="module")
def stateful_model(char_model: Model) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(*char_model, max_batch_size=5)


@pytest.fixture
def stateful(stateful_model: BidirectionalLanguageModel) -> BidirectionalLanguageModel:
    """A model that was never called."""
    stateful_model.reset_states()
    return stateful_model


@pytest.fixture(scope="module")
def words(word_model: Model) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(
        *word_model, use_character_inputs=False, stateful=False
    )


def vectors(model: Any, ids: Any) -> np.ndarray:
    return model(ids)["lm_embeddings"].numpy()


def states(model: BidirectionalLanguageModel) -> list[np.ndarray]:
    return [state.numpy() for state in tf.nest.flatten(model.states())]


# State


def test_a_call_starts_where_the_call_before_ended(
    stateful: BidirectionalLanguageModel, stateless: BidirectionalLanguageModel
) -> None:
    first, second = vectors(stateful, IDS), vectors(stateful, IDS)
    assert_near(first, vectors(stateless, IDS))
    np.testing.assert_array_equal(first[:, 0], second[:, 0])  # has no context
    assert np.abs(first[:, 1:] - second[:, 1:]).max() > 0.1
    stateful.reset_states()
    np.testing.assert_array_equal(vectors(stateful, IDS), first)


def test_a_stateless_model_gives_the_same_again(
    stateless: BidirectionalLanguageModel,
) -> None:
    np.testing.assert_array_equal(vectors(stateless, IDS), vectors(stateless, IDS))
    assert stateless.states()[0][0].c.shape[0] == 0


def test_rows_beyond_the_batch_keep_their_state(
    stateful: BidirectionalLanguageModel,
) -> None:
    stateful(IDS)
    before = states(stateful)
    stateful(IDS[2:3])
    for old, new in zip(before, states(stateful), strict=True):
        assert len(old) == 5 and not old[4].any()
        np.testing.assert_array_equal(new[1:], old[1:])
        assert (new[0] != old[0]).any()


def test_two_models_do_not_share_their_state(
    char_model: Model, stateful: BidirectionalLanguageModel
) -> None:
    other = BidirectionalLanguageModel(*char_model)
    first = vectors(stateful, IDS)
    np.testing.assert_array_equal(vectors(other, IDS), first)


# Batches


def test_a_batch_is_each_row_alone(stateless: BidirectionalLanguageModel) -> None:
    together = stateless(IDS)
    for row, sentence in enumerate(SENTENCES):
        alone = stateless(BATCHER.batch_sentences([sentence]))
        n_tokens = len(sentence)
        assert alone["lengths"].numpy() == [n_tokens] == together["lengths"][row]
        assert_near(
            together["lm_embeddings"][row, :, :n_tokens], alone["lm_embeddings"][0]
        )
        assert_near(
            together["token_embeddings"][row, : n_tokens + 2],
            alone["token_embeddings"][0],
        )
        mask = together["mask"][row].numpy()
        assert mask[:n_tokens].all() and not mask[n_tokens:].any()
        assert not together["lm_embeddings"][row, :, n_tokens:].numpy().any()


def test_stateless_batches_of_any_size_agree(
    stateless: BidirectionalLanguageModel,
) -> None:
    ids = BATCHER.batch_sentences(counting_sentences(160, seed=5))
    all_rows = vectors(stateless, ids)
    assert_near(vectors(stateless, ids[:128]), all_rows[:128])
    assert_near(vectors(stateless, ids[159:]), all_rows[159:])


def test_padding_changes_nothing(
    stateful: BidirectionalLanguageModel, stateless: BidirectionalLanguageModel
) -> None:
    padded = BATCHER.batch_sentences(SENTENCES, max_length=15)
    assert_near(vectors(stateless, padded)[:, :, :10], vectors(stateless, IDS))
    stateful(IDS)
    expected = states(stateful)
    stateful.reset_states()
    stateful(padded)
    for new, old in zip(states(stateful), expected, strict=True):
        assert_near(new, old)


def test_shapes_and_types(stateless: BidirectionalLanguageModel) -> None:
    result = stateless(IDS)
    found = {name: (t.dtype, t.shape.as_list()) for name, t in result.items()}
    assert found == {
        "lm_embeddings": (tf.float32, [4, 3, 10, 16]),
        "lengths": (tf.int32, [4]),
        "token_embeddings": (tf.float32, [4, 12, 8]),
        "mask": (tf.bool, [4, 10]),
    }
    tokens = result["token_embeddings"][2, 1:-1]
    np.testing.assert_array_equal(
        result["lm_embeddings"][2, 0], np.tile(tokens, (1, 2))
    )


@pytest.mark.parametrize("sentences", [[], [[]], [[], []], [["5"]]])
def test_batches_of_little(
    sentences: list[list[str]],
    stateful: BidirectionalLanguageModel,
    stateless: BidirectionalLanguageModel,
) -> None:
    ids = BATCHER.batch_sentences(sentences)
    longest = max(map(len, sentences), default=0)
    for model in (stateful, stateless):
        result = model(ids)
        assert result["lm_embeddings"].shape == (len(sentences), 3, longest, 16)
        assert result["lengths"].numpy().tolist() == list(map(len, sentences))
    if longest:
        assert np.abs(result["lm_embeddings"]).min() > 0


# Kinds of model and input


def test_cached_token_vectors_are_the_characters(
    char_model: Model,
    corpus: Corpus,
    stateless: BidirectionalLanguageModel,
    tmp_path: Path,
) -> None:
    cached = tmp_path / "words.hdf5"
    dump_token_embeddings(corpus.vocab, *char_model, cached)
    model = BidirectionalLanguageModel(
        *char_model, False, embedding_weight_file=cached, stateful=False
    )
    known = SENTENCES[:3]
    ids = TokenBatcher(corpus.vocab).batch_sentences(known)
    assert_near(vectors(model, ids), vectors(stateless, BATCHER.batch_sentences(known)))


def test_a_word_model_looks_its_embedding_up(
    words: BidirectionalLanguageModel, word_model: Model, corpus: Corpus
) -> None:
    ids = TokenBatcher(corpus.vocab).batch_sentences([["3", "unheard", "9"], []])
    result = words(ids)
    places = [WORDS.index(w) for w in ("<S>", "3", "<UNK>", "9", "</S>")]
    embedding = read_arrays(word_model.weight_file)["embedding"]
    np.testing.assert_array_equal(result["token_embeddings"][0], embedding[places])
    assert result["lm_embeddings"].shape == (2, 3, 3, 16)
    assert result["mask"].numpy().tolist() == [[True] * 3, [False] * 3]


def test_backward_is_forward_on_the_reversed_text(
    char_model: Model, stateless: BidirectionalLanguageModel, tmp_path: Path
) -> None:
    arrays = read_arrays(char_model.weight_file)
    other = {"RNN_0": "RNN_1", "RNN_1": "RNN_0"}
    swapped = {
        "/".join([other.get(first, first), *rest]): array
        for (first, *rest), array in zip(
            [name.split("/") for name in arrays], arrays.values(), strict=True
        )
    }
    write_arrays(tmp_path / "swapped.hdf5", swapped)
    model = BidirectionalLanguageModel(
        char_model.options_file, tmp_path / "swapped.hdf5", stateful=False
    )
    ids = IDS[2:3]  # without padding
    expected = np.roll(vectors(stateless, ids), 8, axis=-1)
    assert_near(vectors(model, ids[:, ::-1])[:, :, ::-1], expected)


def test_forward_only_is_the_forward_half(
    char_model: Model, stateless: BidirectionalLanguageModel, tmp_path: Path
) -> None:
    arrays = read_arrays(char_model.weight_file)
    forward = {name: a for name, a in arrays.items() if not name.startswith("RNN_1")}
    write_arrays(tmp_path / "forward.hdf5", forward)
    options = replace_options(OPTIONS, bidirectional=False)
    write_options(tmp_path / "options.json", prediction_dict(options))
    model = BidirectionalLanguageModel(
        tmp_path / "options.json", tmp_path / "forward.hdf5", stateful=False
    )
    assert_near(vectors(model, IDS), vectors(stateless, IDS)[..., :8])


def test_training_options_serve_as_well(
    char_model: Model, stateless: BidirectionalLanguageModel, tmp_path: Path
) -> None:
    write_options(tmp_path / "options.json", training_dict(OPTIONS))
    model = BidirectionalLanguageModel(
        tmp_path / "options.json", char_model.weight_file
    )
    assert_near(vectors(model, IDS), vectors(stateless, IDS))


# Inside a function


def test_inside_a_function_it_is_the_same(
    stateful: BidirectionalLanguageModel, stateless: BidirectionalLanguageModel
) -> None:
    spec = tf.TensorSpec([None, None, LENGTH], tf.int64)
    for model in (stateful, stateless):
        call = tf.function(lambda ids, m=model: m(ids), input_signature=[spec])
        inside = [vectors(call, IDS), vectors(call, IDS)]
        model.reset_states()
        for once in inside:
            assert_near(once, vectors(model, IDS))


def test_shapes_do_not_trace_again(stateless: BidirectionalLanguageModel) -> None:
    stateless(IDS)
    draw = random.Random(1)
    for _ in range(30):
        lengths = [draw.randrange(12) for _ in range(draw.randrange(1, 7))]
        batch = BATCHER.batch_sentences([["1"] * length for length in lengths])
        stateless(batch.astype(draw.choice([np.int32, np.int64])))
    assert stateless._states_of(None).embed.experimental_get_tracing_count() == 1
