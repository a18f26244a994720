"""Who gets an answer: a known Host and Origin, a cookie or the token; and what every answer sends a browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from treadle.dashboard.addresses import Addresses
from treadle.dashboard.connections import ADMIT
from treadle.dashboard.token_file import COOKIE, Doorkeeper

OPEN_PATHS: Final = frozenset({"/login", "/static/style.css", "/static/icon.svg"})
"""What is answered without a cookie or the token."""

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_METHODS: Final = {"GET", "HEAD", "POST"}
_COOKIE_BYTES_MAX: Final = 4096


class Guard:
    """Lets requests pass to an application, or answers them itself."""

    def __init__(
        self, app: ASGIApp, addresses: Addresses, doorkeeper: Doorkeeper, clock: Callable[[], float] = time.time
    ) -> None:
        self._app, self._addresses, self._doorkeeper, self._clock = app, addresses, doorkeeper, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # nobody speaks WebSocket here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._refusal(scope) or self._app
        await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return what is answered in the application's place, if it is not asked."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._addresses.knows_host(hosts[0]):
            text = "this name is not the dashboard's; its administrator adds names with --url"
            return PlainTextResponse(text, 421)
        if method not in _METHODS:
            return PlainTextResponse("the dashboard is only read", 405)
        origins = headers.getlist("origin")
        if any(not self._addresses.knows_origin(origin) for origin in origins):
            return PlainTextResponse("another site's pages get no answer", 403)
        if method == "POST" and not origins:
            return PlainTextResponse("a form must say where it comes from (Origin)", 403)
        known = self._known(headers)
        if known and not scope["state"][ADMIT]():
            return PlainTextResponse("others ask at the moment", 503, {"Retry-After": "5"})
        if known or path in OPEN_PATHS:
            return None
        if method == "GET" and path == "/" and "authorization" not in headers:
            return RedirectResponse("/login", 303)
        return PlainTextResponse("log in first", 401, {"WWW-Authenticate": 'Bearer realm="treadle dashboard"'})

    def _known(self, headers: Headers) -> bool:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._doorkeeper.accepts(token.strip()):
            return True
        text = headers.get("cookie", "")
        if len(text) > _COOKIE_BYTES_MAX:
            return False
        try:
            found = SimpleCookie(text).get(COOKIE)
        except CookieError:
            return False
        return found is not None and self._doorkeeper.knows(found.value, self._clock())
