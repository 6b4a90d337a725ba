"""The base class of vocabularies, which convert strings to ids and back, and the language codes that one may have.

Ids 0 and 1 are padding and end of sequence in every kind but labels. `encode` adds neither; `decode` stops at the end
of sequence and skips padding, so that it takes the output of a model unchanged.

Language codes are tokens around a text that name its language, as imported translators expect them. Liu et al. 2020
(arXiv:2001.08210), section 2.2, put the code of a text at its end; Fan et al. 2021 (arXiv:2010.11125), section 2.2, and
NLLB at its beginning. A decoder begins with the code of the language that it writes.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np

from t2t.errors import UnknownNameError, UserError, did_you_mean, first_few
from t2t.registry import VOCABULARIES
from t2t.registry.overrides import PluginError, check_overrides, described, is_of_plugin
from t2t.specs import EOS_ID, PAD_ID

BEGIN, END, NONE = "begin", "end", "none"
_POSITIONS = {"source": (BEGIN, END), "target": (BEGIN, NONE)}


class LanguageMarks(NamedTuple):
    """Ids that stand around the ids of a text."""

    input_start: tuple[int, ...] = ()
    """In front of an input."""
    input_end: tuple[int, ...] = ()
    """Behind the end of sequence of an input."""
    output_start: tuple[int, ...] = ()
    """At the beginning of each output, in training too; a search gets it as a prefix."""


@dataclass(frozen=True)
class LanguageCodes:
    """The codes of a vocabulary, and where they stand.

    Raises:
        UserError: a position is not possible.
    """

    ids: Mapping[str, int]
    """Language, as a user names it -> id of its code."""
    source: str = BEGIN
    """Where the code of an input's language stands: `begin`, or `end`, behind end of sequence."""
    target: str = BEGIN
    """Where the code of an output's language stands: `begin`, or `none` if the model itself begins with a language."""

    def __post_init__(self) -> None:
        for side, positions in _POSITIONS.items():
            if getattr(self, side) not in positions:
                raise UserError(
                    f"language codes: those of the {side} stand at {getattr(self, side)!r}",
                    f"they may stand at {' or '.join(positions)}",
                )

    def find(self, language: str, asked: str) -> int:
        """Returns the id of the code of a language.

        Raises:
            UserError: there is none; `asked` begins the message and says what the code is for.
        """
        if language not in self.ids:
            raise UserError(
                f"{asked}: the vocabulary has no code of that language",
                f"{did_you_mean(language, self.ids)}it has {first_few(sorted(self.ids), ', ')}",
            )
        return self.ids[language]


class TextEncoder(ABC):
    """A vocabulary: converts strings to lists of ids and back."""

    kind: ClassVar[str]
    """Name of this kind of vocabulary, under which it is registered and which `--vocab_kind` has."""
    file_suffix: ClassVar[str]
    """Ending of the file that holds one, with its dot."""
    is_learned: ClassVar[bool] = True
    """Whether such a vocabulary can be learned from text, or needs none; False if it comes with data or a model."""
    lossless: bool = True
    """Whether `decode(encode(text)) == text` for every valid Unicode text."""
    normalizes: bool = False
    """Whether encoding replaces characters of texts, such as capitals by small letters."""
    unknown_id: int | None = None
    """Id of words that the vocabulary lacks; None if it has no such id."""
    languages: LanguageCodes | None = None
    """Language codes, if the vocabulary has some: no text is encoded to them, and they decode to no text."""
    _ids: dict[str, int]
    """By piece; only in kinds that look pieces up."""
    unspelled: frozenset[int] = frozenset()
    """Ids that no text is encoded to, although it spells their pieces, see `reserving`."""

    def __init_subclass__(cls) -> None:
        check_overrides(cls)

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Number of ids, the reserved ones included."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of `text`, without end of sequence."""

    @abstractmethod
    def decode_ids(self, ids: list[int]) -> str:
        """Returns the text of ids that hold neither padding nor end of sequence."""

    @abstractmethod
    def piece(self, token_id: int) -> str:
        """Returns a readable form of one id."""

    def word_starts(self) -> str:
        """Returns one character per id: `1` if it begins a word, else `0`; "" if the vocabulary does not know."""
        return ""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Returns the content of the file that holds this vocabulary."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote.

        Raises:
            UserError: the content is damaged or of another kind.
        """

    @classmethod
    @abstractmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Learns a vocabulary of about `size` ids, the reserved ones included, from text.

        Raises:
            UserError: the text is empty, or `size` leaves no room for a word.
        """

    def reserving(self, ids: Iterable[int]) -> Self:
        """Returns a vocabulary of the same ids that encodes no text to these: it takes their pieces for other text."""
        reserved = frozenset(ids)
        if reserved == self.unspelled:
            return self
        other = type(self).from_bytes(self.to_bytes())
        other._reserve(reserved)
        other.unspelled = reserved
        return other

    def _reserve(self, ids: frozenset[int]) -> None:
        """Keeps texts from being encoded to some ids; for kinds that look pieces up."""
        self._ids = {piece: token_id for piece, token_id in self._ids.items() if token_id not in ids}

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes many strings; kinds that can do so faster than one by one override it."""
        return [self.encode(text) for text in texts]

    def encode_ended(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encodes many strings for training: (length,) int32 each, end of sequence included."""
        rows = [[*ids, EOS_ID] for ids in self.encode_batch(texts)]
        return cut(np.fromiter(chain.from_iterable(rows), np.int32), map(len, rows))

    def count_changed(self, texts: Sequence[str]) -> int:
        """Returns how many texts are other ones after encoding and decoding."""
        return sum(self.decode(ids) != text for ids, text in zip(self.encode_batch(texts), texts, strict=True))

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of a model's output ids: up to end of sequence, without padding."""
        return self.decode_ids(cut_at_eos(ids))

    def certain_text(self, ids: Iterable[int]) -> str:
        """Returns the text of ids as far as no further ids can change it.

        An end that further ids could change, such as part of a character, is left out.
        """
        return self.decode(ids) if EOS_ID in (ids := list(ids)) else self._certain_text(cut_at_eos(ids))

    def _certain_text(self, ids: list[int]) -> str:
        """As `certain_text`, for ids without padding and end of sequence."""
        return self.decode_ids(ids).rstrip("\ufffd")

    @property
    def fingerprint(self) -> str:
        """sha256 of the vocabulary's content: two vocabularies with one fingerprint give the same ids."""
        return fingerprint_of(self.kind, self.to_bytes())

    @property
    def ids_fingerprint(self) -> str:
        """Equal for vocabularies whose ids mean the same, so that they may share weights; usually `fingerprint`."""
        return self.fingerprint

    def save(self, path: Path) -> None:
        """Writes the vocabulary to a file."""
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a vocabulary from a file."""
        return cls.from_bytes(Path(path).read_bytes())


def encoder_class(kind: str) -> type[TextEncoder]:
    """Returns the class of a kind of vocabulary that can be learned.

    Raises:
        UnknownNameError: no such kind.
    """
    if kind not in (known := learned_classes()):
        raise UnknownNameError(
            f"vocabulary kind {kind!r} does not exist", f"{did_you_mean(kind, known)}use one of {', '.join(known)}"
        )
    return known[kind]


def learn(kind: str, lines: Iterable[str], size: int) -> TextEncoder:
    """Returns a vocabulary of about `size` ids of a kind, learned from text.

    Raises:
        UserError: no such kind, no text, or too small a size.
        PluginError: a vocabulary of a plug-in is another one once it has been written and read.
    """
    owner = encoder_class(kind)
    learned = owner.build(lines, size)
    if not is_of_plugin(owner):
        return learned
    if not isinstance(learned, TextEncoder):
        raise PluginError(
            f"{described(owner)}: its build returned {type(learned).__name__}", f"return an object of {owner.__name__}"
        )
    read, text = owner.from_bytes(learned.to_bytes()), learned.decode_ids(list(range(EOS_ID + 1, learned.vocab_size)))
    sizes = learned.vocab_size, read.vocab_size
    if sizes[0] != sizes[1] or read.to_bytes() != learned.to_bytes() or read.encode(text) != learned.encode(text):
        raise PluginError(
            f"{described(owner)}: from_bytes reads from to_bytes {sizes[1]:,} ids instead of {sizes[0]:,}, or others",
            "have from_bytes return the same one",
        )
    return learned


def learned_classes() -> dict[str, type[TextEncoder]]:
    """Returns the kinds of vocabularies that can be learned from text, those of plug-ins included, by name."""
    return {entry.name: entry.value for entry in VOCABULARIES.entries() if entry.value and entry.value.is_learned}


def cut(values: np.ndarray, lengths: Iterable[int]) -> list[np.ndarray]:
    """Splits values, (sum of lengths,), into consecutive parts of these lengths."""
    return [values[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]


def lines_of_file(content: bytes, what: str, cure: str = "", is_ours: bool = False) -> list[str]:
    """Returns the lines of a vocabulary's file; `is_ours`: each must have its end, and the file can be made again.

    Raises:
        UserError: it is not UTF-8, or is ours and ends within a line.
    """
    cure = "generate the data again" if is_ours else cure
    try:
        *lines, last = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{what}: the file is not UTF-8 ({error.reason})", cure) from None
    if last and is_ours:
        raise UserError(f"{what}: the file ends within {last!r}", cure)
    return [*lines, last] if last else lines


def fingerprint_of(kind: str, content: bytes) -> str:
    """Returns the fingerprint of a vocabulary from the content of its file, without parsing it."""
    return hashlib.sha256(kind.encode() + b"\0" + content).hexdigest()


def cut_at_eos(ids: Iterable[int]) -> list[int]:
    """Returns ids up to the first end of sequence, padding removed."""
    kept = []
    for token_id in ids.tolist() if isinstance(ids, np.ndarray) else ids:
        if token_id == EOS_ID:
            break
        if token_id != PAD_ID:
            kept.append(int(token_id))
    return kept


def shared_ids(theirs: TextEncoder, ours: TextEncoder) -> np.ndarray:
    """Returns (N, 2) int64: the ids, there and here, of the pieces that both vocabularies have.

    Pieces are the same if their texts are, in vocabularies of one kind. Texts that a vocabulary has twice are left out.
    """
    if theirs.kind != ours.kind:
        return np.zeros((0, 2), np.int64)
    there, here = _id_by_piece(theirs), _id_by_piece(ours)
    pairs = [(there[piece], token) for piece, token in here.items() if piece in there]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _id_by_piece(encoder: TextEncoder) -> dict[str, int]:
    pieces = [encoder.piece(token) for token in range(encoder.vocab_size)]
    times = Counter(pieces)
    return {piece: token for token, piece in enumerate(pieces) if times[piece] == 1}
