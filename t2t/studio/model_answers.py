"""Responses of the pages that need a model: attention, beams, alternatives, outputs."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t.errors import UserError
from t2t.inference.attention import occlusion_map
from t2t.inference.output_constraints import OutputTerms, read_terms
from t2t.inference.search_steps import has_partial_outputs, partial_outputs
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Hypothesis, Translator
from t2t.search.settings import SAMPLE, SEED
from t2t.serving.models import check_changes
from t2t.serving.requests import FIELDS, SEARCH_KEYS, texts_of
from t2t.specs import DEV, EOS_ID, INPUTS, PAD_ID
from t2t.specs.features import FeatureKind
from t2t.studio.figures import alternatives_json, answers_with_class, beam_json, classes_json, figure_of
from t2t.studio.media import media_of, output_media
from t2t.studio.run_answers import json_int
from t2t.studio.split_data import SplitData
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
            raise UserError(f"ids {ids!r:.80}: not that of a class", f"give one from 0 to {size - 1}")
        return ids
    if not ids or EOS_ID in ids[:-1] or not all(PAD_ID < token < size for token in ids):
        raise UserError(
            "ids: not those of an output", f"give ids from {EOS_ID} to {size - 1}, {EOS_ID} only at the end"
        )
    return ids


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
        raise UserError(f"search {asked!r:.80}: it is not an object", f"send one with some of {', '.join(SEARCH_KEYS)}")
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
        raise UserError(f"{name}: it is not a list of ids", "send that of a beam or of alternatives")
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


def example_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the inputs of an example, its reference, and the model's output, or the classes with probabilities."""
    translator, step, split, number = _asked(studio, data)
    examples = SplitExamples(split.problem, split.reader, number + 1, number)
    (value,), (reference,) = examples.inputs(), examples.references()
    spec = split.reader.features[split.columns[INPUTS]]
    found = _answers(translator, [value])[0]
    return {
        "step": step,
        "problem": split.problem.name,
        "total": len(split.reader),
        "inputs": media_of(np.asarray(value), spec),
        "reference": {"text": reference, "media": output_media(split.problem, reference)},
        "output": {"text": found[0].text, "media": output_media(split.problem, found[0].text)},
        "classes": classes_json(found) if answers_with_class(translator) else None,
        "has_map": spec.kind == FeatureKind.IMAGE,
    }


def occlusion_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns how much the log-probability of an output drops when parts of the picture are covered.

    The output is the class named by `class`, by default the model's best class, or else the model's output sequence.
    """
    translator, _, split, number = _asked(studio, data)
    (image,) = SplitExamples(split.problem, split.reader, number + 1, number).inputs()
    if split.reader.features[split.columns[INPUTS]].kind != FeatureKind.IMAGE:
        raise UserError(
            f"{split.problem.name}: its inputs are not pictures, and only pictures have parts to cover",
            "ask for another page",
        )
    image = np.asarray(image)
    found = _answers(translator, [image])[0]
    answer = _named(found, data["class"]) if data.get("class") is not None else found[0]

    def score(images: Sequence[np.ndarray]) -> Sequence[float]:
        inputs: list[Any] = list(images)
        if not answers_with_class(translator):
            ids = [token for token in answer.ids if token != EOS_ID]
            return translator.score_ids(inputs, [ids] * len(inputs))
        each = _answers(translator, inputs)
        return [next(one.log_prob or 0.0 for one in answers if one.ids == answer.ids) for answers in each]

    drops, cell = occlusion_map(image, score)
    height, width = image.shape[:2]
    return {"answer": answer.text, "height": height, "width": width, "cell": cell, "drops": drops.tolist()}


def _asked(studio: Studio, data: Mapping[str, Any]) -> tuple[Translator, int, SplitData, int]:
    """Returns the model of a request, its step, the split of its data, and the index of the example."""
    name = data.get("model")
    translator, step, _ = studio.model(name, data.get("checkpoint"), only_text=False)
    split = studio.data(name, translator.problem.name, data.get("split", DEV))
    return translator, step, split, json_int(data, "example", 0, 0, len(split.reader) - 1)


def _answers(translator: Translator, inputs: Sequence[Any]) -> list[list[Hypothesis]]:
    """Returns the best output for each input; for classification all classes, the most probable first."""
    count = translator.facts.spec.targets.vocab_size if answers_with_class(translator) else 1
    return translator.translate_ids(list(inputs), count)


def _named(answers: Sequence[Hypothesis], name: Any) -> Hypothesis:
    for one in answers:
        if one.text == name:
            return one
    raise UserError(
        f"class {str(name)[:100]!r}: there is none", f"there are {', '.join(one.text for one in answers[:10])}"
    )
