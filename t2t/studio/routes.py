"""Addresses of the pages and of their requests to the service."""

import functools
import html
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from t2t.errors import UnknownNameError
from t2t.runs.startup import prepare_framework
from t2t.serving.engine import ServingEngine
from t2t.serving.routes import EVENTS, HTML, JSON, Address, Handler, event_response, read_object
from t2t.studio import data_answers, run_answers
from t2t.studio.page import APP_FILES, PAGES, PLOTLY, app_page, figures_page, plotly_file, static
from t2t.studio.studio import Studio

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "media-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: pages may only load their own scripts and query their own server."""

_KINDS = {"script": "text/javascript; charset=utf-8", "style": "text/css; charset=utf-8"}
_MODEL_ANSWERS = {
    "load": "Loads the model of a checkpoint, and returns its step.",
    "figure": "Attention for a text and its output.",
    "beam": "All hypotheses of a beam search.",
    "alternatives": "The most probable pieces after a prefix.",
    "outputs": "The best outputs for texts.",
    "example": "Output of a model for a picture or a sound of a split.",
    "occlusion": "How much less probable an output is when parts of a picture are covered.",
}
"""Requests handled by `<name>_answer` in `t2t.studio.model_answers`, with their summaries."""

_SPLIT = {"run": str, "problem": str, "split": str}
"""Query parameters that select a split."""

Answer = Callable[[Studio, Mapping[str, Any]], dict[str, Any]]


_PLAIN = {JSON: dict[str, Any]}

_LOOKS: dict[str, tuple[Answer, dict[str, Any], str]] = {
    "runs": (run_answers.runs_answer, {}, "The table of runs."),
    "checkpoints": (run_answers.checkpoints_answer, {"run": str}, "The checkpoints of a run."),
    "examples": (
        run_answers.examples_answer,
        {"run": str, "split": str, "count": int},
        "The first examples of a split of a run's data.",
    ),
    "dev_outputs": (
        run_answers.dev_outputs_answer,
        {"run": str, "problem": str, "most": int},
        "Changes of the outputs for dev sentences from evaluation to evaluation.",
    ),
    "data": (data_answers.data_answer, _SPLIT, "Figures of a split of a run's data."),
    "data_examples": (
        data_answers.data_examples_answer,
        {**_SPLIT, "start": int, "count": int, "text": str},
        "Examples of a split, with their pieces and padding.",
    ),
    "data_pieces": (
        data_answers.data_pieces_answer,
        {**_SPLIT, "vocabulary": int, "order": str, "text": str, "start": int, "count": int},
        "Pieces of a vocabulary with how often they occur.",
    ),
}
"""Name -> (handler, query parameters, summary)."""


def insight_addresses(studio: Studio) -> list[Address]:
    """Returns the addresses of the pages and of their requests; raises UserError if Plotly is not installed."""
    plotly_file()
    return [*_page_addresses(studio), *_look_addresses(studio), *_ask_addresses(studio)]


def _page_addresses(studio: Studio) -> list[Address]:
    """Returns the addresses of the pages, their files, and streamed searches."""
    page = {HTML: str}
    files = {kind.partition(";")[0]: str for kind in _KINDS.values()}
    pages = [
        Address(
            method="GET",
            path=one.path,
            handler=functools.partial(_page, studio, one.name),
            summary=f"The page {one.name}.",
            answers=page,
        )
        for one in PAGES
    ]
    return [
        *pages,
        Address(method="GET", path="/insight/files/{name}", handler=_file, summary="Files of a page.", answers=files),
        Address(method="GET", path="/insight/view", handler=_view, summary="A page for figures to save.", answers=page),
        Address(
            method="POST",
            path="/insight/search",
            handler=functools.partial(_search, studio),
            summary="The outputs for a text, streamed during the search.",
            requests=_PLAIN,
            answers={EVENTS: str},
        ),
    ]


def _look_addresses(studio: Studio) -> list[Address]:
    """Returns the GET addresses of data read from runs and their data sets."""
    return [
        Address(
            method="GET",
            path=f"/insight/{name}",
            handler=functools.partial(_look, answer, studio),
            summary=summary,
            query=query,
            answers=_PLAIN,
        )
        for name, (answer, query, summary) in _LOOKS.items()
    ]


def _ask_addresses(studio: Studio) -> list[Address]:
    """Returns the POST addresses of results computed from files of runs, from two systems, or by models."""
    curves, hparams = run_answers.curves_answer, run_answers.hparams_answer
    handlers: dict[str, tuple[Handler, str]] = {
        "curves": (functools.partial(_ask_files, curves, studio), "Training curves of runs."),
        "hparams": (functools.partial(_ask_files, hparams, studio), "Hparams of runs side by side."),
        "comparison": (functools.partial(_compare, studio), "Differences between the outputs of two systems."),
    }
    for name, summary in _MODEL_ANSWERS.items():
        handlers[name] = functools.partial(_ask_model, name, studio), summary
    return [
        Address(
            method="POST",
            path=f"/insight/{name}",
            handler=handler,
            summary=summary,
            requests=_PLAIN,
            answers=_PLAIN,
        )
        for name, (handler, summary) in handlers.items()
    ]


async def _page(studio: Studio, name: str, service: ServingEngine, request: Request) -> Response:
    facts = {"page": name, "hasData": studio.has_data, "mostTexts": service.limits.most_texts}
    return HTMLResponse(app_page(name, facts), headers={"Content-Security-Policy": POLICY})


async def _file(service: ServingEngine, request: Request) -> Response:
    name = request.path_params["name"]
    if name == PLOTLY:  # megabytes, cacheable because the version is in the address
        return FileResponse(plotly_file(), media_type=_KINDS["script"], headers={"Cache-Control": "max-age=31536000"})
    if name not in APP_FILES:
        raise UnknownNameError(f"file {html.escape(name)} is not a file of the page")
    return Response(static(name), media_type=_KINDS["style" if name.endswith(".css") else "script"])


async def _view(service: ServingEngine, request: Request) -> Response:
    """Answers with a page without figures: the browser replaces the empty list by its own."""
    return HTMLResponse(figures_page("What models wrote", []))


async def _look(answer: Answer, studio: Studio, service: ServingEngine, request: Request) -> Response:
    return JSONResponse(await service.read(functools.partial(answer, studio, dict(request.query_params))))


async def _ask_files(answer: Answer, studio: Studio, service: ServingEngine, request: Request) -> Response:
    data = await read_object(service, request)
    return JSONResponse(await service.read(functools.partial(answer, studio, data)))


async def _compare(studio: Studio, service: ServingEngine, request: Request) -> Response:
    data = await read_object(service, request)
    job = functools.partial(run_answers.comparison_answer, studio, data, service.limits.most_texts)
    return JSONResponse(await service.run(job))


async def _ask_model(name: str, studio: Studio, service: ServingEngine, request: Request) -> Response:
    data = await read_object(service, request)
    most = {"most_texts": service.limits.most_texts} if name == "outputs" else {}

    def job() -> dict[str, Any]:
        prepare_framework()
        from t2t.studio import model_answers

        return getattr(model_answers, f"{name}_answer")(studio, data, **most)

    return JSONResponse(await service.run(job, (name, json.dumps(data, sort_keys=True))))


async def _search(studio: Studio, service: ServingEngine, request: Request) -> Response:
    data = await read_object(service, request)

    def job() -> Iterator[dict[str, Any]]:
        prepare_framework()
        from t2t.studio.model_answers import search_answer

        return search_answer(studio, data)

    events = await service.run(job)
    return await event_response(request.url.path, service.stream_items(lambda: events))
