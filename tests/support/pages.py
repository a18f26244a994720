"""A server that answers as the web pages of a ResourceManager do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class FakeManager:
    """What it says: beans by the end of their names, and properties. Both may be changed while it runs."""

    def __init__(self, beans: Mapping[str, dict[str, Any]], properties: Mapping[str, str]) -> None:
        self.beans = dict(beans)
        self.properties = dict(properties)
        self.date_s: float | None = None
        """The time that it tells; None: the machine's."""
        self.url = ""

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
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


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Let requests be handled, on a thread; yield the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def served(manager: FakeManager) -> Iterator[FakeManager]:
    """Let it answer, at ``manager.url``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            code, content = manager.answer(parts.path, parse_qs(parts.query))
            body = json.dumps(content).encode()
            self.send_response_only(code)
            self.send_header("Date", formatdate(manager.date_s, usegmt=True))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with answering(Handler) as address:
        manager.url = f"http://{address}"
        yield manager
