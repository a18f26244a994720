"""The history outlives restarts, has a bounded size, and says what is wrong with its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.dashboard import history as module
from treadle.dashboard.history import LEVELS, Condition, History
from treadle.errors import UserError

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
        with pytest.raises(sqlite3.Error, match="start the dashboard anew"):
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
