"""A search step by step: every hypothesis of a beam search, alternatives to a token, and partial outputs of a stream.

Legend: B = 1 sentence, N rows of it, K beams, T tokens so far, V vocabulary.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.inference.batch_search import BatchSearch, SearchRows
from t2t.inference.hypothesis import Hypothesis, blank_output, read_hypotheses
from t2t.inference.model_engine import ModelEngine
from t2t.inference.output_constraints import OutputTerms, constraints_of
from t2t.inference.rows import Row, check_prefix, memory_errors, padded
from t2t.inference.translator import Translator
from t2t.problems.base import Problem
from t2t.search.beam_search import BeamProgress
from t2t.search.result import exists
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS

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
        log_probs_TV = _log_probs(translator, start.row, start.written)[start.free :]
        costs += np.cumsum(log_probs_TV[np.arange(len(forced)), np.array(forced, int)]).tolist()
    settings, hparams = translator.settings(1, **changes)
    if not translator.model.autoregressive or not settings.uses_beam_search:
        raise UserError(
            "the tree of a beam: this search holds one hypothesis", "ask for decode_method=beam, beam_size=4"
        )
    nodes: dict[Ids, Node] = {}
    before: list[Ids] = [()]
    step = 0
    code_length = start.free if translator.has_inputs else 0
    search = translator.model_engine.search(settings, hparams.extra_length, hparams.shortlist, code_length)
    assert isinstance(search, BatchSearch), "a model that writes searches"
    kept_to = (translator.problem, translator.facts, settings, hparams)
    constraints = constraints_of(*kept_to, [start.row], [source], [start.prefix], [terms])
    vocab_size = translator.facts.spec.targets.vocab_size
    asked = SearchRows.build([0], [start.prefix] if start.prefix else None, constraints, vocab_size)
    steps = search.steps(start.row, asked, costs[-1])
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
            f"alternatives to a piece: {type(translator.model).__name__} answers at once and writes none",
            "ask for classes",
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


class PartialOutputs(NamedTuple):
    """What is certain after a step."""

    texts: list[str]
    """The certain beginning of each output; before the end of a beam search, of the best output alone."""
    hypotheses: list[Hypothesis] | None
    """The complete outputs at the end, which begin with the earlier texts; None before."""


def has_partial_outputs(translator: Translator) -> bool:
    """Returns whether there are partial outputs: the model itself decodes, token by token, and ids decode to text."""
    changes_text = translator.rewrites_text or type(translator.problem).decode_target is not Problem.decode_target
    by_model = isinstance(translator.engine, ModelEngine)
    return by_model and translator.model.autoregressive and not changes_text


def partial_outputs(
    translator: Translator,
    text: str,
    n_best: int = 1,
    *,
    sentence_seed: int = 0,
    prefix: Sequence[int] = (),
    terms: OutputTerms | None = None,
    stops: Sequence[str] = (),
    **changes: Any,
) -> Iterator[PartialOutputs]:
    """Yields the partial outputs of a text after each step of the search, and finally the complete ones.

    The search ends early if every output holds one of `stops` or is complete. The last outputs then end where they are
    certain, and have no scores.

    Args:
        translator: one that `has_partial_outputs`.
        text: the input, see `Translator.translate`.
        n_best: number of outputs.
        sentence_seed: sampling seed of the text, see `DecodeRequest`.
        prefix: ids that the output begins with, without end of sequence; for a model without inputs, ids after the
            text.
        terms: constraints on the words of the output; None for none.
        stops: texts after the first of which nothing of an output is read; for a model without inputs, in what follows
            the text. In a beam search, they count in what all outputs begin with.
        changes: fields of the decode hparams to change, and `seed`.

    Raises:
        UserError: see `Translator.translate`.
    """
    settings, hparams = translator.settings(n_best, **changes)
    (ids,) = translator.encode([text])
    check_prefix(translator.facts, hparams, prefix)
    if translator.is_blank(text):
        yield PartialOutputs([""], [blank_output(hparams)])
        return
    if not translator.has_inputs:
        ids, prefix = [*ids, *prefix], ()
    assert isinstance(translator.engine, ModelEngine), "has_partial_outputs"
    given = [prefix] if len(prefix) else None
    request = translator.request([ids], n_best, sources=[text], prefixes=given, constraints=[terms], **changes)
    search = translator.engine.search(settings, hparams.extra_length, hparams.shortlist, request.code_length)
    assert isinstance(search, BatchSearch), "has_partial_outputs"
    translator.check_min_length(request)
    encoder, (row,) = translator.problem.encoders[TARGETS], request.rows
    vocab_size = translator.facts.spec.targets.vocab_size
    asked = SearchRows.build([sentence_seed], request.prefixes, request.constraints, vocab_size)
    given_text = "" if translator.has_inputs else encoder.decode(row)
    with memory_errors(padded([row]), settings.rows_per_sentence):
        for state in search.steps(row, asked):
            rows = _certain_ids(state.progress)
            texts = [encoder.certain_text(ids) for ids in rows]
            stopped = [any(stop in text.removeprefix(given_text) for stop in stops) for text in texts]
            if any(stopped) and all(is_stopped or EOS_ID in ids for is_stopped, ids in zip(stopped, rows, strict=True)):
                copies = n_best // len(rows)  # a beam has one row, with which all its outputs begin
                unscored = [Hypothesis(one, tuple(ids), math.nan, None) for one, ids in zip(texts, rows, strict=True)]
                yield PartialOutputs(texts * copies, unscored * copies)
                return
            # After every step, even without new text, so that the consumer can stop the search.
            yield PartialOutputs(texts, None)
    hypotheses = read_hypotheses(translator.problem, translator.facts, search.result(state), 0, n_best, ids, text)
    yield PartialOutputs([one.text for one in hypotheses], hypotheses)


def _certain_ids(progress: Any) -> list[list[int]]:
    """Returns the ids of each row of a `TokenByToken`, or the common prefix of all hypotheses of a beam search."""
    if not isinstance(progress, BeamProgress):
        rows = zip(*map(ops.convert_to_numpy, (progress.rows.ids, progress.rows.lengths)), strict=True)
        return [ids[:length].tolist() for ids, length in rows]
    active, finished = progress.active, progress.finished
    ids_KT, log_probs_K = (ops.convert_to_numpy(field)[0] for field in (active.ids, active.log_probs))
    held = ids_KT[exists(log_probs_K), : int(progress.step)].tolist()
    finished_rows = zip(*(ops.convert_to_numpy(field)[0] for field in (finished.ids, finished.lengths)), strict=True)
    held += [ids[:length].tolist() for ids, length in finished_rows if length]
    return [_common_prefix(held)]


def _common_prefix(rows: Sequence[Sequence[int]]) -> list[int]:
    width = min(map(len, rows), default=0)
    if not width:
        return []
    table = np.array([row[:width] for row in rows])
    same = (table == table[0]).all(axis=0)
    return list(rows[0][: width if same.all() else int(same.argmin())])
