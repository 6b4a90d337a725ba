"""Vocabularies: strings to ids and back; one file for each kind."""

from t2t.errors import UnknownNameError, did_you_mean
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.imported import BpeEncoder, PieceTableEncoder
from t2t.text.label import LabelEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.words import TokenEncoder, WordListEncoder

ENCODER_CLASSES: dict[str, type[TextEncoder]] = {
    encoder.kind: encoder
    for encoder in (SentencePieceEncoder, ByteEncoder, TokenEncoder, SubwordEncoder, WordListEncoder)
}
"""Kinds of vocabularies that can be learnt from text, by name."""
_STORED_CLASSES: dict[str, type[TextEncoder]] = {
    **ENCODER_CLASSES, **{encoder.kind: encoder for encoder in (LabelEncoder, PieceTableEncoder, BpeEncoder)}
}  # fmt: skip


def encoder_class(kind: str) -> type[TextEncoder]:
    """Returns the class of a kind of vocabulary.

    Raises:
        UnknownNameError: no such kind.
    """
    if kind not in ENCODER_CLASSES:
        raise UnknownNameError(
            f"vocabulary kind {kind!r} does not exist; {did_you_mean(kind, ENCODER_CLASSES)}"
            f"use one of {', '.join(ENCODER_CLASSES)}"
        )
    return ENCODER_CLASSES[kind]


def stored_class(kind: str) -> type[TextEncoder]:
    """Returns the class of a kind of vocabulary in a file, which may also be one that comes with data or a model.

    Raises:
        UnknownNameError: no such kind.
    """
    return _STORED_CLASSES.get(kind) or encoder_class(kind)
