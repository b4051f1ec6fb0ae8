"""`BidirectionalLanguageModel.embed`: ways of embedding a list that must agree."""

import itertools
import random
import resource
from pathlib import Path

import numpy as np
import pytest
from tiny import DIGITS, GOLDEN, WORDS, Corpus, Model, assert_near, read_arrays

from bilm import Batcher, BidirectionalLanguageModel, TokenBatcher
from bilm.characters import encode_words
from bilm.errors import InputError
from bilm.reading import Reading, pack_lanes, piece_steps, reading_orders
from bilm.token_vectors import TokenVectors, encode_by_length

BATCHER = Batcher(None, 8)
SENTENCES = [
    DIGITS[3:6],
    [],
    DIGITS[8:9],
    [*DIGITS, *DIGITS, "naïve"],
    ["1" * 20, ""],
    DIGITS[3:6],
]


@pytest.fixture(scope="module")
def model(char_model: Model) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(*char_model, stateful=False)


@pytest.fixture(scope="module")
def one_by_one(model: BidirectionalLanguageModel) -> list[np.ndarray]:
    """Each sentence by a call of its own with ids."""
    ids = (BATCHER.batch_sentences([tokens]) for tokens in SENTENCES)
    return [model(each)["lm_embeddings"][0].numpy() for each in ids]


def assert_all_near(actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(actual) == len(expected)
    for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
        assert one.shape == other.shape
        assert_near(one, other, f"sentence {i}")


@pytest.mark.parametrize("batch_tokens", [1, 7, 32, 1000])
def test_a_vector_depends_on_its_sentence_alone(
    batch_tokens: int,
    model: BidirectionalLanguageModel,
    one_by_one: list[np.ndarray],
) -> None:
    assert_all_near(list(model.embed(SENTENCES, batch_tokens=batch_tokens)), one_by_one)
    order = [4, 0, 3, 5, 1, 2]  # other neighbours
    shuffled = model.embed([SENTENCES[i] for i in order], batch_tokens=batch_tokens)
    assert_all_near(list(shuffled), [one_by_one[i] for i in order])


@pytest.mark.parametrize("batch_size", [1, 2, 50])
def test_rows_of_a_batch_do_not_matter(
    batch_size: int,
    model: BidirectionalLanguageModel,
    one_by_one: list[np.ndarray],
) -> None:
    (window,) = model.embed_windows(SENTENCES, Reading(batch_size=batch_size))
    assert_all_near(window.vectors, one_by_one)


@pytest.mark.parametrize("batch_tokens", [1, 5, 1000])
def test_stateful_goes_on_from_sentence_to_sentence(
    batch_tokens: int, char_model: Model, model: BidirectionalLanguageModel
) -> None:
    by_ids = BidirectionalLanguageModel(*char_model, max_batch_size=1)
    calls = (by_ids(BATCHER.batch_sentences([tokens])) for tokens in SENTENCES)
    expected = [result["lm_embeddings"][0].numpy() for result in calls]
    vectors = model.embed(SENTENCES, batch_tokens=batch_tokens, stateful=True)
    assert_all_near(list(vectors), expected)


@pytest.mark.parametrize(
    "folder", sorted(GOLDEN.glob("predict_*_*")), ids=lambda folder: folder.name
)
@pytest.mark.parametrize("batch_tokens", [3, 50, 4096])
def test_stateful_is_bilm_tf(folder: Path, batch_tokens: int) -> None:
    weights = folder / "weights.hdf5"
    model = BidirectionalLanguageModel(folder / "options.json", weights)
    lines = (GOLDEN / "text.txt").read_text(encoding="utf-8").splitlines()
    sentences = (line.split() for line in lines)
    expected = read_arrays(folder / "bilm_embeddings.hdf5")
    vectors = list(model.embed(sentences, batch_tokens=batch_tokens, stateful=True))
    assert_all_near(vectors, [expected[str(i)] for i in range(len(lines))])


def test_states_of_the_model_are_left_alone(char_model: Model) -> None:
    model = BidirectionalLanguageModel(*char_model, max_batch_size=2)
    ids = BATCHER.batch_sentences(SENTENCES[:2])
    first = model(ids)["lm_embeddings"].numpy()
    model.reset_states()
    list(model.embed(SENTENCES))
    list(model.embed(SENTENCES, stateful=True))
    np.testing.assert_array_equal(model(ids)["lm_embeddings"], first)


@pytest.mark.parametrize("stateful", [False, True])
def test_layers(
    stateful: bool, model: BidirectionalLanguageModel, one_by_one: list[np.ndarray]
) -> None:
    everything = list(model.embed(SENTENCES, stateful=stateful))
    chosen = {
        "top": [a[-1] for a in everything],
        "average": [a.mean(0) for a in everything],
        0: [a[0] for a in everything],
        1: [a[1] for a in everything],
        2: [a[2] for a in everything],
    }
    for layers, expected in chosen.items():
        assert_all_near(
            list(model.embed(SENTENCES, layers, stateful=stateful)), expected
        )


@pytest.mark.parametrize("layers", ["all", "top"])
def test_mean_over_tokens_is_without_padding(
    layers: str, model: BidirectionalLanguageModel, one_by_one: list[np.ndarray]
) -> None:
    pooled = list(model.embed(SENTENCES, layers, pool="mean"))
    assert not pooled[1].any()  # no tokens
    for i, (vector, array) in enumerate(zip(pooled, one_by_one, strict=True)):
        if i != 1:
            mean = array.mean(1)
            assert_near(vector, mean if layers == "all" else mean[-1])


def test_a_long_line_is_the_same_in_pieces(model: BidirectionalLanguageModel) -> None:
    draw = random.Random(3)
    long = [draw.choice(DIGITS) for _ in range(3000)]
    sentences = [DIGITS, long, ["5"]]
    for stateful in (False, True):
        uncut = list(model.embed(sentences, batch_tokens=10_000, stateful=stateful))
        for batch_tokens in (64, 999):
            cut = model.embed(sentences, batch_tokens=batch_tokens, stateful=stateful)
            assert_all_near(list(cut), uncut)


def test_a_generator_is_read_as_it_is_needed(model: BidirectionalLanguageModel) -> None:
    taken = []

    def sentences() -> object:
        for number in range(100):
            taken.append(number)
            yield ["3", "4"]

    vectors = model.embed(sentences(), batch_tokens=4)
    assert not taken
    next(vectors)
    assert len(taken) < 20
    assert len(list(vectors)) == 99


def test_nothing_to_embed(model: BidirectionalLanguageModel) -> None:
    assert list(model.embed([])) == []
    assert [a.shape for a in model.embed([[], []])] == [(3, 0, 16)] * 2


def test_token_ids_need_their_batcher(
    word_model: Model, corpus: Corpus, char_model: Model
) -> None:
    model = BidirectionalLanguageModel(*word_model, use_character_inputs=False)
    sentences = [["3", "unheard", "9"], ["4"]]
    with pytest.raises(InputError, match="batcher=TokenBatcher"):
        model.embed(sentences)
    batcher = TokenBatcher(corpus.vocab)
    vectors = list(model.embed(sentences, batcher=batcher))
    ids = batcher.batch_sentences(sentences)
    expected = BidirectionalLanguageModel(
        *word_model, use_character_inputs=False, stateful=False
    )(ids)["lm_embeddings"]
    assert_near(vectors[0], expected[0])
    assert_near(vectors[1], expected[1, :, :1])
    embedding_rows = read_arrays(word_model.weight_file)["embedding"]
    np.testing.assert_array_equal(
        vectors[0][0, 1, :8], embedding_rows[WORDS.index("<UNK>")]
    )


@pytest.mark.slow
@pytest.mark.parametrize("stateful", [False, True])
def test_calls_neither_trace_again_nor_grow(stateful: bool, char_model: Model) -> None:
    model = BidirectionalLanguageModel(*char_model, stateful=False)
    draw = random.Random(1)

    def call() -> None:
        lengths = [draw.randrange(30) for _ in range(10)]
        sentences = [draw.choices(DIGITS, k=length) for length in lengths]
        list(model.embed(sentences, stateful=stateful))

    for _ in range(20):
        call()
    before = resident_bytes()
    for _ in range(180):
        call()
    assert model.embedder.tracing_count() <= 2
    assert resident_bytes() - before < 8 << 20


@pytest.mark.slow
def test_calls_with_ids_do_not_grow_either(model: BidirectionalLanguageModel) -> None:
    draw = random.Random(1)

    def call() -> None:
        lengths = [draw.randrange(30) for _ in range(10)]
        model(BATCHER.batch_sentences([draw.choices(DIGITS, k=n) for n in lengths]))

    for _ in range(20):
        call()
    before = resident_bytes()
    for _ in range(180):
        call()
    embed = model._states_of(None).embed
    assert embed.experimental_get_tracing_count() == 1
    assert resident_bytes() - before < 8 << 20


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(model: BidirectionalLanguageModel) -> None:
    vectors = model.embed((DIGITS for _ in range(20_000)), batch_tokens=512)
    for _ in range(10_000):  # by then the allocator has what it needs
        next(vectors)
    before = resident_bytes()
    assert sum(1 for _ in vectors) == 10_000  # 21 MB
    assert resident_bytes() - before < 8 << 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": "bottom"}, "'average' or a number from 0 to 2, not 'bottom'"),
        ({"layers": -2}, "from 0 to 2, not -2"),
        ({"layers": 3}, "not 3"),
        ({"layers": -2}, "not -2"),
        ({"pool": "max"}, "'mean' or None, not 'max'"),
        ({"batch_tokens": 0}, "batch_tokens must be at least 1"),
        ({"pool": "max"}, "pool must be 'mean' or None, not 'max'"),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    arguments: dict[str, object], message: str, model: BidirectionalLanguageModel
) -> None:
    with pytest.raises(InputError, match=message):
        model.embed(SENTENCES, **arguments)


@pytest.mark.parametrize("sentences", ["a text", ["a text"], [[1, 2]]])
def test_texts_in_place_of_tokens_are_refused(
    sentences: object, model: BidirectionalLanguageModel
) -> None:
    with pytest.raises(InputError, match="must be a"):
        list(model.embed(sentences))
    assert len(list(model.embed([["3"]]))) == 1  # nothing is left behind


# Parts


def test_each_distinct_word_is_encoded_once(
    model: BidirectionalLanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []

    def encode(ids: np.ndarray) -> np.ndarray:
        rows.append(len(ids))
        return ids[:, :2].astype(np.float32)

    tokens = TokenVectors(encode, BATCHER, 2)
    tokens.of_sentences([["a", "bc", "a"], ["bc"]])
    tokens.of_sentences([["bc", "d"]])
    assert sum(rows) == 2 + 3  # <S> and </S>, three words
    tokens = TokenVectors(encode, BATCHER, 2, cache_bytes=8 * 3)
    for word in "abcdefgh":
        found = tokens.of_sentences([[word]]).vectors
        np.testing.assert_array_equal(found[1], encode_words([word], 8)[0, :2] + 1)
        assert len(tokens._table) <= 4


def test_words_of_like_length_are_encoded_together() -> None:
    words = ["x" * (1 + i * 7 % 40) for i in range(3000)]
    seen = []

    def encode(ids: np.ndarray) -> np.ndarray:
        lengths = np.count_nonzero(ids != 261, axis=1)
        seen.append((len(ids), lengths.min(), lengths.max()))
        return lengths[:, None].astype(np.float32)

    vectors = encode_by_length(encode, encode_words(words, 50) + 1)
    assert vectors[:, 0].tolist() == [len(word) + 2 for word in words]
    sizes = [size for size, _, _ in seen]
    assert sum(sizes) == 3000
    assert min(sizes[:-1]) >= 256
    for (_, _, longest), (_, shortest, _) in itertools.pairwise(seen):
        assert longest <= shortest
    seen.clear()
    encode_by_length(encode, encode_words(["abc", "d"] * 1500, 50) + 1)
    assert [size for size, _, _ in seen] == [1024, 1024, 952]


def test_orders_of_reading() -> None:
    forward, backward = reading_orders(np.array([3, 2, 4]), 2)
    assert forward.tolist() == list(range(9))
    assert backward.tolist() == [2, 1, 0, 4, 3, 8, 7, 6, 5]
    (alone,) = reading_orders(np.array([3, 2]), 1)
    assert alone.tolist() == [0, 1, 2, 3, 4]


def test_lanes_hold_each_sentence_once_and_whole() -> None:
    draw = random.Random(2)
    lengths = np.array([draw.choice([0, 1, 2, 5, 30]) for _ in range(2000)])
    lanes = pack_lanes(lengths, Reading())
    assert lanes.tokens.shape[1] == 128
    assert lanes.real.sum() == lengths.sum()
    assert len(lanes.tokens) < 1.1 * lengths.sum() / 128  # hardly any padding
    in_lane_order = lanes.tokens.T[lanes.real.T]
    assert sorted(in_lane_order) == list(range(lengths.sum()))
    # A token follows the one before in the text, but where a sentence begins.
    begins = np.isin(in_lane_order, np.cumsum(lengths) - lengths)
    np.testing.assert_array_equal(lanes.starts.T[lanes.real.T], begins)
    follows = np.diff(in_lane_order, prepend=-1) == 1
    assert np.all(follows | begins)


@pytest.mark.parametrize(
    ("lengths", "reading", "n_lanes"),
    [
        ([5], Reading(), 1),
        ([5] * 1000, Reading(batch_size=3), 3),
        ([5] * 1000, Reading(batch_tokens=7), 7),
        ([50_000] + [20] * 500, Reading(), 1),  # the long one takes all the time
        ([100] + [20] * 450, Reading(), 96),  # 128 would wait for it
    ],
)
def test_number_of_lanes(lengths: list[int], reading: Reading, n_lanes: int) -> None:
    assert pack_lanes(np.array(lengths), reading).tokens.shape[1] == n_lanes


def test_pieces_have_few_sizes_within_the_bound() -> None:
    sizes = {piece_steps(n, lanes, 4096) for n in range(3000) for lanes in (1, 32)}
    assert sizes == {64, 128, 256, 1024}
    assert {lanes * piece_steps(9999, lanes, 4096) for lanes in (8, 256)} == {4096}
    assert piece_steps(100, 5, 4) == 1
    assert all(piece_steps(n, 1, 4096) >= n for n in range(1, 1025))


def resident_bytes() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()
