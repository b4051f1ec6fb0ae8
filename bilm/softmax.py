"""Losses of the language model: full softmax, in pieces, and sampled softmax.

Letters: N tokens, D `projection_dim`, V words of the vocabulary, S samples.
"""

from typing import NamedTuple

import tensorflow as tf

from bilm.encoder import Affine

NEVER = -1e30  # a logit whose exponential is 0, and which stays finite in sums
# Logits that exist at once where the softmax is computed in pieces: 8 MiB, for which
# the passes of log-sum-exp find them in the cache.
PIECE = 2**21


class Candidates(NamedTuple):
    """Negative samples of one step and direction, with their log expected counts."""

    ids: tf.Tensor  # int32 [S], distinct, ascending
    log_expected: tf.Tensor  # float32 [S]
    label_log_expected: tf.Tensor  # float32 [N], of the true next words


def softmax_logits(softmax: Affine, hidden: tf.Tensor) -> tf.Tensor:
    """Logits [N, V] of all words, by W [V, D] and b [V], of hidden [N, D]."""
    return tf.linalg.matmul(hidden, softmax.weight, transpose_b=True) + softmax.bias


def full_softmax_loss(
    softmax: Affine, hidden: tf.Tensor, labels: tf.Tensor
) -> tf.Tensor:
    """Negative log-probability of each label, over the whole vocabulary.

    Args:
        softmax: W [V, D] and b [V].
        hidden: float32 [N, D].
        labels: int32 [N].

    Returns:
        float32 [N].
    """
    logits = softmax_logits(softmax, hidden)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def full_softmax_loss_in_pieces(
    softmax: Affine, hidden: tf.Tensor, labels: tf.Tensor, piece: int = PIECE
) -> tf.Tensor:
    """The same as `full_softmax_loss`, in memory that does not grow with V.

    No more than `piece` logits, or one word for each token, exist at a time. Meant for
    evaluation: the loop keeps nothing for a gradient.
    """
    n_words = tf.shape(softmax.bias)[0]
    width = tf.maximum(1, piece // tf.maximum(1, tf.shape(hidden)[0]))

    def body(start: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = tf.range(start, tf.minimum(start + width, n_words))
        logits = tf.linalg.matmul(
            hidden, tf.gather(softmax.weight, rows), transpose_b=True
        ) + tf.gather(softmax.bias, rows)
        partial = tf.reduce_logsumexp(logits, 1)
        return start + width, _log_add(total, partial)

    nothing = tf.fill([tf.shape(hidden)[0]], NEVER)
    _, log_total = tf.while_loop(
        lambda start, _: start < n_words, body, (tf.constant(0), nothing)
    )
    return log_total - _label_logits(softmax, hidden, labels)


def sampled_softmax_loss(
    softmax: Affine, hidden: tf.Tensor, labels: tf.Tensor, candidates: Candidates
) -> tf.Tensor:
    """Cross-entropy of each label against the candidates, corrected by expectation.

    A candidate that is the label itself (an accidental hit) is left out for that token.
    Source: Jean et al. 2015, "On Using Very Large Target Vocabulary for Neural Machine
    Translation"; shapes as in `full_softmax_loss`.
    """
    true = _label_logits(softmax, hidden, labels) - candidates.label_log_expected
    weight = tf.gather(softmax.weight, candidates.ids)  # [S, D]
    bias = tf.gather(softmax.bias, candidates.ids) - candidates.log_expected
    logits = tf.linalg.matmul(hidden, weight, transpose_b=True) + bias  # [N, S]
    logits = _without_accidental_hits(logits, labels, candidates.ids)
    return _log_add(true, tf.reduce_logsumexp(logits, 1)) - true


def _label_logits(softmax: Affine, hidden: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    products = tf.reduce_sum(hidden * tf.gather(softmax.weight, labels), 1)
    return products + tf.gather(softmax.bias, labels)


def _log_add(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """log(exp(a) + exp(b)), element by element."""
    return tf.reduce_logsumexp(tf.stack([a, b]), 0)


def _without_accidental_hits(
    logits: tf.Tensor, labels: tf.Tensor, ids: tf.Tensor
) -> tf.Tensor:
    """Push out of the sum, in each row, the candidate that is the row's label.

    The ids are distinct and ascending, so each row has at most one, found by bisection:
    N values are changed in place of N * S compared.
    """
    last = tf.size(ids) - 1
    columns = tf.minimum(tf.searchsorted(ids, labels), last)
    hits = tf.equal(tf.gather(ids, columns), labels)
    places = tf.stack([tf.range(tf.size(labels)), columns], 1)
    return tf.tensor_scatter_nd_add(logits, places, tf.where(hits, NEVER, 0.0))
