"""The ids, pieces and tables of another toolkit in our order: padding, end of sequence and unknown first.

Legend: V our ids, U foreign ids, D width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, first_few
from t2t.specs import INPUTS, PAD_ID, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.imported import PieceTableEncoder
from t2t.text.words import TokenEncoder


def our_order(size: int, pad: int, eos: int, unknown: int) -> np.ndarray:
    """Returns the foreign id of each of our ids, (size,): pad, eos and unknown, then the others in their order."""
    first = [pad, eos, unknown]
    return np.array(first + [number for number in range(size) if number not in first])


def pieces_by_id(table: Mapping[str, int], where: str) -> list[str]:
    """Returns the pieces of a piece -> id table, sorted by id.

    Raises:
        UserError: the ids are not 0 to n - 1, each once; the message names the table with `where`.
    """
    pieces = sorted(table, key=table.__getitem__) if all(type(n) is int for n in table.values()) else []
    if not pieces or [table[piece] for piece in pieces] != list(range(len(pieces))):
        raise UserError(f"{where}: its {len(table)} ids are not 0 to {len(table) - 1}, one a piece", "get it again")
    return pieces


def in_our_order(pieces: Sequence[str], order: np.ndarray) -> list[str]:
    """Returns the pieces by our ids; `order` is from `our_order`."""
    return [pieces[number] for number in order]


PADDING, END, UNKNOWN = "<pad>", "</s>", "<unk>"
"""Names of the first three ids of a `token` vocabulary."""
_MISSING = -1
_NEVER = 100.0
"""Logit biases of ids that the foreign model lacks are this many nats below all others."""


@dataclass(frozen=True)
class ForeignVocabulary:
    """The tokens of one side of a foreign model by our ids: padding, end of sequence and unknown, then the others.

    Attributes:
        tokens: tokens by our ids.
        order: (V,) int64, the foreign id of each of ours; -1 without one, which may be padding or end of sequence.
        size: U, the number of foreign ids.
    """

    tokens: tuple[str, ...]
    order: np.ndarray
    size: int

    @classmethod
    def of(cls, tokens: Sequence[str], pad: str | None, eos: str, unknown: str, where: str) -> Self:
        """Returns the vocabulary for the tokens of a file.

        Args:
            tokens: tokens by foreign id.
            pad: token that becomes padding; None for none.
            eos: end of sequence token; if it is missing from `tokens`, it has no row in the tables.
            unknown: token for unknown words.
            where: the file, for messages.

        Raises:
            UserError: the unknown token is missing.
        """
        ids = {token: number for number, token in reversed(list(enumerate(tokens)))}  # of equal ones the first
        if unknown not in ids:
            raise UserError(
                f"{where}: {unknown!r}, for unknown words, is not one of its {len(tokens)} tokens", "get it again"
            )
        found = [ids.get(pad, _MISSING) if pad is not None else _MISSING, ids.get(eos, _MISSING), ids[unknown]]
        order = our_order(len(tokens), *found)
        names = [PADDING if pad is None else pad, eos, unknown]
        return cls((*names, *(tokens[number] for number in order[3:])), order, len(tokens))

    @classmethod
    def pair(
        cls, tokens: Sequence[Sequence[str]], pads: Sequence[str | None], eos: str, unknown: str, where: str
    ) -> tuple[Self, Self]:
        """Returns the vocabularies of inputs and targets, see `of`; the same object if their tokens are the same."""
        source, target = (cls.of(one, pad, eos, unknown, where) for one, pad in zip(tokens, pads, strict=True))
        return target if tokens[0] == tokens[1] else source, target

    @property
    def has_padding(self) -> bool:
        """Whether the foreign model has an id for our padding."""
        return bool(self.order[PAD_ID] != _MISSING)

    def rows(self, table_UD: np.ndarray, what: str) -> np.ndarray:
        """Returns the rows of a table by our ids, (V, D), with zeros for ids that the foreign model lacks.

        Raises:
            UserError: the number of rows differs from the number of tokens.
        """
        if len(table_UD) != self.size:
            raise UserError(
                f"{what} has {len(table_UD)} rows, its vocabulary {self.size} tokens", "get all files again"
            )
        return np.where(self.order[:, None] == _MISSING, np.float32(0), table_UD[self.order])

    def biases(self, bias_U: np.ndarray | None) -> np.ndarray:
        """Returns the biases of logits by our ids, (V,); ids that the foreign model lacks get almost no probability."""
        known_U = np.zeros(self.size, np.float32) if bias_U is None else bias_U
        return np.where(self.order == _MISSING, known_U.min() - np.float32(_NEVER), known_U[self.order])

    def encoder(self, model: bytes | None) -> TextEncoder:
        """Returns the encoder, which splits texts with a SentencePiece model if given, else at white space."""
        if model is None:
            return TokenEncoder(_spelt(self.tokens, self.order)[3:])
        return PieceTableEncoder(model, _spelt(self.tokens, self.order, with_white_space=True))

    def unspelt(self) -> list[str]:
        """Returns the words that cannot occur in texts split at white space: those with white space, and duplicates."""
        pairs = zip(self.tokens[3:], _spelt(self.tokens, self.order)[3:], strict=True)
        return [token for token, name in pairs if token != name and token not in (PADDING, END, UNKNOWN)]

    def note(self, side: str) -> str:
        """Returns a line about the special ids for the report."""
        was = [str(number) if number != _MISSING else "none" for number in self.order[:3]]
        return f"ids of {side}: padding {was[0]}, end of sequence {was[1]} and unknown {was[2]} became 0, 1 and 2"


def _spelt(tokens: Sequence[str], order: np.ndarray, with_white_space: bool = False) -> list[str]:
    """Returns the tokens, with names `<row_n>` instead of those that cannot be words of our vocabularies."""
    taken = {PADDING, END, UNKNOWN, *tokens[:3]}
    found = list(tokens[:3])
    for token, number in zip(tokens[3:], order[3:], strict=True):
        is_word = token not in taken and (with_white_space or token.split() == [token])
        found.append(token if is_word else f"<row_{number}>")
        taken.add(found[-1])
    return found


def encoders_of(
    source: ForeignVocabulary, target: ForeignVocabulary, models: Sequence[Path]
) -> tuple[dict[str, TextEncoder], tuple[str, ...], tuple[str, ...]]:
    """Returns the encoder of each side, and notes and warnings for the report.

    `models` are SentencePiece models: none, one for both sides, or one each.
    """
    encoders, notes, warnings = {}, [], []
    for number, (feature, vocabulary) in enumerate(((INPUTS, source), (TARGETS, target))):
        model = models[min(number, len(models) - 1)].read_bytes() if models else None
        encoders[feature] = vocabulary.encoder(model)
        notes.append(vocabulary.note(feature))
        if not models and (lost := vocabulary.unspelt()):
            named = first_few([repr(token) for token in lost], ", ")
            warnings.append(f"{len(lost)} tokens of {feature} are spelt by no text split at white space: {named}")
    return encoders, tuple(notes), tuple(warnings)


def token_weights(
    source: ForeignVocabulary,
    target: ForeignVocabulary,
    tables: tuple[np.ndarray, np.ndarray, np.ndarray],
    bias_U: np.ndarray | None,
) -> tuple[Arrays, dict[str, Any]]:
    """Returns the weights of embeddings and output layer, and the hparams for the tables that they share.

    Args:
        source: vocabulary of the inputs.
        target: vocabulary of the targets; the same object if it is shared.
        tables: tables of inputs, targets and the output layer, (U, D) each, by foreign ids.
        bias_U: bias of the logits, if any.

    Raises:
        UserError: the number of rows of a table differs from the size of its vocabulary.
    """
    inputs = source.rows(tables[0], "its table of inputs")
    targets = target.rows(tables[1], "its table of targets")
    outputs = target.rows(tables[2], "its output layer")
    weights = {"target_embedding/table": targets}
    is_shared = source is target and np.array_equal(inputs, targets)
    is_tied = np.array_equal(outputs, targets)
    has_bias = not target.has_padding or (bias_U is not None and bool(np.any(bias_U)))
    weights |= {} if is_shared else {"source_embedding/table": inputs}
    weights |= {} if is_tied else {"output_embedding/table": outputs}
    weights |= {"output_embedding/bias": target.biases(bias_U)} if has_bias else {}
    return weights, {
        "shared_embedding": is_shared,
        "shared_embedding_and_softmax_weights": is_tied,
        "output_bias": has_bias,
    }
