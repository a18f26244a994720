"""`treadle dashboard` as a process: it makes its token, serves, ends, and goes on with its history."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import requests
from tests.support.cluster_pages import TREADLE, FakeCluster
from tests.support.pages import served
from tests.support.waiting import eventually

from treadle.cli.main import run
from treadle.dashboard.token_file import read_or_make
from treadle.errors import UserError

ANSWER_S = 120.0


@contextmanager
def started(rm: str, state: Path) -> Iterator[tuple[str, str]]:
    """Run the command; give the address that it prints, and the token."""
    command = [sys.executable, "-m", "treadle", "dashboard", "--rm", rm, "--state", str(state), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert str(state / "token") in said
            token = (state / "token").read_text().strip()
            assert token not in said
            yield (
                next(word.rstrip(";") for word in said.split() if word.startswith("http://127.0.0.1") and word != rm),
                token,
            )
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            process.wait()


def test_the_history_outlives_the_process(tmp_path: Path) -> None:
    state = tmp_path / "state"
    cluster = FakeCluster()
    cluster.beans["Treadle"] = {**TREADLE, "Schedules": 0, "LeaseHeld": 0, "tag.LastError": "killed"}

    def conditions(url: str, token: str) -> list[dict[str, object]]:
        headers = {"Authorization": f"Bearer {token}"}
        answer = eventually(lambda: requests.get(f"{url}/api/overview", headers=headers, timeout=ANSWER_S))
        return list(answer.json().get("conditions", []))

    with served(cluster):
        seen = []
        for _ in range(2):
            with started(cluster.url, state) as (url, token):
                seen.append(eventually(partial(conditions, url, token)))
    assert seen[0][0]["text"] == "Treadle does not schedule: no engine holds the lease; killed"
    assert seen[0] == seen[1], "since when is as it was"
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["dashboard", "--state", str(tmp_path)]) == 2
    assert "install treadle[dashboard]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--bind", "0.0.0.0"], "--url https://NAME"),
        (["--url", "treadle.example.org"], "write it as https://NAME"),
        (["--port", "70000"], ""),
    ],
)
def test_mistakes_are_told_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    state = tmp_path / "state"
    assert run(["dashboard", "--state", str(state), *options]) == 2
    assert says in capsys.readouterr().err
    assert not state.exists()


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o777)
    assert run(["dashboard", "--state", str(tmp_path)]) == 2
    assert "others may write there; chmod go-w it" in capsys.readouterr().err


def test_a_token_is_made_once(tmp_path: Path) -> None:
    token = read_or_make(tmp_path / "token")
    assert len(token) >= 43
    assert read_or_make(tmp_path / "token") == token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_token_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    read_or_make(path)
    path.chmod(mode)
    with pytest.raises(UserError, match="chmod 600 it, and put another token in it"):
        read_or_make(path)


@pytest.mark.parametrize("content", [b"", b"short", b"two words that are long", b"x" * 600, b"\xff" * 40])
def test_what_is_no_token_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UserError, match="16 to 512 printable characters"):
        read_or_make(path)


def test_a_folder_is_no_token(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it is a folder"):
        read_or_make(tmp_path)


def test_a_link_is_no_token(tmp_path: Path) -> None:
    read_or_make(tmp_path / "other")
    (tmp_path / "token").symlink_to(tmp_path / "other")
    with pytest.raises(UserError, match="not a link"):
        read_or_make(tmp_path / "token")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="not a link"):
        read_or_make(tmp_path / "dangling")
    assert not (tmp_path / "nowhere").exists()
