"""One address of the service: its handler and its description for OpenAPI."""

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
    """Schema and example of a request or response body."""

    schema: Schema
    example: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Address:
    """An HTTP method and a path in Starlette's syntax, with handler and description."""

    method: str
    path: str
    handler: Handler
    summary: str
    """One line."""
    query: Mapping[str, Schema] = dataclasses.field(default_factory=dict)
    """Query parameters, all optional."""
    requests: Mapping[str, Content] = dataclasses.field(default_factory=dict)
    """Request body by content type; empty for requests without a body."""
    answers: Mapping[str, Content] = dataclasses.field(default_factory=dict)
    """Body of the response with status 200, by content type."""
