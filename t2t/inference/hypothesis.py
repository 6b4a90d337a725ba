"""One output of a model."""

import dataclasses

from t2t.files.pharaoh import Links
from t2t.hparams.groups import DecodeHParams

STOP, LENGTH = "stop", "length"
"""Reasons for the end of an output."""


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One output for one input."""

    text: str
    """The output as text."""
    ids: tuple[int, ...]
    """Its ids, end of sequence included where the model wrote it."""
    score: float
    """Log-probability divided by the length penalty, plus the coverage penalty; NaN if it was not requested."""
    log_prob: float | None
    """Natural logarithm of its probability, end of sequence included; after a given prefix, of the continuation alone.
    None if a served export does not return it."""
    repaired: bool = False
    """Whether the problem had to repair the output to make text of it, e.g. the brackets of a tree."""
    tokens: tuple[tuple[str, float], ...] | None = None
    """Each piece with its log-probability given those before it, end of sequence included where the model wrote it;
    a language code at the beginning has 0. None where the hparam `token_scores` is off."""
    alignment: Links | None = None
    """Links (word of the input, word of the text), counted from 0; None where the hparam `alignments` is off."""
    cut: bool = False
    """Whether the search reached the longest output that is allowed, before the model wrote the end of sequence."""

    @property
    def finish_reason(self) -> str:
        """Why the output ends, as OpenAI's interface names it: `length` if it is cut, else `stop`."""
        return LENGTH if self.cut else STOP


NOTHING = Hypothesis(text="", ids=(), score=0.0, log_prob=0.0)
"""The output for a blank input, without alignments: empty, with probability 1."""


def blank_output(hparams: DecodeHParams) -> Hypothesis:
    """Returns the output for a blank input, with its alignment and tokens if these are requested."""
    alignment, tokens = () if hparams.alignments else None, () if hparams.token_scores else None
    return dataclasses.replace(NOTHING, alignment=alignment, tokens=tokens)
