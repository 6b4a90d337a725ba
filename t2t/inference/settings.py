"""Search settings from decode hparams and the changes of a call."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t.errors import ArgumentError, UnknownArgumentError, UserError
from t2t.hparams.field import coerce, complaint
from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.hparams.synonyms import did_you_mean
from t2t.search.settings import SearchSettings

SEED = "seed"
"""Name of the seed of sampling among the changes of a search."""


def search_settings(
    hparams: DecodeHParams, n_best: int, seed: int, changes: Mapping[str, Any], at_once: int | None = None
) -> tuple[SearchSettings, DecodeHParams]:
    """Returns the search settings, and the hparams with the changes applied.

    Args:
        hparams: of the run.
        n_best: number of hypotheses for each input.
        seed: of sampling.
        changes: fields of the hparams to change.
        at_once: maximum hypotheses of a model that predicts in one pass, which ignores search settings; else None.

    Raises:
        UserError: a change is unknown or out of bounds, or the search has fewer hypotheses.
    """
    own_method = hparams.decode_method
    hparams = dataclasses.replace(hparams, **_checked(changes))
    for name, number in (("n_best", n_best), ("seed", seed)):
        check_whole_number(name, number)
    if at_once is not None:
        if not 1 <= n_best <= at_once:
            there_are = f"from 1 to {at_once}" if at_once > 1 else "1"
            raise ArgumentError(
                f"a model that answers at once gives {there_are} here", "ask for that", option="n_best", value=n_best
            )
        # Nothing is searched: the settings depend on `n_best` alone.
        settings = SearchSettings(method="beam" if n_best > 1 else "greedy", beam_size=n_best, alpha=0.0)
        return settings, dataclasses.replace(hparams, extra_length=0)
    if MASK_PREDICT in (own_method, hparams.decode_method):
        _check_mask_predict(own_method, hparams, changes)
    settings = SearchSettings(
        method="greedy" if hparams.decode_method == "beam" and hparams.beam_size == 1 else hparams.decode_method,
        beam_size=hparams.beam_size,
        penalty=hparams.length_penalty,
        alpha=hparams.alpha,
        coverage=hparams.coverage_penalty,
        min_length=hparams.min_output_length,
        eos_penalty=hparams.eos_penalty,
        no_repeat_ngram=hparams.no_repeat_ngram_size,
        only_best=n_best == 1,
        samples=max(n_best, 1) if hparams.decode_method == "sample" else 1,
        temperature=hparams.sampling_temperature,
        top_k=hparams.sampling_top_k,
        top_p=hparams.sampling_top_p,
        seed=seed,
        iterations=hparams.mask_predict_iterations,
        length_candidates=hparams.length_candidates,
    )
    _check_n_best(n_best, settings, hparams)
    return settings, hparams


def check_whole_number(name: str, number: Any) -> None:
    """Raises ArgumentError unless the argument `name` is a whole number."""
    if not isinstance(number, int | np.integer) or isinstance(number, bool):
        raise ArgumentError(f"it is of type {type(number).__name__}", "give a whole number", option=name, value=number)


def _check_n_best(n_best: int, settings: SearchSettings, hparams: DecodeHParams) -> None:
    """Raises UserError if a search has fewer hypotheses than are asked for."""
    width = settings.rows_per_sentence
    if 1 <= n_best <= width:
        return
    if n_best < 1:
        raise ArgumentError("a search has one hypothesis or more", "ask for 1 or more", option="n_best", value=n_best)
    cure = "raise length_candidates" if settings.method == MASK_PREDICT else "raise beam_size"
    if hparams.decode_method == "greedy":  # which does not read the beam size
        cure = "search with decode_method=beam"
    there_are = f"search of width {width} has from 1 to {width} hypotheses; ask for that many"
    if width == 1:
        there_are = "search has one hypothesis; ask for that one"
    raise ArgumentError(f"{settings.method} {there_are} or {cure}", option="n_best", value=n_best)


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes as values of their fields' types; raises UserError for wrong names, types or bounds."""
    fields = {field.name: field for field in dataclasses.fields(DecodeHParams)}
    for name in changes:
        if name not in fields:
            raise UnknownArgumentError(
                f"decode hparam {name!r} does not exist; {did_you_mean(name, fields)}there are {', '.join(fields)}"
            )
    checked = {name: coerce(fields[name], value) for name, value in changes.items()}
    wrong = [text for name, value in checked.items() if (text := complaint(fields[name], value))]
    if wrong:
        raise UserError("; ".join(wrong))
    return checked


def check_read(hparams: DecodeHParams, changes: Mapping[str, Any]) -> None:
    """Raises UserError for a change that the method of decoding does not read."""
    conditions = {field.name: field.metadata["used_when"] for field in dataclasses.fields(DecodeHParams)}
    conditions[SEED] = conditions["sampling_temperature"]
    for name, value in changes.items():
        if (condition := conditions[name]) and not condition.holds(hparams):
            raise UserError(
                f"{name}={value}: nothing reads it while {condition.field}={getattr(hparams, condition.field)}; "
                f"it is read with {condition}"
            )


def _check_mask_predict(own_method: str, hparams: DecodeHParams, changes: Mapping[str, Any]) -> None:
    """Raises UserError for a method that the run's model does not have, and for settings that mask-predict ignores."""
    if hparams.decode_method != own_method:
        how = "all tokens of an output at once" if own_method == MASK_PREDICT else "one token after the other"
        raise UserError(f"decode_method={hparams.decode_method}: the model predicts {how}; leave it out")
    check_read(hparams, changes)
