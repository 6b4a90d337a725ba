"""Pieces of words by byte-pair encoding, with a fallback to bytes for text that the pieces do not cover.

Byte-pair encoding of words: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"; the
trainer and the segmenter are SentencePiece's (Kudo and Richardson 2018). What is built here normalises nothing and
loses no white space: `decode(encode(text)) == text` for every valid Unicode text.
"""

import functools
import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Self

import numpy as np
import sentencepiece

from t2t.errors import UserError, one_line
from t2t.registry import register_vocabulary
from t2t.specs import EOS_ID, PAD_ID, UNK_ID
from t2t.text.encoder import TextEncoder, cut
from t2t.text.words import WordIds

logger = logging.getLogger("t2t")

PIECE_MARKER = "\u2581"
"""What SentencePiece writes for a space."""
ESCAPE = "\u241b"
"""Starts an escaped character."""

_RESERVED_AND_BYTES = 3 + 256
_TRAINER_RESERVED = ("\0", "\u2585")
"""The trainer skips lines with its own mark for unknown text, U+2585, or with NUL."""
_SENTENCE_CHARACTERS = 16_384
"""Longer lines are divided at this length: the trainer skips longer ones and stores positions in a word in 16 bits."""
_JOINED_CHARACTERS = 4096
_TRAINER_THREADS = 2
"""Fixed, since it is written into the model: one corpus gives one file on every machine."""
_IDENTITY = b"\x1a\x0e\n\x08identity\x12\x00 \x00"
"""Last bytes of a model file without normalisation: its field 3, which changes no character and drops no space."""
_NORMALIZER, _DENORMALIZER, _RULES = 3, 5, 2
"""Numbers of the fields of a model with a normalizer, and of the field with the compiled rules of one."""
_PROBE = f" a  {PIECE_MARKER}{ESCAPE}\t\u00e9\u4e2d "


def escape(text: str) -> str:
    """Escapes the piece marker so that it cannot be taken for a space; injective.

    It is equivalent to two regex replacements, in this order: U+241B by U+241B `0`, U+2581 by U+241B `1`.
    """
    return text.replace(ESCAPE, ESCAPE + "0").replace(PIECE_MARKER, ESCAPE + "1")


def unescape(text: str) -> str:
    """Undoes `escape`; other text is unchanged.

    It is equivalent to two regex replacements, in this order: U+241B `1` by U+2581, U+241B `0` by U+241B.
    """
    return text.replace(ESCAPE + "1", PIECE_MARKER).replace(ESCAPE + "0", ESCAPE)


@register_vocabulary
class SentencePieceEncoder(TextEncoder):
    """A SentencePiece model: ids 0 padding, 1 end of sequence, 2 unknown, reserved texts, bytes, pieces.

    A model of another trainer may normalize characters (nfkc, nfkc_cf, rules of its own); then it is not lossless.

    Args:
        model: a SentencePiece model file's content.

    Raises:
        UserError: the model is damaged, numbers its reserved pieces in another way, or loses text.
    """

    kind = "sentencepiece"
    file_suffix = ".spm"

    def __init__(self, model: bytes):
        self._model = bytes(model)
        self._processor = _load(self._model)
        self.normalizes = _normalizes(self._model)
        self.lossless = not self.normalizes
        self.spelled: dict[int, list[int]] = {}
        """Of the user-defined pieces that are `unspelled`: the ids of their characters, which texts have instead."""

    @property
    def vocab_size(self) -> int:
        """Number of pieces, bytes and reserved ids included."""
        return self._processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of a valid Unicode text."""
        return self._spelled_out(self._processor.encode(escape(text)))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes many strings at once, on all cores."""
        return list(map(self._spelled_out, self._processor.encode([escape(text) for text in texts])))

    def _reserve(self, ids: frozenset[int]) -> None:
        self.spelled = {token_id: [*chain.from_iterable(map(self._spell, self.piece(token_id)))] for token_id in ids}

    def _spell(self, character: str) -> list[int]:
        token_id = self._processor.piece_to_id(character)
        if token_id != UNK_ID:
            return [token_id]
        return [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in character.encode()]

    def _spelled_out(self, ids: list[int]) -> list[int]:
        if self.spelled.keys().isdisjoint(ids):
            return ids
        return [one for token_id in ids for one in self.spelled.get(token_id, (token_id,))]

    def encode_ended(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes many strings, see `TextEncoder`; word by word where that gives the same ids."""
        if not self.keeps_to_words:
            return super().encode_ended(texts)
        ids_of, end = self._word_ids.__getitem__, np.int32(EOS_ID).tobytes()
        rows = [b"".join(map(ids_of, text.split(" "))) + end if text else end for text in texts]
        values = np.frombuffer(bytearray().join(rows), np.int32)
        return cut(values, [len(row) // values.itemsize for row in rows])

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the text; bytes that are not UTF-8 become U+FFFD, since a model may write anything."""
        return unescape(self._processor.decode(ids))

    def _certain_text(self, ids: list[int]) -> str:
        return self.decode_ids(ids).rstrip("\ufffd" + ESCAPE)

    def piece(self, token_id: int) -> str:
        """Returns the piece, with U+2581 for a space; `<0x0A>` for a byte."""
        return self._processor.id_to_piece(token_id)

    def word_starts(self) -> str:
        """Returns 1 for each piece with a space in front; "" if words may begin otherwise, e.g. within a piece."""
        pieces = [self.piece(number) for number in range(self.vocab_size)]
        marks_first = self.piece(self.encode("a")[0]).startswith(PIECE_MARKER)
        if not marks_first or PIECE_MARKER not in pieces or any(piece.rfind(PIECE_MARKER) > 0 for piece in pieces):
            return ""
        return "".join(str(int(piece.startswith(PIECE_MARKER))) for piece in pieces)

    def to_bytes(self) -> bytes:
        """Returns a SentencePiece model file; its text must pass through `escape` first."""
        return self._model

    @functools.cached_property
    def keeps_to_words(self) -> bool:
        """Whether the ids of every text are the concatenated ids of its words.

        That holds if no piece crosses a space and scores are whole numbers, as the ranks of byte-pair encoding are: the
        merges within a word then depend on that word alone. Scores of a unigram model are logarithms, and the rounding
        of their sums depends on the words before.
        """
        numbers = list(range(self.vocab_size))
        return (
            self._model.endswith(_IDENTITY)
            and self._processor.piece_to_id(PIECE_MARKER) != UNK_ID
            and all(piece.rfind(PIECE_MARKER) <= 0 for piece in self._processor.id_to_piece(numbers))
            and all(score.is_integer() for score in self._processor.get_score(numbers))
        )

    @functools.cached_property
    def _word_ids(self) -> WordIds:
        return WordIds(self._encode_word)

    def _encode_word(self, word: str) -> list[int]:
        """Returns the ids of a space and of the word after it, which is empty between two spaces."""
        return self.encode(word) if word else [self._processor.piece_to_id(PIECE_MARKER)]

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote."""
        return cls(content)

    @classmethod
    def build(
        cls, lines: Iterable[str], size: int, reserved: Sequence[str] = (), joined_characters: int = _JOINED_CHARACTERS
    ) -> Self:
        """Learns `size` pieces, or as near to it as the text allows, which is then logged.

        Args:
            lines: of text.
            size: number of ids.
            reserved: texts that are always one piece, such as language tags.
            joined_characters: length up to which short lines are joined, with which the trainer is faster.
        """
        sentences = list(_sentences(lines, joined_characters))
        if not sentences:
            raise UserError("sentencepiece vocabulary: the training text is empty", "check the corpus")
        smallest = _RESERVED_AND_BYTES + len(reserved)
        try:
            encoder = cls(_train(sentences, max(size, smallest), "bpe", reserved))
        except RuntimeError:
            # Too small for the alphabet, or another error of the trainer, which the second attempt raises again.
            smallest = _smallest_size(sentences) + len(reserved)
            encoder = cls(_train(sentences, max(size, smallest), "bpe", reserved))
        if encoder.vocab_size != size:
            logger.warning(
                "vocabulary of %d pieces requested; the text allows %s %d, which is used",
                size, "no less than" if size < encoder.vocab_size else "no more than", encoder.vocab_size,
            )  # fmt: skip
        return encoder


def _normalizes(model: bytes) -> bool:
    """Returns whether a model has rules that replace characters before a text is split, or after pieces are joined."""
    if model.endswith(_IDENTITY):  # those that are built here, without parsing all of their pieces
        return False
    specs = [content for number, content in _fields(model) if number in (_NORMALIZER, _DENORMALIZER)]
    return any(number == _RULES and rules for spec in specs for number, rules in _fields(spec))


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields number and content of the fields of a protocol buffer that are texts, bytes or messages.

    The classes that SentencePiece ships for it need a newer protobuf than TensorFlow allows.
    """
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte, position = message[position], position + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 2:
            size = varint()
            yield number, message[position : position + size]
            position += size
        elif kind == 0:
            varint()
        else:
            position += 8 if kind == 1 else 4


def load_processor(model: bytes, what: str, cure: str) -> sentencepiece.SentencePieceProcessor:
    """Returns the library's object for the content of a model file; raises UserError if it is damaged."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model or b"empty")
    except RuntimeError as error:
        raise UserError(
            f"{what} of {len(model):,} bytes is damaged or no SentencePiece model ({one_line(error)})", cure
        ) from None
    return processor


def _load(model: bytes) -> sentencepiece.SentencePieceProcessor:
    processor = load_processor(model, "sentencepiece vocabulary: the file", "generate the data again")
    reserved = (processor.pad_id(), processor.eos_id(), processor.unk_id())
    if reserved != (PAD_ID, EOS_ID, UNK_ID):
        raise UserError(
            f"sentencepiece vocabulary: padding, end of sequence and unknown have ids {reserved}; they must have "
            f"{(PAD_ID, EOS_ID, UNK_ID)}",
            "train the model with these ids, or let the data generator make one",
        )
    if unescape(processor.decode(processor.encode(escape(_PROBE)))) != _PROBE:
        raise UserError(
            "sentencepiece vocabulary: the model changes text or cannot write all of it; it must have identity "
            "normalisation, keep white space and fall back to bytes",
            "let the data generator make one",
        )
    return processor


def _sentences(lines: Iterable[str], joined_characters: int) -> Iterator[str]:
    """Yields the trainer's input: escaped text of bounded length, without the characters that it reserves."""
    for text in map(escape, _joined(lines, joined_characters)):
        for reserved in _TRAINER_RESERVED:
            text = text.replace(reserved, " ")
        for start in range(0, len(text), _SENTENCE_CHARACTERS):
            yield text[start : start + _SENTENCE_CHARACTERS]


def _joined(lines: Iterable[str], characters: int) -> Iterator[str]:
    """Yields the lines that are not empty, short ones joined by spaces: learning depends on the words alone.

    Line ends are removed, as the trainer does.
    """
    held: list[str] = []
    size = 0
    for line in filter(None, (line.rstrip("\r\n") for line in lines)):
        if held and size + len(line) >= characters:
            yield " ".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line) + 1
    if held:
        yield " ".join(held)


def _train(sentences: list[str], size: int, model_type: str, reserved: Sequence[str] = ()) -> bytes:
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=content,
        model_type=model_type,
        vocab_size=size,
        hard_vocab_limit=False,
        byte_fallback=True,
        pad_id=PAD_ID,
        eos_id=EOS_ID,
        unk_id=UNK_ID,
        bos_id=-1,
        user_defined_symbols=list(reserved),
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        # Where spaces are rare (long lines of Chinese), the space would be left to the bytes and come back as U+2581.
        required_chars=PIECE_MARKER,
        max_sentence_length=4 * _SENTENCE_CHARACTERS + 1,
        num_threads=_TRAINER_THREADS,
        minloglevel=2,
    )
    return content.getvalue()


def _smallest_size(sentences: list[str]) -> int:
    """Returns the number of ids that the alphabet of a text takes: the size of its vocabulary of characters."""
    every_character = _RESERVED_AND_BYTES + 0x110000
    return SentencePieceEncoder(_train(sentences, every_character, "char")).vocab_size
