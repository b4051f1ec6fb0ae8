"""Graph code of TensorFlow 1, with nothing changed but its import.

    python usage_examples/usage_graph.py --model DIR

Two inputs go through one biLM: contexts, and a question about each. The layers of both
are mixed by the same weights, which learn with the rest of the program to tell which
question belongs to which context.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf
from tiny_model import characters_per_token, folders

from bilm import Batcher, BidirectionalLanguageModel, weight_layers

CONTEXTS = [
    "A heron waits at the edge of the pond .".split(),
    "Rain is expected in the north .".split(),
]
QUESTIONS = ["Where does it wait ?".split(), "What will the weather be ?".split()]
L2_COEF = 0.01
LEARNING_RATE = 0.1
N_STEPS = 30


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code."""
    tf.disable_v2_behavior()
    with folders(__doc__, argv) as (model_folder, _):
        build_and_train(model_folder)
    return 0


def build_and_train(folder: Path) -> None:
    """Build the graph, and run it."""
    options_file = folder / "options.json"
    size = characters_per_token(options_file)
    contexts = tf.placeholder("int32", shape=(None, None, size))
    questions = tf.placeholder("int32", shape=(None, None, size))

    # One model, whose weights both share. A stateful one has states for each of them.
    bilm = BidirectionalLanguageModel(
        options_file, folder / "weights.hdf5", stateful=False
    )
    context_ops, question_ops = bilm(contexts), bilm(questions)
    context_mix = weight_layers("input", context_ops, l2_coef=L2_COEF)["weighted_op"]
    with tf.variable_scope("", reuse=True):
        mix = weight_layers("input", question_ops, l2_coef=L2_COEF)
    question_mix = mix["weighted_op"]

    means = mean(context_mix, context_ops), mean(question_mix, question_ops)
    loss = matching_loss(*means)
    total = loss + tf.losses.get_regularization_loss()
    step = tf.train.AdamOptimizer(LEARNING_RATE).minimize(total)
    print(f"trainable       {sorted(v.op.name for v in tf.trainable_variables())}")

    batcher = Batcher(None, size)
    fed = {
        contexts: batcher.batch_sentences(CONTEXTS),
        questions: batcher.batch_sentences(QUESTIONS),
    }
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        mixed = session.run(context_mix, fed)
        print(f"weighted_op     {mixed.shape}: sentences, tokens, values")
        losses = [session.run([loss, step], fed)[0] for _ in range(N_STEPS)]
    print(f"loss            {losses[0]:.3f}, after {N_STEPS} steps {losses[-1]:.3f}")


def mean(mixed: tf.Tensor, ops: dict[str, Any]) -> tf.Tensor:
    """Mean vector of each sentence, over its tokens alone, of length 1."""
    mask = tf.cast(ops["mask"], tf.float32)[:, :, tf.newaxis]
    return tf.nn.l2_normalize(tf.reduce_sum(mixed * mask, axis=1), axis=1)


def matching_loss(contexts: tf.Tensor, questions: tf.Tensor) -> tf.Tensor:
    """Mean loss of finding the question of each context among all of them."""
    size = contexts.shape.as_list()[1]
    projection = tf.get_variable("projection", [size, size])
    scores = tf.matmul(tf.matmul(contexts, projection), questions, transpose_b=True)
    right = tf.range(tf.shape(contexts)[0])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=right, logits=scores)
    return tf.reduce_mean(losses)


if __name__ == "__main__":
    sys.exit(main())
