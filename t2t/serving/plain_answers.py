"""JSON of responses other than OpenAI's.

Two formats: TensorFlow Serving's REST interface, with the outputs of an exported model's signature, and a plain one.
"""

from collections.abc import Sequence
from typing import Any

from t2t.serving.models import Answer


def prediction(answers: Sequence[Answer], by_rows: bool) -> dict[str, Any]:
    """Returns the response to a predict request, by rows or columns like the request."""
    rows = [
        {"outputs": [one.text for one in answer.hypotheses], "scores": [one.score for one in answer.hypotheses]}
        for answer in answers
    ]
    if by_rows:
        return {"predictions": rows}
    return {"outputs": {name: [row[name] for row in rows] for name in ("outputs", "scores")}}


def translations(model: str, answers: Sequence[Answer], is_one: bool) -> dict[str, Any]:
    """Returns the response to a plain request."""
    found: list[dict[str, Any]] = [
        {
            "outputs": [{key: getattr(one, key) for key in ("text", "score", "log_prob")} for one in answer.hypotheses],
            "cut": answer.cut,
        }
        for answer in answers
    ]
    return {"model": model, "translations": found} | ({"text": found[0]["outputs"][0]["text"]} if is_one else {})


def status(step: int) -> dict[str, Any]:
    """Returns TensorFlow Serving's status of a loaded model; its version is its step."""
    fine = {"error_code": "OK", "error_message": ""}
    return {"model_version_status": [{"version": str(step), "state": "AVAILABLE", "status": fine}]}
