"""`GET /`: overview of the service, as JSON and as a web page."""

import dataclasses
import html
from collections.abc import Iterable
from typing import Any

import t2t
from t2t.serving.address import Address
from t2t.serving.service import Service

POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Content security policy: the page may only show text."""

_EXAMPLE = """curl -d '{"text": "..."}' %stranslate"""


def home_json(service: Service, addresses: Iterable[Address]) -> dict[str, Any]:
    """Returns the models, the limits and the addresses."""
    return {
        "version": t2t.__version__,
        "models": [model.describe() for model in service.models.values()],
        "limits": dataclasses.asdict(service.limits),
        "addresses": [{"method": one.method, "path": one.path, "summary": one.summary} for one in addresses],
    }


def home_page(info: dict[str, Any], base: str) -> str:
    """Returns the same as an HTML page.

    Args:
        info: from `home_json`.
        base: URL of the service, ending with a slash.
    """
    models = _table([{name: _shown(value) for name, value in one.items()} for one in info["models"]])
    limits = _table([info["limits"]])
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
<pre>{html.escape(_EXAMPLE % base)}</pre>
<h2>Models</h2>
{models}
<h2>Addresses</h2>
{_table(info["addresses"])}
<p>All of them are described in <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>
<h2>Limits of a request</h2>
{limits}
</body>
</html>
"""


def _shown(value: Any) -> str:
    return ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def _table(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [
        [html.escape(name) for name in names],
        *([html.escape(str(row.get(n, ""))) for n in names] for row in rows),
    ]
    cells = [f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in line)}</tr>"
             for tag, line in zip(["th"] + ["td"] * len(rows), lines, strict=True)]  # fmt: skip
    return "<table>\n" + "\n".join(cells) + "\n</table>"
