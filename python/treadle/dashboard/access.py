"""Who gets an answer.

Addresses under which browsers find the dashboard, its token and cookies, bounds of connections, and what every answer
sends a browser.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from treadle.errors import UserError
from treadle.log_lines import limited

_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Addresses:
    """What a request may name."""

    hosts: frozenset[str]
    """Of a Host header, in small letters."""
    origins: frozenset[str]
    secure_hosts: frozenset[str]
    """Of these hosts browsers come over https alone."""

    def knows_host(self, host: str) -> bool:
        """Say whether a Host header is one of ours; any other may be a name that an attacker's DNS leads here."""
        return host.lower() in self.hosts

    def knows_origin(self, origin: str) -> bool:
        """Say whether an Origin header is one of ours."""
        return origin.lower() in self.origins

    def secure(self, host: str) -> bool:
        """Say whether a cookie for a Host must go over https alone."""
        return host.lower() in self.secure_hosts


def addresses(bind: str, port: int, urls: Iterable[str]) -> Addresses:
    """Return the addresses of a dashboard: loopback's with its port, and those that were given.

    Args:
        bind: the IP address at which it listens
        port: the port at which it listens
        urls: addresses as a browser names them, such as that of a proxy

    Raises:
        UserError: an address is none, or others than this host may come and no address is given.
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
    """Return the token of a file; where there is none yet, one is made.

    Raises:
        UserError: the file is a link, another user's, open to others, too short to be a secret, or cannot be made.
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


class Doorkeeper:
    """Knows the token, and the cookies that were made of it. A new token makes all old cookies worthless."""

    def __init__(self, token: str) -> None:
        self._digest = hashlib.sha256(token.encode()).digest()
        self._key = hmac.digest(token.encode(), b"treadle dashboard cookie", "sha256")

    def accepts(self, token: str) -> bool:
        """Say whether this is the token; how long it takes reveals nothing of it."""
        return hmac.compare_digest(hashlib.sha256(token.encode()).digest(), self._digest)

    def cookie(self, at_s: float) -> str:
        """Return the value of a cookie that is good for `COOKIE_LIFE_S` from a time, seconds since 1970."""
        until = str(int(at_s) + COOKIE_LIFE_S)
        return f"{until}.{self._sign(until)}"

    def knows(self, cookie: str, at_s: float) -> bool:
        """Say whether a cookie is one of ours and still good."""
        until, _, signature = cookie.partition(".")
        if not (until.isascii() and until.isdigit() and len(until) <= len("99999999999") and signature.isascii()):
            return False
        return hmac.compare_digest(self._sign(until), signature) and at_s < int(until)

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()


KNOWN_MAX: Final = 64
"""Requests of the known that are answered at a time."""

STRANGERS_MAX: Final = 64
"""Connections of strangers; one more ends the oldest, if its grace is over."""

CROWD_MAX: Final = 256
"""Beyond so many strangers the oldest is ended however young it is."""

GRACE_S: Final = 0.05
"""How long a stranger is not ended for another one: a client sends its request at once."""

STRANGER_S: Final = 10.0
"""How long a stranger has for a request and the whole answer."""

LINES: Final = (20.0, 0.1)
"""Lines about what strangers send in the log at once, and in each second in the long run."""

ADMIT: Final = "treadle.admit"
"""The key in a request's state of a function that makes its connection known; it returns whether there is room."""


class Connections:
    """All connections of one server. Everything is for the event loop's thread."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._strangers: dict[BoundedProtocol, float] = {}
        """Since when; the oldest first."""
        self._known: set[BoundedProtocol] = set()
        self.log = limited("uvicorn.error", *LINES)
        """For requests that are none; `treadle.dashboard.server` logs the others."""

    def enter(self, connection: BoundedProtocol) -> None:
        """Take a connection for a stranger's, and end the oldest ones for which there is no room."""
        self.leave(connection)
        self._strangers[connection] = now_s = self._clock_s()
        while len(self._strangers) > STRANGERS_MAX:
            oldest, since_s = next(iter(self._strangers.items()))
            if now_s - since_s < GRACE_S and len(self._strangers) <= CROWD_MAX:
                break
            self.leave(oldest)
            oldest.transport.abort()

    def admit(self, connection: BoundedProtocol) -> bool:
        """Take a connection for known; return whether there is room."""
        if len(self._known) >= KNOWN_MAX:
            return False
        self.leave(connection)
        self._known.add(connection)
        return True

    def leave(self, connection: BoundedProtocol) -> None:
        """Forget a connection."""
        self._strangers.pop(connection, None)
        self._known.discard(connection)


class BoundedProtocol(H11Protocol):
    """One connection."""

    def __init__(self, connections: Connections, **made_of: Any) -> None:
        """Make one of ``connections``; uvicorn passes all else by name."""
        super().__init__(**made_of)
        self.app_state = {**self.app_state, ADMIT: self._admit}
        self.logger = connections.log
        self._bounds = connections
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin as a stranger."""
        super().connection_made(transport)
        self._enter()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._bounds.leave(self)
        self._set_deadline(None)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Be a stranger again, until the next request."""
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
