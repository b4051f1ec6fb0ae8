"""Characters of a word: the UTF-8 bytes and five special ids.

Training ids, the first of the file formats: 0..255 are bytes, then the five below.
Prediction ids are one higher, because 0 pads sentences there (see `bilm.batcher`).

Letters: C characters per word.
"""

from collections.abc import Sequence

import numpy as np

BOS, EOS, UNK = "<S>", "</S>", "<UNK>"
"""The words that begin a sentence, end it, and stand for all unknown ones."""

BOS_CHARACTER, EOS_CHARACTER = 256, 257  # the only character of <S> and of </S>
BOW_CHARACTER, EOW_CHARACTER = 258, 259  # begin and end every word
PAD_CHARACTER = 260

MIN_WORD_LENGTH = 3  # begin, one byte, end

_SPECIAL_WORDS = {BOS: BOS_CHARACTER, EOS: EOS_CHARACTER}


def encode_words(words: Sequence[str], length: int) -> np.ndarray:
    """Encode words as begin, UTF-8 bytes cut to `length - 2`, end, padding.

    What cannot be encoded (a lone surrogate, half of an emoji) is left out. `<S>` and
    `</S>` have one character each, of their own, wherever they come from.

    Args:
        words: n words.
        length: C, at least 3.

    Returns:
        Training ids of the characters, [n, C] int16.
    """
    encoded = [word.encode("utf-8", "ignore")[: length - 2] for word in words]
    sizes = np.fromiter(map(len, encoded), np.int64, len(words))
    ids = np.full((len(words), length), PAD_CHARACTER, np.int16)
    ids[:, 0] = BOW_CHARACTER
    holds_byte = np.arange(length - 2) < sizes[:, None]  # [n, C - 2]
    ids[:, 1:-1][holds_byte] = np.frombuffer(b"".join(encoded), np.uint8)
    ids[np.arange(len(words)), sizes + 1] = EOW_CHARACTER
    for i in [i for i, word in enumerate(words) if word in _SPECIAL_WORDS]:
        ids[i] = PAD_CHARACTER
        ids[i, :3] = BOW_CHARACTER, _SPECIAL_WORDS[words[i]], EOW_CHARACTER
    return ids
