"""Routes of the page that asks a service for figures."""

import dataclasses
import functools
import html
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UnknownNameError, UserError
from t2t.inference.translator import Translator
from t2t.serving.address import HTML, JSON, Address, Content
from t2t.serving.insight.curves import curves_of
from t2t.serving.insight.figures import alternatives_json, beam_json, figure_of
from t2t.serving.insight.page import APP_FILES, app_page, static
from t2t.serving.requests import read_json, texts_of
from t2t.serving.schemas import ANY_OBJECT, STRING
from t2t.serving.service import Service
from t2t.specs.constants import EOS_ID, PAD_ID

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""The page may read its own scripts and ask its own server, nothing else."""

MOST_ALTERNATIVES, WIDEST_BEAM = 100, 32

_KINDS = {"script": "text/javascript; charset=utf-8", "style": "text/css; charset=utf-8"}


def insight_addresses(runs: Mapping[str, tuple[RunDir, int | None]]) -> list[Address]:
    """Returns the addresses of the page; `runs`: name of a model -> run, last update of its curves (`curves_of`)."""
    page, plain = {HTML: Content(STRING)}, {JSON: Content(ANY_OBJECT)}
    files = {kind.partition(";")[0]: Content(STRING) for kind in _KINDS.values()}
    addresses = [
        Address(method="GET", path="/", handler=_page, summary="The page.", answers=page),
        Address(method="GET", path="/insight/files/{name}", handler=_file, summary="Files of the page.", answers=files),
        Address(
            method="GET",
            path="/insight/curves",
            handler=functools.partial(_curves, runs),
            summary="The training curves of a run.",
            query={"model": STRING},
            answers=plain,
        ),
    ]
    for name, work, summary in (
        ("figure", _figure, "What the model looked at, of a text and its output."),
        ("beam", _beam, "Every hypothesis that the search held."),
        ("alternatives", _alternatives, "The pieces that are likeliest after a beginning."),
    ):
        answer = functools.partial(_ask_translator, work)
        path = f"/insight/{name}"
        addresses.append(
            Address(method="POST", path=path, handler=answer, summary=summary, requests=plain, answers=plain)
        )
    return addresses


async def _page(service: Service, request: Request) -> Response:
    return HTMLResponse(app_page(list(service.models)), headers={"Content-Security-Policy": POLICY})


async def _file(service: Service, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in APP_FILES:
        raise UnknownNameError(f"file {html.escape(name)} is no part of the page")
    return Response(static(name), media_type=_KINDS["style" if name.endswith(".css") else "script"])


async def _curves(runs: Mapping[str, tuple[RunDir, int | None]], service: Service, request: Request) -> Response:
    model = service.model(request.query_params.get("model"))
    found = await service.run(functools.partial(curves_of, *runs[model.name]))
    return JSONResponse(dataclasses.asdict(found))


async def _ask_translator(
    work: Callable[[Translator, dict[str, Any]], dict[str, Any]], service: Service, request: Request
) -> Response:
    data = read_json(await service.body(request))
    model = service.model(data.get("model"))
    job = functools.partial(work, model.translator, {**data, "model": model.name})
    return JSONResponse(await service.run(job))


def _figure(translator: Translator, data: dict[str, Any]) -> dict[str, Any]:
    (source,) = texts_of([data.get("source")], "source")
    target = data.get("target")
    if "ids" in data:
        target = _output_ids(translator, data)
    elif target is not None:
        (target,) = texts_of([target], "target")
    return figure_of(translator, data["model"], source, target)


def _beam(translator: Translator, data: dict[str, Any]) -> dict[str, Any]:
    (source,) = texts_of([data.get("source")], "source")
    width = _as_int(data, "beam_size", max(translator.hparams.beam_size, 4), WIDEST_BEAM)
    return beam_json(translator, source, _prefix(data), decode_method="beam", beam_size=width)


def _alternatives(translator: Translator, data: dict[str, Any]) -> dict[str, Any]:
    (source,) = texts_of([data.get("source")], "source")
    return alternatives_json(translator, source, _prefix(data), _as_int(data, "count", 10, MOST_ALTERNATIVES))


def _output_ids(translator: Translator, data: dict[str, Any]) -> list[int]:
    ids, size = _ids(data, "ids"), translator.model.spec.targets.vocab_size
    if not ids or EOS_ID in ids[:-1] or not all(PAD_ID < token < size for token in ids):
        raise UserError(f"ids: those of an output are wanted, from {EOS_ID} to {size - 1}, {EOS_ID} only at its end")
    return ids


def _prefix(data: dict[str, Any]) -> list[int]:
    return _ids(data, "prefix") if "prefix" in data else []


def _ids(data: dict[str, Any], name: str) -> list[int]:
    ids = data[name]
    if not isinstance(ids, list) or any(type(token) is not int for token in ids):
        raise UserError(f"{name}: a list of ids is wanted, of a beam or of alternatives")
    return ids


def _as_int(data: dict[str, Any], name: str, default: int, most: int) -> int:
    value = data.get(name, default)
    if type(value) is not int or not 1 <= value <= most:
        raise UserError(f"{name} {value!r}: a whole number from 1 to {most} is wanted")
    return value
