"""Request handlers: translation, the interfaces of TensorFlow Serving and OpenAI, and the state of the service."""

import time
from collections import Counter
from email.message import Message
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from t2t.errors import UnknownNameError, UserError
from t2t.files.lines import lines_of_bytes, on_one_line
from t2t.serving import plain_answers, plain_requests
from t2t.serving.address import EVENTS, HTML, TEXT
from t2t.serving.events import event_response, text_pieces
from t2t.serving.home import POLICY, home_json, home_page
from t2t.serving.models import Question, ServedModel
from t2t.serving.openai_answers import Completion
from t2t.serving.openai_requests import OpenAIRequest, chat_request, completion_request
from t2t.serving.openapi import openapi_document
from t2t.serving.service import Service

_STARTED = int(time.time())
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii")
"""Names of UTF-8, and of ASCII, which is a part of it."""


async def home(service: Service, request: Request) -> Response:
    """Answers `GET /`: JSON, or an HTML page for clients that accept HTML."""
    info = home_json(service, request.app.state.addresses)
    if HTML in request.headers.get("accept", ""):
        return HTMLResponse(home_page(info, str(request.base_url)), headers={"Content-Security-Policy": POLICY})
    return JSONResponse(info)


async def openapi(service: Service, request: Request) -> Response:
    """Answers `GET /openapi.json`."""
    return JSONResponse(openapi_document("t2t-server", request.app.state.addresses))


async def health(service: Service, request: Request) -> Response:
    """Answers `GET /healthz`."""
    return JSONResponse({"status": "ok", "models": list(service.models)})


async def metrics(service: Service, request: Request) -> Response:
    """Answers `GET /metrics`."""
    return Response(service.measures.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


# === Models ===


async def names(service: Service, request: Request) -> Response:
    """Answers `GET /v1/models`, in the plain format and in OpenAI's."""
    data = [_openai_model(model) for model in service.models.values()]
    return JSONResponse({"models": list(service.models), "object": "list", "data": data})


async def status(service: Service, request: Request) -> Response:
    """Answers `GET /v1/models/NAME`, in the formats of TensorFlow Serving and OpenAI."""
    model = _version(service, request)
    return JSONResponse(plain_answers.status(model.step) | _openai_model(model))


async def metadata(service: Service, request: Request) -> Response:
    """Answers `GET /v1/models/NAME/metadata`, in the format of TensorFlow Serving."""
    model = _version(service, request)
    return JSONResponse(plain_answers.metadata(model.name, model.step))


async def version_status(service: Service, request: Request) -> Response:
    """Answers `GET /v1/models/NAME/versions/STEP`."""
    return JSONResponse(plain_answers.status(_version(service, request).step))


def _openai_model(model: ServedModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": _STARTED, "owned_by": "t2t"}


def _version(service: Service, request: Request) -> ServedModel:
    model = service.model(request.path_params["name"])
    asked = request.path_params.get("version", str(model.step))
    if asked != str(model.step):
        raise UnknownNameError(f"version {asked:.60} of model {model.name!r} is not served; there is {model.step}")
    return model


# === Texts to texts ===


async def predict(service: Service, request: Request) -> Response:
    """Answers `POST /v1/models/NAME:predict`."""
    model = _version(service, request)
    data = plain_requests.read_json(await service.body(request))
    texts, by_rows = plain_requests.prediction_texts(data)
    truncate = plain_requests.option(data, plain_requests.TRUNCATE)
    questions = await run_in_threadpool(service.questions, model, texts, truncate=truncate)
    answers = await service.answers(model, questions)
    return JSONResponse(plain_answers.prediction(answers, by_rows))


async def translate(service: Service, request: Request) -> Response:
    """Answers `POST /translate`: JSON for JSON, or lines of plain text for lines."""
    body = await service.body(request)
    if _is_plain_text(request.headers.get("content-type", "")):
        return await _translate_lines(service, request, body)
    data = plain_requests.read_json(body)
    asked = plain_requests.translation_request(data)
    model = service.model(_asked_model(request, data))
    how = (asked.texts, asked.n_best, asked.changes, None, asked.terms)
    questions = await run_in_threadpool(service.questions, model, *how, truncate=asked.truncate)
    if asked.is_stream or EVENTS in request.headers.get("accept", ""):
        plain_requests.only_text(asked.texts)
        return await event_response(request.url.path, _translation_events(service, model, questions[0], asked.is_one))
    return JSONResponse(plain_answers.translations(model.name, await service.answers(model, questions), asked.is_one))


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


def _asked_model(request: Request, data: dict[str, Any]) -> Any:
    """Returns the model that the body or the query names, None for neither; raises UserError for two different ones."""
    in_body, in_query = data.get("model"), request.query_params.get("model")
    if in_body is None or in_query is None or in_body == in_query:
        return in_query if in_body is None else in_body
    raise UserError(f"model {in_body!r:.100} in the body, {in_query!r:.100} in the query: name one, in one of them")


async def _translate_lines(service: Service, request: Request, body: bytes) -> Response:
    packing = request.headers.get("content-encoding", "").lower()
    if packing not in ("", "identity", "gzip", "x-gzip"):
        raise HTTPException(415, f"content-encoding {packing!r:.60}: lines are plain or gzip; send them so")
    lines, is_ended = lines_of_bytes(body, Counter(), "the body", service.limits.most_bytes)
    model = service.model(request.query_params.get("model"))
    given = {name: {"true": True, "false": False}.get(value, value) for name, value in request.query_params.items()}
    truncate = plain_requests.option(given, plain_requests.TRUNCATE)
    questions = await run_in_threadpool(service.questions, model, lines, 1, truncate=truncate)
    answers = await service.answers(model, questions)
    written = [on_one_line(answer.hypotheses[0].text) for answer in answers]
    return PlainTextResponse("\n".join(written) + "\n" * is_ended, headers=plain_answers.cut_lines(answers))


async def _translation_events(service: Service, model: ServedModel, question: Question, is_one: bool):
    async for pieces, answer in text_pieces(service.stream(model, question)):
        for number, piece in pieces.items():
            yield {"output": number, "delta": piece}
        if answer is not None:
            yield plain_answers.translations(model.name, [answer], is_one)


async def complete(service: Service, request: Request) -> Response:
    """Answers `POST /v1/completions`."""
    data = plain_requests.read_json(await service.body(request))
    model = service.model(data.get("model"))
    return await _complete(service, request, model, completion_request(data, model), is_chat=False)


async def complete_chat(service: Service, request: Request) -> Response:
    """Answers `POST /v1/chat/completions`."""
    data = plain_requests.read_json(await service.body(request))
    model = service.model(data.get("model"))
    return await _complete(service, request, model, chat_request(data, model), is_chat=True)


async def _complete(
    service: Service, request: Request, model: ServedModel, asked: OpenAIRequest, is_chat: bool
) -> Response:
    completion = Completion(model, asked, is_chat)
    how = (asked.texts, asked.n_searched, asked.changes, asked.most_tokens, asked.terms)
    questions = await run_in_threadpool(service.questions, model, *how, truncate=asked.truncate)
    if asked.is_stream:
        plain_requests.only_text(asked.texts)
        return await event_response(request.url.path, completion.chunks(service.stream(model, questions[0])))
    answers = await service.answers(model, questions)
    return JSONResponse(await run_in_threadpool(completion.response, answers))
