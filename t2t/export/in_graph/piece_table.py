"""Pieces of a SentencePiece model with ids from a separate table, see `t2t.text.piece_table`.

Legend: B texts, N rows of ids, P pieces, Q parts of all texts end to end.
"""

import tensorflow as tf

from t2t.export.in_graph.base import NUL, WHITE, GraphVocabulary, sentencepiece_tokenizer, table, valid
from t2t.specs.constants import EOS_ID, PAD_ID, UNK_ID
from t2t.text.piece_table import SENTINEL, TAG, PieceTableEncoder
from t2t.text.sentencepiece import PIECE_MARKER


class GraphPieceTable(GraphVocabulary):
    """The model file, run by tensorflow-text, and the id table; tags and sentinels are set apart with markers first."""

    def __init__(self, encoder: PieceTableEncoder):
        self._tokenizer = sentencepiece_tokenizer(encoder.model, tf.string)
        pieces = [encoder.piece(token_id) for token_id in range(encoder.vocab_size)]
        unspelt = {PAD_ID, EOS_ID, UNK_ID, *encoder.codes, *encoder.unspelled}
        ids = {piece: token_id for token_id, piece in enumerate(pieces) if token_id not in unspelt}
        self._is_code = [token_id in encoder.codes for token_id in range(encoder.vocab_size)] if encoder.codes else []
        self._ids = table(list(ids), list(ids.values()), UNK_ID, tf.int32)
        self._has_sentinels = encoder.has_sentinels
        sentinels = [piece for piece in ids if SENTINEL.fullmatch(piece)]
        tag = rf"(?s)\A{TAG.pattern}" if encoder.has_tags else ""
        self._special = "|".join(sentinels) if self._has_sentinels else tag
        self._pieces = [*pieces[:UNK_ID], encoder.unknown_piece, *pieces[UNK_ID + 1 :]]

    def encode(self, texts_B):
        """Ids of the language tag or the sentinels in a text, and of the pieces of the rest."""
        if not self._special:
            return self._ids_of(self._tokenizer.tokenize(texts_B))
        marked_B = tf.strings.regex_replace(
            texts_B, self._special, rf"{NUL}\0{NUL}", replace_global=self._has_sentinels
        )
        parts = tf.strings.split(marked_B, NUL)
        parts_Q = parts.flat_values
        is_special_Q = tf.ragged.range(parts.row_lengths()).flat_values % 2 == 1
        special = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(parts_Q, is_special_Q), tf.cast(is_special_Q, tf.int64)
        )
        pieces_QP = tf.concat([special, self._tokenizer.tokenize(tf.where(is_special_Q, "", parts_Q))], axis=1)
        return parts.with_flat_values(self._ids_of(pieces_QP)).merge_dims(1, 2)

    def decode(self, ids_NP):
        """The text of the pieces without language codes, stripped of white space."""
        if self._is_code:
            is_code_NP = ids_NP.with_flat_values(tf.gather(self._is_code, ids_NP.flat_values))
            ids_NP = tf.ragged.boolean_mask(ids_NP, tf.logical_not(is_code_NP))
        text_N = self._tokenizer.detokenize(tf.gather(self._pieces, ids_NP))
        text_N = tf.strings.regex_replace(valid(text_N), PIECE_MARKER, " ")
        return tf.strings.regex_replace(text_N, rf"\A[{WHITE}]+|[{WHITE}]+\z", "")

    def _ids_of(self, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
        return pieces.with_flat_values(self._ids.lookup(pieces.flat_values))
