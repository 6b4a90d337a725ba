"""One output of a model, and reading it from the result of a search."""

import dataclasses
from collections.abc import Sequence

from t2t.errors import UserError
from t2t.files.lines import without_surrogates
from t2t.files.pharaoh import Links
from t2t.hparams.groups import DecodeHParams
from t2t.inference.rows import NOT_FINITE, ModelFacts
from t2t.problems.base import Problem
from t2t.search.result import SearchResult
from t2t.specs import EOS_ID
from t2t.specs.features import FeatureKind

Tokens = tuple[tuple[str, float], ...]
"""The pieces of an output with their log-probabilities."""

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
    tokens: Tokens | None = None
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


def read_hypotheses(
    problem: Problem,
    model: ModelFacts,
    found: SearchResult,
    row: int,
    n_best: int,
    ids_in: Sequence[int],
    source: str | None,
) -> list[Hypothesis]:
    """Returns the outputs of a row of a search, with the text that the problem makes of them.

    Args:
        problem: with its encoders.
        model: facts about the model that has decoded.
        found: of a batch.
        row: of the batch.
        n_best: how many at most.
        ids_in: of the input.
        source: the input as text; None to read it back from the ids.

    Raises:
        UserError: the weights hold NaN or infinity.
    """
    if source is None:
        source = problem.decode_input(ids_in) if problem.finishes else ""
    kind = model.spec.targets.kind
    is_class, ends = kind == FeatureKind.LABEL, kind == FeatureKind.TOKENS and model.autoregressive
    hypotheses = []
    for k in range(n_best):
        ids = tuple(found.ids[row, k, : found.lengths[row, k]].tolist())
        if ids:
            output = problem.decode_target(ids[0] if is_class else ids)
            finished = problem.finish(without_surrogates(source), output)
            score, log_prob = float(found.scores[row, k]), float(found.log_probs[row, k])
            cut = ends and ids[-1] != EOS_ID
            hypotheses.append(Hypothesis(finished.text, ids, score, log_prob, finished.repaired, cut=cut))
    if not hypotheses:
        raise UserError(*NOT_FINITE)
    return hypotheses
