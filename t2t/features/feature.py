"""The base class of features."""

import dataclasses
import re
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from t2t.errors import UserError, one_line
from t2t.registry.overrides import check_overrides
from t2t.specs.constraints import OutputConstraint
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.text.encoder import TextEncoder

_SHOWN = 40
"""Characters of a wrong value that a message shows."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """A postprocessed output, see `Feature.finish`."""

    text: str
    repaired: bool = False
    """Whether the output was malformed and had to be repaired, e.g. a tree with an open bracket."""


@dataclasses.dataclass(frozen=True)
class Feature:
    """One side of a problem's samples. Subclasses are frozen dataclasses of settings.

    The methods take the feature's vocabulary, None before there is one or if the feature has none.
    """

    kind: ClassVar[FeatureKind] = FeatureKind.TOKENS
    """The type of the encoded values; models choose their modality by it."""
    chunk_size: ClassVar[int] = 0
    """Most samples that are encoded together, fewer for large ones; 0 for the default."""
    single_spaces: bool = dataclasses.field(default=False, kw_only=True)
    """Whether a text is words with one space between two of them; in given texts, any ASCII white space is read so."""
    continuation_mark: str = dataclasses.field(default="", kw_only=True)
    """Suffix of a piece whose word continues in the next one, e.g. `@@`; outputs and references are read joined."""

    def __init_subclass__(cls) -> None:
        check_overrides(cls)

    def with_options(self, options: Any) -> Self:
        """Returns the feature with the settings that a user's problem options change."""
        return self

    def plain(self) -> "Feature":
        """Returns the feature without what it does to outputs, for variants of problems."""
        return self

    # === What a model must know ===
    def spec(self, encoder: TextEncoder | None = None) -> FeatureSpec:
        """Returns the spec; without a vocabulary, sizes that it determines are 0."""
        return FeatureSpec(kind=self.kind, vocab_size=encoder.vocab_size if encoder else 0)

    def nominal_spec(self, encoder: TextEncoder | None = None) -> FeatureSpec | None:
        """Returns the spec with the intended size of a vocabulary that is yet to be learned; None if not known."""
        spec = self.spec(encoder)
        needs_size = self.kind in (FeatureKind.TOKENS, FeatureKind.LABEL)
        return None if needs_size and not spec.vocab_size else spec

    def fixed_encoder(self) -> TextEncoder | None:
        """Returns the vocabulary if the settings determine it, else None."""
        return None

    # === Samples ===
    def needed(self, encoder: TextEncoder | None = None) -> str:
        """Describes the value that a sample needs, for messages."""
        return "a value"

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """Returns what is wrong with the value of a sample, e.g. `has 3 for 'inputs'`, or an empty string."""
        return ""

    def text(self, value: Any, encoder: TextEncoder | None = None) -> str | None:
        """Returns the value of a sample as the text that outputs are scored against; None if it is not text."""
        return value if isinstance(value, str) else None

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Returns the arrays to store: ids as (length,) int32 ended by EOS_ID, labels as () int32."""
        raise NotImplementedError

    def read_file(self, path: Path) -> np.ndarray | None:
        """Returns the content of a file as a model reads it; None if files of this kind are not read.

        Raises:
            UserError: the file is missing or damaged.
        """
        return None

    # === Outputs ===
    finishes: ClassVar[bool] = False
    """Whether `finish` changes outputs or reads the input; one that only marks outputs as repaired leaves it False."""
    output_suffix: str = dataclasses.field(default="", kw_only=True)
    """Suffix of the file that an output can be written to, e.g. `.wav`; empty if outputs are only text."""

    def decode(self, ids: Any, encoder: TextEncoder | None = None) -> str:
        """Returns the readable text of the ids that a model outputs."""
        return self.join_words(self.require(encoder).decode(ids))

    def join_words(self, text: str) -> str:
        """Joins each piece that ends in `continuation_mark` with the next one."""
        return re.sub(re.escape(self.continuation_mark) + "( |$)", "", text) if self.continuation_mark else text

    def finish(self, source: str, output: str, encoder: TextEncoder | None = None) -> Finished:
        """Postprocesses an output (or a reference, read back), given its input as text."""
        return Finished(output)

    def read_output(self, text: str, source: str | None = None) -> str:
        """Returns a given output, as `finish` leaves it, as the text that the vocabulary encodes.

        Raises:
            UserError: this input cannot have such an output.
        """
        return text

    def constraint(self, source: str, encoder: TextEncoder | None = None) -> OutputConstraint | None:
        """Returns the constraint on the output for an input, see `Problem.constraint`."""
        return None

    def output_file(self, output: str) -> bytes:
        """Returns the content of the file of an output; only if there is an `output_suffix`."""
        raise NotImplementedError

    def require(self, encoder: TextEncoder | None) -> TextEncoder:
        """Returns the vocabulary; raises UserError if there is none yet."""
        if encoder is None:
            raise UserError(f"a feature of kind {self.kind.value} has no vocabulary yet", "pass it to with_encoders")
        return encoder


def shown(value: Any) -> str:
    """Returns a wrong value for a message, cut where it is long."""
    text = one_line(repr(value))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def text_fault(text: Any, name: str) -> str:
    """Returns what is wrong with a text of a sample, or an empty string."""
    if isinstance(text, bytes):
        return f"has bytes for {name!r} ({shown(text)}), which must be decoded first"
    if not isinstance(text, str):
        return f"has {shown(text)} for {name!r}, of type {type(text).__name__}"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"has a lone surrogate, U+{ord(text[error.start]):04X}, in {name!r}, which is not valid Unicode"
    return ""
