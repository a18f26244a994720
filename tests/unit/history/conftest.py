"""Runs of made-up jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.history.profile import DurationSketch, JobRun, RecurrenceKey, StageRun
from treadle.history.reader import HistoryReader
from treadle.history.store import ProfileStore, open_store

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000


def make_run(
    number: int = 1,
    *,
    name: str = "nightly load",
    user: str = "ann",
    ended_ms: int = NOW_MS,
    stages: int = 2,
    durations_ms: tuple[int, ...] = (1000, 2000, 3000),
) -> JobRun:
    """Return a run of a chain of stages s0, s1, ..."""
    made = tuple(
        StageRun(
            f"s{at}",
            len(durations_ms),
            DurationSketch(durations_ms),
            {"memory-mb": 1024, "vcores": 1},
            (f"s{at - 1}",) if at else (),
            1000 * number,
        )
        for at in range(stages)
    )
    key = RecurrenceKey(user, "default", "MAPREDUCE", name)
    return JobRun(key, f"application_{number}", ended_ms - 10_000, ended_ms, made)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "profiles.db"


@pytest.fixture
def store(file: Path) -> Iterator[ProfileStore]:
    with open_store(str(file)) as opened:
        yield opened


@pytest.fixture
def reader() -> Iterator[HistoryReader]:
    with HistoryReader() as opened:
        yield opened
