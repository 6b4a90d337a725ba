"""Responses of the pages that need a model: attention, beams, alternatives, outputs."""

from collections.abc import Iterator, Mapping
from typing import Any

from t2t.errors import UserError
from t2t.inference.translator import Translator
from t2t.serving.requests import FIELDS, texts_of
from t2t.specs.constants import EOS_ID, PAD_ID
from t2t.specs.features import FeatureKind
from t2t.studio.figures import alternatives_json, beam_json, figure_of
from t2t.studio.run_answers import json_int
from t2t.studio.searches import ids_of, read_search, search_events
from t2t.studio.studio import Studio

MOST_ALTERNATIVES = 100
USUAL_BEAM = 4
"""Beam size of the tree if the run's own search is greedy."""
OF_BEAMS = ("alpha", "extra_length")
"""Search settings that the beam tree takes, besides the beam size."""


def load_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Loads a model; returns its step, checkpoint, target language and search settings.

    Later requests refer to the same weights by `checkpoint`, which is null for a permanently loaded model. `search` is
    null for a model that is not autoregressive.
    """
    translator, step, checkpoint = studio.model(data.get("model"), data.get("checkpoint"))
    own = {name: getattr(translator.hparams, name) for name in FIELDS}
    language = translator.problem.target_language
    search = own if translator.facts.autoregressive else None
    return {"step": step, "checkpoint": checkpoint, "language": language, "search": search}


def search_answer(studio: Studio, data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Loads a model and parses the request; returns the events of the search, see `search_events`."""
    translator, _ = _model(studio, data)
    return search_events(translator, read_search(translator, data, studio.widest))


def figure_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the figure of an input and its output, see `figure_of`."""
    translator, name = _model(studio, data)
    (source,) = texts_of([data.get("source")], "source")
    target = data.get("target")
    if "ids" in data:
        target = _output_ids(translator, data)
    elif target is not None:
        (target,) = texts_of([target], "target")
    return figure_of(translator, name, source, target)


def beam_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tree of all hypotheses in a beam search."""
    translator, _ = _model(studio, data)
    search, own = read_search(translator, data, studio.widest), translator.hparams.beam_size
    changes = {name: search.changes[name] for name in OF_BEAMS if name in search.changes}
    width = search.changes.get("beam_size", own if own > 1 else USUAL_BEAM)
    return beam_json(
        translator, search.source, search.prefix, search.terms, decode_method="beam", beam_size=width, **changes
    )


def alternatives_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the most probable pieces after a prefix."""
    translator, _ = _model(studio, data)
    (source,) = texts_of([data.get("source")], "source")
    prefix = ids_of(data, "prefix") if "prefix" in data else []
    return alternatives_json(translator, source, prefix, json_int(data, "count", 10, 1, MOST_ALTERNATIVES))


def outputs_answer(studio: Studio, data: Mapping[str, Any], most_texts: int) -> dict[str, Any]:
    """Returns the best output of a model for each text."""
    translator, _ = _model(studio, data)
    texts = texts_of(data.get("texts"), "texts")
    if len(texts) > most_texts:
        raise UserError(f"{len(texts)} texts, at most {most_texts}", "send fewer at once")
    return {"outputs": [found[0].text for found in translator.translate(texts)]}


def _model(studio: Studio, data: Mapping[str, Any]) -> tuple[Translator, str]:
    """Returns a translator and the name of its run."""
    name = data.get("model")
    translator = studio.model(name, data.get("checkpoint")).translator
    return translator, studio.runs.names()[0] if name is None else name


def _output_ids(translator: Translator, data: Mapping[str, Any]) -> list[int]:
    """Returns the ids of an output; of a class, which may be 0, its own."""
    ids, targets = ids_of(data, "ids"), translator.model.spec.targets
    size = targets.vocab_size
    if targets.kind == FeatureKind.LABEL:
        if len(ids) != 1 or not 0 <= ids[0] < size:
            raise UserError(f"ids {ids!r:.80}: that of a class is wanted, one from 0 to {size - 1}")
        return ids
    if not ids or EOS_ID in ids[:-1] or not all(PAD_ID < token < size for token in ids):
        raise UserError(f"ids: those of an output are wanted, from {EOS_ID} to {size - 1}, {EOS_ID} only at its end")
    return ids
