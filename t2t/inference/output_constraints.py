"""Builds the constraints on outputs, from a request or from the problem."""

from collections.abc import Sequence

from t2t.errors import UserError
from t2t.features.feature import Feature
from t2t.files.lines import without_surrogates
from t2t.hparams.groups import DecodeHParams
from t2t.inference.engine import Constraints, Prefixes
from t2t.inference.model_facts import ModelFacts
from t2t.inference.output_terms import OutputTerms, constraints_of_terms
from t2t.inference.rows import Row, describe_max_ids, max_sequence_ids
from t2t.problems.base import Problem, feature_of
from t2t.search.settings import SearchSettings
from t2t.specs.constants import TARGETS
from t2t.specs.constraints import ANYTHING, FiniteConstraint


def constraints_of(
    problem: Problem,
    model: ModelFacts,
    settings: SearchSettings,
    hparams: DecodeHParams,
    sentences: Sequence[Row],
    texts: Sequence[str] | None = None,
    prefixes: Prefixes | None = None,
    terms: Sequence[OutputTerms | None] | None = None,
) -> Constraints | None:
    """Returns the constraints of the outputs, from `terms` or from the problem; None without any.

    Args:
        problem: with its encoders.
        model: facts about the model that decodes.
        settings: of the search.
        hparams: `constrain_output`, and lengths.
        sentences: ids of the inputs.
        texts: the same as text; None to read it from the ids.
        prefixes: ids that outputs begin with, the problem's language code included; None for nothing.
        terms: requested constraints of each output, or None for an output without; None for none at all.

    Raises:
        UserError: no output satisfies them, or the search could find none.
    """
    asked = terms is not None and any(one is not None for one in terms)
    found: Constraints | None = None
    is_constrained = constrains_outputs(problem, model, hparams)
    if terms is not None and asked:
        if is_constrained or model.spec.inputs is None or not model.autoregressive:
            why = "allows some outputs only" if is_constrained else "writes no outputs piece by piece for inputs"
            raise UserError(f"constraints: {problem.name} with this model {why}; leave them out")
        found = _of_terms(problem, terms)
    elif is_constrained:
        found = _of_problem(problem, sentences, texts)
    if found is None:
        return None
    for name, value in (("no_repeat_ngram_size", settings.no_repeat_ngram), ("shortlist", hparams.shortlist)):
        if value:
            cure = "" if asked else ", or ask for constrain_output=false"
            raise UserError(f"{name}={value}: it may forbid all that constraints of outputs allow; leave it out{cure}")
    return _fitted(found, problem, model, hparams, prefixes, asked)


def _fitted(
    found: Constraints,
    problem: Problem,
    model: ModelFacts,
    hparams: DecodeHParams,
    prefixes: Prefixes | None,
    asked: bool,
) -> Constraints:
    """Returns the constraints within the longest output; `asked` tells whether they are of a request, for the message.

    Raises:
        UserError: no output of that length satisfies one of them.
    """
    longest = max_sequence_ids(model, hparams)
    fitted = [constraint.fitted(longest) for constraint in found]
    for number, (constraint, prefix) in enumerate(zip(fitted, prefixes or [()] * len(fitted), strict=True), start=1):
        needed = constraint.shortest(prefix)
        if needed is None or needed > longest:
            given = len(prefix) - len(problem.languages.marks().output_start)
            begun = f" that begins with the {given} ids that are given" if given > 0 else ""
            of_which = f"input {number} of {len(fitted)}: " if len(fitted) > 1 else ""
            cures = ["give other constraints" if asked else "ask for constrain_output=false"]
            cures += ["give another beginning"] * (given > 0)
            cures += ["raise max_input_length"] * (needed is not None and longest != model.longest_sequence)
            raise UserError(
                f"{of_which}no output{begun} keeps to its constraints within {describe_max_ids(model, hparams)}; "
                f"{' or '.join(cures)}"
            )
    return fitted


def constrains_outputs(problem: Problem, model: ModelFacts, hparams: DecodeHParams) -> bool:
    """Returns whether the problem may constrain outputs of this model; which ones depends on the input."""
    is_searched = model.autoregressive and model.spec.inputs is not None
    may_constrain = (
        type(problem).constraint is not Problem.constraint
        or type(feature_of(problem, TARGETS)).constraint is not Feature.constraint
    )
    return may_constrain and hparams.constrain_output and is_searched


def _of_terms(problem: Problem, terms: Sequence[OutputTerms | None]) -> Constraints:
    """Returns the requested constraints; raises UserError for a regular expression where pieces are joined."""
    mark = feature_of(problem, TARGETS).continuation_mark
    if mark and any(one is not None and one.regex for one in terms):
        raise UserError(
            f"regex: {problem.name} joins pieces of outputs that end in {mark}, and regular "
            f"expressions match them unjoined; give constraints, avoid or choices, in pieces"
        )
    return constraints_of_terms(terms, problem.encoders[TARGETS], problem.languages.marks().output_start)


def _of_problem(problem: Problem, sentences: Sequence[Row], texts: Sequence[str] | None) -> Constraints | None:
    """Returns the constraints of the problem; inputs without one may have any output, None if all are."""
    if texts is None:
        texts = [problem.decode_input(ids) for ids in sentences]
    found = [problem.constraint(without_surrogates(text)) for text in texts]
    others = [type(constraint).__name__ for constraint in found if not isinstance(constraint, FiniteConstraint | None)]
    if others and None in found:
        raise UserError(
            f"{problem.name}: its constraint(source) is None for input {found.index(None) + 1} of {len(found)} and a "
            f"{others[0]} for another; only a FiniteConstraint can be next to None in a call; return one for each input"
        )
    if all(constraint is None for constraint in found):
        return None
    return [ANYTHING if constraint is None else constraint for constraint in found]
