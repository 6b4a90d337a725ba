"""JSON of requests other than OpenAI's.

Two formats: TensorFlow Serving's REST interface (`instances` by rows, `inputs` by columns), and a plain one.
"""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t2t.errors import UserError
from t2t.files.lines import clean_line
from t2t.inference.output_terms import REQUEST_KEYS, OutputTerms, read_terms
from t2t.serving.search_changes import SEARCH_KEYS

SIGNATURE = "serving_default"
TEXT, STREAM = "text", "stream"
"""Keys of the input text, and of the option that requests server-sent events."""
TRUNCATE = "truncate"
"""Key of the option that allows texts to be truncated that are too long."""
_PREDICT_KEYS = ("signature_name", "instances", "inputs", TRUNCATE)


def read_json(body: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body; raises UserError for anything else."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UserError(f"the body is no JSON: {error}; send an object") from None
    if not isinstance(data, dict):
        raise UserError(f"the body is a JSON {type(data).__name__}; send an object")
    return data


def prediction_texts(data: dict[str, Any]) -> tuple[list[str], bool]:
    """Returns the texts of a predict request, and whether they came by rows (`instances`).

    Raises:
        UserError: an unknown key, another signature, both forms or neither, or values that are not text.
    """
    _check_keys(data, _PREDICT_KEYS)
    if data.get("signature_name") not in (None, "", SIGNATURE):
        asked = data["signature_name"]
        raise UserError(f"signature_name {asked!r:.60}: there is {SIGNATURE}; ask for that or leave it out")
    if ("instances" in data) == ("inputs" in data):
        raise UserError('a request to predict has either "instances", row by row, or "inputs", by columns; send one')
    if "instances" in data:
        rows = data["instances"]
        if isinstance(rows, list):
            rows = [row[TEXT] if isinstance(row, dict) and set(row) == {TEXT} else row for row in rows]
        return texts_of(_unpacked(rows, "instances"), "instances"), True
    column = data["inputs"]
    if isinstance(column, dict) and set(column) == {TEXT}:
        column = column[TEXT]
    return texts_of(_unpacked(column, "inputs"), "inputs"), False


def _unpacked(rows: Any, name: str) -> Any:
    """Returns rows with the texts of bytes in base64, `{"b64": "..."}`, as TensorFlow Serving takes them."""
    if not isinstance(rows, list):
        return rows
    try:
        return [
            base64.b64decode(row["b64"], validate=True).decode(errors="replace")
            if isinstance(row, dict) and set(row) == {"b64"} else row for row in rows
        ]  # fmt: skip
    except (ValueError, TypeError) as error:
        raise UserError(f"{name}: b64 is no base64 ({error}); send that, or the text itself") from None


def _check_keys(data: Mapping[str, Any], allowed: Sequence[str]) -> None:
    if unknown := sorted(set(data) - set(allowed)):
        raise UserError(f"{unknown[0]!r:.60} is no part of a request; there are {', '.join(allowed)}")


def texts_of(value: Any, name: str) -> list[str]:
    """Returns a list of texts as valid Unicode without NULs; raises UserError for anything else."""
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        raise UserError(f"{name}: a list of one or more texts is wanted (or of objects with {TEXT!r} alone); send that")
    return [clean_line(text.encode("utf-8", "surrogatepass"), Counter()) for text in value]


class TranslationRequest(NamedTuple):
    """A plain request."""

    texts: list[str]
    is_one: bool
    """Whether the request had a single text instead of a list."""
    n_best: int | None
    changes: dict[str, Any]
    """Search settings to change, by name; not yet checked, see `t2t.serving.search_changes`."""
    is_stream: bool
    """Whether to stream the answer."""
    terms: OutputTerms | None
    """Constraints on the words of each output."""
    truncate: bool
    """Whether to truncate texts that are too long, which is the default here, as the answer has `cut`."""


def translation_request(data: dict[str, Any]) -> TranslationRequest:
    """Parses a plain request; null is the same as a missing key.

    Raises:
        UserError: an unknown key, or a value of the wrong type.
    """
    allowed = (TEXT, "model", "n_best", STREAM, TRUNCATE, *SEARCH_KEYS, *REQUEST_KEYS)
    _check_keys(data, allowed)
    text = data.get(TEXT)
    is_one = isinstance(text, str)
    texts = texts_of([text] if is_one else text, TEXT)
    n_best, changes, is_stream = positive(data, "n_best"), search_changes(data), bool(option(data, STREAM))
    truncate = option(data, TRUNCATE) is not False
    return TranslationRequest(texts, is_one, n_best, changes, is_stream, output_terms(data), truncate)


def search_changes(data: dict[str, Any]) -> dict[str, Any]:
    """Returns the search settings given in a request."""
    return {name: data[name] for name in SEARCH_KEYS if data.get(name) is not None}


def output_terms(data: dict[str, Any]) -> OutputTerms | None:
    """Returns the constraints on outputs given in a request, None without any; raises UserError for wrong ones."""
    return read_terms({name: data[name] for name in REQUEST_KEYS if data.get(name) is not None}, "the request")


def option(data: Mapping[str, Any], name: str) -> bool | None:
    """Returns true or false, or None if the key is missing; raises UserError for anything else."""
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise UserError(f"{name} {value!r:.60}: true or false is wanted")
    return value


def only_text(texts: Sequence[str]) -> str:
    """Returns the only text of a streaming request; raises UserError for several texts."""
    if len(texts) > 1:
        raise UserError(f"{STREAM}: {len(texts)} texts are asked for, and one is written at a time; send one, or ask "
                        f"without {STREAM}")  # fmt: skip
    return texts[0]


def positive(data: dict[str, Any], name: str) -> int | None:
    """Returns an integer of at least 1, or None if the key is missing; raises UserError for anything else."""
    value = data.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise UserError(f"{name} {value!r:.60}: a whole number from 1 is wanted")
    return value
