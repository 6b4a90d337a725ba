"""Every hypothesis of a beam search, with the step at which it was dropped, and alternatives to a token.

Legend: B = 1 sentence, K beams, T tokens so far, V vocabulary.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.inference.batch_search import BatchSearch
from t2t.inference.output_constraints import constraints_of
from t2t.inference.output_terms import OutputTerms
from t2t.inference.prefixes import check_prefix
from t2t.inference.rows import Row, padded
from t2t.inference.translator import Translator
from t2t.search.result import exists
from t2t.specs.constants import EOS_ID, INPUTS, PAD_ID, TARGETS

Ids = tuple[int, ...]

KEPT, PRUNED, STOPPED, FINISHED = "kept", "pruned", "stopped", "finished"
"""Continued; dropped while others continued; unfinished when the search ended; complete."""


@dataclasses.dataclass
class Node:
    """A hypothesis that was in the search after some step."""

    ids: Ids
    """From the first token on; its parent has one fewer."""
    log_prob: float
    state: str = KEPT
    step: int = 0
    """Step after which it was pruned, stopped or complete."""
    score: float | None = None
    """Of a complete one, its log-probability divided by the length penalty, plus the coverage penalty."""
    rank: int | None = None
    """Of a complete one, its rank in the result, from 1; None if it is not in the result."""


def beam_tree(
    translator: Translator, source: str, prefix: Sequence[int] = (), terms: OutputTerms | None = None, **changes
) -> list[Node]:
    """Returns every hypothesis of the search for the best output of a text, parents before children.

    Args:
        translator: runs the search.
        source: an input; if the model has no inputs, the beginning of the output, whose log-probability counts as 0.
        prefix: ids that the output must begin with, however improbable; see `Translator.encode_targets`. All
            log-probabilities and scores are of whole outputs, these ids included.
        terms: constraints on the words of the output; None for none.
        changes: see `Translator.translate`.

    Raises:
        UserError: the search is not a beam search of at least two, or an id is invalid.
    """
    start = _start(translator, source, prefix)
    costs = [0.0]  # log-probability of the first 0, 1, ... forced ids that are not free
    if forced := start.written[start.free :]:
        costs = _summed(_log_probs(translator, start.row, start.written)[start.free :], forced)
    settings, hparams = translator.settings(1, **changes)
    if not translator.model.autoregressive or not settings.uses_beam_search:
        raise UserError("the tree of a beam: this search holds one hypothesis; ask for decode_method=beam, beam_size=4")
    nodes: dict[Ids, Node] = {}
    before: list[Ids] = [()]
    step = 0
    code_length = start.free if translator.has_inputs else 0
    search = translator.model_engine.search(settings, hparams.extra_length, hparams.shortlist, code_length)
    assert isinstance(search, BatchSearch), "a model that writes searches"
    kept_to = (translator.problem, translator.facts, settings, hparams)
    constraints = constraints_of(*kept_to, [start.row], [source], [start.prefix], [terms])
    steps = search.steps(start.row, start.prefix, costs[-1], constraints=constraints)
    for step, state in enumerate(steps, start=1):
        progress = state.progress
        finished = dict(_finished(progress))
        for ids, (log_prob, score) in finished.items():
            if ids not in nodes:
                nodes[ids] = Node(ids, log_prob, FINISHED, step, score)
        active = dict(_active(progress, step))
        nodes |= {ids: Node(ids, log_prob) for ids, log_prob in active.items()}
        _mark_ends(nodes, before, step, PRUNED if active else STOPPED)
        before = list(active)
    _mark_ends(nodes, before, step, STOPPED)
    for rank, ids in enumerate(finished, start=1):
        nodes[ids].rank = rank
    for node in nodes.values():
        count = len(node.ids) - start.free
        if count < len(costs):
            node.log_prob = costs[max(count, 0)]
    return list(nodes.values())


def alternatives(translator: Translator, source: str, prefix: Sequence[int], count: int) -> list[tuple[int, float]]:
    """Returns the most probable next ids after a prefix, with their log-probabilities, best first.

    Args:
        translator: of the model.
        source: see `beam_tree`.
        prefix: ids of the output so far, without end of sequence.
        count: how many.

    Raises:
        UserError: the model is not autoregressive, or an id is invalid.
    """
    start = _start(translator, source, prefix)
    if not translator.model.autoregressive:
        raise UserError(
            f"alternatives to a piece: {type(translator.model).__name__} answers at once and writes none; ask for "
            f"classes"
        )
    log_probs_V = _log_probs(translator, start.row, [*start.written, EOS_ID])[-1]
    log_probs_V[PAD_ID] = -np.inf
    best = np.argsort(-log_probs_V, kind="stable")[: min(count, len(log_probs_V) - 1)]
    return [(int(token), float(log_probs_V[token])) for token in best]


@dataclasses.dataclass(frozen=True)
class _Start:
    """The ids that an output begins with."""

    row: Row
    """Ids of the input; where the model has none, the beginning of the output."""
    prefix: list[int]
    """Ids that the output begins with; empty where the model has no inputs."""
    written: list[int]
    """All ids that the output begins with."""
    free: int
    """How many of the first ones count as certain: the input of a language model, or a language code."""


def given_ids(translator: Translator, source: str) -> list[int]:
    """Returns the ids that every output of an input begins with: a language model's text, or a language code.

    The prefixes of `beam_tree` and `alternatives` come after them.
    """
    start = _start(translator, source, ())
    return start.written[: start.free]


def token_log_probs(translator: Translator, source: str, ids: Sequence[int]) -> list[float]:
    """Returns the log-probability of each id of an output given those before it, nats.

    They sum to the score of `Translator.score` where the output has an end of sequence.

    Args:
        translator: of an autoregressive model.
        source: the input; ignored where the model has none.
        ids: of the output, with end of sequence where it has one.
    """
    log_probs_TV = _log_probs(translator, _start(translator, source, ()).row, ids)
    return log_probs_TV[np.arange(len(ids)), np.array(ids, int)].tolist()


def _log_probs(translator: Translator, row: Row, ids: Sequence[int]) -> np.ndarray:
    """Returns the log-probabilities of all ids at each position of an output, (T, V) float64."""
    features = {TARGETS: ops.convert_to_tensor(padded([ids]))}
    if translator.has_inputs:
        features[INPUTS] = ops.convert_to_tensor(padded([row]))
    logits_TV = ops.convert_to_numpy(translator.model(features))[0].astype(np.float64)
    return logits_TV - np.logaddexp.reduce(logits_TV, axis=-1, keepdims=True)


def _summed(log_probs_TV: np.ndarray, ids: Sequence[int]) -> list[float]:
    """Returns the log-probability of the first 0, 1, ... T ids."""
    return [0.0, *np.cumsum(log_probs_TV[np.arange(len(ids)), np.array(ids, int)]).tolist()]


def _start(translator: Translator, source: str, prefix: Sequence[int]) -> _Start:
    check_prefix(translator.facts, translator.hparams, prefix)
    (ids,) = translator.encode([source])
    if translator.has_inputs:
        (row,) = translator.input_rows([ids])
        start = translator.problem.languages.marks().output_start  # nodes include it, and prefixes from them
        forced = list(prefix) if tuple(prefix[: len(start)]) == start else [*start, *prefix]
        return _Start(row, forced, forced, len(start))
    (row,) = translator.input_rows([[*ids, *prefix]])
    return _Start(row, [], list(row), max(len(row) - len(prefix), 0))


def _active(progress: Any, step: int) -> Iterator[tuple[Ids, float]]:
    ids_KT, log_probs_K = (ops.convert_to_numpy(x)[0] for x in (progress.active.ids, progress.active.log_probs))
    for ids, log_prob in zip(ids_KT, log_probs_K, strict=True):
        if exists(log_prob):
            yield tuple(ids[:step].tolist()), float(log_prob)


def _finished(progress: Any) -> Iterator[tuple[Ids, tuple[float, float]]]:
    found = (ops.convert_to_numpy(field)[0] for field in progress.finished)
    for ids, score, log_prob, length in zip(*found, strict=True):
        if exists(log_prob):
            yield tuple(ids[:length].tolist()), (float(log_prob), float(score))


def _mark_ends(nodes: dict[Ids, Node], before: list[Ids], step: int, state: str) -> None:
    """Marks the hypotheses of the step before that were not continued."""
    continued = {ids[:-1] for ids in nodes}
    for ids in before:
        if ids and ids not in continued:
            nodes[ids].state, nodes[ids].step = state, step
