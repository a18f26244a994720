"""The dashboard's pages and documents, access control, and its server.

Server-sent events notify a bounded number of pages of each change. They are not queued: a slow page gets the latest
change only.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import socket
import sqlite3
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from treadle.dashboard.collector import CONTENT_TYPE, PARTS, Board, Collector
from treadle.dashboard.history import LEVELS, SERIES_MAX, History
from treadle.dashboard.reading import Reader
from treadle.errors import UserError
from treadle.processes import limited

_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses allowed in requests, in lower case."""

    hosts: frozenset[str]
    """Allowed Host headers; any other may be a name that an attacker's DNS resolves to this host."""
    origins: frozenset[str]
    secure_hosts: frozenset[str]
    """Those of the hosts that browsers reach over https only."""


def addresses(bind: str, port: int, urls: Iterable[str]) -> Addresses:
    """Return the addresses of a dashboard: the loopback address with its port, and the given ones.

    Args:
        bind: the IP address to listen at
        port: the port to listen at
        urls: addresses used by browsers, such as that of a proxy

    Raises:
        UserError: an address is invalid, or other hosts may connect and no address is given.
    """
    given = [_split(url) for url in urls]
    try:
        loopback = ipaddress.ip_address(bind.strip("[]")).is_loopback
    except ValueError as error:
        raise UserError(f"--bind {bind}: write an IP address; 127.0.0.1 is this host alone") from error
    if not loopback and not given:
        raise UserError(
            f"--bind {bind}: others than this host may come; say under which address with --url https://NAME (and let "
            "a proxy speak https: docs/dashboard.md)"
        )
    own = {f"{host}:{port}" for host in _LOOPBACK}
    if port == _PORTS["http"]:
        own |= set(_LOOPBACK)
    hosts, origins, secure = set(own), {f"http://{host}" for host in own}, set()
    for scheme, name, named_port in given:
        with_port = f"{name}:{named_port}"
        names = {with_port, name} if named_port == _PORTS[scheme] else {with_port}
        hosts |= names
        origins |= {f"{scheme}://{each}" for each in names}
        if scheme == "https":
            secure |= names
    return Addresses(frozenset(hosts), frozenset(origins), frozenset(secure))


def _split(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        valid = parts.scheme in _PORTS and bool(parts.hostname) and not parts.username and parts.path in ("", "/")
        if not valid or parts.query or parts.fragment or not port:
            raise ValueError
    except ValueError as error:
        raise UserError(f"--url {url}: write it as https://NAME or http://NAME:PORT, without a path") from error
    host = str(parts.hostname).lower()
    return parts.scheme, f"[{host}]" if ":" in host else host, port


COOKIE: Final = "treadle_dashboard"
COOKIE_LIFE_S: Final = 12 * 3600

_BYTES_MIN: Final = 16
_BYTES_MAX: Final = 512


def read_or_make(path: Path) -> str:
    """Return the token in a file; create it if it is missing.

    Raises:
        UserError: the file is a link, owned by another user, accessible to others, too short, or cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name another file with --token-file") from error
    with os.fdopen(descriptor, "w") as stream:
        token = secrets.token_urlsafe(32)
        stream.write(f"{token}\n")
    return token


def _read(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; the token must be in a file of your own, not a link") from error
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):  # which `fdopen` does not take
        os.close(descriptor)
        raise UserError(f"{path}: it is a folder; name a file in it with --token-file")
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise UserError(f"{path}: it must be a file of the user who runs the dashboard; remove it, or chown it")
        if status.st_mode & 0o077:
            raise UserError(f"{path}: others may read or write it; chmod 600 it, and put another token in it")
        content = stream.read(_BYTES_MAX + 1)
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = ""
    if len(content) > _BYTES_MAX or len(token) < _BYTES_MIN or not token.isprintable() or " " in token:
        raise UserError(
            f"{path}: it must hold one token of {_BYTES_MIN} to {_BYTES_MAX} printable characters; remove it, then "
            "the dashboard makes one"
        )
    return token


class Authenticator:
    """Checks the token, and cookies derived from it. A new token invalidates all old cookies."""

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()
        self._key = hmac.digest(token.encode(), b"treadle dashboard cookie", "sha256")

    def accepts(self, token: str) -> bool:
        """Return whether this is the token, in constant time."""
        return hmac.compare_digest(hashlib.sha256(token.encode()).digest(), self._digest)

    def cookie(self, at_s: float) -> str:
        """Return a cookie value that is valid for `COOKIE_LIFE_S` from a time, seconds since 1970."""
        until = str(int(at_s) + COOKIE_LIFE_S)
        return f"{until}.{self._sign(until)}"

    def knows(self, cookie: str, at_s: float) -> bool:
        """Return whether a cookie is genuine and not expired."""
        until, _, signature = cookie.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) <= len("99999999999") and signature.isascii()):
            return False
        return hmac.compare_digest(self._sign(until), signature) and at_s < int(until)

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()


KNOWN_MAX: Final = 64
"""Maximum number of concurrent authenticated requests."""

STRANGERS_MAX: Final = 64
"""Unauthenticated connections; one more closes the oldest, if its grace period is over."""

CROWD_MAX: Final = 256
"""Number of unauthenticated connections above which the oldest is closed at once."""

GRACE_S: Final = 0.05
"""Grace period of an unauthenticated connection in seconds: a client sends its request at once."""

STRANGER_S: Final = 10.0
"""Time limit of an unauthenticated connection for request and answer, in seconds."""

LINES: Final = (20.0, 0.1)
"""Log lines about invalid requests at once, and per second in the long run."""

ADMIT: Final = "treadle.admit"
"""Key in a request's state of a function that authenticates its connection; it returns whether there is room."""


class Connections:
    """All connections of one server. Only for the event loop's thread."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._strangers: dict[BoundedProtocol, float] = {}
        """Start times; oldest first."""
        self._known: set[BoundedProtocol] = set()
        self.log = limited("uvicorn.error", *LINES)
        """For invalid requests; `treadle.dashboard.server` logs the others."""

    def enter(self, connection: BoundedProtocol) -> None:
        """Add an unauthenticated connection; close the oldest ones above the limits."""
        self.leave(connection)
        self._strangers[connection] = now_s = self._clock_s()
        while len(self._strangers) > STRANGERS_MAX:
            oldest, since_s = next(iter(self._strangers.items()))
            if now_s - since_s < GRACE_S and len(self._strangers) <= CROWD_MAX:
                break
            self.leave(oldest)
            oldest.transport.abort()

    def admit(self, connection: BoundedProtocol) -> bool:
        """Mark a connection as authenticated; return whether there is room."""
        if len(self._known) >= KNOWN_MAX:
            return False
        self.leave(connection)
        self._known.add(connection)
        return True

    def leave(self, connection: BoundedProtocol) -> None:
        """Remove a connection."""
        self._strangers.pop(connection, None)
        self._known.discard(connection)


class BoundedProtocol(H11Protocol):
    """One connection."""

    def __init__(self, connections: Connections, **made_of: Any) -> None:
        """Create one of ``connections``; uvicorn passes all other arguments by name."""
        super().__init__(**made_of)
        self.app_state = {**self.app_state, ADMIT: self._admit}
        self.logger = connections.log
        self._bounds = connections
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start unauthenticated."""
        super().connection_made(transport)
        self._enter()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._bounds.leave(self)
        self._set_deadline(None)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Return to unauthenticated until the next request."""
        super().on_response_complete()
        self._enter()

    def _enter(self) -> None:
        self._set_deadline(self.loop.call_later(STRANGER_S, self.transport.abort))
        self._bounds.enter(self)

    def _admit(self) -> bool:
        admitted = self._bounds.admit(self)
        if admitted:
            self._set_deadline(None)
        return admitted

    def _set_deadline(self, deadline: asyncio.TimerHandle | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = deadline


OPEN_PATHS: Final = frozenset({"/login", "/static/style.css", "/static/icon.svg"})
"""Paths that need neither cookie nor token."""

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
    """Passes requests to an application, or answers them itself."""

    def __init__(self, app: ASGIApp, addresses: Addresses, doorkeeper: Authenticator) -> None:
        self._app, self._addresses, self._authenticator = app, addresses, doorkeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # WebSocket is not supported
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
        """Return the answer to an unauthorised request; None to pass it on."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._addresses.hosts:
            text = "this name is not the dashboard's; its administrator adds names with --url"
            return PlainTextResponse(text, 421)
        if method not in _METHODS:
            return PlainTextResponse("the dashboard is only read", 405)
        origins = headers.getlist("origin")
        if any(origin.lower() not in self._addresses.origins for origin in origins):
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
        if kind.lower() == "bearer" and self._authenticator.accepts(token.strip()):
            return True
        text = headers.get("cookie", "")
        if len(text) > _COOKIE_BYTES_MAX:
            return False
        try:
            cookie = SimpleCookie(text).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._authenticator.knows(cookie.value, time.time())


CLIENTS_MAX: Final = 32
PULSE_S: Final = 5.0
"""Interval of lines without a change, in seconds; they contain the time of the latest poll."""
LIFE_S: Final = 3600.0
"""Lifetime of a stream in seconds; the browser opens another one."""
SEND_S: Final = 20.0
"""A client that reads nothing for this time (s) is disconnected."""


class Stream:
    """The events of a board as an ASGI application."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._changed = asyncio.Event()
        self.clients = 0

    def wake(self) -> None:
        """Wake all streams after a change; on the event loop's thread."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI)."""
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
                pass  # it disconnected, or does not read
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
            line = json.dumps({"version": self._board.version, "polled_s": self._board.polled_s, "now_s": time.time()})
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
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


KEPT_S: Final = 10.0
"""How long an answer is reused, in seconds."""
PAUSE_S: Final = 0.5
"""Minimum time between two questions to the sidecar or the ResourceManager, in seconds."""
KEPT_MAX: Final = 64
_WAIT_S: Final = 5.0
_APPLICATION: Final = re.compile(r"application_\d{1,19}_\d{1,10}")

Explain = Callable[[str], dict[str, Any]]
"""Returns a sidecar's explanation of an application; raises `UserError` if there is no answer."""


class BusyError(Exception):
    """Too many concurrent questions."""


class ExplainRequests:
    """Asks on behalf of page viewers. Thread-safe."""

    def __init__(self, reader: Reader, explain: Explain) -> None:
        """Ask the ResourceManager with ``reader``, and a sidecar with ``explain``."""
        self._reader, self._explain = reader, explain
        self._one = Lock()
        self._kept: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()
        self._asked_s = -PAUSE_S

    def about(self, application: str) -> dict[str, Any]:
        """Return details of an application: ``explained`` and ``asks``, or an error; ``ended`` if it has.

        ``diagnostics`` are YARN's.

        Raises:
            ValueError: the ID is invalid.
            BusyError: too many concurrent questions.
        """
        if not _APPLICATION.fullmatch(application):
            raise ValueError("an application's id is application_TIME_NUMBER")
        if not self._one.acquire(timeout=_WAIT_S):
            raise BusyError
        try:
            kept = self._kept.get(application)
            if kept is not None and time.monotonic() - kept[0] < KEPT_S:
                return kept[1]
            time.sleep(min(max(self._asked_s + PAUSE_S - time.monotonic(), 0.0), PAUSE_S))
            answer = self._answer(application)
            self._asked_s = time.monotonic()
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
            application_page = self._reader.application(application)
            answer |= {"asks": application_page.asks, "diagnostics": application_page.diagnostics}
            if application_page.ended:
                return {**answer, "ended": application_page.ended}
        except UserError as error:
            answer["asks_error"] = str(error)
        try:
            explanation = self._explain(application)
        except UserError as error:
            return {**answer, "explain_error": str(error)}
        return (
            {**answer, "explain_error": str(explanation["error"])}
            if "error" in explanation
            else {**answer, "explained": explanation}
        )


STATIC: Final = Path(__file__).with_name("static")
FILES: Final = {
    "app.js": "text/javascript",
    "draw.js": "text/javascript",
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
}
REFUSED: Final = "<!-- refused -->"
"""Place in the log-in page for the message about a wrong token."""
BACKLOG: Final = 128
"""Size of the system's queue of connections, and number accepted at a time."""
FORM_BYTES_MAX: Final = 4096
SPAN_MAX_S: Final = max(step_s * count for step_s, count in LEVELS)


@dataclass(frozen=True, slots=True)
class Parts:
    """The components of the pages."""

    collector: Collector
    board: Board
    history: History
    questions: ExplainRequests
    addresses: Addresses
    authenticator: Authenticator


def application(parts: Parts) -> ASGIApp:
    """Return the dashboard. The collector runs on its own thread for the application's lifetime."""
    pages = _Pages(parts)
    stream = Stream(parts.board)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        loop, stop = asyncio.get_running_loop(), Event()

        def wake() -> None:
            if not stop.is_set():
                loop.call_soon_threadsafe(stream.wake)

        parts.board.on_change(wake)
        # An endless page of the ResourceManager must not block the end.
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
        Route("/api/events", stream),
        Route("/api/history", pages.over_time),
        Route("/api/application/{application}", pages.about),
        Route("/api/{part}", pages.document),
        Route("/metrics", pages.metrics),
    ]
    return Guard(Starlette(routes=routes, lifespan=life), parts.addresses, parts.authenticator)


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
        if not self._parts.authenticator.accepts(token):
            self._strangers_log.warning("a log-in with a wrong token")
            line = '<p class="fail" role="alert">This is not the token.</p>'
            return HTMLResponse((STATIC / "login.html").read_text("utf-8").replace(REFUSED, line), 401)
        answer = RedirectResponse("/", 303)
        secure = request.headers["host"].lower() in self._parts.addresses.secure_hosts
        cookie = self._parts.authenticator.cookie(time.time())
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
            points = await run_in_threadpool(self._parts.history.points, names, span_s, time.time())
            known = await run_in_threadpool(self._parts.history.names)
        except sqlite3.Error as error:
            return JSONResponse({"error": f"the history cannot be read: {error}"}, 503)
        return JSONResponse({"step_s": points.step_s, "series": points.series, "names": known})

    async def about(self, request: Request) -> Response:
        try:
            answer = await run_in_threadpool(self._parts.questions.about, request.path_params["application"])
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        except BusyError:
            return JSONResponse({"error": "others ask at the moment"}, 503, {"Retry-After": "5"})
        return JSONResponse(answer)

    async def metrics(self, _: Request) -> Response:
        if not self._parts.board.version:
            return PlainTextResponse("nothing was looked at yet", 503)
        return Response(self._parts.board.metrics, headers={"Content-Type": CONTENT_TYPE})


def listen(bind: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        bind: an IP address
        port: 0: any free one

    Raises:
        UserError: it cannot be opened.
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
            return "the port is in use; name another one with --port"
        case errno.EADDRNOTAVAIL | errno.EAFNOSUPPORT:
            return f"this host has no address {bind}; name one that it has with --bind"
        case errno.EACCES:
            return "this user may not have it; name one from 1024 on with --port"
    return f"{error.strerror}; name another --port or --bind"


def server_of(parts: Parts) -> uvicorn.Server:
    """Return the server of the dashboard; pass its sockets to ``run``."""
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
