"""The dashboard's pages and documents, as an ASGI application, and the process that serves them.

Server-sent events: a line to each page that looks whenever there is something new, to a bounded number of pages.

Nothing is queued for anybody: who comes late for a change gets the next one.

What a page asks beyond the documents: why an application waits, what it asks for. One question at a time.
"""

from __future__ import annotations

import asyncio
import errno
import json
import re
import socket
import sqlite3
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, cast
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from treadle.dashboard.access import (
    COOKIE,
    COOKIE_LIFE_S,
    LINES,
    STRANGER_S,
    Addresses,
    BoundedProtocol,
    Connections,
    Doorkeeper,
    Guard,
)
from treadle.dashboard.collector import Collector
from treadle.dashboard.history import LEVELS, SERIES_MAX, History
from treadle.dashboard.reading import Reader
from treadle.dashboard.views import CONTENT_TYPE, PARTS, Board
from treadle.errors import UserError
from treadle.log_lines import limited

CLIENTS_MAX: Final = 32
PULSE_S: Final = 5.0
"""So often a line is sent although nothing is new; it says when the cluster was looked at last."""
LIFE_S: Final = 3600.0
"""A stream ends after that; the browser opens another one."""
SEND_S: Final = 20.0
"""Who does not take a line within this time is let go."""


class Stream:
    """The events of a board, as an ASGI application."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._changed = asyncio.Event()
        self.clients = 0

    def wake(self) -> None:
        """Wake all streams: something is new; on the event loop's thread."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if self.clients >= CLIENTS_MAX:
            text = f"{CLIENTS_MAX} pages are open already; close one"
            await PlainTextResponse(text, 503, {"Retry-After": "30"})(scope, receive, send)
            return
        self.clients += 1
        try:
            gone = asyncio.ensure_future(_gone(receive))
            try:
                await self._serve(send, gone)
            except (OSError, TimeoutError):
                pass  # it left, or does not read
            finally:
                gone.cancel()
        finally:
            self.clients -= 1

    async def _serve(self, send: Send, gone: asyncio.Future[None]) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        until_s = time.monotonic() + LIFE_S
        while time.monotonic() < until_s and not gone.done():
            changed = asyncio.ensure_future(self._changed.wait())
            line = json.dumps({"version": self._board.version, "looked_s": self._board.looked_s, "now_s": time.time()})
            body = f"event: look\ndata: {line}\n\n".encode()
            try:
                await asyncio.wait_for(send({"type": "http.response.body", "body": body, "more_body": True}), SEND_S)
                awaited: set[asyncio.Future[Any]] = {changed, gone}
                await asyncio.wait(awaited, timeout=PULSE_S, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


KEPT_S: Final = 10.0
"""How long an answer is given again."""
PAUSE_S: Final = 0.5
"""At least so much time is between two questions to the sidecar or the ResourceManager."""
KEPT_MAX: Final = 64
_WAIT_S: Final = 5.0
_APPLICATION: Final = re.compile(r"application_\d{1,19}_\d{1,10}")

Explain = Callable[[str], dict[str, Any]]
"""Returns what the sidecar says of an application; raises `UserError` if it cannot be asked."""


class BusyError(Exception):
    """Others ask already."""


class Questions:
    """Asks in the name of those who look at a page. Thread-safe."""

    def __init__(self, reader: Reader, explain: Explain, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            reader: of the ResourceManager
            explain: asks a sidecar
            clock: seconds
        """
        self._reader, self._explain, self._clock = reader, explain, clock
        self._one = Lock()
        self._kept: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()
        self._asked_s = -PAUSE_S

    def about(self, application: str) -> dict[str, Any]:
        """Return what is known of an application: ``explained`` and ``asks``, or why not; ``ended`` if it has.

        ``diagnostics`` are YARN's.

        Raises:
            ValueError: there can be no such application.
            BusyError: too many ask.
        """
        if not _APPLICATION.fullmatch(application):
            raise ValueError("an application's id is application_TIME_NUMBER")
        if not self._one.acquire(timeout=_WAIT_S):
            raise BusyError
        try:
            kept = self._kept.get(application)
            if kept is not None and self._clock() - kept[0] < KEPT_S:
                return kept[1]
            time.sleep(min(max(self._asked_s + PAUSE_S - self._clock(), 0.0), PAUSE_S))
            answer = self._answer(application)
            self._asked_s = self._clock()
            self._kept[application] = self._asked_s, answer
            self._kept.move_to_end(application)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
            return answer
        finally:
            self._one.release()

    def _answer(self, application: str) -> dict[str, Any]:
        answer: dict[str, Any] = {"application": application, "asked_s": time.time()}
        try:
            found = self._reader.application(application)
            answer |= {"asks": found.asks, "diagnostics": found.diagnostics}
            if found.ended:
                return {**answer, "ended": found.ended}
        except UserError as error:
            answer["asks_error"] = str(error)
        try:
            said = self._explain(application)
        except UserError as error:
            return {**answer, "explain_error": str(error)}
        return {**answer, "explain_error": str(said["error"])} if "error" in said else {**answer, "explained": said}


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
