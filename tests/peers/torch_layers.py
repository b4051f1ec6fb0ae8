"""Run by the python of simple_elmo_pytorch: all layers of sentences, by our files.

    python torch_layers.py MODEL_FOLDER TEXT OUT.npy

writes float32 [sentences, layers, tokens, values] of the first batch after loading.
"""

import sys

import numpy as np
import torch
from simple_elmo_pytorch.models import elmo

folder, text, out = sys.argv[1:]
with open(text, encoding="utf-8") as file:
    sentences = [line.split() for line in file]
model = elmo.ElmoBiLmSentence(f"{folder}/options.json", f"{folder}/weights.hdf5")
model.eval()
with torch.no_grad():
    layers = model(elmo.batch_to_ids(sentences))["activations"]
# The marks of the sentence's ends are in its first and last place.
np.save(out, np.stack([layer.numpy() for layer in layers], 1)[:, :, 1:-1])
