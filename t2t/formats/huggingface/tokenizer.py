"""Tokenizers of transformers, read and written: Marian's, which is SentencePiece with a separate id table, or T5's."""

import functools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from t2t.errors import UserError, first_few
from t2t.formats.folder import ModelFolder
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS, UNK_ID
from t2t.text.encoder import TextEncoder
from t2t.text.imported import PieceTableEncoder, pieces_of_model
from t2t.text.sentencepiece import ESCAPE, SentencePieceEncoder, escape

SETTINGS, _SPECIAL, _ADDED, _WHOLE = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.json",
)  # fmt: skip
NAMES = f"{SETTINGS}, {_SPECIAL}, {_ADDED} and {_WHOLE}"


class TokenizerFiles:
    """Each file is read once, when it is needed; one that is missing counts as empty."""

    def __init__(self, folder: ModelFolder):
        self._folder = folder

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The content of tokenizer_config.json."""
        return self._read(SETTINGS)

    @functools.cached_property
    def whole(self) -> dict[str, Any]:
        """The content of tokenizer.json."""
        return self._read(_WHOLE)

    def extra_ids(self, default: int) -> int:
        """Returns the number of sentinels; raises UserError if it is no whole number of at least 0."""
        count = self.settings.get("extra_ids")
        if count is not None and (type(count) is not int or count < 0):
            raise UserError(
                f"{self._folder.path / SETTINGS} has extra_ids={count!r}; it must be a whole number of at least 0",
                "get it again",
            )
        return default if count is None else count

    def added_tokens(self) -> list[tuple[Any, Any]]:
        """Returns (token, id) pairs, unchecked."""
        listed: list[tuple[Any, Any]] = []
        if isinstance(decoder := self.settings.get("added_tokens_decoder"), dict):
            listed += [
                (token.get("content"), int(number) if number.isdecimal() else None)
                for number, token in decoder.items()
                if isinstance(token, dict)
            ]
        listed += self._read(_ADDED).items()
        added = self.whole.get("added_tokens")
        tokens = added if isinstance(added, list) else []
        return listed + [(token.get("content"), token.get("id")) for token in tokens if isinstance(token, dict)]

    def special_tokens(self) -> list[list[str]]:
        """Returns the lists of special tokens, which have no ids."""
        lists = []
        for values in (self.settings, self._read(_SPECIAL)):
            for name in ("extra_special_tokens", "additional_special_tokens"):
                given = values.get(name)
                given = given if isinstance(given, list | dict) else ()
                found = [token.get("content") if isinstance(token, dict) else token for token in given]
                lists.append([token for token in found if isinstance(token, str)])
        return lists

    def check_added(self, pieces: Collection[str], described: str, more: Iterable[tuple[Any, Any]] = ()) -> None:
        """Raises UserError if the tokenizer adds tokens to its pieces, which texts here do not have; it names them.

        Args:
            pieces: those that can be imported.
            described: what they are, for the message.
            more: further (token, id) pairs of the tokenizer, unchecked.
        """
        listed = [token for token, _ in (*self.added_tokens(), *more) if isinstance(token, str)]
        listed += [token for tokens in self.special_tokens() for token in tokens]
        known = set(pieces)
        if unknown := [repr(token) for token in dict.fromkeys(listed) if token not in known]:
            raise UserError(
                f"{self._folder.path}: its tokenizer adds tokens that are not {described}: "
                f"{first_few(unknown, ', ')}; texts here have no other tokens",
                f"if no text needs them, import a copy of the folder whose {NAMES} do not list them",
            )

    def _read(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = self._folder.read_json(name) if self._folder.has(name) else {}
        return content


_ANY_LENGTH = 10**9
"""Value that means no length limit."""


def tokenizer_complaints(encoders: Mapping[str, TextEncoder]) -> list[str]:
    """Returns the reasons why no tokenizer of transformers gives the ids of these vocabularies; empty if one does."""
    found = [encoders[INPUTS], encoders[TARGETS]]
    if kinds := {one.kind for one in found if not isinstance(one, SentencePieceEncoder | PieceTableEncoder)}:
        listed = ", ".join(sorted(kinds))
        return [f"it has no tokenizer for a vocabulary of kind {listed}, only for those of kind sentencepiece"]
    if len({one.ids_fingerprint for one in found}) > 1:
        return ["inputs and targets have ids of their own"]
    if _is_t5(encoders) and _t5_pieces(found[0]) is None:
        return ["its vocabulary has sentinels and is not T5's"]
    return []


def write_tokenizer(folder: Path, encoders: Mapping[str, TextEncoder], longest: int | None, start: int) -> None:
    """Writes the files of a tokenizer; for `longest` and `start` see `Network`."""
    source, target = encoders[INPUTS], encoders[TARGETS]
    pieces = [source.piece(number) for number in range(source.vocab_size)]
    special = {"pad_token": pieces[PAD_ID], "eos_token": pieces[EOS_ID], "unk_token": pieces[UNK_ID]}
    config: dict[str, Any] = {"model_max_length": longest or _ANY_LENGTH, "clean_up_tokenization_spaces": False}
    if _is_t5(encoders):
        config |= {"tokenizer_class": "T5Tokenizer", "extra_ids": _t5_pieces(source)}
        (folder / "spiece.model").write_bytes(_model(source))
    else:
        config |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False}
        config["split_special_tokens"] = True  # texts spell no special pieces, such as </s>
        config |= {f"{side}_lang": None for side in ("source", "target")}
        (folder / "source.spm").write_bytes(_model(source))
        (folder / "target.spm").write_bytes(_model(target))
        if start == len(pieces):
            start_piece = "<s>"
            while start_piece in pieces:
                start_piece = f"<{start_piece}>"
            special["bos_token"] = start_piece  # outputs begin with it, and only special pieces are skipped
            pieces.append(start_piece)
        write_json(folder / "vocab.json", {piece: number for number, piece in enumerate(pieces)})
    write_json(folder / "tokenizer_config.json", special | config)
    write_json(folder / "special_tokens_map.json", special)


def shows_alike(encoders: Mapping[str, TextEncoder], ids: Sequence[int]) -> bool:
    """Returns whether transformers decodes ids to the same text; it omits unknown ids, sentinels, and no escapes."""
    first = len(pieces_of_model(_model(encoders[TARGETS]))[0]) if _is_t5(encoders) else encoders[TARGETS].vocab_size
    is_known = all(token_id != UNK_ID and token_id < first for token_id in ids)
    return is_known and ESCAPE not in escape(encoders[TARGETS].decode(ids))


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Writes a file of JSON."""
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _is_t5(encoders: Mapping[str, TextEncoder]) -> bool:
    source = encoders[INPUTS]
    return isinstance(source, PieceTableEncoder) and source.has_sentinels


def _t5_pieces(encoder: TextEncoder) -> int | None:
    """Returns the number of sentinels that a vocabulary adds to its model's pieces; None if they are not T5's."""
    pieces = [encoder.piece(number) for number in range(encoder.vocab_size)]
    of_model, _ = pieces_of_model(_model(encoder))
    added = [piece for piece in pieces[len(of_model) :] if piece.startswith("<extra_id_")]
    expected = [f"<extra_id_{number}>" for number in reversed(range(len(added)))]
    is_same = pieces[: len(of_model)] == of_model and pieces[len(of_model) :][: len(added)] == expected
    return len(added) if is_same else None


def _model(encoder: TextEncoder) -> bytes:
    """Returns the SentencePiece model's file."""
    return encoder.model if isinstance(encoder, PieceTableEncoder) else encoder.to_bytes()
