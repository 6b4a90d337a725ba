"""The table of addresses, and the Starlette application that serves them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from t2t.serving import handlers, schemas
from t2t.serving.address import EVENTS, HTML, JSON, TEXT, Address, Content
from t2t.serving.errors import error_response, refuse
from t2t.serving.origins import OriginCheck
from t2t.serving.plain_answers import CUT_INPUTS, CUT_OUTPUTS
from t2t.serving.service import Service

_EXAMPLE = "twenty-one cats"


def build_app(
    service: Service, hosts: Sequence[str], more: Iterable[Address] = (), origins: Sequence[str] = ()
) -> Starlette:
    """Returns the application, which closes the service at shutdown; see `OriginCheck` for `hosts` and `origins`.

    An address in `more` replaces the built-in one with the same method and path.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)  # not in the pool of requests, which may all be busy

    addresses = list({(one.method, one.path): one for one in (*_addresses(service), *more)}.values())
    how: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
    how |= {"allow_origins": origins, "expose_headers": [CUT_INPUTS, CUT_OUTPUTS]}
    cross_origin = [Middleware(CORSMiddleware, **how)] if origins else []
    app = Starlette(
        routes=[Route(one.path, _build_endpoint(service, one), methods=[one.method]) for one in addresses],
        middleware=[Middleware(OriginCheck, hosts=hosts, origins=origins), *cross_origin],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.state.addresses = addresses
    return app


def _build_endpoint(service: Service, address: Address) -> Callable[[Request], Awaitable[Response]]:
    """Returns the endpoint of an address. It counts requests, and logs errors and returns them as one line of JSON."""
    path = address.path

    async def endpoint(request: Request) -> Response:
        start, status = time.perf_counter(), 500  # if the server cancels the request
        try:
            response = await _answered(address, service, request)
            status = response.status_code
            return response
        finally:
            service.measures.note_request(path, status, time.perf_counter() - start)

    return endpoint


async def _answered(address: Address, service: Service, request: Request) -> Response:
    try:
        return await address.handler(service, request)
    except ClientDisconnect:
        return Response(status_code=499)  # nobody reads the response, but it is counted
    except Exception as error:
        return refuse(address.path, error)


async def _http_error(request: Request, error: Any) -> Response:
    return error_response(request.url.path, error)


def _addresses(service: Service) -> list[Address]:
    return [*_own_addresses(service), *_tensorflow_addresses(service), *_openai_addresses(service)]


def _own_addresses(service: Service) -> list[Address]:
    names, texts = list(service.models), service.limits.most_texts
    return [
        Address(
            method="GET",
            path="/",
            handler=handlers.home,
            summary="What is served: models, limits, addresses; a page for browsers.",
            answers={JSON: Content(schemas.ANY_OBJECT), HTML: Content(schemas.STRING)},
        ),
        Address(
            method="POST",
            path="/translate",
            handler=handlers.translate,
            summary="The best outputs for texts, or for each line of plain text; with stream, one as it is written.",
            query={"model": schemas.model_name(names), "truncate": schemas.BOOLEAN},
            requests={
                JSON: Content(schemas.translation_request(texts, names), {"text": _EXAMPLE, "n_best": 1}),
                TEXT: Content(schemas.STRING, _EXAMPLE),
            },
            answers={
                JSON: Content(schemas.TRANSLATIONS),
                TEXT: Content(schemas.STRING),
                EVENTS: Content(schemas.STRING),
            },
        ),
        Address(
            method="GET",
            path="/healthz",
            handler=handlers.health,
            summary="Whether requests are answered.",
            answers={
                JSON: Content(schemas.object_of({"status": schemas.STRING, "models": schemas.list_of(schemas.STRING)}))
            },
        ),
        Address(
            method="GET",
            path="/metrics",
            handler=handlers.metrics,
            summary="Counts and times for Prometheus.",
            answers={TEXT: Content(schemas.STRING)},
        ),
        Address(
            method="GET",
            path="/openapi.json",
            handler=handlers.openapi,
            summary="This description, in OpenAPI 3.1.",
            answers={JSON: Content(schemas.ANY_OBJECT)},
        ),
    ]


def _tensorflow_addresses(service: Service) -> list[Address]:
    request = Content(schemas.prediction_request(service.limits.most_texts), {"instances": [_EXAMPLE]})
    model, version = "/v1/models/{name}", "/v1/models/{name}/versions/{version}"
    statuses = [(model, handlers.status), (version, handlers.version_status)]
    described = [f"{path}/metadata" for path in (model, version)]
    return [
        Address(
            method="GET",
            path="/v1/models",
            handler=handlers.names,
            summary="The names of the models, also in OpenAI's form.",
            answers={JSON: Content(schemas.MODELS)},
        ),
        *(
            Address(
                method="GET",
                path=path,
                handler=handler,
                summary="The state of a model, as TensorFlow Serving has it; its version is its step.",
                answers={JSON: Content(schemas.STATUS)},
            )
            for path, handler in statuses
        ),
        *(
            Address(
                method="GET",
                path=path,
                handler=handlers.metadata,
                summary="The signature of a model, as TensorFlow Serving has it.",
                answers={JSON: Content(schemas.ANY_OBJECT)},
            )
            for path in described
        ),
        *(
            Address(
                method="POST",
                path=f"{path}:predict",
                handler=handlers.predict,
                summary="The best outputs for texts, as TensorFlow Serving has it.",
                requests={JSON: request},
                answers={JSON: Content(schemas.PREDICTION)},
            )
            for path in (model, version)
        ),
    ]


def _openai_addresses(service: Service) -> list[Address]:
    names, texts = list(service.models), service.limits.most_texts
    kinds = [
        ("/v1/completions", handlers.complete, {"prompt": schemas.one_or_several(texts)}, {"prompt": _EXAMPLE},
         "text_completion", {"text": schemas.STRING}, {"echo": schemas.nullable(schemas.BOOLEAN)}),
        ("/v1/chat/completions", handlers.complete_chat, {"messages": schemas.list_of(schemas.ANY_OBJECT, minItems=1)},
         {"messages": [{"role": "user", "content": _EXAMPLE}]}, "chat.completion", {"message": schemas.ANY_OBJECT},
         {"max_completion_tokens": schemas.nullable(schemas.COUNT)}),
    ]  # fmt: skip
    return [
        Address(
            method="POST",
            path=path,
            handler=handler,
            summary="Outputs for a text, as OpenAI's clients ask for them.",
            requests={JSON: Content(schemas.openai_request(prompt, names, more), example)},
            answers={JSON: Content(schemas.openai_answer(kind, choice)), EVENTS: Content(schemas.STRING)},
        )
        for path, handler, prompt, example, kind, choice, more in kinds
    ]
