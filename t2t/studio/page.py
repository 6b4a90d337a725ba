"""HTML of the pages: a self-contained page of figures, and pages that query the service. None contacts other hosts."""

import base64
import functools
import hashlib
import html
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t.errors import needs_extra

STATIC = Path(__file__).parent / "static"
FIGURE_SCRIPTS = (
    "dom.js", "lines.js", "heat_map.js", "all_heads.js", "attention.js", "pieces.js", "beam.js", "outputs.js",
)  # fmt: skip
"""Scripts of figures, in order of execution."""
_SHARED_SCRIPTS = ("dom.js", "ask.js", "address.js", "palette.js", "shell.js", "media.js")
"""Scripts of every page of the service."""
PLOTLY = "plotly.min.js"
"""The script that draws charts, from the Python package plotly."""


_STYLE_NAME = re.compile(r'getElementById\("([0-9a-f]{64})"\)')


class Page(NamedTuple):
    """One page of the service."""

    name: str
    path: str
    scripts: tuple[str, ...]
    """Scripts in order of execution, after the shared ones."""


PAGES = (
    Page("Runs", "/", ("run_table.js", "runs.js")),
    Page("Curves", "/curves", (PLOTLY, "chart.js", "curves.js")),
    Page("Hparams", "/hparams", ("hparams.js",)),
    Page("Compare", "/compare", ("system_choice.js", "comparison.js", "compare.js")),
    Page("Outputs", "/outputs", ("dev_outputs.js",)),
    Page(
        "Data",
        "/data",
        (PLOTLY, "chart.js", "histogram.js", "example_list.js", "piece_table.js", "data.js"),
    ),
    Page(
        "Playground",
        "/playground",
        (*FIGURE_SCRIPTS[1:], "system_choice.js", "search_form.js", "panel.js", "example_answer.js", "playground.js"),
    ),
)
APP_FILES = tuple(
    sorted(
        {*_SHARED_SCRIPTS, *(name for page in PAGES for name in page.scripts), "insight.css", "plotly.css"} - {PLOTLY}
    )
)
"""Our own files of the service's pages, without Plotly."""
_START = 'document.addEventListener("DOMContentLoaded", window.insight.showFigures);'


def static(name: str) -> str:
    """Returns the text of a script or style sheet."""
    return (STATIC / name).read_text(encoding="utf-8")


def figures_page(title: str, figures: Sequence[dict[str, Any]]) -> str:
    """Returns a self-contained page of figures, see `t2t.studio.figures.figure_of`.

    Texts cannot become code: the data is JSON without `<`, and the browser runs only the script whose hash is in the
    content security policy.
    """
    script = "\n".join([*map(static, (*FIGURE_SCRIPTS, "media.js")), _START])
    media = "img-src data:; media-src data:"
    policy = f"default-src 'none'; {media}; style-src 'unsafe-inline'; script-src {hash_source(script)}"
    head = f"""<meta http-equiv="Content-Security-Policy" content="{policy}">
<style>
{static("insight.css")}</style>"""
    return _page(title, head, "figures", figures, f"<script>{script}</script>\n")


def plotly_file() -> Path:
    """Returns the path of Plotly's script, without importing the package; raises UserError if it is missing."""
    with needs_extra("serve", "charts"):
        importlib.metadata.version("plotly")  # raises what an import would
    found = importlib.util.find_spec("plotly")
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / "package_data" / PLOTLY


@functools.cache
def _plotly_style_names() -> list[str]:
    """Returns the ids of the style elements that Plotly's script adds for maps unless elements with them exist."""
    return sorted(set(_STYLE_NAME.findall(plotly_file().read_text(encoding="utf-8"))))


def app_page(name: str, facts: Mapping[str, Any]) -> str:
    """Returns a page that queries the service for its contents.

    Args:
        name: name of the page, see `PAGES`.
        facts: data for its scripts.
    """
    (page,) = [one for one in PAGES if one.name == name]
    scripts = "\n".join(f'<script src="{_address(file)}" defer></script>' for file in (*_SHARED_SCRIPTS, *page.scripts))
    # With elements of these ids Plotly adds no styles, which the policy would forbid.
    known = [f'<template id="{one}"></template>' for one in _plotly_style_names()] if PLOTLY in page.scripts else []
    head = f"""<link rel="stylesheet" href="{_address("insight.css")}">
<link rel="icon" href="data:,">
<link id="plotly.js-style-global" class="no-inline-styles" rel="stylesheet" href="{_address("plotly.css")}">
{"".join(known)}
{scripts}"""
    links = "\n".join(
        f'<a href="{one.path}"{" aria-current=page" if one is page else ""}>{one.name}</a>' for one in PAGES
    )
    header = f"""<a class="skip" href="#content">To the content</a>
<header class="bar"><a class="brand" href="/">t2t-insight</a>
<nav aria-label="Pages">
{links}
</nav></header>
"""
    return _page(f"{name} - t2t-insight", head, "facts", facts, header=header, heading=name)


def _address(file: str) -> str:
    version = f"?{importlib.metadata.version('plotly')}" if file == PLOTLY else ""
    return f"/insight/files/{file}{version}"


def _page(
    title: str, head: str, data_id: str, data: Any, end: str = "", header: str = "", heading: str | None = None
) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{head}
<meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
</head>
<body>
{header}<main id="content" tabindex="-1">
<h1>{html.escape(title if heading is None else heading)}</h1>
<noscript>The pictures are drawn by this page's own scripts, which are turned off.</noscript></main>
<script type="application/json" id="{data_id}">{safe_json(data)}</script>
{end}</body>
</html>
"""


def safe_json(data: Any) -> str:
    """Returns JSON that can neither close the script element around it nor open another."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def hash_source(script: str) -> str:
    """Returns the hash of a script as a source expression of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
