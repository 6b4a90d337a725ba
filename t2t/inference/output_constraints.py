"""Constraints on outputs: those that a request gives (phrases, choices, a regular expression), and the problem's.

As users give them they are `OutputTerms`; engines take a constraint of `t2t.specs.constraints` for each input.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from t2t.errors import ArgumentError, UserError
from t2t.features.feature import Feature
from t2t.files.lines import without_surrogates
from t2t.hparams.groups import DecodeHParams
from t2t.inference.engine import Constraints, Prefixes
from t2t.inference.rows import ModelFacts, Row, describe_max_ids, max_sequence_ids
from t2t.problems.base import Problem, feature_of
from t2t.search.settings import SearchSettings
from t2t.specs import TARGETS
from t2t.specs.constraints import ANYTHING, FiniteConstraint, answers_constraint, check_size, phrase_constraint
from t2t.text.encoder import TextEncoder
from t2t.text.regular_expressions import regex_constraint


@dataclasses.dataclass(frozen=True)
class OutputTerms:
    """Constraints on one output; the names of the fields are the keys in files, requests and arguments."""

    constraints: tuple[str, ...] = ()
    """Phrases that it must contain, in any order."""
    avoid: tuple[str, ...] = ()
    """Phrases that it must not contain."""
    choices: tuple[str, ...] = ()
    """Allowed outputs; excludes all other fields."""
    regex: str = ""
    """Regular expression that the whole output must match; excludes all other fields."""


_LISTS = ("constraints", "avoid", "choices")
KEYS = (*_LISTS, "regex")
REQUEST_KEYS = _LISTS
"""Keys that requests to a server may have: without `regex`, whose large automata would keep it busy."""


def read_terms(value: Any, what: str) -> OutputTerms | None:
    """Returns the terms of a mapping; None if it has none. Half of a surrogate pair is read as U+FFFD, as in inputs.

    Args:
        value: texts by the names of `OutputTerms`; or `OutputTerms`, or None.
        what: name of the value in messages.

    Raises:
        UserError: the value is anything else.
    """
    if value is None or isinstance(value, OutputTerms):
        return value
    if not isinstance(value, Mapping):
        raise UserError(
            f"{what}: {value!r:.60} is of type {type(value).__name__}", f"give an object with {', '.join(KEYS)}"
        )
    if unknown := sorted(map(str, set(value) - set(KEYS))):
        raise UserError(f"{what}: {unknown[0]!r} is not a constraint", f"there are {', '.join(KEYS)}")
    found: dict[str, tuple[str, ...]] = {}
    regex = value.get("regex", "")
    if "regex" in value and (not isinstance(regex, str) or not regex):
        raise UserError(f"{what}: regex {regex!r:.60}: it is not a text, or empty", "write a regular expression")
    for name, texts in value.items():
        if name == "regex":
            continue
        is_list = isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)
        if not is_list or not all(text.strip() for text in texts):
            raise UserError(
                f"{what}: {name} {texts!r:.60}: it is not a list of texts, or one is empty", 'write ["a text"]'
            )
        if name == "choices" and not texts:
            raise UserError(f"{what}: choices []: there is nothing to choose from", "give one text or more")
        found[name] = tuple(map(without_surrogates, texts))
    terms = OutputTerms(**found, regex=without_surrogates(regex))
    for name, is_given in (("choices", terms.choices), ("regex", terms.regex)):
        if is_given and sum(map(bool, dataclasses.astuple(terms))) > 1:
            raise UserError(f"{what}: {name} leaves no room for other constraints", f"give only {name}")
    return None if terms == OutputTerms() else terms


def read_all_terms(values: Iterable[Any], count: int) -> list[OutputTerms | None]:
    """Returns the terms of each of `count` inputs; raises ArgumentError for another number, else as `read_terms`."""
    is_list = isinstance(values, Iterable) and not isinstance(values, Mapping | str)
    values = list(values) if is_list else []
    if not is_list or len(values) != count:
        raise ArgumentError(
            f"constraints for {count} inputs: it is not a list of that many",
            "give an object for each, None for nothing",
        )
    return [read_terms(value, f"constraints of input {number}") for number, value in enumerate(values, start=1)]


def terms_of_line(line: str, what: str) -> OutputTerms | None:
    """Returns the terms of a line of JSON, None for a blank one; raises UserError as `read_terms`."""
    if not line.strip():
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{what}: no JSON ({error})", f"give an object with {', '.join(KEYS)}, or an empty line"
        ) from None
    return read_terms(value, what)


def constraints_of_terms(
    terms: Sequence[OutputTerms | None], encoder: TextEncoder, output_start: tuple[int, ...] = ()
) -> list[FiniteConstraint]:
    """Returns the constraint of each output, in ids; equal terms share one.

    Args:
        terms: of each output; None for nothing.
        encoder: the vocabulary of outputs.
        output_start: ids in front of each output, which no text spells: a language code.

    Raises:
        UserError: the vocabulary cannot spell a text, or an automaton is too large.
    """
    made: dict[OutputTerms | None, FiniteConstraint] = {None: ANYTHING}
    for one in terms:
        if one is not None and one not in made:
            made[one] = _constraint_of(one, encoder, output_start)
    return [made[one] for one in terms]


def _constraint_of(terms: OutputTerms, encoder: TextEncoder, output_start: tuple[int, ...]) -> FiniteConstraint:
    if terms.regex:  # no vocabulary with language codes supports it
        return _regex(terms.regex, encoder)
    if terms.choices:
        return answers_constraint([(*output_start, *ids) for ids in _spelled(terms.choices, encoder)])
    forced, forbidden = (_spelled(texts, encoder) for texts in (terms.constraints, terms.avoid))
    found = phrase_constraint(forced, forbidden, encoder.vocab_size)
    if found.shortest() is None:
        raise UserError(
            f"constraints {', '.join(map(repr, terms.constraints))}: an output with them holds what it has to avoid, "
            f"{', '.join(map(repr, terms.avoid))}",
            "leave one out",
        )
    return found


def _regex(pattern: str, encoder: TextEncoder) -> FiniteConstraint:
    found = regex_constraint(pattern, encoder)
    if found.shortest() is None:
        raise UserError(
            f"regex {pattern!r:.80}: no text that the vocabulary of outputs spells matches it", "give another"
        )
    return found


def _spelled(texts: Sequence[str], encoder: TextEncoder) -> list[tuple[int, ...]]:
    texts = list(dict.fromkeys(texts))
    check_size([{}] * (1 + len(texts)))  # each ends in a state of its own; encoding thousands takes seconds
    found = []
    for text, ids in zip(texts, encoder.encode_batch(texts), strict=True):
        if not ids or encoder.unknown_id in ids:
            raise UserError(f"constraint {text!r:.80}: the vocabulary of outputs cannot spell it", "give other words")
        found.append(tuple(ids))
    return list(dict.fromkeys(found))


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
            raise UserError(f"constraints: {problem.name} with this model {why}", "leave them out")
        found = _of_terms(problem, terms)
    elif is_constrained:
        found = _of_problem(problem, sentences, texts)
    if found is None:
        return None
    for name, value in (("no_repeat_ngram_size", settings.no_repeat_ngram), ("shortlist", hparams.shortlist)):
        if value:
            cure = "" if asked else ", or ask for constrain_output=false"
            raise UserError(
                f"{name}={value}: it may forbid all that constraints of outputs allow", f"leave it out{cure}"
            )
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
                f"{of_which}no output{begun} keeps to its constraints within {describe_max_ids(model, hparams)}",
                f"{' or '.join(cures)}",
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
            f"regex: {problem.name} joins pieces of outputs that end in {mark}, and regular expressions match them "
            "unjoined",
            "give constraints, avoid or choices, in pieces",
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
            f"{others[0]} for another; only a FiniteConstraint can be next to None in a call",
            "return one for each input",
        )
    if all(constraint is None for constraint in found):
        return None
    return [ANYTHING if constraint is None else constraint for constraint in found]
