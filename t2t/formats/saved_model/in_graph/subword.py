r"""Pieces of words in Tensor2Tensor's format, see `t2t.text.subword` and `t2t.text.subword_tokens`.

The loops over characters in Python are replaced by operations on all distinct tokens of a batch.

Legend: B texts, N rows of ids, P pieces, W tokens of a row, U distinct tokens, C characters of a token, L lengths of
pieces.
"""

import tensorflow as tf

from t2t.errors import UserError
from t2t.formats.saved_model.in_graph.base import NUL, GraphVocabulary, characters, joined, table
from t2t.text.subword import SubwordEncoder
from t2t.text.subword_tokens import ESCAPE_CHARACTERS, UNDEFINED, Spelling

_WORD = characters(str.isalnum)
"""Letters and digits, as in `tokenize`."""
_NONE = -1
_END = "_"
_ESCAPES = r"(\\u|\\\\|\\[0-9]+;)"
_LONGEST_CODE = 7


class GraphSubword(GraphVocabulary):
    """Splits texts into tokens, escapes them, and cuts each greedily into the longest pieces.

    Raises:
        UserError: a piece contains a NUL, which texts cannot contain.
    """

    def __init__(self, encoder: SubwordEncoder):
        self._pieces = [encoder.piece(token_id) for token_id in range(encoder.vocab_size)]
        if any(NUL in piece for piece in self._pieces):
            raise UserError("subword vocabulary: a piece holds a NUL character, which no text does; correct the file")
        ids = {piece: token_id for token_id, piece in enumerate(self._pieces) if piece}
        self._ids = table(list(ids), list(ids.values()), _NONE, tf.int32)
        self._lengths = [len(piece) for piece in self._pieces]
        self._longest = max(self._lengths)
        spelling = Spelling({character for piece in self._pieces for character in piece} | ESCAPE_CHARACTERS)
        spell_characters = {chr(code): written for code, written in spelling.items()}
        self._spelling = table(list(spell_characters), list(spell_characters.values()), "", tf.string)
        # Cutting can only fail at a character that is part of pieces but not itself a piece.
        self._may_be_stuck = any(len(written) == 1 and written not in ids for written in spell_characters.values())

    # === Texts to ids ===

    def encode(self, texts_B):
        """The ids of all tokens, in order."""
        tokens_BW = _tokens(texts_B)
        tokens_U, places = tf.unique(tokens_BW.flat_values)
        ids_WP = tf.gather(self._token_ids(tokens_U), places)
        return tokens_BW.with_flat_values(ids_WP).merge_dims(1, 2)

    def _token_ids(self, tokens_U):
        """Returns the ids of each token, (U, None)."""
        characters_UC = tf.strings.unicode_split(tokens_U, "UTF-8")
        codes_C = tf.strings.unicode_decode(tokens_U, "UTF-8").flat_values
        escaped_C = tf.strings.join(["\\", tf.strings.as_string(codes_C), ";"])
        plain_C = self._spelling.lookup(characters_UC.flat_values)
        by_number_C = tf.equal(plain_C, "")

        def spell_characters(by_number_C):
            spelt_C = tf.where(by_number_C, escaped_C, plain_C)
            return tf.strings.join([joined(characters_UC.with_flat_values(spelt_C)), _END])

        def mark_stuck(by_number_C, _):
            _, stuck_U = self._cut(spell_characters(by_number_C))
            stuck_C = tf.gather(stuck_U, characters_UC.value_rowids())
            return by_number_C | tf.equal(stuck_C, characters_UC.flat_values), tf.reduce_any(tf.not_equal(stuck_U, ""))

        if self._may_be_stuck:
            by_number_C, _ = tf.while_loop(lambda _, again: again, mark_stuck, (by_number_C, tf.constant(True)))
        return self._cut(spell_characters(by_number_C))[0]

    def _cut(self, spelt_U):
        """Returns the ids of the longest pieces, (U, None), and the character where no piece fits, (U,), if any."""
        spelt_UL = tf.repeat(spelt_U[:, None], self._longest, axis=1)
        count_U = tf.strings.length(spelt_U, unit="UTF8_CHAR")
        lengths_UL = tf.zeros_like(count_U)[:, None] + tf.range(self._longest, 0, -1)

        def is_unfinished(start_U, stuck_U):
            return (start_U < count_U) & tf.equal(stuck_U, "")

        def step(start_U, ids_UP, stuck_U):
            unfinished_U = is_unfinished(start_U, stuck_U)
            here_UL = tf.repeat(tf.minimum(start_U, count_U - 1)[:, None], self._longest, axis=1)
            found_UL = tf.strings.substr(spelt_UL, here_UL, lengths_UL, unit="UTF8_CHAR")
            ids_UL = self._ids.lookup(found_UL)
            longest_U = tf.argmax(tf.cast(ids_UL > _NONE, tf.int32), axis=1)
            ids_U = tf.where(unfinished_U, tf.gather(ids_UL, longest_U, batch_dims=1), _NONE)
            stuck_U = tf.where(unfinished_U & tf.equal(ids_U, _NONE), found_UL[:, -1], stuck_U)
            start_U += tf.where(ids_U > _NONE, tf.gather(self._lengths, tf.maximum(ids_U, 0)), 0)
            return start_U, tf.concat([ids_UP, ids_U[:, None]], axis=1), stuck_U

        _, ids_UP, stuck_U = tf.while_loop(
            lambda start_U, ids_UP, stuck_U: tf.reduce_any(is_unfinished(start_U, stuck_U)),
            step,
            (tf.zeros_like(count_U), tf.zeros([tf.size(spelt_U), 0], tf.int32), tf.zeros_like(spelt_U)),
            shape_invariants=(count_U.shape, tf.TensorShape([None, None]), spelt_U.shape),
        )
        return tf.ragged.boolean_mask(ids_UP, ids_UP > _NONE), stuck_U

    # === Ids to texts ===

    def decode(self, ids_NP):
        """A space between two tokens that begin with a letter or digit."""
        tokens_NW = tf.strings.split(joined(tf.gather(self._pieces, ids_NP)), _END)
        tokens_NW = tokens_NW.with_flat_values(_unescape(tokens_NW.flat_values))
        tokens_NW = tf.ragged.boolean_mask(tokens_NW, tf.not_equal(tokens_NW, ""))
        rows, tokens = tokens_NW.value_rowids(), tokens_NW.flat_values
        is_word = tf.strings.regex_full_match(tokens, f"(?s)[{_WORD}].*")
        after_word = tf.concat([[False], is_word[:-1] & tf.equal(rows[1:], rows[:-1])], axis=0)[: tf.size(rows)]
        spaced = tf.where(is_word & after_word, tf.strings.join([" ", tokens]), tokens)
        return joined(tokens_NW.with_flat_values(spaced))


def _tokens(texts_B):
    """Splits texts into runs of letters and digits and runs of other characters, without single spaces, (B, None)."""
    marked_B = tf.strings.regex_replace(texts_B, f"[{_WORD}]+", f"{NUL}\\0{NUL}")
    runs_BW = tf.strings.split(marked_B, NUL)
    runs_BW = tf.ragged.boolean_mask(runs_BW, tf.not_equal(runs_BW, ""))
    places = tf.range(tf.size(runs_BW.flat_values, out_type=tf.int64))
    rows = runs_BW.value_rowids()
    is_end = tf.equal(places, tf.gather(runs_BW.row_starts(), rows)) | tf.equal(
        places + 1, tf.gather(runs_BW.row_limits(), rows)
    )
    kept = is_end | tf.not_equal(runs_BW.flat_values, " ")
    return tf.ragged.boolean_mask(runs_BW, runs_BW.with_flat_values(kept))


def _unescape(tokens):
    """Returns tokens with their escapes undone."""
    marked = tf.strings.regex_replace(tokens, _ESCAPES, f"{NUL}\\1{NUL}")
    parts = tf.strings.split(marked, NUL)
    texts = parts.flat_values
    is_number = tf.strings.regex_full_match(texts, r"\\[0-9]+;")
    digits = tf.where(is_number, tf.strings.regex_replace(texts, r"\\0*([0-9]*);", r"\1"), "0")
    is_long = tf.strings.length(digits) > _LONGEST_CODE
    codes = tf.strings.to_number(tf.where(is_long | tf.equal(digits, ""), "0", digits), tf.int32)
    is_character = ~is_long & (codes <= 0x10FFFF) & ~((codes >= 0xD800) & (codes <= 0xDFFF))
    codes = tf.where(is_character, codes, ord(UNDEFINED))
    texts = tf.where(is_number, tf.strings.unicode_encode(codes[:, None], "UTF-8"), texts)
    texts = tf.where(tf.equal(texts, r"\u"), _END, tf.where(tf.equal(texts, r"\\"), "\\", texts))
    return joined(parts.with_flat_values(texts))
