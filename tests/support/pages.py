"""A server that answers as the web pages of a ResourceManager do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit


class FakeManager:
    """What it says: beans by the end of their names, and properties. Both may be changed while it runs."""

    def __init__(self, beans: Mapping[str, dict[str, Any]], properties: Mapping[str, str]) -> None:
        self.beans = dict(beans)
        self.properties = dict(properties)
        self.date_s: float | None = None
        """The time that it tells; None: the machine's."""
        self.url = ""
        self.ticket = ""
        """What must be sent as `Authorization`; whoever sends another one is asked for Kerberos."""

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        """Return a status, and what is sent as JSON, or bytes as they are."""
        if path == "/ws/v1/history/mapreduce/jobs":
            return 200, {"jobs": {"job": []}}
        if path == "/jmx":
            wanted = query.get("qry", query.get("get", [""]))[0].partition("::")[0]
            named = {
                name if ":" in name else f"Hadoop:service=ResourceManager,name={name}": bean
                for name, bean in as_shown(self.beans).items()
            }
            fits = [
                {"name": name, **bean}
                for name, bean in named.items()
                if name == wanted or (wanted.endswith("*") and name.startswith(wanted[:-1]))
            ]
            return 200, {"beans": fits}
        key = query.get("name", [""])[0]
        if path == "/conf" and key in self.properties:
            return 200, {"property": {"key": key, "value": self.properties[key]}}
        return 404, {}


def as_shown(beans: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return beans as /jmx has them.

    Of Treadle, tests have the status as the bean `Treadle`, and what else the bean says as a bean `Treadle+`.
    """
    shown = {name: bean for name, bean in beans.items() if name != "Treadle+"}
    if "Treadle" in beans:
        others = {"Placements": "{}", **beans.get("Treadle+", {})}
        shown["Treadle"] = {"Status": json.dumps(beans["Treadle"]), **others}
    return shown


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that go away."""


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler], tls: SSLContext | None = None) -> Iterator[str]:
    """Let requests be handled, on a thread; yield the address."""
    with _Server(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


M = TypeVar("M", bound=FakeManager)


@contextmanager
def served(manager: M, tls: SSLContext | None = None) -> Iterator[M]:
    """Let it answer, at ``manager.url``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            code, content = manager.answer(parts.path, parse_qs(parts.query))
            if parts.path == "/conf" and self.headers["Accept"] != "application/json":
                code = 406  # a ResourceManager writes XML then
            knows = self.headers["Authorization"] == manager.ticket or not manager.ticket
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response_only(code if knows else 401)
            if not knows:
                self.send_header("WWW-Authenticate", "Negotiate")
            self.send_header("Date", formatdate(manager.date_s, usegmt=True))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with answering(Handler, tls) as address:
        manager.url = f"{'http' if tls is None else 'https'}://{address}"
        yield manager
