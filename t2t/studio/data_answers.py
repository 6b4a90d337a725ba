"""Responses of the data page, which need no model: figures of a split, examples, pieces."""

from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.specs.constants import TRAIN
from t2t.studio.data_examples import examples_json
from t2t.studio.data_figures import ORDERS, pieces_json, split_json
from t2t.studio.run_answers import query_int
from t2t.studio.split_data import SplitData
from t2t.studio.studio import Studio

MOST_EXAMPLES, MOST_PIECES = 50, 200
"""Largest numbers in a response."""
_LAST = 10**15
"""Largest start index of a request."""


def data_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns figures of a split of a run's data."""
    run = studio.runs.run(data.get("run"))
    return {"problems": list(run.record.problems), **split_json(_split(studio, data))}


def data_examples_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns some examples of a split; with `text`, only those that contain it."""
    start, count = query_int(data, "start", 0, 0, _LAST), query_int(data, "count", 20, 1, MOST_EXAMPLES)
    return examples_json(_split(studio, data), start, count, str(data.get("text", "")))


def data_pieces_answer(studio: Studio, data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns some pieces of a vocabulary."""
    split = _split(studio, data)
    start, count = query_int(data, "start", 0, 0, _LAST), query_int(data, "count", 50, 1, MOST_PIECES)
    index = query_int(data, "vocabulary", 0, 0, max(0, len(split.vocabularies) - 1))
    order = data.get("order", next(iter(ORDERS)))
    if order not in ORDERS:
        raise UserError(f"order {order!r}: one of {', '.join(ORDERS)} is wanted")
    if not split.vocabularies:
        raise UserError(f"{split.problem.name}: no feature has a vocabulary")
    return pieces_json(split, index, order, str(data.get("text", "")), start, count)


def _split(studio: Studio, data: Mapping[str, Any]) -> SplitData:
    return studio.data(data.get("run"), data.get("problem", ""), data.get("split", TRAIN))
