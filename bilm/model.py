"""Prediction: the public names of `bilm.model` in bilm-tf."""

from bilm.bidirectional import BidirectionalLanguageModel
from bilm.dump import dump_bilm_embeddings, dump_token_embeddings

__all__ = [
    "BidirectionalLanguageModel",
    "dump_bilm_embeddings",
    "dump_token_embeddings",
]
