"""Refuses requests from web pages of other sites that are open in a browser on this machine.

Such requests carry the site's origin or, with DNS rebinding, its host name.
"""

import logging
import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from t2t.serving.errors import error_body

log = logging.getLogger("t2t")

ANY = "*"
_HOST = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
_OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site for requests from our own pages, and for addresses typed by the user."""


class OriginCheck:
    """Middleware that refuses requests under other host names and from pages of other origins.

    Args:
        app: the application.
        hosts: lower case, IPv6 addresses in brackets; `ANY` allows all.
        origins: of other sites whose pages may send requests, lower case, e.g. `https://page.example:8443`.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str] = ()):
        self._app, self._hosts, self._origins = app, frozenset(hosts), frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it: 400 for its host name, 403 for its origin."""
        if scope["type"] == "http" and (refusal := self._refusal(Headers(scope=scope), scope["method"])):
            status, reason = refusal
            log.warning("refused: %d %s", status, reason)
            await JSONResponse(error_body(scope["path"], status, reason), status)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: Headers, method: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        found = _HOST.fullmatch(host)
        if not found or not (ANY in self._hosts or found[1].lower() in self._hosts):
            allowed = ", ".join(sorted(self._hosts))
            return 400, f"host name {host[:100]!r} is not allowed; use one of {allowed}"
        if headers.get("origin", "").lower() not in self._origins and is_foreign(headers, method):
            origin = headers.get("origin") or headers.get("sec-fetch-site", "")
            return 403, f"a page of another origin ({origin[:100]!r}) sent this request; open the service's own page"
        return None


def is_foreign(headers: Headers, method: str) -> bool:
    """Returns whether a page of another origin sent a request; following a link from such a page is allowed.

    Browsers send the origin with every POST, and newer ones also Sec-Fetch-Site. Programs send neither.
    """
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != headers["host"].lower():
        return True
    is_link = method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
    return headers.get("sec-fetch-site", "none") not in _OWN_SITES and not is_link
