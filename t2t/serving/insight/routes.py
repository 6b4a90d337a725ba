"""Addresses of the pages, and of what they ask a service for."""

import functools
import html
from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from t2t.errors import UnknownNameError
from t2t.runs.startup import import_quietly
from t2t.serving.address import EVENTS, HTML, JSON, Address, Content, Handler
from t2t.serving.events import event_response
from t2t.serving.insight import data_answers, run_answers
from t2t.serving.insight.page import APP_FILES, PAGES, PLOTLY, app_page, figures_page, plotly_file, static
from t2t.serving.insight.studio import Studio
from t2t.serving.requests import read_json
from t2t.serving.schemas import ANY_OBJECT, INTEGER, STRING
from t2t.serving.service import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "media-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The pages may read their own scripts and ask their own server, nothing else."""

_KINDS = {"script": "text/javascript; charset=utf-8", "style": "text/css; charset=utf-8"}
_MODEL_ANSWERS = {
    "load": "Loads the model of a checkpoint, and says which step it is of.",
    "figure": "What the model looked at, of a text and its output.",
    "beam": "Every hypothesis that the search held.",
    "alternatives": "The pieces that are likeliest after a beginning.",
    "outputs": "The best outputs for texts.",
}
"""What `t2t.serving.insight.model_answers` answers, `<name>_answer`."""
_EXAMPLE_ANSWERS = {
    "example": "What a model answers to a picture or a sound of a split.",
    "occlusion": "How much less likely an answer is when parts of a picture are covered.",
}
"""What `t2t.serving.insight.example_answers` answers."""

_SPLIT = {"run": STRING, "problem": STRING, "split": STRING}
"""Query that names a split."""

Answer = Callable[[Studio, Mapping[str, Any]], dict[str, Any]]


_PLAIN = {JSON: Content(ANY_OBJECT)}

_LOOKS: dict[str, tuple[Answer, dict[str, Any], str]] = {
    "runs": (run_answers.runs_answer, {}, "The table of runs."),
    "checkpoints": (run_answers.checkpoints_answer, {"run": STRING}, "The checkpoints of a run."),
    "examples": (
        run_answers.examples_answer,
        {"run": STRING, "split": STRING, "count": INTEGER},
        "The first examples of a split of a run's data.",
    ),
    "dev_outputs": (
        run_answers.dev_outputs_answer,
        {"run": STRING, "problem": STRING, "most": INTEGER},
        "How outputs for sentences of the dev split changed from evaluation to evaluation.",
    ),
    "data": (data_answers.data_answer, _SPLIT, "Figures of a split of a run's data."),
    "data_examples": (
        data_answers.data_examples_answer,
        {**_SPLIT, "start": INTEGER, "count": INTEGER, "text": STRING},
        "Examples of a split, with their pieces and padding.",
    ),
    "data_pieces": (
        data_answers.data_pieces_answer,
        {**_SPLIT, "vocabulary": INTEGER, "order": STRING, "text": STRING, "start": INTEGER, "count": INTEGER},
        "Pieces of a vocabulary with how often they occur.",
    ),
}
"""By name: who answers, with which query, and what is said of it."""


def insight_addresses(studio: Studio) -> list[Address]:
    """Returns the addresses of the pages and of what they ask for; raises UserError where Plotly is not installed."""
    plotly_file()
    return [*_page_addresses(studio), *_look_addresses(studio), *_ask_addresses(studio)]


def _page_addresses(studio: Studio) -> list[Address]:
    """Returns those of pages and their files, and of a search that is told while it goes on."""
    page = {HTML: Content(STRING)}
    files = {kind.partition(";")[0]: Content(STRING) for kind in _KINDS.values()}
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
        Address(method="GET", path="/insight/view", handler=_view, summary="A page for figures to keep.", answers=page),
        Address(
            method="POST",
            path="/insight/search",
            handler=functools.partial(_search, studio),
            summary="The outputs for a text, while they are written.",
            requests=_PLAIN,
            answers={EVENTS: Content(STRING)},
        ),
    ]


def _look_addresses(studio: Studio) -> list[Address]:
    """Returns those of what is read from runs and their data."""
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
    """Returns those of what is computed from a body: of files, of two systems, of models."""
    curves, hparams = run_answers.curves_answer, run_answers.hparams_answer
    handlers: dict[str, tuple[Handler, str]] = {
        "curves": (functools.partial(_ask_files, curves, studio), "Training curves of runs."),
        "hparams": (functools.partial(_ask_files, hparams, studio), "Hparams of runs side by side."),
        "comparison": (functools.partial(_compare, studio), "What tells one system's outputs from another's."),
    }
    for name, summary in (_MODEL_ANSWERS | _EXAMPLE_ANSWERS).items():
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


async def _page(studio: Studio, name: str, service: Service, request: Request) -> Response:
    facts = {"page": name, "hasData": studio.has_data, "mostTexts": service.limits.most_texts}
    return HTMLResponse(app_page(name, facts), headers={"Content-Security-Policy": POLICY})


async def _file(service: Service, request: Request) -> Response:
    name = request.path_params["name"]
    if name == PLOTLY:  # megabytes that change with its version alone, which is in the address
        return FileResponse(plotly_file(), media_type=_KINDS["script"], headers={"Cache-Control": "max-age=31536000"})
    if name not in APP_FILES:
        raise UnknownNameError(f"file {html.escape(name)} is no part of the page")
    return Response(static(name), media_type=_KINDS["style" if name.endswith(".css") else "script"])


async def _view(service: Service, request: Request) -> Response:
    """Answers with a page of no figures: the browser puts its own in place of the empty list."""
    return HTMLResponse(figures_page("What models wrote", []))


async def _look(answer: Answer, studio: Studio, service: Service, request: Request) -> Response:
    return JSONResponse(await service.read(functools.partial(answer, studio, dict(request.query_params))))


async def _ask_files(answer: Answer, studio: Studio, service: Service, request: Request) -> Response:
    data = read_json(await service.body(request))
    return JSONResponse(await service.read(functools.partial(answer, studio, data)))


async def _compare(studio: Studio, service: Service, request: Request) -> Response:
    data = read_json(await service.body(request))
    job = functools.partial(run_answers.comparison_answer, studio, data, service.limits.most_texts)
    return JSONResponse(await service.run(job))


async def _ask_model(name: str, studio: Studio, service: Service, request: Request) -> Response:
    data = read_json(await service.body(request))
    most = {"most_texts": service.limits.most_texts} if name == "outputs" else {}

    def job() -> dict[str, Any]:
        module = "example_answers" if name in _EXAMPLE_ANSWERS else "model_answers"
        answers = import_quietly(f"t2t.serving.insight.{module}")  # imports Keras
        return getattr(answers, f"{name}_answer")(studio, data, **most)

    return JSONResponse(await service.run(job))


async def _search(studio: Studio, service: Service, request: Request) -> Response:
    data = read_json(await service.body(request))
    events = await service.run(lambda: import_quietly("t2t.serving.insight.model_answers").search_answer(studio, data))
    return await event_response(request.url.path, service.stream_items(lambda: events))
