"""Each command once on real text, by a model of words in one direction.

The text is prose that comes with Python, as in the demo.
"""

import importlib.util
import itertools
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tiny import OPTIONS, SMALL_LSTM, assert_near, read_arrays, write_lines

from bilm.batcher import TokenBatcher
from bilm.cli import main
from bilm.model import BidirectionalLanguageModel
from bilm.options import replace_options, training_dict, write_options

ROOT = Path(__file__).parent.parent
WIDTH = SMALL_LSTM.projection_dim
ONE_WAY = replace_options(
    OPTIONS,
    char_cnn=None,
    bidirectional=False,
    lstm=replace_options(SMALL_LSTM, n_layers=2, use_skip_connections=True),
    n_train_tokens=240,
    batch_size=8,
)


class Prose(NamedTuple):
    """Files of the text and of what the commands made of it."""

    folder: Path
    heldout: list[list[str]]
    words: list[str]  # of the vocabulary

    def flags(self, *names: str) -> str:
        """Flags that several commands take."""
        all_of_them = {
            "run": f"--save_dir {self.folder}/run",
            "vocab": f"--vocab_file {self.folder}/vocab.txt",
            "model": f"--model {self.folder}/model",
        }
        return " ".join(all_of_them[name] for name in names)


@pytest.fixture(scope="module")
def prose(tmp_path_factory: pytest.TempPathFactory) -> Prose:
    """The text, a run on it, and the dumped model."""
    spec = importlib.util.spec_from_file_location(
        "demo", ROOT / "usage_examples" / "demo.py"
    )
    assert spec is not None and spec.loader is not None
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    train, heldout = demo_split(demo)
    counts = Counter(itertools.chain.from_iterable(train))
    words = ["<S>", "</S>", "<UNK>", *(w for w, n in counts.most_common() if n > 2)]
    folder = tmp_path_factory.mktemp("prose")
    write_lines(folder / "train.txt", train)
    write_lines(folder / "heldout.txt", heldout)
    write_lines(folder / "vocab.txt", [[word] for word in words])
    vectors = [[word, *(["0.25"] * WIDTH)] for word in words[3:50]]
    write_lines(folder / "vectors.txt", vectors)
    write_options(folder / "options.json", training_dict(ONE_WAY))
    (folder / "model").mkdir()
    made = Prose(folder, heldout, words)
    run(
        f"train {made.flags('run', 'vocab')} --train_prefix {folder}/train.txt --seed 1"
        f" --options {folder}/options.json --embedding_init {folder}/vectors.txt"
    )
    run(
        f"dump-weights {made.flags('run')} --outfile {folder}/model/weights.hdf5 "
        "--include_softmax"
    )
    return made


def demo_split(demo: Any) -> tuple[list[list[str]], list[list[str]]]:
    sentences = list(itertools.islice(demo.python_prose(), 200))
    return sentences[:180], sentences[180:]


def run(command: str) -> None:
    assert main(command.split()) == 0


def table(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What a command printed."""
    lines = capsys.readouterr().out.splitlines()
    return dict(line.rsplit(maxsplit=1) for line in lines)


def test_scores_sum_up_to_the_perplexity(
    prose: Prose, capsys: pytest.CaptureFixture[str]
) -> None:
    files, text = prose.flags("run", "vocab"), f"{prose.folder}/heldout.txt"
    run(f"test {files} --test_prefix {text} --batch_size 1")
    tested = table(capsys)
    outfile = prose.folder / "scores.tsv"
    run(f"score {files} --text {text} --stateful --per sentence --outfile {outfile}")
    scored = table(capsys)
    rows = np.loadtxt(outfile, delimiter="\t", skiprows=1)
    assert rows[:, 1].tolist() == [len(tokens) + 1 for tokens in prose.heldout]
    unknown = [sum(w not in prose.words for w in tokens) for tokens in prose.heldout]
    assert rows[:, 2].tolist() == unknown and sum(unknown)
    perplexity = np.exp(-rows[:, 3].sum() / rows[:, 1].sum())
    for printed in (tested, scored):
        found = float(printed["perplexity"].replace(",", ""))
        np.testing.assert_allclose(found, perplexity, rtol=1e-4)
        assert "backward perplexity" not in printed
    assert 1 < perplexity < len(prose.words)  # better than chance, after few steps


def test_prediction_knows_the_vocabulary(
    prose: Prose, capsys: pytest.CaptureFixture[str]
) -> None:
    files = prose.flags("run", "vocab")
    assert main(["predict", *files.split(), "the value of", "--topk", "5"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 5 and all(word in prose.words for _, word in rows)
    run(f"predict {files} --sample 2 --seed 1 --max_words 9")
    texts = capsys.readouterr().out.split("\n")[:2]
    assert all(word in prose.words for text in texts for word in text.split())
    assert main(["predict", *files.split(), "--direction", "backward"]) == 2
    assert "one of the model's, forward, not 'backward'" in capsys.readouterr().err


def test_dumps_are_what_the_model_gives(prose: Prose) -> None:
    model, vocab = prose.flags("model"), prose.flags("vocab")
    tokens, texts = prose.folder / "tokens.hdf5", prose.folder / "heldout.hdf5"
    run(f"dump-tokens {model} {vocab} --outfile {tokens}")
    embedding = read_arrays(tokens)["embedding"]
    assert embedding.shape == (len(prose.words), WIDTH)
    run(
        f"dump-embeddings {model} {vocab} --dataset_file {prose.folder}/heldout.txt "
        f"--outfile {texts} --stateless"
    )
    arrays = read_arrays(texts)
    assert len(arrays) == len(prose.heldout)
    batcher = TokenBatcher(prose.folder / "vocab.txt")
    bilm = BidirectionalLanguageModel(
        prose.folder / "model" / "options.json",
        prose.folder / "model" / "weights.hdf5",
        use_character_inputs=False,
        stateful=False,
    )
    result = bilm(batcher.batch_sentences(prose.heldout))["lm_embeddings"].numpy()
    longest = max(map(len, prose.heldout))
    assert result.shape == (len(prose.heldout), 3, longest, WIDTH)
    embedded = bilm.embed(prose.heldout, batcher=batcher)
    for i, (sentence, vectors) in enumerate(zip(prose.heldout, embedded, strict=True)):
        assert vectors.shape == (3, len(sentence), WIDTH)
        assert_near(vectors, result[i, :, : len(sentence)])
        assert_near(arrays[str(i)], vectors)
        ids = [prose.words.index(w if w in prose.words else "<UNK>") for w in sentence]
        np.testing.assert_array_equal(vectors[0], embedding[ids])


def test_import_gives_the_run_back(prose: Prose) -> None:
    folder = prose.folder
    run(
        f"import-weights {prose.flags('model', 'vocab')} --save_dir {folder}/back "
        f"--softmax_file {folder}/model/softmax_weights.hdf5"
    )
    (folder / "again").mkdir()
    run(
        f"dump-weights --save_dir {folder}/back --outfile {folder}/again/weights.hdf5 "
        "--include_softmax"
    )
    for name in ("weights.hdf5", "softmax_weights.hdf5"):
        before, after = (read_arrays(folder / f / name) for f in ("model", "again"))
        assert before.keys() == after.keys()
        for array in before:
            np.testing.assert_array_equal(before[array], after[array])


def test_the_savedmodel_gives_the_vectors_of_the_model(prose: Prose) -> None:
    run(f"export {prose.flags('model', 'vocab')} --out {prose.folder}/served")
    served = tf.saved_model.load(f"{prose.folder}/served").signatures["default"]
    texts = [" ".join(tokens) for tokens in prose.heldout]
    result = served(tf.constant(texts))
    model = BidirectionalLanguageModel(
        prose.folder / "model" / "options.json",
        prose.folder / "model" / "weights.hdf5",
        use_character_inputs=False,
        stateful=False,
    )
    batcher = TokenBatcher(prose.folder / "vocab.txt")
    layers = model(batcher.batch_sentences(prose.heldout))["lm_embeddings"]
    names = ("word_emb", "lstm_outputs1", "lstm_outputs2")
    for number, name in enumerate(names):
        assert_near(result[name], layers[:, number], name)
