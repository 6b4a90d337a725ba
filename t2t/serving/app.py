"""The addresses of the service, and what is answered at each."""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from t2t.errors import MachineError, UnknownNameError, UserError, did_you_mean, one_line
from t2t.serving import requests
from t2t.serving.batcher import FullError
from t2t.serving.measures import Measures
from t2t.serving.models import Answer, Question, ServedModel
from t2t.text.lines import on_one_line

RETRY_S = 1
"""Seconds after which one who was refused for want of room may ask again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """What a request may ask for."""

    most_bytes: int = 1 << 20
    """Of a body."""
    most_texts: int = 128
    """Of a request."""
    seconds: float = 60.0
    """From the whole body to the answer."""


class Service:
    """Models by name, and the requests that are made of them.

    Args:
        models: with different names; the first one answers plain requests that name none.
        limits: of each request.

    Raises:
        UserError: no model, or two of one name.
    """

    def __init__(self, models: Sequence[ServedModel], limits: RequestLimits | None = None):
        names = [model.name for model in models]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UserError(f"two runs are to be served as {twice[0]!r}; name them apart, --output_dir=NAME=RUN")
        self.models = {model.name: model for model in models}
        self.limits = limits or RequestLimits()
        self.measures = Measures()
        for model in models:
            self.measures.watch_queue(model.name, lambda model=model: model.queue.waiting)

    def model(self, name: Any) -> ServedModel:
        """Returns the model of a name, or the first one.

        Raises:
            UnknownNameError: there is none of that name.
        """
        if name is None:
            return next(iter(self.models.values()))
        if not isinstance(name, str) or name not in self.models:
            near = did_you_mean(str(name), self.models)
            raise UnknownNameError(f"model {name!r} is not served; {near}there are {', '.join(self.models)}")
        return self.models[name]

    async def body(self, request: Request) -> bytes:
        """Returns the body of a request.

        Raises:
            HTTPException: it is too large.
        """
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > self.limits.most_bytes:
                raise HTTPException(413, f"the body is larger than {self.limits.most_bytes:,} bytes; send less at once")
        return bytes(body)

    async def answers(self, model: ServedModel, texts: Sequence[str], n_best: int | None = None) -> list[Answer]:
        """Returns the answers to texts, through the model's queue.

        Raises:
            HTTPException: too many texts, no room, or no answer in time.
        """
        if len(texts) > self.limits.most_texts:
            raise HTTPException(413, f"{len(texts)} texts, at most {self.limits.most_texts}; send fewer at once")
        n_best = model.n_best if n_best is None else n_best
        model.check(n_best)
        try:
            futures = model.queue.submit([Question(text, n_best) for text in texts])
        except FullError as error:
            retry = {"Retry-After": str(RETRY_S)}
            raise HTTPException(429, f"too much is waiting: {error}; ask again later", headers=retry) from None
        try:
            async with asyncio.timeout(self.limits.seconds):
                found = await asyncio.gather(*map(asyncio.wrap_future, futures))
        except TimeoutError:
            raise HTTPException(504, f"no answer within {self.limits.seconds:g} seconds; ask for less") from None
        self.measures.note_texts(model.name, len(texts))
        return found

    def close(self) -> None:
        """Answers what still waits, and ends."""
        for model in self.models.values():
            model.queue.close()


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
    texts, is_one, n_best = requests.translation_request(data)
    model = service.model(data.get("model"))
    return JSONResponse(requests.translations(model.name, await service.answers(model, texts, n_best), is_one))


async def health(service: Service, request: Request) -> Response:
    """Answers `GET /healthz`: the models have been loaded, and requests are taken."""
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
    """Returns the application.

    Args:
        service: what answers; closed when the application ends.
        hosts: names by which the service may be addressed: a page of another host that has its name lead here is
            refused. `*` for any.
        more: further routes.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(service.close)

    routes = [Route(path, answering(service, path, handler), methods=[method]) for method, path, handler in _ADDRESSES]
    return Starlette(
        routes=[*routes, *more],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )


def answering(service: Service, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Returns the endpoint of a handler: counted, and with errors as JSON of one line."""

    async def endpoint(request: Request) -> Response:
        start, status = time.perf_counter(), 500  # of what nobody expected
        try:
            response = await _answered(handler, service, request)
            status = response.status_code
            return response
        finally:
            service.measures.note_request(path, status, time.perf_counter() - start)

    return endpoint


async def _answered(handler: Handler, service: Service, request: Request) -> Response:
    try:
        return await handler(service, request)
    except (UserError, MachineError, HTTPException) as error:
        return _error(error)
    except ClientDisconnect:
        return Response(status_code=499)  # nobody reads it; it is counted


def _error(error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
    code = 404 if isinstance(error, UnknownNameError) else 400 if isinstance(error, UserError) else 503
    return JSONResponse({"error": one_line(error)}, code)


async def _http_error(request: Request, error: Any) -> JSONResponse:
    return _error(error)
