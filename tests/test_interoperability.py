"""Other programs read what we write: run where their python is named.

BILM_PEER_TORCH=.../bin/python  with simple_elmo_pytorch installed
BILM_PEER_TF=.../bin/python     with bilm-tf and a TensorFlow that it runs on
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tiny import (
    OPTIONS,
    Corpus,
    Run,
    assert_near,
    with_chars,
    write_lines,
    write_run,
)

from bilm import Batcher, BidirectionalLanguageModel, training
from bilm.data import BidirectionalLMDataset
from bilm.training import dump_weights, load_vocab

PEERS = Path(__file__).parent / "peers"
SENTENCES = [["The", "bank", "raised", "its", "rates", "."], ["Naïve", "!"], ["x" * 60]]


def peer(variable: str, script: str, *args: object) -> str:
    """What a script prints by the python that a variable of the environment names."""
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} names no python of the other program")
    hidden = {"PYTHONPATH", "TF_USE_LEGACY_KERAS"}  # our package has the name of theirs
    done = subprocess.run(
        [python, PEERS / script, *map(str, args)],
        cwd=PEERS,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.peer
def test_pytorch_reads_our_model(tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "model"
    run.mkdir(), model.mkdir()
    write_run(run, with_chars(OPTIONS, max_characters_per_token=50))
    dump_weights(run, model / "weights.hdf5")
    text, out = write_lines(tmp_path / "text.txt", SENTENCES), tmp_path / "layers.npy"
    peer("BILM_PEER_TORCH", "torch_layers.py", model, text, out)
    bilm = BidirectionalLanguageModel(
        model / "options.json", model / "weights.hdf5", stateful=False
    )
    result = bilm(Batcher(None, 50).batch_sentences(SENTENCES))
    theirs, mask = np.load(out), result["mask"].numpy()
    ours = result["lm_embeddings"].numpy()
    assert theirs.shape == ours.shape == (3, 3, 6, 16)
    for layer in range(3):
        assert_near(theirs[:, layer][mask], ours[:, layer][mask], f"layer {layer}")


@pytest.mark.peer
def test_bilm_tf_gets_the_same_perplexity_of_our_run(
    trained: Run, corpus: Corpus
) -> None:
    args = (trained.save_dir, corpus.vocab, corpus.heldout, 2)
    printed = peer("BILM_PEER_TF", "bilm_tf_perplexity.py", *args)
    vocab = load_vocab(corpus.vocab, 8)
    data = BidirectionalLMDataset(corpus.heldout, vocab, test=True)
    ours = training.test(
        trained.options, trained.prefix, data, batch_size=2, drop_incomplete=True
    )
    np.testing.assert_allclose(float(printed.split()[-1]), ours, rtol=1e-5)
