"""Sessions with YARN's web pages: what a refusal says."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
import requests
from tests.support.cli import Cli
from tests.support.files import written

from treadle.cli.main import run
from treadle.errors import UserError, install_extra
from treadle.yarn import pages


def answer(status: int, challenge: str | None) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    if challenge is not None:
        response.headers["WWW-Authenticate"] = challenge
    return response


@pytest.mark.parametrize(("installed", "remedy"), [(False, install_extra("kerberos")), (True, "run kinit")])
def test_a_challenge_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, installed: bool, remedy: str) -> None:
    monkeypatch.setattr(pages, "can_negotiate", lambda: installed)

    said = pages.why_refused(answer(401, "Negotiate"))

    assert said.startswith("HTTP 401: the server wants Kerberos")
    assert remedy in said
    refusal = pages.refusal_of(answer(401, "Negotiate"))
    assert refusal.reason == "HTTP 401"
    assert said == f"{refusal.reason}: {refusal.remedy}"


@pytest.mark.parametrize(("status", "challenge"), [(401, "Basic"), (401, None), (403, "Negotiate"), (500, None)])
def test_other_refusals_are_shown_as_they_are(status: int, challenge: str | None) -> None:
    assert pages.why_refused(answer(status, challenge)) == f"HTTP {status}"


def test_no_answer_is_called_that() -> None:
    assert pages.why_refused(None) == "no answer"


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


# Commands that read pages over https, from a server whose certificate a private authority has signed.

TLS = Path(__file__).parents[1] / "data" / "tls"
AUTHORITY = str(TLS / "authority.pem")
BEANS = [
    {
        "name": "Hadoop:service=ResourceManager,name=Treadle",
        "Status": '{"Mode": "observe_only"}',
    }
]


class _Page(BaseHTTPRequestHandler):
    """Beans of one engine, no job, and a treadle.yaml that is not there."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        bodies = {"/jmx": {"beans": BEANS}, "/ws/v1/history/mapreduce/jobs": {"jobs": {"job": []}}}
        body = json.dumps(bodies.get(path, {"property": {"value": "/no/treadle.yaml"}})).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that go away because they do not trust the server."""


@pytest.fixture
def port() -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "localhost.pem")
    with _Server(("localhost", 0), _Page) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        serving.start()
        yield int(server.server_address[1])
        server.shutdown()
        serving.join()


@pytest.fixture(autouse=True)
def no_authority_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TREADLE_CA", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def commands(rm: str, folder: Path) -> dict[str, list[str]]:
    store = str(folder / "profiles.db")
    return {
        "status": ["status", "--rm", rm],
        "observe": ["observe", "--rm", rm],
        "engines": ["engines", "--rm", rm],
        "history of policies": ["policy", "history", "--rm", rm],
        "rollback": ["policy", "rollback", "--rm", rm],
        "use": ["policy", "use", "fifo", "--rm", rm],
        "import": ["profiles", "import", "--store", store, "--history-server", rm],
    }


NAMES = list(commands("", Path()))
CANNOT_BE_TRUSTED = "its certificate cannot be trusted"


@pytest.mark.parametrize("name", NAMES)
def test_a_private_authority_is_an_error_with_its_remedy_until_it_is_named(
    name: str, port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = commands(f"https://localhost:{port}", tmp_path)[name]
    assert run(arguments) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert CANNOT_BE_TRUSTED in said
    assert "--ca FILE (or TREADLE_CA)" in said
    assert "no answer" not in said

    code = run([*arguments, "--ca", AUTHORITY])
    said = " ".join(capsys.readouterr().err.split())
    assert CANNOT_BE_TRUSTED not in said
    if arguments[0] == "policy":
        assert "/no/treadle.yaml is not there" in said, "what the server says has come"
    elif name == "observe":
        assert "no engine runs that could be asked" in said, "the server names a sidecar's file"
    else:
        assert code == 0


def test_the_environment_may_name_it_and_no_other_variable_comes_before(
    port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    others = written(tmp_path / "others.pem", (TLS / "localhost.pem").read_text())
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(others))
    monkeypatch.setenv("TREADLE_CA", AUTHORITY)
    assert run(["status", "--rm", f"https://localhost:{port}"]) == 0


def test_a_host_that_the_certificate_does_not_name_is_refused(port: int, cli: Cli) -> None:
    said = " ".join(cli(["status", "--rm", f"https://127.0.0.1:{port}", "--ca", AUTHORITY], 2).err.split())
    assert CANNOT_BE_TRUSTED in said
    assert "use a host name that the certificate has" in said


def test_https_to_a_page_without_it_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadingHTTPServer(("localhost", 0), _Page) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        serving.start()
        assert run(["status", "--rm", f"https://localhost:{server.server_address[1]}"]) == 2
        server.shutdown()
        serving.join()
    assert "the port does not speak https: write http://" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_named(content: str | None, port: int, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    said = " ".join(cli(["status", "--rm", f"https://localhost:{port}", "--ca", str(file)], 2).err.split())
    assert f"--ca {file}" in said
    assert "PEM" in said
