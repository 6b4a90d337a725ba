"""One address of the service: what answers there, and how it is described."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from t2t.serving.service import Service

Handler = Callable[[Service, Request], Awaitable[Response]]
Schema = dict[str, Any]
"""JSON Schema of 2020-12, as in OpenAPI 3.1."""

JSON, TEXT, EVENTS, HTML = "application/json", "text/plain", "text/event-stream", "text/html"
"""Types of content."""


class Content(NamedTuple):
    """A body of a request or an answer."""

    schema: Schema
    example: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Address:
    """A method and a path, as Starlette has it."""

    method: str
    path: str
    handler: Handler
    summary: str
    """One line."""
    query: Mapping[str, Schema] = dataclasses.field(default_factory=dict)
    """Parameters after the question mark, all optional."""
    requests: Mapping[str, Content] = dataclasses.field(default_factory=dict)
    """By type; empty where it has no body."""
    answers: Mapping[str, Content] = dataclasses.field(default_factory=dict)
    """By type, with status 200."""
