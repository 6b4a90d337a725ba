"""Partial outputs of one text during the search: the beginning of each output that no further step can change.

Legend: N rows of the text, K beams, T tokens.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from t2t.inference.batch_search import BatchSearch
from t2t.inference.hypothesis import Hypothesis, blank_output
from t2t.inference.model_engine import ModelEngine
from t2t.inference.output_terms import OutputTerms
from t2t.inference.prefixes import check_prefix
from t2t.inference.rows import memory_errors, padded
from t2t.inference.translator import Translator
from t2t.problems.base import Problem
from t2t.search.beam_search import BeamProgress
from t2t.search.result import exists
from t2t.specs.constants import EOS_ID, TARGETS


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
    (begun,) = request.prefixes or [()]
    given_text = "" if translator.has_inputs else encoder.decode(row)
    with memory_errors(padded([row]), settings.rows_per_sentence):
        for state in search.steps(row, begun, sentence_seed=sentence_seed, constraints=request.constraints):
            rows = _certain_ids(state.progress)
            texts = [encoder.certain_text(ids) for ids in rows]
            stopped = [any(stop in text.removeprefix(given_text) for stop in stops) for text in texts]
            if any(stopped) and all(map(_is_enough, stopped, rows)):
                copies = n_best // len(rows)  # a beam has one row, with which all its outputs begin
                yield PartialOutputs(texts * copies, [*map(_unscored, texts, rows)] * copies)
                return
            # After every step, even without new text, so that the consumer can stop the search.
            yield PartialOutputs(texts, None)
    hypotheses = translator.hypotheses(search.result(state), 0, n_best, ids, text)
    yield PartialOutputs([one.text for one in hypotheses], hypotheses)


def _is_enough(is_stopped: bool, ids: Sequence[int]) -> bool:
    return is_stopped or EOS_ID in ids


def _unscored(text: str, ids: Sequence[int]) -> Hypothesis:
    return Hypothesis(text, tuple(ids), score=math.nan, log_prob=None)


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
