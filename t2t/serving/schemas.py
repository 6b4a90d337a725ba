"""JSON Schemas of requests and responses, with the bounds of the decode hparams."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from t2t.hparams.groups import DecodeHParams
from t2t.inference.hypothesis import LENGTH, STOP
from t2t.inference.output_terms import REQUEST_KEYS
from t2t.inference.settings import SEED
from t2t.serving.address import Schema
from t2t.serving.errors import CONTEXT_LENGTH
from t2t.serving.openai_requests import IGNORED, MOST_STOPS, NEUTRAL
from t2t.serving.plain_requests import SIGNATURE
from t2t.serving.search_changes import FIELDS

STRING: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 1}
ANY_OBJECT: Schema = {"type": "object"}

_TYPES = {int: "integer", float: "number", str: "string"}


def object_of(properties: Mapping[str, Schema], optional: Collection[str] = ()) -> Schema:
    """Returns the schema of an object with these properties and no others."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def list_of(items: Schema, **bounds: int) -> Schema:
    """Returns the schema of a list; `bounds` are `minItems` and `maxItems`."""
    return {"type": "array", "items": items, **bounds}


def nullable(schema: Schema) -> Schema:
    """Returns the schema of a value that may be null, which is the same as omitting it."""
    choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **choices}


def one_or_several(texts: int) -> Schema:
    """Returns the schema of a text or a list of at most `texts` texts."""
    return {"anyOf": [STRING, list_of(STRING, minItems=1, maxItems=texts)]}


def model_name(models: Iterable[str]) -> Schema:
    """Returns the schema of a model name; the default is the first model."""
    names = list(models)
    return {"type": "string", "enum": names, **({"default": names[0]} if names else {})}


def _setting(field: dataclasses.Field[Any]) -> Schema:
    rules = field.metadata
    bounds = {name: rules[name] for name in ("minimum", "maximum") if rules[name] is not None}
    choices = {"enum": list(rules["choices"])} if rules["choices"] else {}
    condition = f" Read with {rules['used_when']}." if rules["used_when"] else ""
    described = {"description": rules["doc"] + condition}
    return nullable({"type": _TYPES[type(field.default)], **bounds, **choices, **described})


TRUNCATE = nullable(
    {**BOOLEAN, "description": "Whether texts that are too long are truncated; by default as the server is started."}
)
SEARCH: Mapping[str, Schema] = {
    **{field.name: _setting(field) for field in dataclasses.fields(DecodeHParams) if field.name in FIELDS},
    SEED: nullable({**INTEGER, "description": "Seed of sampling; without it, samples differ each time."}),
}
"""Search settings of a request, by name."""
TERMS: Mapping[str, Schema] = {name: nullable(list_of(STRING)) for name in REQUEST_KEYS}
"""Constraints on the outputs of a request, by name."""

ERROR = object_of({"error": STRING})
OPENAI_ERROR = object_of(
    {
        "error": object_of(
            {"message": STRING, "type": STRING, "param": nullable(STRING), "code": {"enum": [None, CONTEXT_LENGTH]}}
        )
    }
)
_REASON: Schema = {"enum": [STOP, LENGTH]}

# === TensorFlow Serving's ===

_ROW = {"outputs": list_of(STRING), "scores": list_of(NUMBER), "cut": BOOLEAN, "finish_reasons": list_of(_REASON)}
_IF_CUT = ("cut", "finish_reasons")
PREDICTION: Schema = {
    "anyOf": [
        object_of({"predictions": list_of(object_of(_ROW, optional=_IF_CUT))}),
        object_of({"outputs": object_of({name: list_of(row) for name, row in _ROW.items()}, optional=_IF_CUT)}),
    ]
}


def prediction_request(texts: int) -> Schema:
    """Returns the schema of a predict request."""
    bounds = {"minItems": 1, "maxItems": texts}
    packed = object_of({"b64": STRING})
    row = {"anyOf": [STRING, packed, object_of({"text": {"anyOf": [STRING, packed]}})]}
    column = list_of({"anyOf": [STRING, packed]}, **bounds)
    properties = {"instances": list_of(row, **bounds), "inputs": {"anyOf": [column, object_of({"text": column})]}}
    others = {"signature_name": {"enum": [SIGNATURE, "", None]}, "truncate": TRUNCATE}
    return {
        "type": "object",
        "properties": {**others, **properties},
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in properties],
    }


_STATUS = object_of({"version": STRING, "state": STRING, "status": ANY_OBJECT})
MODEL: Mapping[str, Schema] = {
    "id": STRING, "object": {"const": "model"}, "created": INTEGER, "owned_by": STRING,
}  # fmt: skip
STATUS = object_of({"model_version_status": list_of(_STATUS), **MODEL}, optional=MODEL)
MODELS = object_of({"models": list_of(STRING), "object": {"const": "list"}, "data": list_of(object_of(MODEL))})

# === The plain one ===

_OUTPUT = object_of(
    {"text": STRING, "score": NUMBER, "log_prob": {"type": ["number", "null"]}, "finish_reason": {"const": LENGTH}},
    optional=("finish_reason",),
)
TRANSLATIONS = object_of(
    {
        "model": STRING,
        "translations": list_of(object_of({"outputs": list_of(_OUTPUT), "cut": {"type": ["boolean", "null"]}})),
        "text": STRING,
    },
    optional=("text",),
)


def translation_request(texts: int, models: Iterable[str]) -> Schema:
    """Returns the schema of a plain request."""
    properties = {
        "text": one_or_several(texts), "model": nullable(model_name(models)), "n_best": nullable(COUNT),
        "stream": nullable(BOOLEAN), "truncate": {**TRUNCATE, "default": True}, **TERMS, **SEARCH,
    }  # fmt: skip
    return object_of(properties, optional=set(properties) - {"text"})


# === OpenAI's ===

_USAGE = object_of({name: INTEGER for name in ("prompt_tokens", "completion_tokens", "total_tokens")})


def openai_request(prompt: Mapping[str, Schema], models: Iterable[str], more: Mapping[str, Schema]) -> Schema:
    """Returns the schema of a completion request.

    Args:
        prompt: properties of the prompt; required.
        models: names of the models.
        more: other properties.
    """
    properties = {
        **prompt, "model": nullable(model_name(models)), "n": nullable(COUNT), "max_tokens": nullable(COUNT),
        "temperature": nullable({**NUMBER, "minimum": 0}), "top_p": nullable({**NUMBER, "exclusiveMinimum": 0,
                                                                              "maximum": 1}),
        "stream": nullable(BOOLEAN), "truncate": TRUNCATE,
        "stop": {"anyOf": [nullable(STRING), list_of({**STRING, "minLength": 1}, maxItems=MOST_STOPS)]},
        "stream_options": nullable(object_of({"include_usage": BOOLEAN, "include_obfuscation": BOOLEAN},
                                             optional=("include_usage", "include_obfuscation"))),
        "logprobs": {"enum": [None, False, True if "messages" in prompt else 0]}, **TERMS, **SEARCH, **more,
        **{name: {"enum": [None, *values]} for name, values in NEUTRAL.items()}, **{name: {} for name in IGNORED},
    }  # fmt: skip
    return object_of(properties, optional=set(properties) - set(prompt))


def openai_answer(kind: str, choice: Mapping[str, Schema]) -> Schema:
    """Returns the schema of a response with OpenAI's `object` `kind`; `choice` has the properties of each choice."""
    facts: Mapping[str, Schema] = {"logprobs": nullable(ANY_OBJECT), "finish_reason": _REASON, "cut": {"const": True}}
    choices = list_of(object_of({"index": INTEGER, **choice, **facts}, optional=("cut",)))
    return object_of(
        {"id": STRING, "object": {"const": kind}, "created": INTEGER, "model": STRING, "choices": choices,
         "usage": _USAGE}, optional=("usage",),
    )  # fmt: skip
