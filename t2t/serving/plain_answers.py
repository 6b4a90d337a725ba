"""JSON of responses other than OpenAI's.

Two formats: TensorFlow Serving's REST interface, with the outputs of an exported model's signature, and a plain one.
"""

from collections.abc import Sequence
from typing import Any

from t2t.serving.models import Answer
from t2t.serving.plain_requests import SIGNATURE

CUT_INPUTS, CUT_OUTPUTS = "T2T-Cut-Inputs", "T2T-Cut-Outputs"
"""Headers of answers that are plain text."""


def prediction(answers: Sequence[Answer], by_rows: bool) -> dict[str, Any]:
    """Returns the response to a predict request, by rows or columns like the request.

    If a text or an output of the request was cut, all rows have what says so.
    """
    columns: dict[str, list[Any]] = {
        "outputs": [[one.text for one in answer.hypotheses] for answer in answers],
        "scores": [[one.score for one in answer.hypotheses] for answer in answers],
    }
    if any(answer.cut for answer in answers):
        columns["cut"] = [answer.cut for answer in answers]
    if any(one.cut for answer in answers for one in answer.hypotheses):
        columns["finish_reasons"] = [[one.finish_reason for one in answer.hypotheses] for answer in answers]
    if by_rows:
        return {"predictions": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]}
    return {"outputs": columns}


def translations(model: str, answers: Sequence[Answer], is_one: bool) -> dict[str, Any]:
    """Returns the response to a plain request."""
    found: list[dict[str, Any]] = [
        {
            "outputs": [
                {key: getattr(one, key) for key in ("text", "score", "log_prob", *["finish_reason"] * one.cut)}
                for one in answer.hypotheses
            ],
            "cut": answer.cut,
        }
        for answer in answers
    ]
    return {"model": model, "translations": found} | ({"text": found[0]["outputs"][0]["text"]} if is_one else {})


def cut_lines(answers: Sequence[Answer]) -> dict[str, str]:
    """Returns headers with the numbers, from 1, of lines that were truncated and of lines whose output is cut."""
    cut = {
        CUT_INPUTS: [number for number, answer in enumerate(answers, start=1) if answer.cut],
        CUT_OUTPUTS: [number for number, answer in enumerate(answers, start=1) if answer.hypotheses[0].cut],
    }
    return {name: ", ".join(map(str, numbers)) for name, numbers in cut.items() if numbers}


def metadata(name: str, step: int) -> dict[str, Any]:
    """Returns TensorFlow Serving's description of a model: the tensors that it takes and returns."""

    def tensor(dtype: str, *sizes: int) -> dict[str, Any]:
        dim = [{"size": str(size), "name": ""} for size in sizes]
        return {"dtype": dtype, "tensor_shape": {"dim": dim, "unknown_rank": False}, "name": ""}

    signature = {
        "inputs": {"text": tensor("DT_STRING", -1)},
        "outputs": {"outputs": tensor("DT_STRING", -1, -1), "scores": tensor("DT_FLOAT", -1, -1)},
        "method_name": "tensorflow/serving/predict",
    }
    return {
        "model_spec": {"name": name, "signature_name": "", "version": str(step)},
        "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature}}},
    }


def status(step: int) -> dict[str, Any]:
    """Returns TensorFlow Serving's status of a loaded model; its version is its step."""
    fine = {"error_code": "OK", "error_message": ""}
    return {"model_version_status": [{"version": str(step), "state": "AVAILABLE", "status": fine}]}
