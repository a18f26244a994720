"""`treadle dashboard` as a process: it makes its token, serves, ends, and goes on with its history."""

from __future__ import annotations

import logging
import signal
import socket
import sqlite3
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
from tests.support.dashboards import nobody
from tests.support.pages import served
from tests.support.waiting import eventually

from treadle.dashboard import history as module
from treadle.dashboard.collector import Board, Collector
from treadle.dashboard.history import LEVELS, Condition, History, check_cluster
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
        collector = Collector(Reader(cluster.url), history, Board(), lambda: 1_060.0, held=nobody, observed=nobody)
        with caplog.at_level(logging.INFO):
            collector.poll()
            collector.poll()
            cluster.beans["Treadle"] = TREADLE
            collector.poll()
        history.close()
    said = [(record.levelname, record.getMessage()) for record in caplog.records if "scheduling" in record.getMessage()]
    text = "scheduling: Treadle does not schedule: no engine holds the lease; killed, since 1970-01-01T00:15:00+00:00"
    assert said == [("WARNING", text), ("INFO", f"resolved: {text.partition(', since')[0]}")]


@pytest.mark.parametrize(
    ("bind", "says"), [("127.0.0.1", "the port is in use"), ("203.0.113.9", "this host has no address")]
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


def test_a_folder_and_a_link_are_no_token(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="it is a folder"):
        read_or_make(tmp_path)
    read_or_make(tmp_path / "other")
    for name, target in (("token", "other"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(tmp_path / target)
        with pytest.raises(UserError, match="not a link"):
            read_or_make(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


# The history outlives restarts, has a bounded size, and says what is wrong with its file.

START_S = 1_700_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


@pytest.fixture
def history(path: Path) -> Iterator[History]:
    found = History(path)
    yield found
    found.close()


def test_it_outlives_a_restart(path: Path) -> None:
    before = History(path)
    before.record(START_S, {"a": 3.0})
    before.keep_jobs({"application_1_0001": {"ended_ms": 5, "name": "x"}, "application_1_0002": {"ended_ms": 0}})
    before.keep_conditions(START_S, [Condition("lost", "fail", "gone", 7.0)], ["lost: gone"])
    before.close()
    assert path.stat().st_mode & 0o777 == 0o600
    after = History(path)
    assert [value for _, value in after.points(["a"], 600, START_S).series["a"]] == [3.0]
    assert after.jobs(ended=True) == {"application_1_0001": {"ended_ms": 5, "name": "x"}}
    assert list(after.jobs(ended=False)) == ["application_1_0002"]
    assert after.conditions() == (START_S, [Condition("lost", "fail", "gone", 7.0)])
    assert after.events() == [(START_S, "lost: gone")]
    after.close()


def test_a_row_is_the_mean_of_what_was_seen_within_it(history: History) -> None:
    start_s = START_S - START_S % 900
    for second in range(60):
        history.record(start_s + second, {"a": float(second)})
    fine = history.points(["a", "unknown"], 600, start_s + 59)
    assert fine.step_s == 10
    assert fine.series == {"a": [(start_s + 10 * i, 4.5 + 10 * i) for i in range(6)]}
    coarse = history.points(["a"], 86_400, start_s + 59)
    assert (coarse.step_s, coarse.series["a"]) == (60, [(start_s, 29.5)])


def test_rows_are_bounded(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEVELS", ((1, 5), (10, 3), (100, 2)))
    monkeypatch.setattr(module, "_TIDY_EVERY", 10)
    for second in range(500):
        history.record(START_S + second, {"a": 1.0, "b": 2.0})
    with sqlite3.connect(history.path) as base:
        counts = dict(base.execute("SELECT level, COUNT(*) FROM points GROUP BY level").fetchall())
    base.close()
    # between two times of tidying as many come as looks there are
    assert counts[0] <= 2 * (5 + 10)
    assert counts[1] <= 2 * (3 + 1)
    assert counts[2] <= 2 * (2 + 1)


def test_series_are_bounded_and_those_that_are_gone_make_room(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SERIES_MAX", 3)
    monkeypatch.setattr(module, "_TIDY_EVERY", 1)
    assert history.record(START_S, dict.fromkeys("abcde", 1.0)) == 2
    assert history.names() == ["a", "b", "c"]
    later_s = START_S + 2 * max(step_s * count for step_s, count in LEVELS)
    history.record(later_s, {"a": 1.0})
    assert history.record(later_s + 1, {"d": 1.0, "e": 1.0}) == 0
    assert history.names() == ["a", "d", "e"]


def test_jobs_and_events_are_bounded(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "JOBS_MAX", 3)
    monkeypatch.setattr(module, "EVENTS_MAX", 4)
    history.keep_jobs({f"ended{i}": {"ended_ms": i} for i in range(1, 8)})
    history.keep_jobs({f"runs{i}": {"ended_ms": 0} for i in range(7)})
    assert list(history.jobs(ended=True)) == ["ended7", "ended6", "ended5"]
    assert len(history.jobs(ended=False)) == 3
    history.keep_conditions(START_S, [], [f"line {i}" for i in range(9)])
    assert [text for _, text in history.events()] == ["line 8", "line 7", "line 6", "line 5"]


def test_a_clock_that_was_put_back_leaves_nothing_to_come(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIDY_EVERY", 1)
    history.record(START_S + 10_000, {"a": 1.0})
    history.record(START_S, {"a": 2.0})
    assert [value for _, value in history.points(["a"], 600, START_S + 10_000).series["a"]] == []
    assert [value for _, value in history.points(["a"], 600, START_S).series["a"]] == [2.0]


def test_hostile_names_are_names(history: History) -> None:
    name = "queue root.'); DROP TABLE points; -- \x00 used"
    history.record(START_S, {name: 1.0})
    assert history.points([name], 600, START_S).series[name][0][1] == 1.0


def test_two_dashboards_do_not_share_a_history(history: History) -> None:
    with pytest.raises(UserError, match="another dashboard keeps its history there; name another --state"):
        History(history.path)


@pytest.mark.parametrize("content", [b"no database at all" * 500, b""])
def test_a_file_that_is_no_history_is_named(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    if not content:
        History(path).close()
        return
    for _ in range(2):  # the lock of a failed start is given back
        with pytest.raises(UserError, match="move the file away"):
            History(path)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_removed_is_noticed(history: History, replaced: bool) -> None:
    history.record(START_S, {"a": 1.0})
    kept = history.path.read_bytes()
    history.path.unlink()
    if replaced:
        history.path.write_bytes(kept)
    for _ in range(2):
        with pytest.raises(sqlite3.Error, match="restart the dashboard"):
            history.record(START_S + 1, {"a": 1.0})


def test_a_file_that_is_damaged_while_it_runs_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = History(path)
    for second in range(200):
        before.record(START_S + 900 * second, {f"series {i}": 1.0 for i in range(20)})
    before.close()  # what was written is in the file itself then
    monkeypatch.setattr(module, "_TIDY_EVERY", 1)
    history = History(path)
    with history.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (history.path.stat().st_size - 4096))
    with pytest.raises(sqlite3.Error):
        history.record(START_S, {"a": 1.0})
    history.close()


def test_a_history_of_another_version_is_left_alone(path: Path) -> None:
    base = sqlite3.connect(path)
    base.execute("PRAGMA user_version = 99")
    base.close()
    with pytest.raises(UserError, match="its version is 99, this release reads 1"):
        History(path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--state"):
        History(tmp_path / "no" / "history.sqlite")


def test_a_full_disk_fails_and_breaks_nothing(history: History) -> None:
    history.record(START_S, {"a": 1.0})
    history._base.execute("PRAGMA max_page_count = 1")  # it keeps what it has, and gets no more
    with pytest.raises(sqlite3.Error, match="full"):
        for second in range(100_000):
            history.record(START_S + 900 * second, {f"series {i}": 1.0 for i in range(20)})
    assert [value for _, value in history.points(["a"], 600, START_S).series["a"]] == [1.0]
