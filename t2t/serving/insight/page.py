"""HTML of the pages: one that shows figures by itself, and one that asks a service. Neither asks other hosts."""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent / "static"
FIGURE_SCRIPTS = ("dom.js", "lines.js", "heat_map.js", "attention.js", "outputs.js")
"""Scripts that draw figures, in order of execution."""
APP_FILES = (*FIGURE_SCRIPTS, "beam.js", "curves.js", "app.js", "insight.css")
"""Files of the page of a service."""
_START = 'document.addEventListener("DOMContentLoaded", window.insight.showFigures);'


def static(name: str) -> str:
    """Returns the text of a script or style sheet."""
    return (STATIC / name).read_text(encoding="utf-8")


def figures_page(title: str, figures: Sequence[dict[str, Any]]) -> str:
    """Returns a page of figures, see `t2t.serving.insight.figures.figure_of`.

    Texts stay texts: data is JSON without `<`, and the browser runs only the script whose hash the page names.
    """
    script = "\n".join([*map(static, FIGURE_SCRIPTS), _START])
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hash_source(script)}"
    head = f"""<meta http-equiv="Content-Security-Policy" content="{policy}">
<style>
{static("insight.css")}</style>"""
    return _page(title, head, "figures", figures, f"<script>{script}</script>\n")


def app_page(models: Sequence[str]) -> str:
    """Returns the page that asks its service for figures of these models."""
    scripts = "\n".join(
        f'<script src="/insight/files/{name}" defer></script>' for name in APP_FILES if name.endswith(".js")
    )
    head = f"""<link rel="stylesheet" href="/insight/files/insight.css">
<link rel="icon" href="data:,">
{scripts}"""
    return _page("t2t-insight", head, "models", list(models))


def _page(title: str, head: str, data_id: str, data: Any, end: str = "") -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{head}
<meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
</head>
<body>
<h1>{html.escape(title)}</h1>
<main><noscript>The pictures are drawn by this page's own scripts, which are turned off.</noscript></main>
<script type="application/json" id="{data_id}">{safe_json(data)}</script>
{end}</body>
</html>
"""


def safe_json(data: Any) -> str:
    """Returns JSON that can neither close the script element around it nor open another."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def hash_source(script: str) -> str:
    """Returns the name of a script in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
