"""ELMo vectors in a real task: parts of speech, and what the vectors are worth there.

    python usage_examples/pos_tagging.py CORPUS FOLDER

CORPUS holds `brown.txt`, a tokenised sentence a line, and `brown.tags.txt` with a tag
for each token. Each tenth line is for the test: neither the biLM nor a tagger is
trained on it. FOLDER is filled with the biLM, trained on the other lines, and its
vectors; a run that was stopped goes on there. Then small Keras taggers are trained: on
word embeddings of their own, on ELMo, and on both, with equal size and steps. A table
shows their accuracy on the test.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import h5py
import keras
import numpy as np
import tensorflow as tf

from bilm import dump_bilm_embeddings
from bilm.commands.terminal import logging_to_stderr
from bilm.data import BidirectionalLMDataset
from bilm.elmo import mix_layers
from bilm.options import training_options_from_dict
from bilm.training import dump_weights, load_vocab, train
from bilm.vocabulary_file import write_vocabulary

TEST = 10  # one line in so many
INPUTS = ("word embeddings", "ELMo", "both")

# The biLM: a small one, of 1,100 tokens/s on one core.
OPTIONS = {
    "bidirectional": True,
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 16},
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]],
        "max_characters_per_token": 50,
        "n_characters": 261,
        "n_highway": 1,
    },
    "lstm": {
        "cell_clip": 3,
        "dim": 512,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 128,
        "use_skip_connections": True,
    },
    "dropout": 0.1,
    "all_clip_norm_val": 10.0,
    "batch_size": 32,
    "unroll_steps": 20,
    "n_negative_samples_batch": 1024,
    "reset_state_every": 250,
}

# The tagger.
BATCH = 64  # sentences
WIDTH = 128  # of an LSTM and its input
RATE = 0.003
WORD_DIM = 256  # of a word embedding, as wide as an ELMo vector
PADDING, UNKNOWN = 0, 1  # words of the tagger that are none


class Corpus(NamedTuple):
    """Tagged text, and what the tagger takes it for."""

    tokens: list[list[str]]
    words: list[np.ndarray]  # for each line int32 [T]: PADDING, UNKNOWN or a word
    tags: list[np.ndarray]  # int32 [T], -1 for a tag that training has not seen
    unseen: list[np.ndarray]  # bool [T], words that training has not seen
    n_words: int
    n_tags: int
    is_test: np.ndarray  # bool [lines]


class Batch(NamedTuple):
    """Sentences of like length, padded."""

    inputs: dict[str, np.ndarray]  # words [B, T] and layers [B, n, T, E]
    tags: np.ndarray  # [B, T]
    real: np.ndarray  # float32 [B, T], 1 for tokens


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("corpus", type=Path, help="folder with brown.txt and its tags")
    parser.add_argument("folder", type=Path, help="folder to fill, or to go on in")
    parser.add_argument("--epochs", type=int, default=4, help="of the biLM")
    parser.add_argument("--steps", type=int, default=1000, help="of each tagger")
    parser.add_argument("--seeds", type=int, default=3, help="taggers of each kind")
    args = parser.parse_args(argv)
    with logging_to_stderr():
        corpus = read_corpus(args.corpus)
        vectors = bilm_vectors(args.corpus / "brown.txt", corpus, args)
    with h5py.File(vectors) as layers:
        table = accuracies(corpus, layers, args.steps, args.seeds)
    print(formatted(table, corpus))
    return 0


def read_corpus(folder: Path) -> Corpus:
    """Read the text and its tags, and number both by what is in the training lines."""
    tokens = read_lines(folder / "brown.txt")
    tags = read_lines(folder / "brown.tags.txt")
    if [len(line) for line in tokens] != [len(line) for line in tags]:
        raise SystemExit(f"{folder}: text and tags differ in lines or tokens")
    is_test = np.arange(len(tokens)) % TEST == TEST - 1
    counts = Counter(w for line in training_lines(tokens, is_test) for w in line)
    # Words met once stand for those never met: so the tagger learns to read UNKNOWN.
    known = (word for word, count in counts.items() if count > 1)
    number = {word: i for i, word in enumerate(known, UNKNOWN + 1)}
    seen = {tag for line in training_lines(tags, is_test) for tag in line}
    tag_number = {tag: i for i, tag in enumerate(sorted(seen))}
    return Corpus(
        tokens,
        [np.array([number.get(w, UNKNOWN) for w in line], "int32") for line in tokens],
        [np.array([tag_number.get(tag, -1) for tag in line], int) for line in tags],
        [np.array([word not in counts for word in line], bool) for line in tokens],
        n_words=len(number) + 2,
        n_tags=len(tag_number),
        is_test=is_test,
    )


def training_lines(
    lines: Iterable[list[str]], is_test: np.ndarray
) -> Iterator[list[str]]:
    """Leave the lines of the test out."""
    return (line for line, test in zip(lines, is_test, strict=True) if not test)


def read_lines(path: Path) -> list[list[str]]:
    """Read lists of tokens, one a line."""
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file]


def bilm_vectors(text: Path, corpus: Corpus, args: argparse.Namespace) -> Path:
    """Train the biLM, unless it is, and embed the text; return the file of vectors."""
    folder, outfile = args.folder, args.folder / "vectors.hdf5"
    if outfile.exists():
        return outfile
    model = folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    train_bilm(training_text(corpus, folder), folder, args.epochs)
    dump_weights(str(folder / "run"), str(model / "weights.hdf5"))
    dump_bilm_embeddings(
        None,  # characters need no vocabulary
        str(text),
        str(model / "options.json"),
        str(model / "weights.hdf5"),
        str(outfile),
        stateful=False,  # a vector depends on its sentence alone
        dtype="float16",
        resume=True,
    )
    return outfile


def training_text(corpus: Corpus, folder: Path) -> Path:
    """Write the lines that the biLM may see."""
    path = folder / "train.txt"
    lines = training_lines(corpus.tokens, corpus.is_test)
    text = "".join(f"{' '.join(tokens)}\n" for tokens in lines)
    path.write_text(text, encoding="utf-8")
    return path


def train_bilm(text: Path, folder: Path, n_epochs: int) -> None:
    """Train, or go on where a training stopped."""
    vocab_file = str(folder / "vocab.txt")
    size = write_vocabulary([str(text)], vocab_file, min_count=2)
    options = training_options_from_dict(
        {
            **OPTIONS,
            "n_epochs": n_epochs,
            "n_train_tokens": size.n_tokens,
            "n_tokens_vocab": size.n_words,
        }
    )
    vocab = load_vocab(vocab_file, OPTIONS["char_cnn"]["max_characters_per_token"])
    data = BidirectionalLMDataset(str(text), vocab, shuffle_on_load=True, seed=1)
    save_dir = str(folder / "run")
    train(options, data, 1, save_dir, save_dir, seed=1, resume=True)


def accuracies(
    corpus: Corpus, layers: h5py.File, n_steps: int, n_seeds: int
) -> dict[str, np.ndarray]:
    """Train the taggers: for each input the accuracy [seeds, 2], all words and unseen.

    Args:
        corpus: the tagged text.
        layers: the biLM's layers [n, T, E] of each line, by its number.
        n_steps: batches that each tagger sees.
        n_seeds: taggers of each kind.
    """
    table = {}
    for name in INPUTS:
        rows = []
        for seed in range(1, n_seeds + 1):
            keras.utils.set_random_seed(seed)
            tagger = make_tagger(name, corpus, layers["0"].shape)
            batches = training_batches(corpus, layers, seed)
            tagger.fit(batches, steps_per_epoch=n_steps, shuffle=False, verbose=0)
            rows.append(accuracy(tagger, corpus, layers))
            print(f"{name}, seed {seed}: {rows[-1][0]:.2f}, {rows[-1][1]:.2f} %")
        table[name] = np.array(rows)
    return table


def make_tagger(name: str, corpus: Corpus, shape: tuple[int, ...]) -> keras.Model:
    """Build a tagger on word embeddings, ELMo or both; from its LSTM on, all alike."""
    words = keras.Input((None,), dtype="int32", name="words")
    layers = keras.Input((shape[0], None, shape[2]), name="layers")
    vectors = []
    if name != "ELMo":
        vectors.append(keras.layers.Embedding(corpus.n_words, WORD_DIM)(words))
    if name != "word embeddings":
        vectors.append(Mix()(layers))
    joined = vectors[0] if len(vectors) == 1 else keras.layers.Concatenate()(vectors)
    narrow = keras.layers.Dense(WIDTH)(keras.layers.Dropout(0.5)(joined))
    lstm = keras.layers.LSTM(WIDTH, return_sequences=True)
    read = keras.layers.Bidirectional(lstm)(narrow, mask=words != PADDING)
    logits = keras.layers.Dense(corpus.n_tags)(keras.layers.Dropout(0.5)(read))
    model = keras.Model({"words": words, "layers": layers}, logits)
    model.compile(
        keras.optimizers.Adam(RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,  # it would be compiled for each length of a batch
    )
    return model


class Mix(keras.layers.Layer):
    """The learnt mix of the biLM's layers: [B, n, T, E] to [B, T, E]."""

    def build(self, shape: tuple[int | None, ...]) -> None:
        """Start from the plain average."""
        self.logits = self.add_weight(shape=(shape[1],), initializer="zeros")
        self.gamma = self.add_weight(shape=(1,), initializer="ones")

    def call(self, layers: keras.KerasTensor) -> keras.KerasTensor:
        """Mix."""
        return mix_layers(layers, self.logits, self.gamma)


def training_batches(corpus: Corpus, layers: h5py.File, seed: int) -> Iterator[Batch]:
    """Give batches for ever, the sentences in random order."""
    random = np.random.default_rng(seed)
    lines = np.flatnonzero(~corpus.is_test)
    while True:
        random.shuffle(lines)
        # Of a large part of the text those of like length go together.
        for start in range(0, len(lines), 50 * BATCH):
            batches = by_length(lines[start : start + 50 * BATCH], corpus)
            random.shuffle(batches)
            for batch in batches:
                yield padded(batch, corpus, layers)


def by_length(lines: np.ndarray, corpus: Corpus) -> list[np.ndarray]:
    """Divide lines into batches of like length."""
    ordered = sorted(lines, key=lambda line: len(corpus.tokens[line]))
    return [np.array(ordered[i : i + BATCH]) for i in range(0, len(ordered), BATCH)]


def padded(lines: Iterable[int], corpus: Corpus, layers: h5py.File) -> Batch:
    """Put lines together."""
    vectors = [np.moveaxis(layers[str(line)][()], 1, 0) for line in lines]
    stacked = stack(vectors).astype("float32")
    words = stack([corpus.words[line] for line in lines])
    inputs = {"words": words, "layers": np.moveaxis(stacked, 1, 2)}
    tags = stack([corpus.tags[line] for line in lines])
    return Batch(inputs, tags, (words != PADDING).astype("float32"))


def stack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Stack arrays [T, ...] of several lengths, with zeros behind the shorter ones."""
    longest = max(len(array) for array in arrays)
    stacked = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(stacked, arrays, strict=True):
        row[: len(array)] = array
    return stacked


def accuracy(
    tagger: keras.Model, corpus: Corpus, layers: h5py.File
) -> tuple[float, float]:
    """Per cent of the test's tokens that get their tag: all words, words unseen."""
    inputs = tagger.input
    # Traced once, whatever the length of a batch.
    signature = {name: tf.TensorSpec(i.shape, i.dtype) for name, i in inputs.items()}
    predict = tf.function(lambda inputs: tagger(inputs), [signature])
    right, unseen = [], []
    for lines in by_length(np.flatnonzero(corpus.is_test), corpus):
        batch = padded(lines, corpus, layers)
        tags = predict(batch.inputs).numpy().argmax(-1)
        real = batch.real > 0
        right.append((tags == batch.tags)[real])
        unseen.append(stack([corpus.unseen[line] for line in lines])[real])
    all_right, all_unseen = np.concatenate(right), np.concatenate(unseen)
    return 100 * all_right.mean(), 100 * all_right[all_unseen].mean()


def formatted(table: dict[str, np.ndarray], corpus: Corpus) -> str:
    """Make the table of the mean over the seeds, and the deviation from it."""
    test = np.flatnonzero(corpus.is_test)
    n_all = sum(len(corpus.tokens[line]) for line in test)
    n_unseen = sum(corpus.unseen[line].sum() for line in test)
    lines = [
        f"\nAccuracy in %, of {n_all:,} tokens, {n_unseen:,} of them unseen words:\n",
        "| input of the tagger | all words | unseen words |",
        "|---|---|---|",
    ]
    for name, values in table.items():
        mean, deviation = values.mean(0), values.std(0, ddof=min(1, len(values) - 1))
        cells = [f"{m:.2f} ± {d:.2f}" for m, d in zip(mean, deviation, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
