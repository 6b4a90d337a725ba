"""Names of ids in CTranslate2, which reads and writes strings."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Self

from t2t.inference.rows import Row
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS
from t2t.text.encoder import END, TextEncoder


@dataclasses.dataclass(frozen=True)
class TokenLists:
    """A unique string for each id."""

    source: list[str]
    target: list[str]
    input_end: bool = True
    """Whether the model reads the end of sequence of an input."""
    codes_follow_end: bool = False
    """Whether a language code follows the end of sequence of an input; CTranslate2 then gets the input unchanged."""

    @classmethod
    def of_encoders(cls, encoders: Mapping[str, TextEncoder], input_end: bool = True) -> Self:
        """Returns the lists of the vocabularies of inputs and targets."""
        languages = encoders[INPUTS].languages
        follows = languages is not None and languages.source == END
        source, target = (tokens_of(encoders[name]) for name in (INPUTS, TARGETS))
        return cls(source, target, input_end, follows)

    @property
    def adds_end(self) -> bool:
        """Whether CTranslate2 appends end of sequence to inputs."""
        return self.input_end and not self.codes_follow_end

    def source_of(self, row: Row) -> list[str]:
        """Returns the tokens of an input, without end of sequence if CTranslate2 adds it or the model ignores it."""
        return [self.source[token_id] for token_id in (row if self.codes_follow_end else row[:-1])]

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
