"""Vocabularies, batchers and data sets, under the names of bilm-tf's `bilm.data`."""

from bilm.batcher import Batcher, TokenBatcher
from bilm.dataset import BidirectionalLMDataset, LMDataset
from bilm.errors import InvalidNumberOfCharacters
from bilm.vocabulary import UnicodeCharsVocabulary, Vocabulary

__all__ = [
    "Batcher",
    "BidirectionalLMDataset",
    "InvalidNumberOfCharacters",
    "LMDataset",
    "TokenBatcher",
    "UnicodeCharsVocabulary",
    "Vocabulary",
]
