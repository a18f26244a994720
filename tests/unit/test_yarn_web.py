"""Sessions with YARN's web pages: what a refusal says."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Event, Thread

import pytest
import requests

from treadle.errors import UserError, install_extra
from treadle.yarn import pages, web


def answer(status: int, challenge: str | None) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    if challenge is not None:
        response.headers["WWW-Authenticate"] = challenge
    return response


@pytest.mark.parametrize(("installed", "remedy"), [(False, install_extra("kerberos")), (True, "run kinit")])
def test_a_challenge_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, installed: bool, remedy: str) -> None:
    monkeypatch.setattr(web, "can_negotiate", lambda: installed)

    said = web.why_refused(answer(401, "Negotiate"))

    assert said.startswith("HTTP 401: the server wants Kerberos")
    assert remedy in said
    refusal = web.refusal_of(answer(401, "Negotiate"))
    assert refusal.reason == "HTTP 401"
    assert said == f"{refusal.reason}: {refusal.remedy}"


@pytest.mark.parametrize(("status", "challenge"), [(401, "Basic"), (401, None), (403, "Negotiate"), (500, None)])
def test_other_refusals_are_shown_as_they_are(status: int, challenge: str | None) -> None:
    assert web.why_refused(answer(status, challenge)) == f"HTTP {status}"


def test_no_answer_is_called_that() -> None:
    assert web.why_refused(None) == "no answer"


@pytest.fixture
def dripping() -> Iterator[str]:
    """The address of a server that answers byte by byte and never ends."""
    over = Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not over.wait(0.01):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    thread = Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    over.set()
    thread.join()
    listener.close()


def test_a_page_that_drips_is_not_waited_for_without_end(dripping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_WHOLE_S", 0.2)
    with pytest.raises(UserError, match=r"had not answered whole after 0\.2 s"):
        pages.read_page(dripping, "/jmx", {})
