"""Next words and the words before, against scores; and sentences drawn."""

from pathlib import Path

import numpy as np
import pytest
from tiny import OPTIONS, SMALL_LSTM, WORDS, Corpus, Run, write_run

from bilm.cli import main
from bilm.errors import InputError
from bilm.next_words import Predictor, open_predictor
from bilm.options import replace_options
from bilm.scoring import score
from bilm.training import load_vocab

CHARACTERS = replace_options(OPTIONS, lstm=SMALL_LSTM)
FORWARD_ONLY = replace_options(CHARACTERS, char_cnn=None, bidirectional=False)
SENTENCE = ["3", "unheard", "1", "9"]


@pytest.fixture(scope="module")
def save_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_run(folder, CHARACTERS)
    return folder


@pytest.fixture(scope="module")
def predictors(save_dir: Path, corpus: Corpus) -> dict[str, Predictor]:
    vocab = load_vocab(corpus.vocab, 8)
    return {
        direction: open_predictor(
            CHARACTERS, save_dir / "model.ckpt-7", vocab, direction
        )
        for direction in ("forward", "backward")
    }


def test_probabilities_are_those_of_the_scores(
    save_dir: Path, corpus: Corpus, predictors: dict[str, Predictor]
) -> None:
    vocab = load_vocab(corpus.vocab, 8)
    (scores,) = score(CHARACTERS, save_dir / "model.ckpt-7", vocab, [SENTENCE])
    ids = [WORDS.index(word if word in WORDS else "<UNK>") for word in SENTENCE]
    assert scores.backward is not None
    for i in range(len(SENTENCE) + 1):
        after = predictors["forward"].probabilities(SENTENCE[:i])
        before = predictors["backward"].probabilities(SENTENCE[i:])
        for probabilities in (after, before):
            assert probabilities.shape == (len(WORDS),)
            np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-12)
        following, preceding = [*ids, vocab.eos][i], [vocab.bos, *ids][i]
        np.testing.assert_allclose(np.log(after[following]), scores.forward[i], 1e-5)
        np.testing.assert_allclose(np.log(before[preceding]), scores.backward[i], 1e-5)


def test_best_words_come_first(predictors: dict[str, Predictor]) -> None:
    probabilities = predictors["forward"].probabilities(["1"])
    best = predictors["forward"].next_words(["1"], 4)
    assert [WORDS.index(each.word) for each in best] == [
        *np.argsort(-probabilities)[:4]
    ]
    assert [each.probability for each in best] == sorted(probabilities)[:-5:-1]
    assert len(predictors["forward"].next_words(["1"], 100)) == len(WORDS)


def test_words_are_drawn_by_their_probabilities(
    predictors: dict[str, Predictor],
) -> None:
    texts = predictors["forward"].draw(["1"], 4000, max_words=1, seed=5)
    drawn = [text.words[0] if text.words else "</S>" for text in texts]
    assert [text.complete for text in texts] == [not text.words for text in texts]
    expected = predictors["forward"].probabilities(["1"])
    expected[[WORDS.index("<S>"), WORDS.index("<UNK>")]] = 0  # which are never drawn
    expected /= expected.sum()
    found = np.array([drawn.count(word) for word in WORDS]) / len(drawn)
    deviation = np.sqrt(expected * (1 - expected) / len(drawn))
    assert np.all(np.abs(found - expected) <= 4 * deviation)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_low_temperature_follows_the_best_words(
    direction: str, predictors: dict[str, Predictor]
) -> None:
    predictor = predictors[direction]
    first, second = predictor.draw(SENTENCE, 2, temperature=1e-4, max_words=4)
    assert first == second
    so_far = list(SENTENCE)
    for word in first.words if direction == "forward" else first.words[::-1]:
        names = [each.word for each in predictor.next_words(so_far, 4)]
        assert word == next(n for n in names if n not in ("<UNK>", "<S>", "</S>"))
        so_far = [*so_far, word] if direction == "forward" else [word, *so_far]


def test_a_seed_repeats_the_draws(predictors: dict[str, Predictor]) -> None:
    draws = [predictors["forward"].draw([], 3, seed=seed) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    with pytest.raises(
        InputError, match="temperature must be from 1e-30 to .*, but is 0"
    ):
        predictors["forward"].draw([], 1, temperature=0)


def test_a_direction_that_the_model_lacks(corpus: Corpus, tmp_path: Path) -> None:
    prefix, vocab = write_run(tmp_path, FORWARD_ONLY), load_vocab(corpus.vocab)
    with pytest.raises(InputError, match="must be one of the model's, forward, not 'b"):
        open_predictor(FORWARD_ONLY, prefix, vocab, "backward")
    predictor = open_predictor(FORWARD_ONLY, prefix, vocab)
    np.testing.assert_array_equal(
        predictor.probabilities(["unheard"]), predictor.probabilities(["<UNK>"])
    )


def predicted(trained: Run, corpus: Corpus, flags: list[str]) -> int:
    files = ["--save_dir", str(trained.save_dir), "--vocab_file", str(corpus.vocab)]
    return main(["predict", *files, *flags])


def test_command_counts(
    trained: Run, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, direction, expected in (
        (["3 4"], "forward", "5"),
        (["5", "6"], "backward", "4"),
    ):
        flags = [*text, "--direction", direction, "--topk", "3"]
        assert predicted(trained, corpus, flags) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert len(rows) == 3 and rows[0][1] == expected and float(rows[0][0]) > 0.5


def test_command_draws_sentences(
    trained: Run, corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--sample", "3", "--temperature", "0.1", "--seed", "1"]
    assert predicted(trained, corpus, ["6 7", *flags]) == 0
    assert capsys.readouterr().out.splitlines() == ["6 7 8 9"] * 3
    assert predicted(trained, corpus, ["6 ?", *flags, "--max_words", "1"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3 and out.count("6 ?") == 3
    assert "out of the vocabulary, and read by their characters: ?" in err
