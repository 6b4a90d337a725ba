"""The addresses of the service: how each request becomes an answer, their description, and a page for people."""

import asyncio
import contextlib
import dataclasses
import html
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from email.message import Message
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

import t2t
from t2t.errors import UnknownNameError, UserError
from t2t.files.lines import lines_of_bytes, on_one_line
from t2t.serving import answers, requests
from t2t.serving.connections import OriginCheck
from t2t.serving.engine import ServingEngine
from t2t.serving.models import ServedModel

JSON, TEXT, EVENTS, HTML = "application/json", "text/plain", "text/event-stream", "text/html"
"""Types of content."""
POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Content security policy: the page may only show text."""
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")
"""Names of UTF-8, and of ASCII, which is a part of it."""
_STARTED = int(time.time())
_TEXT_EXAMPLE = "twenty-one cats"

Handler = Callable[[ServingEngine, Request], Awaitable[Response]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Address:
    """An HTTP method and a path in Starlette's syntax, with handler and description."""

    method: str
    path: str
    handler: Handler
    summary: str
    """One line."""
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Types of the query parameters, all optional."""
    requests: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Type of the body by content type, a struct or another; empty for requests without a body."""
    examples: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Example of the body by content type."""
    answers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Type of the body of the response with status 200, by content type."""


def build_app(
    engine: ServingEngine,
    hosts: Sequence[str],
    more: Iterable[Address] = (),
    origins: Sequence[str] = (),
    reload_s: float = 0.0,
) -> Starlette:
    """Returns the application, which closes the engine at shutdown; see `OriginCheck` for `hosts` and `origins`.

    An address in `more` replaces the built-in one with the same method and path. Every `reload_s` seconds, newer
    checkpoints are looked for; 0 = never.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        watch = asyncio.create_task(engine.watch(reload_s)) if reload_s else None
        yield
        if watch:
            watch.cancel()
        await asyncio.to_thread(engine.close)  # not in the pool of requests, which may all be busy

    addresses = list({(one.method, one.path): one for one in (*_addresses(), *more)}.values())
    how: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"]}
    how |= {"allow_origins": origins, "expose_headers": [answers.CUT_INPUTS, answers.CUT_OUTPUTS]}
    cross_origin = [Middleware(CORSMiddleware, **how)] if origins else []
    app = Starlette(
        routes=[Route(one.path, _build_endpoint(engine, one), methods=[one.method]) for one in addresses],
        middleware=[Middleware(OriginCheck, hosts=hosts, origins=origins), *cross_origin],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.state.addresses = addresses
    return app


def _build_endpoint(engine: ServingEngine, address: Address) -> Callable[[Request], Awaitable[Response]]:
    """Returns the endpoint of an address. It counts requests, and logs errors and returns them as one line of JSON."""

    async def endpoint(request: Request) -> Response:
        start, status = time.perf_counter(), 500  # if the server cancels the request
        try:
            try:
                response = await address.handler(engine, request)
            except ClientDisconnect:
                response = Response(status_code=499)  # nobody reads the response, but it is counted
            except Exception as error:
                response = answers.refuse(address.path, error)
            status = response.status_code
            return response
        finally:
            engine.measures.note_request(address.path, status, time.perf_counter() - start)

    return endpoint


async def _http_error(request: Request, error: Any) -> Response:
    return answers.error_response(request.url.path, error)


def _addresses() -> list[Address]:
    """Returns all addresses, in the order of the page."""
    return [*_state_addresses(), *_translation_addresses(), *_openai_addresses()]


def _state_addresses() -> list[Address]:
    """Returns the addresses that say what is served."""
    own: list[tuple[str, str, Handler, str, dict[str, Any]]] = [
        (
            "GET",
            "/",
            home,
            "What is served: models, limits, addresses; a page for browsers.",
            {JSON: _OBJECT, HTML: str},
        ),
        ("GET", "/healthz", health, "Whether requests are answered.", {JSON: Health}),
        ("GET", "/metrics", metrics, "Counts and times for Prometheus.", {TEXT: str}),
        ("GET", "/openapi.json", openapi, "This description, in OpenAPI 3.1.", {JSON: _OBJECT}),
        ("GET", "/v1/models", models, "The names of the models, also in OpenAI's form.", {JSON: answers.Models}),
    ]
    for path in ("/v1/models/{name}", "/v1/models/{name}/versions/{version}"):
        own += [
            ("GET", path, status, "The state of a model, as TensorFlow Serving has it; its version is its step.",
             {JSON: answers.ModelStatus}),
            ("GET", f"{path}/metadata", metadata, "The signature of a model, as TensorFlow Serving has it.",
             {JSON: _OBJECT}),
        ]  # fmt: skip
    return [
        Address(method=method, path=path, handler=handler, summary=summary, answers=forms)
        for method, path, handler, summary, forms in own
    ]


def _translation_addresses() -> list[Address]:
    """Returns the addresses of our own and TensorFlow Serving's requests, and of newer checkpoints."""
    return [
        Address(
            method="POST",
            path="/translate",
            handler=translate,
            summary="The best outputs for texts, or for each line of plain text; with stream, one as it is written.",
            query={"model": requests.ModelName, "truncate": requests.Truncate},
            requests={JSON: requests.TranslationRequest, TEXT: str},
            examples={JSON: {"text": _TEXT_EXAMPLE, "n_best": 1}, TEXT: _TEXT_EXAMPLE},
            answers={JSON: answers.Translations, TEXT: str, EVENTS: str},
        ),
        *(
            Address(
                method="POST",
                path=f"/v1/models/{{name}}{version}:predict",
                handler=predict,
                summary="The best outputs for texts, as TensorFlow Serving has it.",
                requests={JSON: requests.PredictRequest},
                examples={JSON: {"instances": [_TEXT_EXAMPLE]}},
                answers={JSON: answers.Prediction},
            )
            for version in ("", "/versions/{version}")
        ),
        Address(
            method="POST",
            path="/v1/models/{name}:reload",
            handler=reload,
            summary="Serves the newest checkpoint of a model.",
            answers={JSON: Reloaded},
        ),
    ]


def _openai_addresses() -> list[Address]:
    """Returns the addresses of OpenAI's requests."""
    chat = {"messages": [{"role": "user", "content": _TEXT_EXAMPLE}]}
    forms: list[tuple[str, Handler, type, dict[str, Any], type]] = [
        ("/v1/completions", complete, requests.CompletionRequest, {"prompt": _TEXT_EXAMPLE}, answers.TextCompletion),
        ("/v1/chat/completions", complete_chat, requests.ChatRequest, chat, answers.ChatCompletion),
    ]
    return [
        Address(
            method="POST",
            path=path,
            handler=handler,
            summary="Outputs for a text, as OpenAI's clients ask for them.",
            requests={JSON: form},
            examples={JSON: example},
            answers={JSON: answer, EVENTS: str},
        )
        for path, handler, form, example, answer in forms
    ]


# === Texts to texts ===


async def read_body(engine: ServingEngine, request: Request) -> bytes:
    """Returns the body of a request; raises HTTPException if it is too large or too slow."""
    limits = engine.limits
    too_large = HTTPException(413, f"the body is larger than {limits.most_bytes:,} bytes; send less at once")
    if int(request.headers.get("content-length", 0)) > limits.most_bytes:
        raise too_large
    body = bytearray()
    try:
        async with engine.within(limits.body_seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.most_bytes:
                    raise too_large
    except TimeoutError:
        reason = f"the body did not arrive within {limits.body_seconds:g} seconds; send less at once"
        raise HTTPException(408, reason, headers={"Connection": "close"}) from None
    return bytes(body)


async def read_object(engine: ServingEngine, request: Request) -> dict[str, Any]:
    """Returns the JSON object of a body; raises as `read_body`, and RequestError for anything else."""
    return requests.decode(await read_body(engine, request), dict[str, Any])


async def translate(engine: ServingEngine, request: Request) -> Response:
    """Answers `POST /translate`: JSON for JSON, or lines of plain text for lines."""
    body = await read_body(engine, request)
    line_query = requests.convert(dict(request.query_params), requests.LineQuery, strict=False)
    if _is_plain_text(request.headers.get("content-type", "")):
        return await _translate_lines(engine, request, body, line_query)
    asked = requests.decode(body, requests.TranslationRequest)
    if None not in (asked.model, line_query.model) and asked.model != line_query.model:
        raise UserError(f"model {asked.model!r:.100} in the body, {line_query.model!r:.100} in the query: name one, in "
                        "one of them")  # fmt: skip
    model, query = engine.model(asked.model or line_query.model), asked.query
    is_one = isinstance(asked.text, str)
    if asked.stream or EVENTS in request.headers.get("accept", ""):
        events = answers.translation_events(model.name, engine.stream(model, query), is_one)
        return await event_response(request.url.path, events)
    return _json(answers.translations(model.name, await engine.translate(model, query), is_one))


def _is_plain_text(content_type: str) -> bool:
    """Returns whether a Content-Type header names plain text; raises HTTPException for one that is not UTF-8."""
    if content_type.partition(";")[0].strip().lower() != TEXT:
        return False
    header = Message()
    header["Content-Type"] = content_type
    charset = header.get_content_charset("utf-8")
    if charset not in _CHARSETS:
        raise HTTPException(415, f"charset {charset!r:.60}: lines are read as UTF-8; send them so")
    return True


async def _translate_lines(engine: ServingEngine, request: Request, body: bytes, asked: requests.LineQuery) -> Response:
    packing = request.headers.get("content-encoding", "").lower()
    if packing not in ("", "identity", "gzip", "x-gzip"):
        raise HTTPException(415, f"content-encoding {packing!r:.60}: lines are plain or gzip; send them so")
    lines, is_ended = lines_of_bytes(body, Counter(), "the body", engine.limits.most_bytes)
    query = requests.Query(texts=lines, n_best=1, truncate=asked.truncate)
    found = await engine.translate(engine.model(asked.model), query)
    written = [on_one_line(answer.hypotheses[0].text) for answer in found]
    return PlainTextResponse("\n".join(written) + "\n" * is_ended, headers=answers.cut_lines(found))


async def predict(engine: ServingEngine, request: Request) -> Response:
    """Answers `POST /v1/models/NAME:predict`."""
    model = _version(engine, request)
    asked = requests.decode(await read_body(engine, request), requests.PredictRequest)
    return _json(answers.prediction(await engine.translate(model, asked.query), asked.by_rows))


async def complete(engine: ServingEngine, request: Request) -> Response:
    """Answers `POST /v1/completions`."""
    return await _complete(engine, request, requests.CompletionRequest)


async def complete_chat(engine: ServingEngine, request: Request) -> Response:
    """Answers `POST /v1/chat/completions`."""
    return await _complete(engine, request, requests.ChatRequest)


async def _complete(
    engine: ServingEngine, request: Request, form: type[requests.CompletionRequest | requests.ChatRequest]
) -> Response:
    asked = requests.decode(await read_body(engine, request), form)
    model, query = engine.model(asked.model), asked.query
    completion = answers.Completion(model, asked)
    if asked.stream:
        return await event_response(request.url.path, completion.chunks(query.texts[0], engine.stream(model, query)))
    found = await engine.translate(model, query)
    return _json(await run_in_threadpool(completion.response, query.texts, found))


def _json(found: Any) -> Response:
    return JSONResponse(answers.to_json(found))


async def event_response(path: str, events: AsyncIterator[Any]) -> StreamingResponse:
    """Returns a response that sends each event, JSON or plain text, as soon as it is available.

    An error before the first event is raised; a later error is sent as the last event.
    """
    first = await anext(events)

    async def parts() -> AsyncIterator[bytes]:
        yield answers.event(first)
        try:
            async for event in events:
                yield answers.event(event)
        except Exception as error:
            yield b"data: " + bytes(answers.refuse(path, error).body) + b"\n\n"

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts(), media_type=EVENTS, headers=headers)


# === Models and the state of the service ===


class Health(msgspec.Struct, forbid_unknown_fields=True):
    """Whether requests are answered, and the names of the models."""

    status: str
    models: list[str]


async def health(engine: ServingEngine, request: Request) -> Response:
    """Answers `GET /healthz`."""
    return _json(Health("ok", list(engine.models)))


async def metrics(engine: ServingEngine, request: Request) -> Response:
    """Answers `GET /metrics`."""
    return Response(engine.measures.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def models(engine: ServingEngine, request: Request) -> Response:
    """Answers `GET /v1/models`, in the plain format and in OpenAI's."""
    data = [answers.OpenAIModel(name, _STARTED) for name in engine.models]
    return _json(answers.Models(models=list(engine.models), data=data))


async def status(engine: ServingEngine, request: Request) -> Response:
    """Answers `GET /v1/models/NAME`, in the formats of TensorFlow Serving and OpenAI, and that of a version."""
    model = _version(engine, request)
    more = {} if "version" in request.path_params else msgspec.to_builtins(answers.OpenAIModel(model.name, _STARTED))
    return _json(answers.ModelStatus([answers.VersionStatus(str(model.step))], **more))


class Reloaded(msgspec.Struct, forbid_unknown_fields=True):
    """The step of a model that is served, and whether that has changed."""

    model: str
    step: int
    reloaded: bool


async def reload(engine: ServingEngine, request: Request) -> Response:
    """Answers `POST /v1/models/NAME:reload`."""
    name = engine.model(request.path_params["name"]).name
    is_newer = await engine.reload(engine.models[name])
    return _json(Reloaded(name, engine.models[name].step, is_newer))


async def metadata(engine: ServingEngine, request: Request) -> Response:
    """Answers `GET /v1/models/NAME/metadata`, in the format of TensorFlow Serving."""
    model = _version(engine, request)
    return JSONResponse(answers.metadata(model.name, model.step))


def _version(engine: ServingEngine, request: Request) -> ServedModel:
    model = engine.model(request.path_params["name"])
    asked = request.path_params.get("version", str(model.step))
    if asked != str(model.step):
        raise UnknownNameError(f"version {asked:.60} of model {model.name!r} is not served", f"there is {model.step}")
    return model


# === The description of all addresses in OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0) ===

_OBJECT = dict[str, Any]
_PARAMETER = re.compile(r"{(\w+)}")


async def openapi(engine: ServingEngine, request: Request) -> Response:
    """Answers `GET /openapi.json`."""
    return JSONResponse(openapi_document(engine, request.app.state.addresses))


def openapi_document(engine: ServingEngine, addresses: Sequence[Address]) -> dict[str, Any]:
    """Returns the document: what msgspec says of the structs, with what the service knows."""
    types = dict.fromkeys([int, str, answers.Error, answers.OpenAIError])
    for one in addresses:
        types |= dict.fromkeys([*one.query.values(), *one.requests.values(), *one.answers.values()])
    schemas, structs = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    either = requests.EITHER | {answers.Prediction: ("predictions", "outputs")}
    for struct, names in either.items():
        structs[struct.__name__]["oneOf"] = [{"required": [name]} for name in names]
    schema_of, paths = dict(zip(types, schemas, strict=True)), dict[str, Any]()
    for one in addresses:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schema_of)
    info = {"title": "t2t-server", "version": t2t.__version__}
    document = {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": structs}}
    known = {requests.SERVED_MODELS: list(engine.models), requests.MOST_TEXTS: engine.limits.most_texts}
    return _filled(document, known)


def _operation(address: Address, schema_of: Mapping[Any, Any]) -> dict[str, Any]:
    words = re.findall(r"\w+", _PARAMETER.sub(r"\1", address.path))
    error = schema_of[answers.OpenAIError if address.path in answers.OPENAI_PATHS else answers.Error]
    contents = {kind: {"schema": schema_of[form]} for kind, form in address.answers.items()}
    operation: dict[str, Any] = {
        "summary": address.summary,
        "operationId": "_".join([address.method.lower(), *words]),
        "responses": {
            "200": {"description": "The answer.", "content": contents},
            "default": {"description": "What was wrong, in one line.", "content": {JSON: {"schema": error}}},
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema_of[int if name == "version" else str]}
        for name in _PARAMETER.findall(address.path)
    ]
    parameters += [{"name": name, "in": "query", "schema": schema_of[form]} for name, form in address.query.items()]
    if parameters:
        operation["parameters"] = parameters
    if address.requests:
        contents = {
            kind: {"schema": schema_of[form]}
            | ({"example": example} if (example := address.examples.get(kind)) else {})
            for kind, form in address.requests.items()
        }
        operation["requestBody"] = {"required": True, "content": contents}
    return operation


def _filled(schema: Any, known: Mapping[str, Any]) -> Any:
    """Returns a document with values for their names in `known`."""
    if isinstance(schema, dict):
        return {name: _filled(value, known) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_filled(value, known) for value in schema]
    return known.get(schema, schema) if isinstance(schema, str) else schema


# === The page ===


async def home(engine: ServingEngine, request: Request) -> Response:
    """Answers `GET /`: JSON, or an HTML page for clients that accept HTML."""
    info = {
        "version": t2t.__version__,
        "models": [model.describe() for model in engine.models.values()],
        "limits": dataclasses.asdict(engine.limits),
        "addresses": [
            {"method": one.method, "path": one.path, "summary": one.summary} for one in request.app.state.addresses
        ],
    }
    if HTML in request.headers.get("accept", ""):
        return HTMLResponse(_page(info, str(request.base_url)), headers={"Content-Security-Policy": POLICY})
    return JSONResponse(info)


def _page(info: dict[str, Any], base: str) -> str:
    models = _table([{name: _shown(value) for name, value in one.items()} for one in info["models"]])
    example = """curl -d '{"text": "..."}' """ + f"{base}translate"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width">
<title>t2t-server</title>
</head>
<body>
<h1>t2t-server {html.escape(info["version"])}</h1>
<pre>{html.escape(example)}</pre>
<h2>Models</h2>
{models}
<h2>Addresses</h2>
{_table(info["addresses"])}
<p>All of them are described in <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>
<h2>Limits of a request</h2>
{_table([info["limits"]])}
</body>
</html>
"""


def _shown(value: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def _table(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [("th", names), *(("td", [str(row.get(name, "")) for name in names]) for row in rows)]
    cells = [f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in line)}</tr>" for tag, line in lines]
    return "<table>\n" + "\n".join(cells) + "\n</table>"
