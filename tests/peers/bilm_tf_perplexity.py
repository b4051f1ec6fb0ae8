"""Run by the python of bilm-tf: perplexity of a text by a run of ours.

    python bilm_tf_perplexity.py SAVE_DIR VOCAB TEXT BATCH_SIZE

prints it as the last line. bilm-tf is written for TensorFlow 1, and ends its pass over
the text by an error that Python turns into another one since version 3.7.
"""

import os
import sys
import warnings

os.environ.update(TF_USE_LEGACY_KERAS="1", TF_CPP_MIN_LOG_LEVEL="3")
warnings.simplefilter("ignore")

import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_v2_behavior()
sys.modules["tensorflow"] = tf

from bilm import data, training  # noqa: E402


def until_it_ends(sentences):
    """The sentences of a pass, without the error at its end."""

    def generator(self):
        stream = sentences(self)
        while True:
            try:
                yield next(stream)
            except (StopIteration, RuntimeError):
                return

    return generator


data.LMDataset.get_sentence = until_it_ends(data.LMDataset.get_sentence)
save_dir, vocab_file, text, batch_size = sys.argv[1:]
options, checkpoint = training.load_options_latest_checkpoint(save_dir)
length = options["char_cnn"]["max_characters_per_token"]
vocab = training.load_vocab(vocab_file, length)
dataset = data.BidirectionalLMDataset(text, vocab, test=True)
print(training.test(options, checkpoint, dataset, batch_size=int(batch_size)))
