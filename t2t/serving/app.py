"""The addresses of the service and their handlers."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from t2t.errors import MachineError, UnknownNameError, UserError, one_line
from t2t.files.lines import on_one_line
from t2t.serving import requests
from t2t.serving.models import ServedModel
from t2t.serving.origins import OriginCheck
from t2t.serving.service import Service

log = logging.getLogger("t2t")

_LOG_CHARS = 300
"""Characters of a refusal's reason in the log."""

Handler = Callable[[Service, Request], Awaitable[Response]]


async def predict(service: Service, request: Request) -> Response:
    """Answers `POST /v1/models/NAME:predict`."""
    model = _version(service, request)
    texts, by_rows = requests.prediction_texts(requests.read_json(await service.body(request)))
    return JSONResponse(requests.prediction(await service.answers(model, texts), by_rows))


async def status(service: Service, request: Request) -> Response:
    """Answers `GET /v1/models/NAME`."""
    return JSONResponse(requests.status(_version(service, request).step))


async def names(service: Service, request: Request) -> Response:
    """Answers `GET /v1/models`."""
    return JSONResponse({"models": list(service.models)})


async def translate(service: Service, request: Request) -> Response:
    """Answers `POST /translate`: JSON, or lines of plain text, which give lines."""
    body = await service.body(request)
    if request.headers.get("content-type", "").startswith("text/plain"):
        lines = body.decode("utf-8", "replace").split("\n")
        ended = [""] if len(lines) > 1 and not lines[-1] else []
        lines = [line.removesuffix("\r") for line in lines[: len(lines) - len(ended)]]
        texts = requests.texts_of(lines, "lines")
        answers = await service.answers(service.model(request.query_params.get("model")), texts, 1)
        written = [on_one_line(answer.hypotheses[0].text) for answer in answers]
        return PlainTextResponse("\n".join(written + ended))
    data = requests.read_json(body)
    asked = requests.translation_request(data)
    model = service.model(data.get("model"))
    answers = await service.answers(model, asked.texts, asked.n_best, asked.changes)
    return JSONResponse(requests.translations(model.name, answers, asked.is_one))


async def health(service: Service, request: Request) -> Response:
    """Answers `GET /healthz`."""
    return JSONResponse({"status": "ok", "models": list(service.models)})


async def metrics(service: Service, request: Request) -> Response:
    """Answers `GET /metrics`."""
    return Response(service.measures.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _version(service: Service, request: Request) -> ServedModel:
    model = service.model(request.path_params["name"])
    asked = request.path_params.get("version", model.step)
    if asked != model.step:
        raise UnknownNameError(f"version {asked} of model {model.name!r} is not served; there is {model.step}")
    return model


_ADDRESSES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/v1/models", names),
    ("GET", "/v1/models/{name}", status),
    ("GET", "/v1/models/{name}/versions/{version:int}", status),
    ("POST", "/v1/models/{name}:predict", predict),
    ("POST", "/v1/models/{name}/versions/{version:int}:predict", predict),
    ("POST", "/translate", translate),
    ("GET", "/healthz", health),
    ("GET", "/metrics", metrics),
)


def build_app(service: Service, hosts: Sequence[str], more: Iterable[BaseRoute] = ()) -> Starlette:
    """Returns the application, which closes the service at its end; see `OriginCheck` for `hosts`."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.close)

    routes = [
        Route(path, build_endpoint(service, path, handler), methods=[method]) for method, path, handler in _ADDRESSES
    ]
    return Starlette(
        routes=[*routes, *more],
        middleware=[Middleware(OriginCheck, hosts=hosts)],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )


def build_endpoint(service: Service, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Returns the endpoint of a handler: counted, and with errors logged and answered as one line of JSON."""

    async def endpoint(request: Request) -> Response:
        start, status = time.perf_counter(), 500  # where the server stops it
        try:
            response = await _answered(handler, service, request, path)
            status = response.status_code
            return response
        finally:
            service.measures.note_request(path, status, time.perf_counter() - start)

    return endpoint


async def _answered(handler: Handler, service: Service, request: Request, path: str) -> Response:
    try:
        return await handler(service, request)
    except (UserError, MachineError, HTTPException) as error:
        response = _error_response(error)
        reason = error.detail if isinstance(error, HTTPException) else one_line(error)
        printable = "".join(c if c.isprintable() else "\ufffd" for c in reason[:_LOG_CHARS])
        level = logging.WARNING if response.status_code >= 500 else logging.INFO
        log.log(level, "refused: %d %s: %s", response.status_code, path, printable)
        return response
    except ClientDisconnect:
        return Response(status_code=499)  # nobody reads it; it is counted
    except Exception as error:
        log.exception("%s: a request failed", path)
        name = type(error).__name__
        return JSONResponse({"error": f"internal error ({name}); the log of the server has the details"}, 500)


def _error_response(error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
    code = 404 if isinstance(error, UnknownNameError) else 400 if isinstance(error, UserError) else 503
    return JSONResponse({"error": one_line(error)}, code)


async def _http_error(request: Request, error: Any) -> JSONResponse:
    return _error_response(error)
