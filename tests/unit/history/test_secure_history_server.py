"""`treadle profiles import --history-server` where the server wants Kerberos."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from requests.auth import AuthBase

from treadle.cli.main import run
from treadle.errors import install_extra
from treadle.history.importers import importing
from treadle.yarn import web

TICKET = "Negotiate dGlja2V0"


class _Secure(BaseHTTPRequestHandler):
    """Shows no job to whoever has a ticket, and nothing to others."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == TICKET
        body = json.dumps({"jobs": {"job": []}}).encode() if known else b""
        self.send_response(200 if known else 401)
        if not known:
            self.send_header("WWW-Authenticate", "Negotiate")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Secure) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class _Ticket(AuthBase):
    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = TICKET
        return request


def _import(address: str, folder: Path) -> int:
    return run(["profiles", "import", "--store", str(folder / "profiles.db"), "--history-server", address])


def test_the_server_is_asked_with_the_user_s_tickets(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def with_ticket(_: Path | None) -> requests.Session:
        session = requests.Session()
        session.auth = _Ticket()
        return session

    monkeypatch.setattr(importing, "open_session", with_ticket)
    assert _import(address, tmp_path) == 0
    assert "0 histories" in capsys.readouterr().out


@pytest.mark.parametrize(("installed", "remedy"), [(False, install_extra("kerberos")), (True, "run kinit")])
def test_without_tickets_it_says_what_is_missing(
    address: str,
    installed: bool,
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(web, "can_negotiate", lambda: installed)
    monkeypatch.setattr(importing, "open_session", lambda _: requests.Session())
    assert _import(address, tmp_path) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "the server wants Kerberos" in said
    assert remedy in said
    assert "import the .jhist files instead" in said
