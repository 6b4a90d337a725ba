"""Error responses: one line of JSON, in the format that clients of the address expect, and one line in the log."""

import logging
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from t2t.errors import MachineError, UnknownNameError, UserError, one_line

log = logging.getLogger("t2t")

OPENAI_PATHS = ("/v1/completions", "/v1/chat/completions")
"""Addresses of OpenAI's interface, whose errors have its format, as have those of its other addresses, which are not
served."""

_PARAM = re.compile(r"(?:the request: )?'?([a-z_]+)(?:['=:]|(?= (?:['\"\[{0-9-]|True|False)))")
"""What a message begins with: the name of a field of the request, if it is about one."""
_PARAM_NAMES = {"n_best": "n", "sampling_temperature": "temperature", "sampling_top_p": "top_p"}
"""OpenAI's names of fields."""
_OPENAI_TYPES = {429: "rate_limit_error"}
_LOG_CHARS = 300
"""Longest reason of a refusal in the log, in characters."""


CONTEXT_LENGTH = "context_length_exceeded"
"""OpenAI's code for a text that is too long."""


class ContextLengthError(UserError):
    """A text is longer than the model reads."""


def error_body(path: str, status: int, message: str, code: str | None = None) -> dict[str, Any]:
    """Returns the JSON of an error; `code` is OpenAI's, for clients of that interface."""
    is_openai = path in OPENAI_PATHS or (path.startswith("/v1/") and not path.startswith("/v1/models"))
    if not is_openai:
        return {"error": message}
    found = _PARAM.match(message) if 400 <= status < 500 and code is None else None
    param = _PARAM_NAMES.get(found[1], found[1]) if found else None
    kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error_response(path: str, error: Exception) -> JSONResponse:
    """Returns the response for an error; for a bug in the program, the client gets only the error's type."""
    if isinstance(error, HTTPException):
        status, message, headers = error.status_code, error.detail, error.headers
    elif isinstance(error, UserError | MachineError):
        status = 503 if isinstance(error, MachineError) else 404 if isinstance(error, UnknownNameError) else 400
        message, headers = one_line(error), None
    else:
        status, headers = 500, None
        message = f"internal error ({type(error).__name__}); the log of the server has the details"
    code = CONTEXT_LENGTH if isinstance(error, ContextLengthError) else None
    return JSONResponse(error_body(path, status, message, code), status, headers=headers)


def refuse(path: str, error: Exception) -> JSONResponse:
    """Logs an error, a bug with its traceback, and returns the response for it."""
    response = error_response(path, error)
    if not isinstance(error, HTTPException | UserError | MachineError):
        log.error("%s: a request failed", path, exc_info=error)
        return response
    reason = error.detail if isinstance(error, HTTPException) else one_line(error)
    printable = "".join(c if c.isprintable() else "\ufffd" for c in reason[:_LOG_CHARS])
    level = logging.WARNING if response.status_code >= 500 else logging.INFO
    log.log(level, "refused: %d %s: %s", response.status_code, path, printable)
    return response
