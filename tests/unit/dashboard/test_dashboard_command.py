"""`treadle dashboard` as a process: it makes its token, serves, ends, and goes on with its history."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import requests
from tests.support.cli import Cli
from tests.support.cluster_pages import TREADLE, FakeCluster
from tests.support.pages import served
from tests.support.waiting import eventually

from treadle.dashboard.collector import Board, Collector
from treadle.dashboard.history import Condition, History, check_cluster
from treadle.dashboard.reading import Reader
from treadle.dashboard.server import listen, read_or_make
from treadle.errors import UserError, install_extra

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
    cluster.beans["Treadle"] = {**TREADLE, "Schedules": 0, "LeaseHeld": 0, "LastError": "killed"}

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


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert install_extra("dashboard") in cli(["dashboard", "--state", str(tmp_path)], 2).err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--bind", "0.0.0.0"], "--url https://NAME"),
        (["--url", "treadle.example.org"], "write it as https://NAME"),
        (["--port", "70000"], ""),
        (["--rm", "ftp://x"], "--rm ftp://x: write it as http://HOST:PORT"),
        (["--ca", "/nothing.pem"], "--ca /nothing.pem (or TREADLE_CA): No such file or directory"),
        (["--config", "/nothing.yaml"], "--config /nothing.yaml is not there; name the treadle.yaml"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(tmp_path: Path, cli: Cli, options: list[str], says: str) -> None:
    state = tmp_path / "state"
    assert says in cli(["dashboard", "--state", str(state), *options], 2).err
    assert not state.exists()


def test_what_went_wrong_before_the_start_is_logged_with_since_when(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = FakeCluster()
    cluster.beans["Treadle"] = {**TREADLE, "Schedules": 0, "LeaseHeld": 0, "LastError": "killed"}
    with served(cluster):
        history = History(tmp_path / "history.sqlite")
        history.keep_conditions(1_000.0, [Condition("scheduling", "fail", "old words", 900.0)], [])
        collector = Collector(Reader(cluster.url), history, Board(), lambda: 1_060.0)
        with caplog.at_level(logging.INFO):
            collector.look()
            collector.look()
            cluster.beans["Treadle"] = TREADLE
            collector.look()
        history.close()
    said = [(record.levelname, record.getMessage()) for record in caplog.records if "scheduling" in record.getMessage()]
    text = "scheduling: Treadle does not schedule: no engine holds the lease; killed, since 1970-01-01T00:15:00+00:00"
    assert said == [("WARNING", text), ("INFO", f"resolved: {text.partition(', since')[0]}")]


@pytest.mark.parametrize(
    ("bind", "says"), [("127.0.0.1", "somebody listens there already"), ("203.0.113.9", "this host has no address")]
)
def test_where_it_cannot_listen_it_says_why(bind: str, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} of {bind} cannot be had: {says}"):
            listen(bind, port)


class Whose:
    """A history, and whether it is a cluster's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, rm: str, is_same: bool = False, answers: bool = True) -> set[str]:
        """Start with it, look if somebody answers, and end; return the addresses that it has kept."""
        history = History(self.path)
        try:
            check_cluster(history, rm, None, is_same)
            if answers:
                history.record(1.0, {"nodes": 1.0})
            else:
                history.keep_conditions(1.0, [Condition("lost", "fail", f"{rm} does not answer", 1.0)], ["lost"])
            return history.addresses()
        finally:
            history.close()


def test_a_history_of_another_cluster_is_not_continued(tmp_path: Path) -> None:
    whose = Whose(tmp_path / "history.sqlite")
    with served(FakeCluster()) as one, served(FakeCluster()) as other:
        assert whose.of(one.url) == {one.url}
        assert whose.of(f"{one.url}/") == {one.url}
        with pytest.raises(UserError, match=f"is the history of the cluster of {one.url}; name another --state"):
            whose.of(other.url)
        assert whose.of(one.url) == {one.url}, "nothing was kept of the other"
        assert whose.of(other.url, is_same=True) == {other.url}


def test_a_history_of_an_address_that_nobody_answered_under_is_of_no_cluster(tmp_path: Path) -> None:
    whose = Whose(tmp_path / "history.sqlite")
    assert whose.of("http://typo:8088", answers=False) == {"http://typo:8088"}
    assert whose.of("http://rm:8088") == {"http://rm:8088"}
    with pytest.raises(UserError, match="is the history of the cluster of http://rm:8088"):
        whose.of("http://typo:8088", answers=False)
    history = History(whose.path)
    assert (history.conditions(), history.events()) == ((0.0, []), []), "what was wrong there is wrong no more"
    history.close()


def test_the_other_one_of_a_pair_goes_on_with_the_history(tmp_path: Path) -> None:
    whose = Whose(tmp_path / "history.sqlite")
    with served(FakeCluster()) as one, served(FakeCluster()) as other:
        pair = {
            "yarn.resourcemanager.ha.enabled": "true",
            "yarn.resourcemanager.ha.rm-ids": "rm1,rm2",
            "yarn.resourcemanager.webapp.address.rm1": "rm1.example.org:8088",
            "yarn.resourcemanager.webapp.address.rm2": "rm2.example.org:8088",
        }
        one.properties, other.properties = pair, pair
        whose.of(one.url)
        assert other.url in whose.of(other.url)
        assert whose.of("http://rm2.example.org:8088")


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, cli: Cli) -> None:
    tmp_path.chmod(0o777)
    assert "others may write there; chmod go-w it" in cli(["dashboard", "--state", str(tmp_path)], 2).err


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
