"""`BidirectionalLanguageModel`: a trained biLM that embeds sentences."""

import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from bilm.batcher import Batcher, TokenBatcher
from bilm.embedding import Embedder, Window
from bilm.errors import InputError
from bilm.given_ids import as_ids, check_sentences, ids_spec, n_ids
from bilm.graph_mode import in_graph, outer_graph
from bilm.network import BilmState, Network
from bilm.options import read_model_options
from bilm.prediction import encode_tokens
from bilm.reading import BATCH_TOKENS, Layers, Reading, Sentences, check_reading
from bilm.row_states import RowStates
from bilm.stored_model import open_model

Path = str | os.PathLike[str]


class BidirectionalLanguageModel:
    """A biLM read from `options.json` and `weights.hdf5`.

    Called with ids, eagerly or inside a `tf.function`, it returns a dict:

    - `lm_embeddings` float32 [batch, n_layers + 1, tokens, directions *
      projection_dim]: layer 0 is the context-free token vector, repeated for each
      direction; `<S>` and `</S>` are removed; zero where a sentence is padded;
    - `lengths` int32 [batch]: tokens of each sentence;
    - `token_embeddings` float32 [batch, tokens + 2, projection_dim]: context-free, with
      `<S>` and `</S>`;
    - `mask` bool [batch, tokens]: true for tokens.

    Stateful, as in bilm-tf, row r of a call starts from the state that row r of the
    call before ended with, and rows beyond the batch keep theirs. Stateless, a
    sentence's vectors depend on that sentence alone.

    Args:
        options_file: `options.json` of prediction; of training does as well.
        weight_file: `weights.hdf5`.
        use_character_inputs: ids come from a `Batcher`, int32 [batch, tokens + 2,
            characters]; else from a `TokenBatcher`, int32 [batch, tokens + 2].
        embedding_weight_file: for token ids, the file of `dump_token_embeddings`; a
            word-level model has its embedding in `weight_file`.
        max_batch_size: most rows of a stateful call.
        stateful: whether calls carry the state over.

    Raises:
        FileNotFoundError: one of the files is missing.
        InputError: a file breaks a rule, or they do not fit each other.
    """

    def __init__(
        self,
        options_file: Path,
        weight_file: Path,
        use_character_inputs: bool = True,
        embedding_weight_file: Path | None = None,
        max_batch_size: int = 128,
        *,
        stateful: bool = True,
    ):
        self.options = read_model_options(options_file)
        self.stateful = stateful
        self.max_batch_size = max_batch_size
        with open_model(
            self.options, weight_file, use_character_inputs, embedding_weight_file
        ) as (specs, values):
            self.network = Network(self.options, specs, values, trainable=False)
        self._graph = outer_graph()
        self._ids = ids_spec(self.options, use_character_inputs)
        self._states: dict[Any, RowStates] = {}
        self._results: dict[Any, dict[str, tf.Tensor]] = {}  # of a graph
        if self._graph is None:
            self._states_of(None)
        self._encode = tf.function(
            lambda ids: encode_tokens(self.network, ids),
            input_signature=[self._ids],
            autograph=False,
        )

    def __call__(self, ids: Any) -> dict[str, tf.Tensor]:
        """Embed a batch of ids of the Batcher that fits the kind of input.

        Raises:
            InputError: rank, width, range or number of rows break a rule.
        """
        checked = self._checked(ids)
        if in_graph():
            key = ids.ref() if tf.is_tensor(ids) else checked.ref()
            return self._results_in_graph(key, checked)
        if tf.executing_eagerly():
            at_most = self.max_batch_size if self.stateful else None
            check_sentences(checked.numpy(), at_most)
        return self._states_of(None).embed(checked)._asdict()

    def embed(
        self,
        sentences: Sentences,
        layers: Layers = "all",
        batch_tokens: int = BATCH_TOKENS,
        *,
        pool: str | None = None,
        stateful: bool = False,
        batcher: Batcher | TokenBatcher | None = None,
    ) -> Iterator[np.ndarray]:
        """Embed any number of sentences, given as lists of tokens, one after the other.

        A vector depends on its sentence alone, also where the model is stateful: its
        states are neither read nor changed. Memory stays flat; it grows with
        `batch_tokens` and with the longest sentence.

        Args:
            sentences: lists of tokens; taken as they are needed.
            layers: `all`; `top`; `average`, their plain mean; or the number of one, 0
                being the token vector.
            batch_tokens: tokens that are embedded at once, `<S>` and `</S>` included.
                The default fits 4 GiB with the original size.
            pool: `mean` for the mean over the tokens of each sentence (zeros where it
                has none); None for a vector of each token.
            stateful: as the dump of bilm-tf, each sentence starts from the state after
                the one before, the first one from zeros.
            batcher: a `TokenBatcher`, which models of token ids need; characters need
                none.

        Yields:
            For each sentence, in order, float32 [n_layers + 1, tokens, directions *
            projection_dim], without padding; without the first axis but for `all`, and
            without the tokens where pooled.

        Raises:
            InputError: a sentence is a text, a token is not, or an argument breaks a
                rule.
        """
        reading = Reading(layers, pool, batch_tokens, stateful=stateful)
        windows = self.embed_windows(sentences, reading, batcher)
        return (vectors for window in windows for vectors in window.vectors)

    def embed_windows(
        self,
        sentences: Sentences,
        reading: Reading,
        batcher: Batcher | TokenBatcher | None = None,
        state: BilmState | None = None,
    ) -> Iterator[Window]:
        """What `embed` does, by the windows in which sentences are embedded together.

        Args:
            sentences: lists of tokens.
            reading: how.
            batcher: as for `embed`.
            state: of one row, to start from where stateful; zeros by default.
        """
        if not tf.executing_eagerly():
            raise InputError(
                "embed gives arrays, which a graph cannot: call the model with ids, or "
                "write the vectors of a text by dump_bilm_embeddings before"
            )
        check_reading(reading, self.options)
        batcher = batcher or self._batcher
        return self.embedder.windows(sentences, batcher, reading, state)

    @functools.cached_property
    def embedder(self) -> Embedder:
        """What embeds lists of tokens."""
        return Embedder(self.network)

    @functools.cached_property
    def _batcher(self) -> Batcher:
        if "lm/embedding" in self.network.variables_by_name:
            raise InputError(
                "a model of token ids needs batcher=TokenBatcher(vocab_file) to embed "
                "tokens"
            )
        assert self.options.char_cnn is not None
        return Batcher(None, self.options.char_cnn.max_characters_per_token)

    def encode_tokens(self, ids: Any) -> tf.Tensor:
        """Context-free vectors float32 [batch, tokens, projection_dim] of ids."""
        return self._encode(self._checked(ids))

    def reset_states(self) -> tf.Operation | None:
        """Let the next call start as the first did.

        Returns:
            In a TensorFlow 1 graph, the operation that does so, for a `Session` to run.
        """
        return tf.group(*[states.reset() for states in self._states.values()])

    def states(self, ids: tf.Tensor | None = None) -> BilmState:
        """The state of all `max_batch_size` rows: for each direction and layer.

        Args:
            ids: in a TensorFlow 1 graph, where each placeholder has states of its own,
                the placeholder.
        """
        return self._states_of(None if ids is None else ids.ref()).tensors()

    def _results_in_graph(self, key: Any, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Results of a placeholder: the same ones whenever it comes again."""
        if key not in self._results:
            self._results[key] = self._states_of(key).embed(ids)._asdict()
        return self._results[key]

    def _states_of(self, key: Any) -> RowStates:
        """The states of a placeholder; for None those of all other calls."""
        if key not in self._states:
            max_rows = self.max_batch_size if self.stateful else None
            self._states[key] = RowStates(self.network, self._ids, max_rows)
        return self._states[key]

    def _checked(self, ids: Any) -> tf.Tensor:
        """The ids as int32, after what can be checked before they are used."""
        if outer_graph() is not self._graph:
            raise InputError(
                "a model works in the graph it was made in, or eagerly if it was made "
                "outside all graphs: make a BidirectionalLanguageModel in this graph"
            )
        return as_ids(ids, self._ids, n_ids(self.network.specs))
