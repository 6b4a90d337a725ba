"""Errors as answers: one line of JSON, in the form that clients of the address read."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from t2t.errors import UnknownNameError, UserError, one_line

OPENAI_PATHS = ("/v1/completions", "/v1/chat/completions")
"""Addresses whose errors have OpenAI's form."""

_OPENAI_TYPES = {429: "rate_limit_error"}


def error_body(path: str, status: int, message: str) -> dict[str, Any]:
    """Returns the JSON of an error."""
    if path not in OPENAI_PATHS:
        return {"error": message}
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def error_response(path: str, error: Exception) -> JSONResponse:
    """Returns the answer for an HTTPException, a UserError or a MachineError."""
    status, message = status_of(error), message_of(error)
    headers = error.headers if isinstance(error, HTTPException) else None
    return JSONResponse(error_body(path, status, message), status, headers=headers)


def status_of(error: Exception) -> int:
    """Returns the HTTP status of an error."""
    if isinstance(error, HTTPException):
        return error.status_code
    return 404 if isinstance(error, UnknownNameError) else 400 if isinstance(error, UserError) else 503


def message_of(error: Exception) -> str:
    """Returns what a client is told."""
    return error.detail if isinstance(error, HTTPException) else one_line(error)
