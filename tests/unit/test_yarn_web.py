"""Sessions with YARN's web pages: what a refusal says."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
import requests
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.pages import FakeManager, served

from treadle.cli.main import run
from treadle.errors import UserError
from treadle.yarn import pages


def answer(status: int, challenge: str | None) -> requests.Response:
    response = requests.Response()
    response.status_code = status
    if challenge is not None:
        response.headers["WWW-Authenticate"] = challenge
    return response


@pytest.mark.parametrize(("status", "challenge"), [(401, "Basic"), (401, None), (403, "Negotiate"), (500, None)])
def test_other_refusals_are_shown_as_they_are(status: int, challenge: str | None) -> None:
    assert pages.refusal_of(answer(status, challenge)) == (f"HTTP {status}", "")


def test_no_answer_is_called_that() -> None:
    assert pages.refusal_of(None) == ("no answer", "")


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


def cluster() -> FakeManager:
    """Return a ResourceManager that names a treadle.yaml that is not there."""
    beans = {"Treadle": {"Mode": "observe_only"}}
    return FakeManager(beans, {"yarn.scheduler.treadle.config.file": "/no/treadle.yaml"})


@pytest.fixture
def port() -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "localhost.pem")
    with served(cluster(), context) as manager:
        yield int(manager.url.rpartition(":")[2])


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
        "import": ["history", "import", "--store", store, "--history-server", rm],
    }


NAMES = list(commands("", Path()))
CANNOT_BE_TRUSTED = "its certificate cannot be trusted"


@pytest.mark.parametrize("name", NAMES)
def test_a_private_authority_is_an_error_with_its_remedy_until_it_is_named(
    name: str, port: int, tmp_path: Path, cli: Cli
) -> None:
    arguments = commands(f"https://localhost:{port}", tmp_path)[name]
    said = " ".join(cli(arguments, 2).err.split())
    assert CANNOT_BE_TRUSTED in said
    assert "--ca FILE (or TREADLE_CA)" in said
    assert "no answer" not in said

    fails = arguments[0] in ("policy", "observe")
    said = " ".join(cli([*arguments, "--ca", AUTHORITY], 2 * fails).err.split())
    assert CANNOT_BE_TRUSTED not in said
    if arguments[0] == "policy":
        assert "/no/treadle.yaml is not there" in said, "what the server says has come"
    elif name == "observe":
        assert "no engine runs that could be asked" in said, "the server names a sidecar's file"


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


def test_https_to_a_page_without_it_is_reported(cli: Cli) -> None:
    with served(cluster()) as manager:
        said = cli(["status", "--rm", manager.url.replace("http", "https")], 2).err
    assert "the port does not speak https: write http://" in " ".join(said.split())


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_named(content: str | None, port: int, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    said = " ".join(cli(["status", "--rm", f"https://localhost:{port}", "--ca", str(file)], 2).err.split())
    assert f"--ca {file}" in said
    assert "PEM" in said
