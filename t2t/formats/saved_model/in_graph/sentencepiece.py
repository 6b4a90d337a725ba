"""Pieces of a SentencePiece model, also with ids from a table: see `t2t.text.sentencepiece`, `t2t.text.piece_table`.

Legend: B texts, N rows of ids, P pieces, Q parts of all texts end to end.
"""

import tensorflow as tf

from t2t.formats.saved_model.in_graph.base import NUL, WHITE, GraphVocabulary, sentencepiece_tokenizer, table, valid
from t2t.specs.constants import EOS_ID, PAD_ID, UNK_ID
from t2t.text.piece_table import SENTINEL, TAG, PieceTableEncoder
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
