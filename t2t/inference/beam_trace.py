"""How a beam search came to its result: every hypothesis that it held, and where each was given up.

And what the model would write next after any beginning.

Legend: B = 1 sentence, K beams, T tokens so far, V vocabulary.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from keras import ops

from t2t.constants import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.decoding.result import exists
from t2t.errors import UserError
from t2t.inference.rows import cut_rows, padded
from t2t.inference.translator import Translator

Ids = tuple[int, ...]

KEPT, PRUNED, STOPPED, FINISHED = "kept", "pruned", "stopped", "finished"
"""Continued; continued no more while others were; held when the search ended; complete."""


@dataclasses.dataclass
class Node:
    """A hypothesis that the search held after some step."""

    ids: Ids
    """From the first token on; its parent has one fewer."""
    log_prob: float
    state: str = KEPT
    step: int = 0
    """After which step it was pruned or stopped, or was complete."""
    score: float | None = None
    """Of a complete one, its log-probability divided by the length penalty."""
    rank: int | None = None
    """Of a complete one, its place in the result, from 1; None where better ones took all places."""


def beam_tree(translator: Translator, source: str, prefix: Sequence[int] = (), **changes) -> list[Node]:
    """Returns every hypothesis that the search for the best output of a text held, parents before children.

    Args:
        translator: what searches.
        source: an input; the beginning of an output where the model has no inputs.
        prefix: ids that the output begins with, at no cost; see `Translator.encode_targets`.
        changes: see `Translator.translate`.

    Raises:
        UserError: no beam search of at least two, or an id that is none.
    """
    row, prefix = _row_and_prefix(translator, source, prefix)
    settings, hparams = translator.settings(1, **changes)
    if not translator.model.autoregressive or not settings.searches_beams:
        raise UserError("the tree of a beam: this search holds one hypothesis; ask for decode_method=beam, beam_size=4")
    nodes: dict[Ids, Node] = {}
    before: list[Ids] = [()]
    step = 0
    for step, progress in enumerate(translator.search(settings, hparams.extra_length).steps(row, prefix), start=1):
        finished = dict(_finished(progress))
        for ids, (log_prob, score) in finished.items():
            if ids not in nodes:
                nodes[ids] = Node(ids, log_prob, FINISHED, step, score)
        alive = dict(_alive(progress, step))
        nodes |= {ids: Node(ids, log_prob) for ids, log_prob in alive.items()}
        _mark_ends(nodes, before, step, PRUNED if alive else STOPPED)
        before = list(alive)
    _mark_ends(nodes, before, step, STOPPED)
    for rank, ids in enumerate(finished, start=1):
        nodes[ids].rank = rank
    return list(nodes.values())


def alternatives(translator: Translator, source: str, prefix: Sequence[int], count: int) -> list[tuple[int, float]]:
    """Returns the ids that the model finds likeliest after a beginning, with their log-probabilities, best first.

    Args:
        translator: what knows.
        source: see `beam_tree`.
        prefix: ids of the beginning, without end of sequence.
        count: how many.

    Raises:
        UserError: a model that writes nothing piece by piece, or an id that is none.
    """
    row, prefix = _row_and_prefix(translator, source, prefix)
    model = translator.model
    if not model.autoregressive:
        raise UserError(
            f"alternatives to a piece: {type(model).__name__} answers at once and writes none; ask for classes"
        )
    written = [*(prefix if translator.has_inputs else row), EOS_ID]
    features = {TARGETS: ops.convert_to_tensor(padded([written]))}
    if translator.has_inputs:
        features[INPUTS] = ops.convert_to_tensor(padded([row]))
    logits_V = ops.convert_to_numpy(model(features))[0, -1].astype(np.float64)
    log_probs_V = logits_V - np.logaddexp.reduce(logits_V)
    log_probs_V[PAD_ID] = -np.inf
    best = np.argsort(-log_probs_V, kind="stable")[: min(count, len(log_probs_V) - 1)]
    return [(int(token), float(log_probs_V[token])) for token in best]


def _row_and_prefix(translator: Translator, source: str, prefix: Sequence[int]) -> tuple[list[int], list[int]]:
    size = translator.model.spec.targets.vocab_size
    wrong = [token for token in prefix if not PAD_ID < token < size or token == EOS_ID]
    if wrong or len(prefix) >= translator.longest_input:
        what = f"id {wrong[0]}" if wrong else f"{len(prefix)} ids"
        raise UserError(
            f"a beginning with {what}: ids from 2 to {size - 1} may stand in one, fewer than "
            f"{translator.longest_input}; take them from a vocabulary or a beam"
        )
    (ids,) = translator.encode([source])
    (row,) = cut_rows(translator.model, [ids if translator.has_inputs else [*ids, *prefix]], translator.hparams)
    return row, list(prefix) if translator.has_inputs else []


def _alive(progress: Any, step: int) -> Iterator[tuple[Ids, float]]:
    ids_KT, log_probs_K = (ops.convert_to_numpy(x)[0] for x in (progress.alive.ids, progress.alive.log_probs))
    for ids, log_prob in zip(ids_KT, log_probs_K, strict=True):
        if exists(log_prob):
            yield tuple(ids[:step].tolist()), float(log_prob)


def _finished(progress: Any) -> Iterator[tuple[Ids, tuple[float, float]]]:
    found = (ops.convert_to_numpy(field)[0] for field in progress.finished)
    for ids, score, log_prob, length in zip(*found, strict=True):
        if exists(log_prob):
            yield tuple(ids[:length].tolist()), (float(log_prob), float(score))


def _mark_ends(nodes: dict[Ids, Node], before: list[Ids], step: int, state: str) -> None:
    """Marks those of the last step that nothing goes on from."""
    continued = {ids[:-1] for ids in nodes}
    for ids in before:
        if ids and ids not in continued:
            nodes[ids].state, nodes[ids].step = state, step
