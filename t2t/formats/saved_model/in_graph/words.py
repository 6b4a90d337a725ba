"""Words of a list, see `t2t.text.token` and `t2t.text.word_list`.

Legend: B texts, N rows of ids, P pieces.
"""

import tensorflow as tf

from t2t.formats.saved_model.in_graph.base import WHITE, GraphVocabulary, joined, table
from t2t.specs.constants import UNK_ID
from t2t.text.encoder import TextEncoder
from t2t.text.word_list import RESERVED, UNKNOWN, WordListEncoder

_NONE = -1


class GraphWords(GraphVocabulary):
    """Words separated by white space.

    An unknown word is an error, as in the decoder, if the list has no entry for unknown words.
    """

    def __init__(self, encoder: TextEncoder):
        self._words = [encoder.piece(token_id) for token_id in range(encoder.vocab_size)]
        if isinstance(encoder, WordListEncoder):
            ids = {word: token_id for token_id, word in enumerate(self._words) if token_id >= len(RESERVED)}
            unknown = next((ids[word] for word in UNKNOWN if word in ids), _NONE)
        else:  # the words follow the reserved ids, which no text contains
            ids = {word: token_id for token_id, word in enumerate(self._words) if token_id > UNK_ID}
            unknown = UNK_ID
        ids = {word: token_id for word, token_id in ids.items() if token_id not in encoder.unspelled}
        self._complete = unknown == _NONE
        self._ids = table(list(ids), list(ids.values()), unknown, tf.int32)

    def encode(self, texts_B):
        """One id a word."""
        spaced_B = tf.strings.strip(tf.strings.regex_replace(texts_B, f"[{WHITE}]+", " "))
        words_BP = tf.strings.split(spaced_B)
        ids_P = self._ids.lookup(words_BP.flat_values)
        if self._complete:
            message = f"a word is not on the list, which has no {UNKNOWN[0]} for unknown words"
            with tf.control_dependencies([tf.debugging.assert_greater(ids_P, _NONE, message)]):
                ids_P = tf.identity(ids_P)
        return words_BP.with_flat_values(ids_P)

    def decode(self, ids_NP):
        """The words, separated by spaces."""
        return joined(tf.gather(self._words, ids_NP), " ")
