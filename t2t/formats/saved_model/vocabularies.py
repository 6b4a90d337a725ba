"""Vocabularies as TensorFlow operations: texts to ids and back inside a graph, without Python.

Legend: B texts, N rows of ids, P pieces of all rows end to end, Q parts of all texts end to end, W tokens of a row,
U distinct tokens, C characters of a token, L lengths of pieces.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from t2t.errors import UserError
from t2t.specs import EOS_ID, PAD_ID, UNK_ID
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.imported import SENTINEL, TAG, PieceTableEncoder
from t2t.text.sentencepiece import ESCAPE, PIECE_MARKER, SentencePieceEncoder, unescape
from t2t.text.subword import SubwordEncoder
from t2t.text.subword_build import ESCAPE_CHARACTERS, UNDEFINED, Spelling
from t2t.text.words import RESERVED, SPACES, UNKNOWN, WordListEncoder

NUL = "\0"
"""Marker within texts; `cleaned` texts do not contain it."""

_REPLACEMENT = 0xFFFD


class GraphVocabulary(tf.Module):
    """An encoder as TensorFlow operations with the same ids and texts."""

    def __init__(self, encoder: TextEncoder):
        raise NotImplementedError

    def encode(self, texts_B: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids (B, None) int32, without end of sequence, of `cleaned` texts (B,) string."""
        raise NotImplementedError

    def decode(self, ids_NP: tf.RaggedTensor) -> tf.Tensor:
        """Returns texts (N,) string, valid UTF-8, for ids (N, None) int32 without end of sequence and padding."""
        raise NotImplementedError


def characters(of_class: Callable[[str], bool]) -> str:
    """Returns the ranges of a regular expression character class for all characters that satisfy `of_class`.

    RE2's own classes may follow another version of Unicode than Python.
    """
    codes = np.array([code for code in range(0x110000) if of_class(chr(code))])
    ranges = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
    return "".join(f"\\x{{{codes[0]:X}}}-\\x{{{codes[-1]:X}}}" for codes in ranges)


WHITE = characters(str.isspace)
"""White space as in `str.split` and `str.strip`."""


def cleaned(texts_B: Any) -> tf.Tensor:
    """Returns texts as `t2t.files.lines.clean_line` leaves them: invalid UTF-8 replaced by U+FFFD, NULs removed."""
    return tf.strings.regex_replace(valid(texts_B), r"\x00+", "")


def valid(texts_B: Any) -> tf.Tensor:
    """Returns texts with invalid UTF-8 replaced by U+FFFD."""
    return tf.strings.unicode_transcode(texts_B, "UTF-8", "UTF-8", errors="replace", replacement_char=_REPLACEMENT)


def is_blank(texts_B: Any) -> tf.Tensor:
    """Returns whether each text has only white space, (B,) bool."""
    return tf.strings.regex_full_match(texts_B, f"[{WHITE}]*")


def single_spaced(texts_B: Any) -> tf.Tensor:
    """Returns texts as `t2t.text.words.single_spaced` does."""
    return tf.strings.strip(tf.strings.regex_replace(texts_B, SPACES, " "))


def joined(pieces_NP: tf.RaggedTensor, separator: str = "") -> tf.Tensor:
    """Joins the strings of each row, (N,)."""
    rows, count = pieces_NP.value_rowids(), pieces_NP.nrows()
    return tf.strings.unsorted_segment_join(pieces_NP.flat_values, rows, count, separator)


def sentencepiece_tokenizer(model: bytes, out_type: tf.DType) -> tf_text.SentencepieceTokenizer:
    """Returns the operations of a SentencePiece model.

    TensorFlow keeps one model for each operation name, also across the SavedModels that a process loads, so the name is
    that of the content.
    """
    return tf_text.SentencepieceTokenizer(model, out_type=out_type, name=f"model_{hashlib.sha256(model).hexdigest()}")


def table(keys: list[str], values: list, default: Any, dtype: tf.DType) -> tf.lookup.StaticHashTable:
    """Returns a table from strings; keys are unique."""
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values, tf.string, dtype)
    return tf.lookup.StaticHashTable(initializer, default)


_FIRST_BYTE = 2


class GraphByte(GraphVocabulary):
    """id = byte + 2."""

    def __init__(self, encoder: ByteEncoder):
        self._bytes = [bytes([byte]) for byte in range(encoder.vocab_size - _FIRST_BYTE)]

    def encode(self, texts_B):
        """One id a byte."""
        bytes_BP = tf.strings.bytes_split(texts_B)
        numbers_P = tf.reshape(tf.io.decode_raw(bytes_BP.flat_values, tf.uint8), [-1])
        return bytes_BP.with_flat_values(tf.cast(numbers_P, tf.int32) + _FIRST_BYTE)

    def decode(self, ids_NP):
        """Bytes that are not UTF-8 become U+FFFD."""
        return valid(joined(tf.gather(self._bytes, ids_NP - _FIRST_BYTE)))


_NO_WORD = -1


class GraphWords(GraphVocabulary):
    """Words separated by white space.

    An unknown word is an error, as in the decoder, if the list has no entry for unknown words.
    """

    def __init__(self, encoder: TextEncoder):
        self._words = [encoder.piece(token_id) for token_id in range(encoder.vocab_size)]
        if isinstance(encoder, WordListEncoder):
            ids = {word: token_id for token_id, word in enumerate(self._words) if token_id >= len(RESERVED)}
            unknown = next((ids[word] for word in UNKNOWN if word in ids), _NO_WORD)
        else:  # the words follow the reserved ids, which no text contains
            ids = {word: token_id for token_id, word in enumerate(self._words) if token_id > UNK_ID}
            unknown = UNK_ID
        ids = {word: token_id for word, token_id in ids.items() if token_id not in encoder.unspelled}
        self._complete = unknown == _NO_WORD
        self._ids = table(list(ids), list(ids.values()), unknown, tf.int32)

    def encode(self, texts_B):
        """One id a word."""
        spaced_B = tf.strings.strip(tf.strings.regex_replace(texts_B, f"[{WHITE}]+", " "))
        words_BP = tf.strings.split(spaced_B)
        ids_P = self._ids.lookup(words_BP.flat_values)
        if self._complete:
            message = f"a word is not on the list, which has no {UNKNOWN[0]} for unknown words"
            with tf.control_dependencies([tf.debugging.assert_greater(ids_P, _NO_WORD, message)]):
                ids_P = tf.identity(ids_P)
        return words_BP.with_flat_values(ids_P)

    def decode(self, ids_NP):
        """The words, separated by spaces."""
        return joined(tf.gather(self._words, ids_NP), " ")


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


_WORD = characters(str.isalnum)
"""Letters and digits, as in `tokenize`."""
_NO_PIECE = -1
_WORD_END = "_"
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
            raise UserError("subword vocabulary: a piece holds a NUL character, which no text does", "correct the file")
        ids = {piece: token_id for token_id, piece in enumerate(self._pieces) if piece}
        self._ids = table(list(ids), list(ids.values()), _NO_PIECE, tf.int32)
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
            return tf.strings.join([joined(characters_UC.with_flat_values(spelt_C)), _WORD_END])

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
            longest_U = tf.argmax(tf.cast(ids_UL > _NO_PIECE, tf.int32), axis=1)
            ids_U = tf.where(unfinished_U, tf.gather(ids_UL, longest_U, batch_dims=1), _NO_PIECE)
            stuck_U = tf.where(unfinished_U & tf.equal(ids_U, _NO_PIECE), found_UL[:, -1], stuck_U)
            start_U += tf.where(ids_U > _NO_PIECE, tf.gather(self._lengths, tf.maximum(ids_U, 0)), 0)
            return start_U, tf.concat([ids_UP, ids_U[:, None]], axis=1), stuck_U

        _, ids_UP, stuck_U = tf.while_loop(
            lambda start_U, ids_UP, stuck_U: tf.reduce_any(is_unfinished(start_U, stuck_U)),
            step,
            (tf.zeros_like(count_U), tf.zeros([tf.size(spelt_U), 0], tf.int32), tf.zeros_like(spelt_U)),
            shape_invariants=(count_U.shape, tf.TensorShape([None, None]), spelt_U.shape),
        )
        return tf.ragged.boolean_mask(ids_UP, ids_UP > _NO_PIECE), stuck_U

    # === Ids to texts ===

    def decode(self, ids_NP):
        """A space between two tokens that begin with a letter or digit."""
        tokens_NW = tf.strings.split(joined(tf.gather(self._pieces, ids_NP)), _WORD_END)
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
    texts = tf.where(tf.equal(texts, r"\u"), _WORD_END, tf.where(tf.equal(texts, r"\\"), "\\", texts))
    return joined(parts.with_flat_values(texts))


VOCABULARIES: dict[str, type[GraphVocabulary]] = {
    "byte": GraphByte,
    "piece_table": GraphPieceTable,
    "sentencepiece": GraphSentencePiece,
    "subword": GraphSubword,
    "token": GraphWords,
    "word_list": GraphWords,
}
"""By kind of vocabulary, see `t2t.text`."""


def graph_vocabulary(encoder: TextEncoder) -> GraphVocabulary:
    """Returns a text vocabulary as operations; its tables are on the CPU.

    Raises:
        UserError: the kind of vocabulary is not supported in a graph.
    """
    if encoder.kind not in VOCABULARIES:
        raise UserError(
            f"a vocabulary of kind {encoder.kind} has no TensorFlow operations, and a SavedModel reads text",
            "export with --format=ctranslate2 or onnx, or serve the run with t2t-server",
            option="format",
            value="saved_model",
        )
    with tf.device("CPU"):
        return VOCABULARIES[encoder.kind](encoder)
