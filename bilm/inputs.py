"""What one step of the network is fed, made of a batch of a data set.

Letters: K directions, T steps, B rows, U distinct tokens, C characters, S samples.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bilm.characters import PAD_CHARACTER
from bilm.dataset import BidirectionalBatch, BidirectionalLMDataset, LMDataset
from bilm.errors import InputError
from bilm.options import TrainingOptions
from bilm.sampler import LogUniformSampler
from bilm.stream import Batch, State
from bilm.vocabulary import Vocabulary
from bilm.wordtable import PADDING, WordTable

# The dicts of the data sets: the backward direction's entries have a suffix.
SUFFIXES = ("", "_reverse")

Dataset = LMDataset | BidirectionalLMDataset


class StepInputs(NamedTuple):
    """Numbers of one step; each distinct token of both directions stands once."""

    tokens: np.ndarray  # int32 [U, C], or word ids [U]
    places: np.ndarray  # int32 [K, T, B], row of `tokens`
    labels: np.ndarray  # int32 [K, T, B], the next word
    weights: np.ndarray  # float32 [K, T, B], 1 for a token, 0 for padding
    keep: (
        np.ndarray
    )  # float32 [K, T, B], 0: the row's state is zeroed before; [K, 0, 0]
    sampled: np.ndarray  # int32 [K, S]; S = 0 for the full softmax
    sampled_log_expected: np.ndarray  # float32 [K, S]
    label_log_expected: np.ndarray  # float32 [K, T, B]; [K, 0, 0] for the full softmax


class TrainingBatch(NamedTuple):
    """What one training step takes, and how to go on after it."""

    inputs: list[StepInputs]  # of each piece of this worker; see `Trainer`
    # After it, for `training_inputs`, in values that JSON can hold; `join_positions`
    # makes one of those of all workers.
    position: State
    records: Batch | BidirectionalBatch  # what the inputs were made of


class _Inputs(NamedTuple):
    """The first fields of `StepInputs`."""

    tokens: np.ndarray
    places: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    keep: np.ndarray


def training_inputs(
    options: TrainingOptions,
    data: Dataset,
    n_replicas: int,
    seed: list[int],
    position: State | None = None,
    pieces: Sequence[int] | None = None,
) -> Iterator[TrainingBatch]:
    """Endless inputs of training steps, for each piece with rows of its own.

    Which row takes which sentence follows from all rows. So each worker deals out the
    whole text, and makes the inputs of its own pieces.

    Args:
        options: of the training.
        data: the training data.
        n_replicas: devices of all workers.
        seed: of the negative samples.
        position: of the `TrainingBatch` to go on after; None for the beginning. Where
            there were fewer replicas, the new ones begin their samples by `seed`.
        pieces: numbers of those to make, this worker's; None for all.

    Raises:
        InputError: the position belongs to other data or another number of rows.
    """
    rows, n_pieces = options.batch_size, n_replicas * options.accumulate
    samplers = {
        piece: _samplers(options, [*seed, piece]) if options.samples else []
        for piece in (range(n_pieces) if pieces is None else pieces)
    }
    if position is not None:
        data.restore(position["data"])
        _restore(samplers, position["samplers"])
    for batch in data.batches(rows * n_pieces, options.unroll_steps):
        inputs = [
            step_inputs(
                batch.only(np.s_[piece * rows : (piece + 1) * rows]),
                options.char_cnn is not None,
                of_piece,
                options.resets_state,
            )
            for piece, of_piece in samplers.items()
        ]
        states = [_states(samplers.get(piece)) for piece in range(n_pieces)]
        position = {"data": batch.state(), "samplers": states}
        yield TrainingBatch(inputs, position, batch)


def join_positions(positions: Sequence[State]) -> State:
    """One of those that all workers have after the same batch."""
    of_pieces = zip(*(position["samplers"] for position in positions), strict=True)
    samplers = [next(s for s in states if s is not None) for states in of_pieces]
    return {"data": positions[0]["data"], "samplers": samplers}


def step_inputs(
    batch: Mapping[str, np.ndarray] | Batch | BidirectionalBatch,
    uses_characters: bool,
    samplers: Sequence[LogUniformSampler] = (),
    resets_state: bool = False,
) -> StepInputs:
    """Gather what a step needs.

    Args:
        batch: of `LMDataset` or `BidirectionalLMDataset`: a record, whose words are
            numbered already, or a dictionary, whose tokens have to be compared.
        uses_characters: the network's input is characters, not words.
        samplers: of negative samples, one for each direction; none for the full
            softmax.
        resets_state: zero a row's state where a document begins, which a dictionary
            does not tell.
    """
    if isinstance(batch, Mapping):
        inputs = _of_arrays(batch, uses_characters)
    else:
        inputs = _of_words(batch, uses_characters, resets_state)
    return StepInputs(*inputs, *_negatives(inputs.labels, samplers))


def inputs_of_words(
    table: WordTable, words: np.ndarray, labels: np.ndarray, uses_characters: bool
) -> StepInputs:
    """What a step without negative samples needs.

    Args:
        table: of words; its columns are word ids and, where needed, characters.
        words: int32 [K, T, B], rows of the table, `PADDING` where there is none.
        labels: int32 [K, T, B].
        uses_characters: the network's input is characters, not words.
    """
    inputs = _of_rows(table, words, labels, uses_characters)
    return StepInputs(*inputs, *_negatives(labels, ()))


def check_dataset(options: TrainingOptions, data: Dataset) -> None:
    """Check that a data set gives what a network of these options takes.

    Raises:
        InputError: it has another vocabulary, direction or kind of input, or is
            shuffled where documents count.
    """
    if isinstance(data, BidirectionalLMDataset) != options.bidirectional:
        needed = "BidirectionalLMDataset" if options.bidirectional else "LMDataset"
        raise InputError(
            f"options with bidirectional = {options.bidirectional} need a {needed}, "
            f"but the data is a {type(data).__name__}"
        )
    if options.resets_state and data.shuffles:
        raise InputError(
            'reset_state is "document", but the sentences are shuffled, which tears '
            "documents apart: give --no-shuffle, or in Python shuffle_on_load=False"
        )
    check_vocabulary(options, data.vocab)


def check_vocabulary(options: TrainingOptions, vocab: Vocabulary) -> None:
    """Check that a vocabulary gives the ids that a network of these options takes.

    Raises:
        InputError: it has another number of words, or characters of another length.
    """
    if vocab.size != options.n_tokens_vocab:
        raise InputError(
            f"n_tokens_vocab of the options is {options.n_tokens_vocab}, but the "
            f"vocabulary has {vocab.size} words; take the vocabulary of the training"
        )
    if options.char_cnn is None:
        return
    length = getattr(vocab, "max_word_length", None)
    if length != options.char_cnn.max_characters_per_token:
        raise InputError(
            "max_characters_per_token of the options is "
            f"{options.char_cnn.max_characters_per_token}, but the data's vocabulary "
            f"has max_word_length {length}; load_vocab takes it as second argument"
        )


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of an integer array [M, C], and for each row its place in them."""
    rows = np.ascontiguousarray(rows)
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    _, first, places = np.unique(
        as_bytes.ravel(), return_index=True, return_inverse=True
    )
    return rows[first], places.astype(np.int32)


def distinct_numbers(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct numbers of [M], in order of appearance, and for each its place in them.

    The numbers are small; nothing is sorted. The order does not depend on how words are
    numbered, which a training that goes on would not repeat.
    """
    places = np.arange(len(numbers))
    first = np.empty(numbers.max() + 1, np.int64)
    first[numbers[::-1]] = places[::-1]  # of equal ones the first is written last
    is_first = first[numbers] == places
    distinct = numbers[is_first]
    first[distinct] = np.arange(len(distinct))
    return distinct, first[numbers]


def _samplers(options: TrainingOptions, seed: list[int]) -> list[LogUniformSampler]:
    """Of one replica, for each direction."""
    n_words, n_samples = options.n_tokens_vocab, options.n_negative_samples_batch
    return [
        LogUniformSampler(n_words, n_samples, [*seed, direction])
        for direction in range(options.n_directions)
    ]


def _states(samplers: list[LogUniformSampler] | None) -> list[Any] | None:
    """Of a piece's samplers; None where another worker has them."""
    if samplers is None:
        return None
    return [sampler.generator.bit_generator.state for sampler in samplers]


def _restore(samplers: dict[int, list[LogUniformSampler]], states: list[Any]) -> None:
    for piece, of_piece in samplers.items():
        if piece < len(states):
            for sampler, state in zip(of_piece, states[piece], strict=True):
                sampler.generator.bit_generator.state = state


def _of_arrays(batch: Mapping[str, np.ndarray], uses_characters: bool) -> _Inputs:
    suffixes = [s for s in SUFFIXES if "token_ids" + s in batch]
    labels = _time_major(batch, "next_token_id", suffixes)
    weights, keep = np.ones(labels.shape, np.float32), _keep_all(len(labels))
    if "weights" in batch:
        weights = _time_major(batch, "weights", suffixes)
    if not uses_characters:
        return _Inputs(
            *_every(_time_major(batch, "token_ids", suffixes)), labels, weights, keep
        )
    characters = _time_major(batch, "tokens_characters", suffixes)
    tokens, places = distinct_rows(characters.reshape(-1, characters.shape[-1]))
    places = places.reshape(labels.shape)
    return _Inputs(*_by_length(tokens, places), labels, weights, keep)


def _of_words(
    batch: Batch | BidirectionalBatch, uses_characters: bool, resets_state: bool
) -> _Inputs:
    directions = [batch] if isinstance(batch, Batch) else [batch.forward, batch.reverse]
    table = directions[0].table
    labels = np.stack([each.next_token_id.T for each in directions])
    words = np.stack([each.words_in(table).T for each in directions])
    inputs = _of_rows(table, words, labels, uses_characters)
    if not resets_state:
        return inputs
    begins = np.stack([each.begins_document.T for each in directions])
    return inputs._replace(keep=(~begins).astype(np.float32))


def _of_rows(
    table: WordTable, words: np.ndarray, labels: np.ndarray, uses_characters: bool
) -> _Inputs:
    weights = (words != PADDING).astype(np.float32)
    keep = _keep_all(len(labels))
    if not uses_characters:
        return _Inputs(*_every(table.column(0).take(words)), labels, weights, keep)
    distinct, places = distinct_numbers(words.ravel())
    tokens = table.column(1).take(distinct, axis=0)
    places = places.reshape(labels.shape)
    return _Inputs(*_by_length(tokens, places), labels, weights, keep)


def _keep_all(n_directions: int) -> np.ndarray:
    return np.zeros((n_directions, 0, 0), np.float32)


def _every(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Word ids with their places.

    To look a word up twice costs nothing, and their number stays the same, as sparse
    gradients of several replicas need it.
    """
    return ids.ravel(), np.arange(ids.size, dtype=np.int32).reshape(ids.shape)


def _by_length(tokens: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort tokens [U, C]: the encoder cuts those of like length together."""
    lengths = (tokens != PAD_CHARACTER).sum(1, dtype=np.int16)
    order = np.argsort(lengths, kind="stable")  # of int16: a radix sort
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order))
    return tokens.take(order, axis=0).astype(np.int32), ranks.take(places)


def _time_major(
    batch: Mapping[str, np.ndarray], name: str, suffixes: list[str]
) -> np.ndarray:
    """The entry of all directions [K, T, B, ...] from [B, T, ...] each."""
    return np.stack([batch[name + s].swapaxes(0, 1) for s in suffixes])


def _negatives(
    labels: np.ndarray, samplers: Sequence[LogUniformSampler]
) -> tuple[Any, Any, Any]:
    if not samplers:
        n_directions = len(labels)
        return (
            np.zeros((n_directions, 0), np.int32),
            np.zeros((n_directions, 0), np.float32),
            np.zeros((n_directions, 0, 0), np.float32),
        )
    ids, expected, label_expected = [], [], []
    for direction, sampler in zip(labels, samplers, strict=True):
        sample = sampler.sample()
        ids.append(sample.ids)
        expected.append(sampler.log_expected_counts(sample.ids, sample.n_draws))
        label_expected.append(sampler.log_expected_counts(direction, sample.n_draws))
    return np.stack(ids), np.stack(expected), np.stack(label_expected)
