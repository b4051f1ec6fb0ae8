"""A program as users of bilm-tf wrote it; arguments: model, vocabulary, folder."""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    TokenBatcher,
    dump_token_embeddings,
    weight_layers,
)

tf.disable_v2_behavior()
options_file, weight_file, vocab_file, folder = sys.argv[1:]
out = Path(folder)
sentences = [["1", "2", "3"], ["8"]]

tf.reset_default_graph()
dump_token_embeddings(vocab_file, options_file, weight_file, out / "before.hdf5")
tf.reset_default_graph()

context = tf.placeholder("int32", shape=(None, None, 8))
question = tf.placeholder("int32", shape=(None, None, 8))
bilm = BidirectionalLanguageModel(options_file, weight_file)
context_ops = bilm(context)
question_ops = bilm(question)
mix = weight_layers("input", context_ops, l2_coef=0.5)
with tf.variable_scope("", reuse=True):
    second_mix = weight_layers("input", question_ops, l2_coef=0.5, do_layer_norm=True)
loss = tf.reduce_mean(tf.square(mix["weighted_op"] - 1.0))
loss += tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
train_op = tf.train.AdagradOptimizer(0.1).minimize(loss)
names = {
    "trainable": sorted(v.op.name for v in tf.trainable_variables()),
    "losses": len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)),
}
ids = Batcher(vocab_file, 8).batch_sentences(sentences)
fed = {context: ids, question: ids}
found = {}
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    found["mixed"] = session.run(mix["weighted_op"], fed)
    found["normed"] = session.run(second_mix["weighted_op"], fed)
    session.run(bilm.reset_states())
    found["characters"] = session.run(context_ops["lm_embeddings"], fed)
    found["again"] = session.run(question_ops["lm_embeddings"], fed)
    losses = [session.run([loss, train_op], fed)[0] for _ in range(3)]
    assert losses[2] < losses[1]  # the first one starts from another state

tf.reset_default_graph()
dump_token_embeddings(vocab_file, options_file, weight_file, out / "after.hdf5")
by_words = tf.placeholder("int32", shape=(None, None))
bilm = BidirectionalLanguageModel(
    options_file,
    weight_file,
    use_character_inputs=False,
    embedding_weight_file=out / "after.hdf5",
)
ops = bilm(by_words)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    word_ids = TokenBatcher(vocab_file).batch_sentences(sentences)
    found["tokens"] = session.run(ops["lm_embeddings"], {by_words: word_ids})

assert not tf.executing_eagerly()
np.savez(out / "found.npz", **found)
names["modules"] = sorted({name.partition(".")[0] for name in sys.modules})
(out / "names.json").write_text(json.dumps(names))
