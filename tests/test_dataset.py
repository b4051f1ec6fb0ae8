import itertools
import json
import logging
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bilm import shards
from bilm.data import (
    BidirectionalLMDataset,
    LMDataset,
    UnicodeCharsVocabulary,
    Vocabulary,
)
from bilm.errors import InputError

GOLDEN = Path(__file__).parent / "fixtures" / "golden"
WORDS = ["<S>", "</S>", "<UNK>", *"abcdefghij"]
SUFFIXES = ("", "_reverse")

corpora = st.lists(
    st.lists(st.lists(st.sampled_from("abcdefghijxy"), max_size=7), max_size=6),
    min_size=1,
    max_size=4,
).filter(any)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder


@pytest.fixture(scope="module")
def vocab(folder):
    return Vocabulary(folder / "vocab.txt")


@pytest.fixture(scope="module")
def characters(folder):
    return UnicodeCharsVocabulary(folder / "vocab.txt", 5)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_TOKENS", 30)
    monkeypatch.setattr(shards, "MAX_TABLE_WORDS", 8)


@pytest.fixture(scope="module")
def new_folder(tmp_path_factory):
    return lambda: tmp_path_factory.mktemp("corpus")


def write(folder: Path, corpus: list[list[list[str]]]) -> Path:
    for i, sentences in enumerate(corpus):
        lines = [" ".join(sentence) + "\n" for sentence in sentences]
        (folder / f"{i}.txt").write_text("".join(lines))
    return folder


def random_corpus(n_shards: int = 3, n_sentences: int = 20) -> list[list[list[str]]]:
    random = np.random.default_rng(5)
    letters = np.array(list("abcdefghijxy"))
    return [
        [
            list(letters[random.integers(0, 12, random.integers(0, 9))])
            for _ in range(n_sentences)
        ]
        for _ in range(n_shards)
    ]


def joined(batches, name: str) -> np.ndarray:
    """One array of all batches, [B, all steps, ...]."""
    return np.concatenate([batch[name] for batch in batches], axis=1)


def pairs_of(ids: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))


def given_pairs(batches, suffix: str = "") -> list[tuple[int, int]]:
    """Input and target of all real tokens, row by row."""
    real = joined(batches, "weights" + suffix) == 1
    inputs = joined(batches, "token_ids" + suffix)[real].tolist()
    targets = joined(batches, "next_token_id" + suffix)[real].tolist()
    return list(zip(inputs, targets, strict=True))


def assert_same(ours, expected):
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        assert set(one) == set(other)
        for name in one:
            assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    "name, max_word_length, rows, steps, test",
    [
        ("batches_chars_b3_t5", 12, 3, 5, False),
        ("batches_words_b2_t7", None, 2, 7, False),
        ("batches_test_b2_t1", 16, 2, 1, True),
    ],
)
@pytest.mark.parametrize("block_tokens", [1, 100, 10**6])
def test_golden_batches(
    name, max_word_length, rows, steps, test, block_tokens, monkeypatch
):
    monkeypatch.setattr(shards, "BLOCK_TOKENS", block_tokens)
    vocab = Vocabulary(GOLDEN / "vocab.txt")
    if max_word_length:
        vocab = UnicodeCharsVocabulary(GOLDEN / "vocab.txt", max_word_length)
    data = BidirectionalLMDataset(GOLDEN / "text.txt", vocab, test=test)
    batches = data.iter_batches(rows, steps)
    with np.load(GOLDEN / f"{name}.npz") as expected:
        numbers = sorted({int(key.split("/")[0]) for key in expected})
        names = {key.split("/")[1] for key in expected}
        for k in numbers:
            batch = next(batches)
            assert set(batch) == names
            for array in names:
                assert_array_equal(batch[array], expected[f"{k}/{array}"])
                assert batch[array].dtype == np.int32
    if test:
        assert next(batches, None) is None


def test_rows_are_streams_of_their_own(tmp_path, folder):
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n.\n")
    (tmp_path / "text").write_text("the unknown .\nth .\nthe\n")
    vocab = UnicodeCharsVocabulary(tmp_path / "vocab.txt", 6)
    batches = list(
        itertools.islice(LMDataset(tmp_path / "text", vocab).iter_batches(2, 3), 2)
    )
    assert_array_equal(batches[0]["token_ids"], [[0, 3, 2], [0, 2, 4]])
    assert_array_equal(batches[0]["next_token_id"], [[3, 2, 4], [2, 4, 1]])
    assert_array_equal(batches[1]["token_ids"], [[4, 0, 3], [0, 3, 2]])
    assert_array_equal(batches[1]["next_token_id"], [[1, 3, 1], [3, 2, 4]])
    words = [["<S>", "the", "unknown"], ["<S>", "th", "."]]
    for row, expected in zip(batches[0]["tokens_characters"], words, strict=True):
        assert_array_equal(row, [vocab.word_to_char_ids(word) for word in expected])


def test_a_long_sentence_goes_on_in_its_row(tmp_path, vocab):
    (tmp_path / "text").write_text("a b c d e f g h i j " * 4 + "\n" + "a\n" * 30)
    data = BidirectionalLMDataset(tmp_path / "text", vocab, test=True)
    batches = list(data.iter_batches(2, 20, keep_incomplete=True))
    sentence = vocab.encode("a b c d e f g h i j " * 4)
    assert_array_equal(joined(batches, "token_ids")[0, :41], sentence[:-1])
    assert_array_equal(joined(batches, "next_token_id")[0, :41], sentence[1:])
    assert_array_equal(joined(batches, "token_ids_reverse")[0, :41], sentence[:0:-1])


@given(corpora, st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_one_pass_gives_every_token_once(
    new_folder, characters, corpus, rows, steps, fill_steps
):
    data = BidirectionalLMDataset(write(new_folder(), corpus), characters, test=True)
    batches = list(
        data.iter_batches(rows, steps, keep_incomplete=True, fill_steps=fill_steps)
    )
    sentences = [sentence for shard in corpus for sentence in shard]
    for suffix, reverse in zip(SUFFIXES, (False, True), strict=True):
        expected = [
            pair
            for sentence in sentences
            for pair in pairs_of(characters.encode(sentence, reverse, split=False))
        ]
        assert Counter(given_pairs(batches, suffix)) == Counter(expected)
        weights = joined(batches, "weights" + suffix)
        assert weights.dtype == np.float32
        assert weights.sum(axis=1).max() > weights.shape[1] - steps
        assert (np.diff(weights, axis=1) <= 0).all()  # padding comes last in a row
        for name in ("token_ids", "next_token_id", "tokens_characters"):
            assert not joined(batches, name + suffix)[weights == 0].any()


@given(corpora, st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_the_last_incomplete_batch_is_left_out(new_folder, vocab, corpus, rows, steps):
    data = BidirectionalLMDataset(write(new_folder(), corpus), vocab, test=True)
    complete = list(data.iter_batches(rows, steps))
    every = list(data.iter_batches(rows, steps, keep_incomplete=True))
    for kept, batch in zip(complete, every, strict=False):
        assert "weights" not in kept and batch["weights"].all()
        assert_same([kept], [{name: batch[name] for name in kept}])
    for batch in every[len(complete) :]:
        assert not batch["weights"].all()


def test_the_number_of_tokens_left_out_is_logged(tmp_path, vocab, caplog):
    (tmp_path / "text").write_text("a b\nc\nd e f\n")  # 3 + 2 + 4 inputs
    caplog.set_level(logging.INFO)
    data = LMDataset(tmp_path / "text", vocab, test=True)
    assert len(list(data.iter_batches(2, 2))) == 1
    assert "the last 5 tokens do not fill" in caplog.text


@given(corpora, st.integers(1, 5), st.integers(2, 6))
@settings(max_examples=60, deadline=None)
def test_filling_by_one_step_does_not_depend_on_steps(
    new_folder, characters, corpus, rows, steps
):
    data = BidirectionalLMDataset(write(new_folder(), corpus), characters, test=True)
    many = list(data.iter_batches(rows, steps, fill_steps=1, keep_incomplete=True))
    ones = list(data.iter_batches(rows, 1, keep_incomplete=True))
    for name in ones[0]:
        expected = joined(ones, name)
        ours = joined(many, name)
        assert_array_equal(ours[:, : expected.shape[1]], expected)
        assert not ours[:, expected.shape[1] :].any()


@given(corpora, st.booleans(), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_every_shard_comes_once_an_epoch(new_folder, vocab, corpus, shuffle, seed):
    data = BidirectionalLMDataset(
        write(new_folder(), corpus), vocab, False, shuffle, seed=seed
    )
    sentences = [sentence for shard in corpus for sentence in shard]
    epoch = sum(len(sentence) + 1 for sentence in sentences)
    batches = list(itertools.islice(data.iter_batches(1, epoch), 3))
    for suffix, reverse in zip(SUFFIXES, (False, True), strict=True):
        expected = Counter(
            pair
            for sentence in sentences
            for pair in pairs_of(vocab.encode(sentence, reverse, split=False))
        )
        for batch in batches:
            inputs = batch["token_ids" + suffix][0].tolist()
            targets = batch["next_token_id" + suffix][0].tolist()
            assert Counter(zip(inputs, targets, strict=True)) == expected


def first_inputs(data: LMDataset, n_tokens: int) -> list[int]:
    """The first inputs of a single row."""
    return next(data.iter_batches(1, n_tokens))["token_ids"][0].tolist()


def test_orders_of_shards_and_sentences(tmp_path, vocab):
    # Every sentence is one letter: 3 epochs of 3 shards of 5 sentences.
    corpus = [[[letter] for letter in letters] for letters in ("abcde", "fghij", "x")]
    path = write(tmp_path, corpus)

    def epochs(**how):
        ids = first_inputs(LMDataset(path, vocab, seed=3, **how), 66)[1::2]
        return [ids[i : i + 11] for i in (0, 11, 22)]

    in_file = [3, 4, 5, 6, 7]
    in_order = epochs()
    assert epochs() == in_order
    for epoch in in_order:
        assert sorted(epoch) == [2, *range(3, 13)]
        start = epoch.index(3)
        assert epoch[start : start + 5] == in_file
    assert len(set(map(tuple, in_order))) > 1

    shuffled = epochs(shuffle_on_load=True)
    starts = [min(map(epoch.index, in_file)) for epoch in shuffled]
    orders = [e[i : i + 5] for e, i in zip(shuffled, starts, strict=True)]
    assert [sorted(order) for order in orders] == [in_file] * 3
    assert len(set(map(tuple, orders))) > 1


def test_directions_are_independent_in_training_and_alike_in_tests(tmp_path, vocab):
    path = write(tmp_path, [[[a]] for a in "abcdefghij"])

    def letters(**how):
        data = BidirectionalLMDataset(path, vocab, **how)
        batches = list(itertools.islice(data.iter_batches(1, 2), 10))
        return [
            [int(batch["token_ids" + suffix][0, 1]) for batch in batches]
            for suffix in SUFFIXES
        ]

    forward, reverse = letters(seed=1)
    assert sorted(forward) == sorted(reverse) == list(range(3, 13))
    assert forward != reverse
    assert letters(seed=1) == [forward, reverse] != letters(seed=2)
    assert letters(test=True) == [list(range(3, 13))] * 2
    unseeded = [letters()[0] for _ in range(3)]
    assert unseeded[0] != unseeded[1] or unseeded[1] != unseeded[2]


def test_a_new_iteration_draws_new_orders(tmp_path, vocab):
    path = write(tmp_path, [[[a]] for a in "abcdefghij"])
    data = LMDataset(path, vocab, seed=1)
    first, second = (
        [
            int(b["token_ids"][0, 1])
            for b in itertools.islice(data.iter_batches(1, 2), 10)
        ]
        for _ in range(2)
    )
    assert sorted(first) == sorted(second) and first != second


@pytest.mark.parametrize("block_tokens", [1, 30, 10**6])
@pytest.mark.parametrize("fill_steps", [None, 1, 3])
@pytest.mark.parametrize("taken", [1, 4, 9])
def test_restored_iterations_go_on_exactly(
    tmp_path, characters, monkeypatch, block_tokens, fill_steps, taken
):
    monkeypatch.setattr(shards, "BLOCK_TOKENS", block_tokens)
    path = write(tmp_path, random_corpus())

    def dataset(seed):
        return BidirectionalLMDataset(path, characters, shuffle_on_load=True, seed=seed)

    def batches(data, n):
        return list(itertools.islice(data.iter_batches(4, 7, fill_steps=fill_steps), n))

    straight = batches(dataset(1), 30)
    first = dataset(1)
    assert_same(batches(first, taken), straight[:taken])
    state = json.loads(json.dumps(first.state()))
    second = dataset(2)
    second.restore(state)
    assert second.state() == state
    assert_same(batches(second, 30 - taken), straight[taken:])


def test_every_record_knows_its_position(tmp_path, vocab, small_blocks):
    path = write(tmp_path, random_corpus())
    records = LMDataset(path, vocab, test=True).batches(3, 4, True, 1)
    batches = list(records)  # all are made before the first position is used
    for i, batch in enumerate(batches):
        data = LMDataset(path, vocab, test=True)
        data.restore(batch.state())
        rest = list(data.iter_batches(3, 4, keep_incomplete=True, fill_steps=1))
        assert_same(rest, [later.as_dict(True) for later in batches[i + 1 :]])


def test_a_position_of_other_data_is_refused(tmp_path, vocab):
    path = write(tmp_path, random_corpus())
    data = LMDataset(path, vocab)
    with pytest.raises(InputError, match="no position before its first batch"):
        data.state()
    next(data.iter_batches(2, 3))
    state = data.state()

    def refused(data, *arguments, match):
        data.restore(state)
        with pytest.raises(InputError, match=match):
            next(data.iter_batches(*arguments))

    refused(data, 4, 3, match="batch_size = 2, which is now 4")
    refused(data, 2, 5, match="num_steps = 3, which is now 5")
    refused(LMDataset(path, vocab, True), 2, 3, match="reverse = False")
    (path / "1.txt").write_text("changed\n")
    refused(data, 2, 3, match="files = .*1.txt.* which is now .*1.txt 8")


def test_blocks_give_the_batches_of_whole_shards(tmp_path, characters, monkeypatch):
    path = write(tmp_path, random_corpus())

    def batches():
        data = BidirectionalLMDataset(path, characters, seed=1)
        return list(itertools.islice(data.iter_batches(4, 7), 40))

    whole = batches()
    monkeypatch.setattr(shards, "BLOCK_TOKENS", 25)
    monkeypatch.setattr(shards, "MAX_TABLE_WORDS", 4)
    assert_same(batches(), whole)


def test_sentences_are_shuffled_within_blocks(tmp_path, vocab, monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_TOKENS", 12)
    path = write(tmp_path, [[[a] for a in "abcdefgh"]])
    orders = set()
    for seed in range(20):
        data = LMDataset(path, vocab, shuffle_on_load=True, seed=seed)
        order = first_inputs(data, 16)[1::2]
        assert sorted(order[:4]) == [3, 4, 5, 6]
        assert sorted(order[4:]) == [7, 8, 9, 10]
        orders.add(tuple(order))
    assert len(orders) > 10


@pytest.mark.parametrize("test", [False, True])
def test_a_corpus_without_sentences_is_refused(tmp_path, vocab, test):
    write(tmp_path, [[], []])
    data = BidirectionalLMDataset(tmp_path, vocab, test=test)
    with pytest.raises(InputError, match=r"no sentence in .*0.txt, .*: the text"):
        next(data.iter_batches(2, 3))


def test_an_empty_shard_is_skipped_and_warned_of_once(tmp_path, vocab, caplog):
    path = write(tmp_path, [[], [["a"]], []])
    batches = BidirectionalLMDataset(path, vocab).iter_batches(1, 2)
    for batch in itertools.islice(batches, 20):
        assert_array_equal(batch["token_ids"], [[0, 3]])
    names = [record.getMessage() for record in caplog.records]
    assert sorted(names) == [f"{path}/{i}.txt has no sentence" for i in (0, 2)]


def test_a_blank_line_is_a_sentence_without_tokens(tmp_path, vocab):
    (tmp_path / "text").write_text("a\n\nb\n")
    (batch,) = LMDataset(tmp_path / "text", vocab, test=True).iter_batches(1, 5)
    assert_array_equal(batch["token_ids"], [[0, 3, 0, 0, 4]])
    assert_array_equal(batch["next_token_id"], [[3, 1, 1, 4, 1]])


def test_special_words_in_the_text_are_warned_of_once(tmp_path, characters, caplog):
    (tmp_path / "text").write_text("<S> a </S>\n" * 3)
    data = LMDataset(tmp_path / "text", characters, test=True)
    batches = list(data.iter_batches(1, 4))
    assert_array_equal(batches[0]["token_ids"], [[0, 0, 3, 1]])
    assert_array_equal(
        batches[0]["tokens_characters"][0, :2],
        [characters.word_to_char_ids("<S>")] * 2,
    )
    assert len(list(data.iter_batches(1, 4))) == len(batches)
    (record,) = caplog.records
    assert "<S> or </S> 6 times in its text; they are added" in record.getMessage()


def test_bad_text_and_arguments(tmp_path, vocab):
    with pytest.raises(FileNotFoundError, match=r"nothing\*"):
        BidirectionalLMDataset(f"{tmp_path}/nothing*", vocab)
    (tmp_path / "text").write_bytes(b"a\n\xff\n")
    data = BidirectionalLMDataset(tmp_path, vocab)
    with pytest.raises(InputError, match="text:2 is not UTF-8"):
        next(data.iter_batches(2, 2))
    for arguments in ((0, 1), (1, -1)):
        with pytest.raises(InputError, match="must be at least 1"):
            next(data.iter_batches(*arguments))
    with pytest.raises(InputError, match="fill_steps must be at least 1, but is 0"):
        next(data.iter_batches(1, 1, fill_steps=0))


def test_tokens_of_the_corpus_are_counted(tmp_path, vocab, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write(tmp_path, [[["a", "b"], []], [["c"]]])
    assert BidirectionalLMDataset(f"{path}/*.txt", vocab).count_tokens() == 3
    assert LMDataset(f"{path}/0.txt", vocab).count_tokens() == 2
