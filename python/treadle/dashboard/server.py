"""The dashboard's pages and documents, as an ASGI application, and the process that serves them."""

from __future__ import annotations

import asyncio
import errno
import socket
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final, cast
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from treadle.dashboard.access import Guard
from treadle.dashboard.addresses import Addresses
from treadle.dashboard.board import PARTS, Board
from treadle.dashboard.collector import Collector
from treadle.dashboard.connections import LINES, STRANGER_S, BoundedProtocol, Connections
from treadle.dashboard.history import LEVELS, SERIES_MAX, History
from treadle.dashboard.metrics import CONTENT_TYPE
from treadle.dashboard.questions import BusyError, Questions
from treadle.dashboard.stream import Stream
from treadle.dashboard.token_file import COOKIE, COOKIE_LIFE_S, Doorkeeper
from treadle.errors import UserError
from treadle.line_limit import limited

STATIC: Final = Path(__file__).with_name("static")
FILES: Final = {
    "app.js": "text/javascript",
    "draw.js": "text/javascript",
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
}
REFUSED: Final = "<!-- refused -->"
"""Where the page for the log-in says that a token was wrong."""
BACKLOG: Final = 128
"""Connections that the system keeps until they are taken, and that are taken at a time."""
FORM_BYTES_MAX: Final = 4096
SPAN_MAX_S: Final = max(step_s * count for step_s, count in LEVELS)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the pages are made of."""

    collector: Collector
    board: Board
    history: History
    questions: Questions
    addresses: Addresses
    doorkeeper: Doorkeeper


def application(parts: Parts) -> ASGIApp:
    """Return the dashboard. The collector runs on a thread of its own as long as the application does."""
    pages = _Pages(parts)
    stream = Stream(parts.board)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        loop, stop = asyncio.get_running_loop(), Event()

        def wake() -> None:
            if not stop.is_set():
                loop.call_soon_threadsafe(stream.wake)

        parts.board.on_change(wake)
        # nobody waits for a page of the ResourceManager that never ends
        looking = Thread(target=parts.collector.run, args=(stop,), name="look", daemon=True)
        looking.start()
        try:
            yield
        finally:
            stop.set()
            await run_in_threadpool(looking.join, 1.0)

    routes = [
        Route("/", pages.index),
        Route("/login", pages.log_in_page, methods=["GET"]),
        Route("/login", pages.log_in, methods=["POST"]),
        Route("/logout", pages.log_out, methods=["POST"]),
        Route("/static/{name}", pages.static),
        Route("/api/events", _Endpoint(stream)),
        Route("/api/history", pages.over_time),
        Route("/api/application/{application}", pages.about),
        Route("/api/{part}", pages.document),
        Route("/metrics", pages.metrics),
    ]
    return Guard(Starlette(routes=routes, lifespan=life), parts.addresses, parts.doorkeeper)


class _Endpoint:
    """Makes an ASGI application an endpoint: Starlette takes an object as such, a function not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


class _Pages:
    """Answers requests."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._strangers_log = limited(__name__, *LINES)

    async def index(self, _: Request) -> Response:
        return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")

    async def log_in_page(self, _: Request) -> Response:
        return HTMLResponse((STATIC / "login.html").read_text("utf-8").replace(REFUSED, ""))

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            return PlainTextResponse("no such file", 404)
        return FileResponse(STATIC / name, media_type=FILES[name])

    async def log_in(self, request: Request) -> Response:
        content = b""
        try:
            async for chunk in request.stream():
                content += chunk
                if len(content) > FORM_BYTES_MAX:
                    return PlainTextResponse("too long for a token", 413)
            token = parse_qs(content.decode("ascii"), max_num_fields=4).get("token", [""])[0].strip()
        except (ValueError, ClientDisconnect):
            return PlainTextResponse("not the form of this page", 400)
        if not self._parts.doorkeeper.accepts(token):
            self._strangers_log.warning("a log-in with a wrong token")
            line = '<p class="fail" role="alert">This is not the token.</p>'
            return HTMLResponse((STATIC / "login.html").read_text("utf-8").replace(REFUSED, line), 401)
        answer = RedirectResponse("/", 303)
        secure = self._parts.addresses.secure(request.headers["host"])
        cookie = self._parts.doorkeeper.cookie(time.time())
        answer.set_cookie(COOKIE, cookie, COOKIE_LIFE_S, path="/", secure=secure, httponly=True, samesite="strict")
        return answer

    async def log_out(self, _: Request) -> Response:
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    async def document(self, request: Request) -> Response:
        part = request.path_params["part"]
        document = self._parts.board.read(part) if part in PARTS else None
        if document is None:
            missing = part in PARTS
            text = "nothing was looked at yet" if missing else "no such document"
            return JSONResponse({"error": text}, 503 if missing else 404)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return Response(document.packed, media_type="application/json", headers=headers)
        return Response(document.plain, media_type="application/json", headers={"Vary": "Accept-Encoding"})

    async def over_time(self, request: Request) -> Response:
        names = request.query_params.getlist("name")
        try:
            span_s = int(request.query_params.get("span_s", "3600"))
        except ValueError:
            span_s = 0
        if not 0 < span_s <= SPAN_MAX_S or len(names) > SERIES_MAX:
            return JSONResponse({"error": f"span_s is 1 to {SPAN_MAX_S}, with at most {SERIES_MAX} names"}, 400)
        try:
            found = await run_in_threadpool(self._parts.history.points, names, span_s, time.time())
            known = await run_in_threadpool(self._parts.history.names)
        except sqlite3.Error as error:
            return JSONResponse({"error": f"the history cannot be read: {error}"}, 503)
        return JSONResponse({"step_s": found.step_s, "series": found.series, "names": known})

    async def about(self, request: Request) -> Response:
        try:
            found = await run_in_threadpool(self._parts.questions.about, request.path_params["application"])
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        except BusyError:
            return JSONResponse({"error": "others ask at the moment"}, 503, {"Retry-After": "5"})
        return JSONResponse(found)

    async def metrics(self, _: Request) -> Response:
        if not self._parts.board.version:
            return PlainTextResponse("nothing was looked at yet", 503)
        return Response(self._parts.board.metrics, headers={"Content-Type": CONTENT_TYPE})


def listen(bind: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        bind: an IP address
        port: 0: any that is free

    Raises:
        UserError: it cannot be had.
    """
    address = bind.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UserError(f"port {port} of {bind} cannot be had: {_why_not(error, bind)}") from error


def _why_not(error: OSError, bind: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "somebody listens there already; name another one with --port"
        case errno.EADDRNOTAVAIL | errno.EAFNOSUPPORT:
            return f"this host has no address {bind}; name one that it has with --bind"
        case errno.EACCES:
            return "this user may not have it; name one from 1024 on with --port"
    return f"{error.strerror}; name another --port or --bind"


def server_of(parts: Parts) -> uvicorn.Server:
    """Return what serves the dashboard at sockets that are given to its ``run``."""
    return uvicorn.Server(
        uvicorn.Config(
            application(parts),
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            http=cast(Any, partial(BoundedProtocol, Connections())),
            backlog=BACKLOG,
            timeout_keep_alive=int(STRANGER_S),
            timeout_graceful_shutdown=2,
            ws="none",
        )
    )
