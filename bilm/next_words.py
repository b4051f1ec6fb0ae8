"""What comes next in a sentence, or stood before: probabilities, and texts drawn.

Letters: n rows, V words of the vocabulary, D `projection_dim`, T steps, C characters.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bilm.errors import InputError
from bilm.evaluation import trained_network
from bilm.inputs import check_vocabulary
from bilm.language_model import state_signature
from bilm.network import BilmState, Network
from bilm.options import TrainingOptions, as_training_options
from bilm.softmax import softmax_logits
from bilm.vocabulary import Vocabulary, check_tokens

DIRECTIONS = ("forward", "backward")

MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-30, 1e30
"""Beyond them the draws are those of 0 and of infinity."""


class NextWord(NamedTuple):
    """A word of the vocabulary, and how probable it is."""

    word: str
    probability: float


class DrawnText(NamedTuple):
    """Words drawn one after the other."""

    words: list[str]  # in the order of the text, without those that were given
    complete: bool  # whether the end of the sentence was drawn


def open_predictor(
    options: TrainingOptions | Mapping[str, Any],
    ckpt_file: str | os.PathLike[str],
    vocab: Vocabulary,
    direction: str = "forward",
) -> "Predictor":
    """Open a checkpoint to predict words by.

    Args:
        options: training options.
        ckpt_file: prefix of the checkpoint.
        vocab: of the training, as `load_vocab` gives it.
        direction: `forward` for words that come next, `backward` for those before.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        InputError: options, checkpoint and vocabulary do not fit each other, or the
            model has no such direction.
    """
    checked = as_training_options(options)
    there_are = DIRECTIONS[: checked.n_directions]
    if direction not in there_are:
        raise InputError(
            f"direction must be one of the model's, {' or '.join(there_are)}, not "
            f"{direction!r}"
        )
    check_vocabulary(checked, vocab)
    network = trained_network(checked, ckpt_file)
    return Predictor(network, vocab, DIRECTIONS.index(direction))


class Predictor:
    """Reads the words of a sentence from one end, and predicts those that follow.

    Forward it reads `<S>` and the words, and `</S>` ends the sentence; backward it
    reads `</S>` and the words from the last one on, and `<S>` ends it.
    """

    def __init__(self, network: Network, vocab: Vocabulary, direction: int) -> None:
        """Take what `open_predictor` has checked."""
        self._network = network
        self._vocab = vocab
        self._direction = direction
        ends = [vocab.bos, vocab.eos][:: -1 if direction else 1]
        self._first, self._last = ends
        self._step = _step_function(network, direction)

    def probabilities(self, words: Sequence[str]) -> np.ndarray:
        """Probabilities float64 [V] of what follows these words; their sum is 1.

        Args:
            words: of the sentence so far, in the order of the text; none for its
                beginning (backward, its end).
        """
        logits, _ = self._read(words)
        return _softmax(logits[0])

    def next_words(self, words: Sequence[str], topk: int = 10) -> list[NextWord]:
        """The most probable words after these, the most probable first."""
        probabilities = self.probabilities(words)
        best = np.argsort(-probabilities, kind="stable")[:topk]
        return [
            NextWord(self._vocab.id_to_word(i), float(probabilities[i])) for i in best
        ]

    def draw(
        self,
        words: Sequence[str],
        n: int,
        *,
        temperature: float = 1.0,
        max_words: int = 50,
        seed: int | None = None,
    ) -> list[DrawnText]:
        """Go on with the sentence n times, each word drawn by its probability.

        `<UNK>`, which is no word, and the mark of the sentence's other end are never
        drawn.

        Args:
            words: as of `probabilities`.
            n: number of texts.
            temperature: by which the logits are divided: below 1 for what is probable,
                above 1 for variety.
            max_words: drawn at most.
            seed: of the draws; None for another one each time.

        Raises:
            InputError: the temperature is not within the bounds.
        """
        if not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
            raise InputError(
                f"temperature must be from {MIN_TEMPERATURE} to {MAX_TEMPERATURE}, "
                f"but is {temperature}"
            )
        random = np.random.default_rng(seed)
        logits, state = self._read(words)
        logits = np.repeat(logits, n, 0)
        state = tf.nest.map_structure(lambda part: tf.repeat(part, n, 0), state)
        drawn: list[list[int]] = []
        for _ in range(max_words):
            logits[:, [self._first, self._vocab.unk]] = -np.inf
            drawn.append([_draw(row / temperature, random) for row in logits])
            if all(self._last in text for text in zip(*drawn, strict=True)):
                break
            next_ids = [self._vocab.id_to_word(i) for i in drawn[-1]]
            logits, state = self._run(next_ids, state)
        return [self._text(ids) for ids in zip(*drawn, strict=True)]

    def _read(self, words: Sequence[str]) -> tuple[np.ndarray, BilmState]:
        """Logits [1, V] after these words, and the state there."""
        check_tokens(words)
        in_order = list(words[::-1] if self._direction else words)
        first = self._vocab.id_to_word(self._first)
        return self._run([first, *in_order], self._network.zero_state(1))

    def _run(self, words: list[str], state: BilmState) -> tuple[np.ndarray, BilmState]:
        """Logits [n, V] after words [T * n] of T steps of the n rows of the state."""
        *_, encode = self._vocab.encoders  # to characters, where there are any
        tokens = encode(words).astype(np.int32)
        logits, state = self._step(tokens, state)
        return logits.numpy(), state

    def _text(self, ids: Sequence[int]) -> DrawnText:
        complete = self._last in ids
        kept = ids[: ids.index(self._last)] if complete else ids
        words = [self._vocab.id_to_word(i) for i in kept]
        return DrawnText(words[:: -1 if self._direction else 1], complete)


def _step_function(network: Network, direction: int) -> Any:
    """The function from tokens [T * n, C] or [T * n], and the state of n rows.

    It gives the logits [n, V] after the last step, and the state. All directions run,
    as they do in the network; what the other one makes of the words is not used.
    """
    options = network.options
    shape = [None, None] if options.char_cnn is not None else [None]

    def step(tokens: tf.Tensor, state: BilmState) -> tuple[tf.Tensor, BilmState]:
        rows = tf.shape(tf.nest.flatten(state)[0])[0]
        vectors = network.encode(tokens)
        inputs = tf.reshape(vectors, [-1, rows, options.lstm.projection_dim])
        outputs, state = network.scan([inputs] * options.n_directions, None, state)
        return softmax_logits(network.softmax, outputs[direction][-1][-1]), state

    return tf.function(
        step,
        autograph=False,  # no Python branch on a tensor; tracing is faster
        input_signature=(tf.TensorSpec(shape, tf.int32), state_signature(network)),
    )


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities float64 of logits [V]."""
    powers = np.exp(logits.astype(np.float64) - logits.max())
    return powers / powers.sum()


def _draw(logits: np.ndarray, random: np.random.Generator) -> int:
    """An id, by its probability."""
    return int(random.choice(len(logits), p=_softmax(logits)))
