"""The whole path in minutes: text, vocabulary, training, perplexity, vectors.

The text is the prose of Python's own documentation (`pydoc_data.topics`), so that
nothing has to be downloaded. `make demo` runs this; so does

    python usage_examples/demo.py FOLDER
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import NamedTuple

import h5py
import numpy as np

from bilm import dump_bilm_embeddings
from bilm.commands.terminal import logging_to_stderr
from bilm.data import BidirectionalLMDataset
from bilm.evaluation import evaluate
from bilm.options import training_options_from_dict
from bilm.training import (
    dump_weights,
    load_options_latest_checkpoint,
    load_vocab,
    save_initial_checkpoint,
    train,
)
from bilm.vocabulary_file import write_vocabulary

N_SHARDS = 4
HELD_OUT = 8  # one sentence in so many
SHORTEST = 4  # tokens of a sentence; below are headings and numbers of lists
SEED = 1

# The options file of the run: that of the original ELMo in small.
OPTIONS = {
    "bidirectional": True,
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 16},
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128]],
        "max_characters_per_token": 50,
        "n_characters": 261,
        "n_highway": 1,
    },
    "lstm": {
        "cell_clip": 3,
        "dim": 256,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 64,
        "use_skip_connections": True,
    },
    "dropout": 0.1,
    "all_clip_norm_val": 10.0,
    "batch_size": 32,
    "unroll_steps": 20,
    "n_negative_samples_batch": 512,
}

# Words of more than one use; those that the held-out text has too seldom are left out.
WORDS = ("set", "call", "return", "class", "name", "value", "string", "object", "that")
N_WORDS = 4
N_NEIGHBOURS = 3
CONTEXT = 32  # characters shown on each side of a word


class Corpus(NamedTuple):
    """Files of the text, and how much is in them."""

    shards: str  # glob pattern
    held_out: str
    vocab_file: str
    n_tokens: int  # of the shards
    n_words: int  # of the vocabulary


class Occurrences(NamedTuple):
    """The held-out tokens, each with its vector in context."""

    sentences: list[list[str]]
    places: list[tuple[int, int]]  # sentence, position in it
    words: np.ndarray  # str [tokens]
    vectors: np.ndarray  # float32 [tokens, 2 * projection_dim], of length 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", default="demo", help="new folder to fill")
    parser.add_argument("--epochs", type=int, default=8, help="passes over the text")
    args = parser.parse_args(argv)
    folder = Path(args.folder)
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"{folder} is not empty: remove it or name another folder")
    with logging_to_stderr():
        run(folder, args.epochs)
    return 0


def run(folder: Path, n_epochs: int) -> None:
    """Do each step of the demo, saying what it did."""
    corpus = write_corpus(python_prose(), folder / "text")
    print(
        f"\nText: {corpus.n_tokens:,} tokens of Python's documentation in {N_SHARDS} "
        f"shards, {corpus.n_words:,} words in the vocabulary ({folder / 'text'})"
    )
    before, after = train_and_test(corpus, folder, n_epochs)
    print(
        f"\nPerplexity of held-out text: {before:,.0f} before training, {after:,.1f} "
        "after"
    )
    occurrences = embed(corpus, folder)
    print(
        f"Vectors of {len(occurrences.words):,} held-out tokens: "
        f"{folder / 'embeddings.hdf5'}"
    )
    print("\nWords in two contexts each, and the occurrences of other words in the")
    print("held-out text whose vectors (top layer) are nearest, by cosine:")
    for word in words_to_show(occurrences):
        print(neighbour_table(word, occurrences))


def python_prose() -> Iterator[list[str]]:
    """Give the sentences of Python's documentation, as lists of tokens.

    Each sentence comes once: some topics repeat others, and what is held out must not
    stand in the training text.
    """
    seen = set()
    for topic in sorted(topics):
        for paragraph in re.split(r"\n\s*\n", topics[topic]):
            for sentence in sentences_of(paragraph):
                if tuple(sentence) not in seen:
                    seen.add(tuple(sentence))
                    yield sentence


def sentences_of(paragraph: str) -> list[list[str]]:
    """Split a paragraph into tokenised sentences; none where it is code or a table."""
    text = re.sub(r'["*`]', "", " ".join(paragraph.split()))  # marks of code and stress
    n_plain = sum(character.isalpha() or character == " " for character in text)
    if not text.endswith((".", ":")) or n_plain < 0.8 * len(text):
        return []
    end, start = r"(?:(?<=[.:?!])|(?<=[.:?!]\)))", r"(?=[A-Z(])"
    sentences = re.split(rf"{end}\s+{start}", text)
    tokens = [re.findall(r"\w+(?:['’]\w+)?|[^\w\s]", one) for one in sentences]
    return [sentence for sentence in tokens if len(sentence) >= SHORTEST]


def write_corpus(sentences: Iterable[list[str]], folder: Path) -> Corpus:
    """Write shards, held-out text and vocabulary, a tokenised sentence a line."""
    folder.mkdir(parents=True)
    kept = list(sentences)
    np.random.default_rng(SEED).shuffle(kept)
    n_held_out = len(kept) // HELD_OUT
    held_out, training = kept[:n_held_out], kept[n_held_out:]
    for shard in range(N_SHARDS):
        write_lines(folder / f"train-{shard}.txt", training[shard::N_SHARDS])
    write_lines(folder / "held_out.txt", held_out)
    shards = [str(folder / f"train-{shard}.txt") for shard in range(N_SHARDS)]
    words = write_vocabulary(shards, folder / "vocab.txt", min_count=2)
    return Corpus(
        shards=str(folder / "train-*.txt"),
        held_out=str(folder / "held_out.txt"),
        vocab_file=str(folder / "vocab.txt"),
        n_tokens=words.n_tokens,
        n_words=words.n_words,
    )


def write_lines(path: Path, lines: Iterable[list[str]]) -> None:
    """Write lists of tokens, a line each."""
    text = "".join(f"{' '.join(tokens)}\n" for tokens in lines)
    path.write_text(text, encoding="utf-8")


def train_and_test(corpus: Corpus, folder: Path, n_epochs: int) -> tuple[float, float]:
    """Train, and return the held-out perplexity before and after."""
    sizes = {"n_train_tokens": corpus.n_tokens, "n_tokens_vocab": corpus.n_words}
    options = training_options_from_dict({**OPTIONS, **sizes, "n_epochs": n_epochs})
    characters = OPTIONS["char_cnn"]["max_characters_per_token"]
    vocab = load_vocab(corpus.vocab_file, characters)

    def perplexity(checkpoint: str) -> float:
        held_out = BidirectionalLMDataset(corpus.held_out, vocab, test=True)
        return evaluate(options, checkpoint, held_out, batch_size=16).perplexity

    untrained = save_initial_checkpoint(options, str(folder / "untrained"), seed=SEED)
    before = perplexity(untrained)
    data = BidirectionalLMDataset(corpus.shards, vocab, shuffle_on_load=True, seed=SEED)
    save_dir = str(folder / "run")
    train(options, data, 1, save_dir, save_dir, seed=SEED)
    _, checkpoint = load_options_latest_checkpoint(save_dir)
    return before, perplexity(checkpoint)


def embed(corpus: Corpus, folder: Path) -> Occurrences:
    """Dump the trained weights, and embed the held-out text with them."""
    model, outfile = folder / "model", folder / "embeddings.hdf5"
    model.mkdir()
    dump_weights(str(folder / "run"), str(model / "weights.hdf5"))
    dump_bilm_embeddings(
        corpus.vocab_file,
        corpus.held_out,
        str(model / "options.json"),
        str(model / "weights.hdf5"),
        str(outfile),
        stateful=False,  # a vector depends on its sentence alone
    )
    text = Path(corpus.held_out).read_text(encoding="utf-8")
    return read_occurrences([line.split() for line in text.splitlines()], outfile)


def read_occurrences(sentences: list[list[str]], path: Path) -> Occurrences:
    """Read the top layer of each token in a file of `dump_bilm_embeddings`."""
    with h5py.File(path, "r") as file:
        layers = [file[str(i)][-1] for i in range(len(sentences))]
    vectors = np.concatenate(layers)
    vectors -= vectors.mean(axis=0)  # all tokens share this part: it hides the rest
    return Occurrences(
        sentences=sentences,
        places=[
            (i, k) for i, tokens in enumerate(sentences) for k in range(len(tokens))
        ],
        words=np.array([token for tokens in sentences for token in tokens]),
        vectors=vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
    )


def words_to_show(occurrences: Occurrences) -> list[str]:
    """Choose words that occur often enough to differ in their contexts."""
    found = [w for w in WORDS if len(places_amid_words(w, occurrences)) >= 4]
    return found[:N_WORDS]


def places_amid_words(word: str, occurrences: Occurrences) -> np.ndarray:
    """Find the occurrences of a word that have some words on both sides of them."""

    def has_context(place: int) -> bool:
        sentence, position = occurrences.places[place]
        return 2 <= position < len(occurrences.sentences[sentence]) - 3

    places = np.flatnonzero(occurrences.words == word)
    return np.array([place for place in places if has_context(place)], int)


def neighbour_table(word: str, occurrences: Occurrences) -> str:
    """Draw the two occurrences of a word that differ most, and what is near each."""
    places = places_amid_words(word, occurrences)
    cosines = occurrences.vectors[places] @ occurrences.vectors[places].T
    pair = places[list(np.unravel_index(cosines.argmin(), cosines.shape))]
    lines = [f"\n{word}"]
    for place in pair:
        lines.append(f"          {in_context(place, occurrences)}")
        for other, cosine in nearest(place, occurrences):
            lines.append(f"    {cosine:.2f}  {in_context(other, occurrences)}")
        lines.append("")
    return "\n".join(lines[:-1])


def nearest(place: int, occurrences: Occurrences) -> list[tuple[int, float]]:
    """Find the nearest occurrences of other words, the best one of each word."""
    cosines = occurrences.vectors @ occurrences.vectors[place]
    found = {occurrences.words[place]: (place, 1.0)}
    for other in np.argsort(-cosines):
        word = occurrences.words[other]
        if word not in found:
            found[word] = (int(other), float(cosines[other]))
        if len(found) > N_NEIGHBOURS:
            break
    return list(found.values())[1:]


def in_context(place: int, occurrences: Occurrences) -> str:
    """Show an occurrence in brackets, amid as much of its sentence as fits."""
    sentence, position = occurrences.places[place]
    tokens = occurrences.sentences[sentence]
    left, right = tokens[:position], tokens[position + 1 :]
    while len(" ".join(left)) > CONTEXT:
        del left[0]
    while len(" ".join(right)) > CONTEXT:
        del right[-1]
    return f"{' '.join(left):>{CONTEXT}} [{tokens[position]}] {' '.join(right)}"


if __name__ == "__main__":
    sys.exit(main())
