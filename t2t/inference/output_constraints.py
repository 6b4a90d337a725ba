"""What the outputs for some inputs may be."""

from collections.abc import Sequence

from t2t.decoding.settings import SearchSettings
from t2t.errors import UserError
from t2t.files.lines import without_surrogates
from t2t.hparams.groups import DecodeHParams
from t2t.inference.engine import Constraints, Prefixes
from t2t.inference.model_facts import ModelFacts
from t2t.inference.rows import Row, max_sequence_ids
from t2t.problems.base import Problem
from t2t.specs.constants import INPUTS


def constraints_of(
    problem: Problem,
    model: ModelFacts,
    settings: SearchSettings,
    hparams: DecodeHParams,
    sentences: Sequence[Row],
    texts: Sequence[str] | None = None,
    prefixes: Prefixes | None = None,
) -> Constraints | None:
    """Returns what the problem allows for each input; None where it allows anything, or nobody asks.

    Args:
        problem: with its encoders.
        model: what decodes.
        settings: how it searches.
        hparams: the constraints that are wanted, and lengths.
        sentences: ids of the inputs.
        texts: the same as text; None to read it from the ids.
        prefixes: ids that outputs begin with; None for nothing.

    Raises:
        UserError: a prefix that no allowed output begins with, or a search that could leave none.
    """
    says_nothing = type(problem).constraint is Problem.constraint
    if says_nothing or not hparams.constrain_output or not model.autoregressive or model.spec.inputs is None:
        return None
    for name, value in (("no_repeat_ngram_size", settings.no_repeat_ngram), ("shortlist", hparams.shortlist)):
        if value:
            raise UserError(
                f"{name}={value}: what it forbids and what {problem.name} allows may leave no output; leave it out, "
                f"or ask for constrain_output=false"
            )
    if texts is None:
        texts = [problem.encoders[INPUTS].decode(ids) for ids in sentences]
    longest = max_sequence_ids(model, hparams)
    found = [problem.constraint(without_surrogates(text)) for text in texts]
    fitted = [constraint.fitted(longest) for constraint in found if constraint is not None]
    if len(fitted) < len(found):
        return None
    for constraint, prefix in zip(fitted, prefixes or [()] * len(fitted), strict=True):
        needed = constraint.shortest(prefix)
        if needed is None or needed > longest:
            raise UserError(
                f"a beginning with {len(prefix)} ids: no output that {problem.name} allows begins so with at most "
                f"{longest} ids; give another one, or ask for constrain_output=false"
            )
    return fitted
