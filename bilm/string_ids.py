"""Text to prediction ids inside a graph: the batchers, in TensorFlow's operations.

The ids are those of `bilm.batcher`, to the last one. All runs in a `tf.function`, in
`tf.data`, and in a SavedModel that is loaded without this package.

A string of TensorFlow is bytes. The token of bytes that are no UTF-8 is what Python
makes of them by `decode(errors="surrogateescape")`: each such byte is left out of the
ids, and a token of nothing else is a word of no letters, not padding.

Letters: B sentences, T tokens of the longest, C characters of a token.
"""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from bilm.characters import (
    BOS,
    BOS_CHARACTER,
    BOW_CHARACTER,
    EOS,
    EOS_CHARACTER,
    EOW_CHARACTER,
    PAD_CHARACTER,
    UNK,
)
from bilm.errors import InputError
from bilm.options import ModelOptions

ToIds = Callable[..., tf.Tensor]  # tokens, and perhaps lengths, to ids

# What `str.split()` takes for white space; `tf.strings.split` knows ASCII's alone.
_WHITE_SPACE = (
    r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}"
    r"\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]+"
)


def split_sentences(sentences: tf.Tensor) -> tf.Tensor:
    """Split texts [B] by white space, as `str.split()`, into tokens [B, T].

    T is that of the longest sentence; `''` pads the others.
    """
    blanks = tf.strings.regex_replace(sentences, _WHITE_SPACE, " ")
    return tf.strings.split(blanks).to_tensor("")


def sentence_lengths(tokens: tf.Tensor) -> tf.Tensor:
    """Count the tokens of sentences [B, T] that are padded with `''`: int32 [B].

    A sentence ends with its last token that is not `''`. One that stands before it is
    a word of no letters, as in the batchers.
    """
    numbers = tf.range(1, tf.shape(tokens)[1] + 1)
    used = tf.where(tf.not_equal(tokens, ""), numbers, 0)
    return tf.maximum(tf.reduce_max(used, 1), 0)  # the maximum of nothing is below 0


def character_ids(
    tokens: tf.Tensor, max_characters: int, lengths: tf.Tensor | None = None
) -> tf.Tensor:
    """Encode sentences as `Batcher(None, C).batch_sentences(..., max_length=T)` does.

    Args:
        tokens: strings [B, T], in UTF-8. Those behind the end of a sentence do not
            matter.
        max_characters: C, at least 3; a token keeps its first C - 2 bytes.
        lengths: integers [B] from 0 to T, tokens of each sentence; by default those of
            `sentence_lengths`.

    Returns:
        int32 [B, T + 2, C]: `<S>`, the tokens and `</S>`, then 0.
    """
    words, real = _delimited(tokens, lengths)
    ids = _encode(tf.reshape(words, [-1]), max_characters) + 1
    shape = tf.concat([tf.shape(words), [max_characters]], 0)
    return tf.where(real[..., None], tf.reshape(ids, shape), 0)


def word_ids(
    tokens: tf.Tensor,
    table: tf.lookup.StaticHashTable,
    lengths: tf.Tensor | None = None,
) -> tf.Tensor:
    """Encode sentences as `TokenBatcher.batch_sentences(..., max_length=T)` does.

    Args:
        tokens: strings [B, T], as for `character_ids`.
        table: of `word_table`.
        lengths: as for `character_ids`.

    Returns:
        int32 [B, T + 2]: `<S>`, the tokens and `</S>`, then 0.
    """
    words, real = _delimited(tokens, lengths)
    return tf.where(real, table.lookup(words) + 1, 0)


def word_table(words: Sequence[str]) -> tf.lookup.StaticHashTable:
    """Make the table from words to their numbers int32, with `<UNK>` for all others.

    Args:
        words: of a vocabulary, in its order; of a word that stands twice the last
            place counts, as in `bilm.vocabulary`.

    Raises:
        InputError: `<UNK>` is not among them.
    """
    numbers = {word: number for number, word in enumerate(words)}
    if UNK not in numbers:
        raise InputError(
            f"a vocabulary that is looked up in a graph needs {UNK}, which stands for "
            "all words out of it: add it as a line before the model is trained"
        )
    pairs = tf.lookup.KeyValueTensorInitializer(
        list(numbers), list(numbers.values()), tf.string, tf.int32
    )
    return tf.lookup.StaticHashTable(pairs, numbers[UNK])


def ids_of_tokens(
    options: ModelOptions, table: tf.lookup.StaticHashTable | None
) -> ToIds:
    """What makes a model's ids: `word_ids` by a table, else `character_ids`."""
    if table is not None:
        return functools.partial(word_ids, table=table)
    assert options.char_cnn is not None
    size = options.char_cnn.max_characters_per_token
    return functools.partial(character_ids, max_characters=size)


def _delimited(
    tokens: tf.Tensor, lengths: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Words [B, T + 2] with `<S>` and `</S>`, and which of them are no padding."""
    if lengths is None:
        lengths = sentence_lengths(tokens)
    ends = tf.cast(lengths, tf.int32)[:, None] + 1
    opened = tf.pad(tokens, [[0, 0], [1, 1]], constant_values=BOS)
    places = tf.range(tf.shape(opened)[1])
    return tf.where(tf.equal(places, ends), EOS, opened), places <= ends


def _encode(words: tf.Tensor, length: int) -> tf.Tensor:
    """Training ids int32 [n, C] of words [n], as `bilm.characters.encode_words`."""
    text = tf.strings.unicode_transcode(words, "UTF-8", "UTF-8", errors="ignore")
    room = length - 2
    characters = tf.cast(tf.io.decode_raw(text, tf.uint8, fixed_length=room), tf.int32)
    sizes = tf.minimum(tf.strings.length(text), room)[:, None]
    for word, character in ((BOS, BOS_CHARACTER), (EOS, EOS_CHARACTER)):
        special = tf.equal(words, word)[:, None]
        characters = tf.where(special, character, characters)
        sizes = tf.where(special, 1, sizes)
    opened = tf.pad(characters, [[0, 0], [1, 1]], constant_values=BOW_CHARACTER)
    places = tf.range(length)
    closed = tf.where(tf.equal(places, sizes + 1), EOW_CHARACTER, opened)
    return tf.where(places > sizes + 1, PAD_CHARACTER, closed)
