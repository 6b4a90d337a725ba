"""The description of all addresses in OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import t2t
from t2t.serving.address import JSON, Address, Content
from t2t.serving.errors import OPENAI_PATHS
from t2t.serving.schemas import ERROR, OPENAI_ERROR

_PARAMETER = re.compile(r"{(\w+)}")
_TYPES = {"version": "integer"}
"""Types of parameters in paths that are no strings."""


def openapi_document(title: str, addresses: Iterable[Address]) -> dict[str, Any]:
    """Returns the document."""
    paths: dict[str, Any] = {}
    for address in addresses:
        paths.setdefault(address.path, {})[address.method.lower()] = _operation(address)
    info = {"title": title, "version": t2t.__version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def _operation(address: Address) -> dict[str, Any]:
    words = re.findall(r"\w+", _PARAMETER.sub(r"\1", address.path))
    error = OPENAI_ERROR if address.path in OPENAI_PATHS else ERROR
    operation: dict[str, Any] = {
        "summary": address.summary,
        "operationId": "_".join([address.method.lower(), *words]),
        "responses": {
            "200": {"description": "The answer.", "content": _contents(address.answers)},
            "default": {"description": "What was wrong, in one line.", "content": {JSON: {"schema": error}}},
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": _TYPES.get(name, "string")}}
        for name in _PARAMETER.findall(address.path)
    ]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in address.query.items()]
    if parameters:
        operation["parameters"] = parameters
    if address.requests:
        operation["requestBody"] = {"required": True, "content": _contents(address.requests)}
    return operation


def _contents(contents: Mapping[str, Content]) -> dict[str, Any]:
    return {
        kind: {"schema": content.schema} | ({} if content.example is None else {"example": content.example})
        for kind, content in contents.items()
    }
