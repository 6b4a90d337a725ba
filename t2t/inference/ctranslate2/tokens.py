"""What ids are called in CTranslate2, which reads and writes text."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Self

from t2t.inference.rows import Row
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS
from t2t.text.encoder import TextEncoder


@dataclasses.dataclass(frozen=True)
class TokenLists:
    """A unique string for each id."""

    source: list[str]
    target: list[str]
    input_end: bool = True
    """Whether the model looks at the end of sequence of an input."""

    @classmethod
    def of_encoders(cls, encoders: Mapping[str, TextEncoder], input_end: bool = True) -> Self:
        """Returns those of the vocabularies of inputs and targets."""
        return cls(tokens_of(encoders[INPUTS]), tokens_of(encoders[TARGETS]), input_end)

    def source_of(self, row: Row) -> list[str]:
        """Returns the tokens of an input without its end of sequence, which CTranslate2 adds where it is read."""
        return [self.source[token_id] for token_id in row[:-1]]

    def target_of(self, row: Row) -> list[str]:
        """Returns the tokens of an output without its end of sequence."""
        return [self.target[token_id] for token_id in (row[:-1] if row[-1] == EOS_ID else row)]

    def ids_of(self, tokens: Iterable[str]) -> list[int]:
        """Returns the ids of an output."""
        return [self._target_ids[token] for token in tokens]

    @functools.cached_property
    def _target_ids(self) -> dict[str, int]:
        return {token: token_id for token_id, token in enumerate(self.target)}


def tokens_of(encoder: TextEncoder) -> list[str]:
    """Returns a unique string for each id of a vocabulary: its piece, if no other id has it."""
    tokens: dict[str, None] = {}
    for token_id in range(encoder.vocab_size):
        piece = encoder.piece(token_id)
        tokens[f"<id {token_id}>" if not piece or piece in tokens else piece] = None
    return list(tokens)
