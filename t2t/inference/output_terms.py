"""Constraints on the words of an output, as users give them: phrases, a list of choices or a regular expression."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from t2t.errors import ArgumentError, UserError
from t2t.files.lines import without_surrogates
from t2t.specs.constraints import ANYTHING, FiniteConstraint, answers_constraint, check_size, phrase_constraint
from t2t.text.encoder import TextEncoder
from t2t.text.regular_expressions.automaton import regex_constraint


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
            f"{what}: {value!r:.60} is of type {type(value).__name__}; give an object with {', '.join(KEYS)}"
        )
    if unknown := sorted(map(str, set(value) - set(KEYS))):
        raise UserError(f"{what}: {unknown[0]!r} is no constraint; there are {', '.join(KEYS)}")
    found: dict[str, tuple[str, ...]] = {}
    regex = value.get("regex", "")
    if "regex" in value and (not isinstance(regex, str) or not regex):
        raise UserError(f"{what}: regex {regex!r:.60}: a text is wanted, not an empty one")
    for name, texts in value.items():
        if name == "regex":
            continue
        is_list = isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)
        if not is_list or not all(text.strip() for text in texts):
            raise UserError(f"{what}: {name} {texts!r:.60}: a list of texts is wanted, none of them empty")
        if name == "choices" and not texts:
            raise UserError(f"{what}: choices []: there is nothing to choose from; give one text or more")
        found[name] = tuple(map(without_surrogates, texts))
    terms = OutputTerms(**found, regex=without_surrogates(regex))
    for name, is_given in (("choices", terms.choices), ("regex", terms.regex)):
        if is_given and sum(map(bool, dataclasses.astuple(terms))) > 1:
            raise UserError(f"{what}: {name} leaves no room for other constraints; give {name} alone")
    return None if terms == OutputTerms() else terms


def read_all_terms(values: Iterable[Any], count: int) -> list[OutputTerms | None]:
    """Returns the terms of each of `count` inputs; raises ArgumentError for another number, else as `read_terms`."""
    is_list = isinstance(values, Iterable) and not isinstance(values, Mapping | str)
    values = list(values) if is_list else []
    if not is_list or len(values) != count:
        raise ArgumentError(f"constraints for {count} inputs: give a list with an object for each, None for nothing")
    return [read_terms(value, f"constraints of input {number}") for number, value in enumerate(values, start=1)]


def terms_of_line(line: str, what: str) -> OutputTerms | None:
    """Returns the terms of a line of JSON, None for a blank one; raises UserError as `read_terms`."""
    if not line.strip():
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what}: no JSON ({error}); give an object with {', '.join(KEYS)}, or an empty line") from None
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
            f"{', '.join(map(repr, terms.avoid))}; leave one out"
        )
    return found


def _regex(pattern: str, encoder: TextEncoder) -> FiniteConstraint:
    found = regex_constraint(pattern, encoder)
    if found.shortest() is None:
        raise UserError(
            f"regex {pattern!r:.80}: no text that the vocabulary of outputs spells matches it; give another"
        )
    return found


def _spelled(texts: Sequence[str], encoder: TextEncoder) -> list[tuple[int, ...]]:
    texts = list(dict.fromkeys(texts))
    check_size([{}] * (1 + len(texts)))  # each ends in a state of its own; encoding thousands takes seconds
    found = []
    for text, ids in zip(texts, encoder.encode_batch(texts), strict=True):
        if not ids or encoder.unknown_id in ids:
            raise UserError(f"constraint {text!r:.80}: the vocabulary of outputs cannot spell it; give other words")
        found.append(tuple(ids))
    return list(dict.fromkeys(found))
