"""One output of a model."""

import dataclasses

from t2t.files.pharaoh import Links


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One output for one input."""

    text: str
    """What a person reads."""
    ids: tuple[int, ...]
    """Its ids, end of sequence included where the model wrote it."""
    score: float
    """Log-probability divided by the length penalty, plus the coverage penalty; NaN where it was not asked for."""
    log_prob: float | None
    """Natural logarithm of its probability, end of sequence included; of a continued prefix, only of what follows it.
    None where a served export does not give it."""
    mended: bool = False
    """Whether the problem had to mend the output to make the text of it, e.g. brackets of a tree."""
    tokens: tuple[tuple[str, float], ...] | None = None
    """Each piece with its log-probability given those before it, end of sequence included where the model wrote it;
    None where the hparam `token_scores` is off."""
    alignment: Links | None = None
    """Links (word of the input, word of the text), counted from 0; None where the hparam `alignments` is off."""
