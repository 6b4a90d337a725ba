"""Pieces of a SentencePiece model, see `t2t.text.sentencepiece`.

Legend: B texts, N rows of ids, P pieces.
"""

import tensorflow as tf

from t2t.export.in_graph.base import GraphVocabulary, sentencepiece_tokenizer
from t2t.text.sentencepiece import ESCAPE, PIECE_MARKER, SentencePieceEncoder, unescape

_GUARD = "."


class GraphSentencePiece(GraphVocabulary):
    """The model file itself, run by tensorflow-text, between the two replacements of `escape` and `unescape`."""

    def __init__(self, encoder: SentencePieceEncoder):
        self._tokenizer = sentencepiece_tokenizer(encoder.to_bytes(), tf.int32)
        pieces = [encoder.piece(token_id) for token_id in range(encoder.vocab_size)]
        self._guard = pieces.index(f"<0x{ord(_GUARD):02X}>")
        ids = range(encoder.vocab_size) if encoder.spelled else ()
        self._spelled = [encoder.spelled.get(token_id, [token_id]) for token_id in ids]
        self._loses_space = [_loses_space(encoder, token_id, piece) for token_id, piece in enumerate(pieces)]

    def encode(self, texts_B):
        """Pieces of the escaped text."""
        escaped_B = tf.strings.regex_replace(texts_B, ESCAPE, ESCAPE + "0")
        ids_BP = self._tokenizer.tokenize(tf.strings.regex_replace(escaped_B, PIECE_MARKER, ESCAPE + "1"))
        if not self._spelled:
            return ids_BP
        return tf.gather(tf.ragged.constant(self._spelled, tf.int32), ids_BP).merge_dims(1, 2)

    def decode(self, ids_NP):
        """Bytes that are not UTF-8 become U+FFFD."""
        # tensorflow-text removes all leading spaces, SentencePiece itself only one. So a guard is put in front of them,
        # and removed together with that one.
        rows = ids_NP.nrows(out_type=tf.int32)
        guarded_NP = tf.concat([tf.fill([rows, 1], self._guard), ids_NP], axis=1)
        first_N = guarded_NP[:, :2].to_tensor(shape=[None, 2])[:, 1]
        starts_N = len(_GUARD) + tf.cast(tf.gather(self._loses_space, first_N), tf.int32)
        guarded_N = self._tokenizer.detokenize(guarded_NP)
        escaped_N = tf.strings.substr(guarded_N, starts_N, tf.strings.length(guarded_N))
        return tf.strings.regex_replace(
            tf.strings.regex_replace(escaped_N, ESCAPE + "1", PIECE_MARKER), ESCAPE + "0", ESCAPE
        )


def _loses_space(encoder: SentencePieceEncoder, token_id: int, piece: str) -> bool:
    """Returns whether the leading space of a piece is dropped at the start of a text."""
    alone = encoder.decode_ids([token_id])
    return piece.startswith(PIECE_MARKER) and alone != unescape(piece.replace(PIECE_MARKER, " "))
