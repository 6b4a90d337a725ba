"""Searches of the Playground page: parsing of requests, and streaming of outputs."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from t2t.errors import UserError
from t2t.inference.output_constraints import OutputTerms, read_terms
from t2t.inference.search_steps import has_partial_outputs, partial_outputs
from t2t.inference.translator import Hypothesis, Translator
from t2t.search.settings import SAMPLE, SEED
from t2t.serving.models import check_changes
from t2t.serving.requests import SEARCH_KEYS, texts_of
from t2t.studio.run_answers import json_int


class Search(NamedTuple):
    """A parsed search request."""

    source: str
    n_best: int
    changes: dict[str, Any]
    """Search settings to change, with keys from `SEARCH_KEYS`."""
    prefix: tuple[int, ...]
    """Ids that the output begins with, without language ids."""
    terms: OutputTerms | None
    """Constraints on the words of each output."""


def read_search(translator: Translator, data: Mapping[str, Any], widest: int) -> Search:
    """Parses `source`, and optionally `search` and `n_best`, `terms`, and `prefix` (ids) or `begins` (text).

    Beams and numbers of outputs are at most `widest`; the model's own beam is always allowed.

    Raises:
        UserError: a value of the wrong type or out of bounds, or a search that the model does not support.
    """
    (source,) = texts_of([data.get("source")], "source")
    asked = data.get("search", {})
    if not isinstance(asked, dict) or not set(asked) <= set(SEARCH_KEYS):
        raise UserError(f"search {asked!r:.80}: an object with some of {', '.join(SEARCH_KEYS)} is wanted")
    changes = {name: value for name, value in asked.items() if value is not None}
    most = max(widest, translator.settings(1)[0].rows_per_sentence)
    if "beam_size" in changes:
        json_int(changes, "beam_size", 1, 1, most)
    n_best = json_int(data, "n_best", 1, 1, most)
    check_changes(translator, n_best, changes, most)
    return Search(source, n_best, changes, _prefix(translator, data), read_terms(data.get("terms"), "terms"))


def _prefix(translator: Translator, data: Mapping[str, Any]) -> tuple[int, ...]:
    ids = ids_of(data, "prefix") if data.get("prefix") else []
    if not ids and data.get("begins"):
        (ids,) = translator.encode_prefixes(texts_of([data["begins"]], "begins"))
    start = translator.problem.languages.marks().output_start  # included in the ids of beams and outputs
    return tuple(ids[len(start) :] if tuple(ids[: len(start)]) == start else ids)


def ids_of(data: Mapping[str, Any], name: str) -> list[int]:
    """Returns a list of ids; raises UserError for anything else."""
    ids = data[name]
    if not isinstance(ids, list) or any(type(token) is not int for token in ids):
        raise UserError(f"{name}: a list of ids is wanted, of a beam or of alternatives")
    return ids


def search_events(translator: Translator, search: Search) -> Iterator[dict[str, Any]]:
    """Yields `{"text": ...}`, the final prefix of the first output, after each step; then `{"outputs": [...]}`.

    Raises:
        UserError: see `Translator.translate`.
    """
    method = translator.settings(search.n_best, **search.changes)[0].method
    # Without a seed, samples differ each time.
    sentence_seed = secrets.randbits(31) if method == SAMPLE and SEED not in search.changes else 0
    if not has_partial_outputs(translator):
        yield {"outputs": _outputs(_search_at_once(translator, search, sentence_seed))}
        return
    found = partial_outputs(
        translator,
        search.source,
        search.n_best,
        sentence_seed=sentence_seed,
        prefix=search.prefix,
        terms=search.terms,
        **search.changes,
    )
    for texts, hypotheses in found:  # an event for every step, so that an abandoned request ends soon
        yield {"text": texts[0]} if hypotheses is None else {"outputs": _outputs(hypotheses)}


def _search_at_once(translator: Translator, search: Search, sentence_seed: int) -> Sequence[Hypothesis]:
    (ids,) = translator.encode([search.source])
    how: dict[str, Any] = dict(search.changes)
    if search.terms is not None:
        how["constraints"] = [search.terms]
    if search.prefix and translator.has_inputs:
        how["prefixes"] = [search.prefix]
    row = ids if translator.has_inputs else [*ids, *search.prefix]
    return translator.translate_ids([row], search.n_best, seeds=[sentence_seed], sources=[search.source], **how)[0]


def _outputs(hypotheses: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    return [
        {"text": one.text, "ids": list(one.ids), "score": one.score, "log_prob": one.log_prob} for one in hypotheses
    ]
