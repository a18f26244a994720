"""Splits are read in turns: one user's files do not cost the others theirs, and events are prepared beforehand."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.engine.fake_rm import FakeRM, flat
from tests.unit.history.test_split_meta import content

from treadle.am.quotas import Keeping
from treadle.events import Event, Snapshot
from treadle.history import splits as split_meta
from treadle.history.run import DurationSketch, JobRun, StageRun, size_of_run
from treadle.history.splits import BYTES_MAX, Split, SplitOrder
from treadle.history.stages import StageTracker
from treadle.live.event_source import ALL_BYTES_PER_S, USER_BYTES_PER_S, WAITING, JobSplits, StagedSplits
from treadle.live.history_writer import HINTS, SPLITS, WAITING_RUNS, ProfileRecorder
from treadle.wire.frames import Frame, FrameHeader
from treadle.wire.schema import FrameFlag

SPLIT = content(*(Split(1000 - at, ("n0",)) for at in range(3)))


@dataclass
class Cluster:
    """A fake RM's frames for a folder of staged splits."""

    folder: Path
    rm: FakeRM = field(default_factory=FakeRM)
    tracker: StageTracker = field(default_factory=StageTracker)
    staged: StagedSplits = field(default_factory=StagedSplits)
    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.rm.node("n0", (100, 100))
        (self.leaf,) = flat(self.rm, 1, (100, 100))
        self.rm.snapshot_next()
        self.look()

    def job(self, user: str, made: bytes = SPLIT) -> int:
        app = self.rm.application(self.leaf, kind="MAPREDUCE", user=user, awaiting_am=True)
        folder = self.folder / user.replace("\0", "") / f"job_0_{app + 1:04d}"
        folder.mkdir(parents=True)
        (folder / "job.splitmetainfo").write_bytes(made)
        return app

    def look(self, later_ms: int = 0, pending: tuple[str, ...] = ()) -> list[JobSplits]:
        self.now_ms += later_ms
        events: list[Event] = list(self.rm.frame())
        snapshot = any(isinstance(event, Snapshot) for event in events)
        header = FrameHeader(int(FrameFlag.SNAPSHOT) if snapshot else 0, 1, self.rm.sequence, self.now_ms, 0, 1000, 2)
        self.tracker.apply(events, self.now_ms, complete=True)
        frame = Frame(header, events)
        return self.staged.look(frame, self.tracker, f"{self.folder}/{{user}}", pending)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(split_meta, "uid_of", lambda _: os.geteuid())
    return Cluster(tmp_path)


def applications(found: list[JobSplits]) -> list[int]:
    return [one.application for one in found]


def test_splits_come_arranged_for_the_cluster_s_nodes(cluster: Cluster) -> None:
    app = cluster.job("ann")
    ((found, order),) = cluster.look()
    assert found == app
    assert isinstance(order, SplitOrder)
    assert (order.mean_bytes, order.take("n0", ""), order.take("n0", "")) == (999.0, 1000, 999)


def test_one_user_s_jobs_wait_for_their_turn_and_the_others_do_not_wait_for_them(cluster: Cluster) -> None:
    hostile = [cluster.job("mallory") for _ in range(50)]
    ann = cluster.job("ann")
    # a small file counts for 16 KiB: 15.6 ms of what is read of all, 62.5 ms of what is read of a user
    assert applications(cluster.look()) == hostile[:1]
    assert applications(cluster.look(20)) == [ann], "mallory's turn has not come again"
    assert applications(cluster.look(20)) == []
    assert applications(cluster.look(100)) == hostile[1:2]


def test_a_user_has_one_pending(cluster: Cluster) -> None:
    first, second = cluster.job("ann"), cluster.job("ann")
    assert applications(cluster.look(pending=("ann",))) == []
    assert applications(cluster.look(1000)) == [first]
    assert applications(cluster.look(1000, pending=("ann",))) == []
    assert applications(cluster.look(1000)) == [second]


def test_so_many_bytes_a_second_are_read_of_a_user_and_of_all(cluster: Cluster) -> None:
    large = SPLIT + bytes(BYTES_MAX - len(SPLIT))
    mallory = [cluster.job("mallory", large) for _ in range(3)]
    ann = cluster.job("ann")
    assert applications(cluster.look()) == mallory[:1]
    all_ms, user_ms = 1000 * BYTES_MAX // ALL_BYTES_PER_S, 1000 * BYTES_MAX // USER_BYTES_PER_S
    assert applications(cluster.look(all_ms - 1)) == []
    assert applications(cluster.look(1)) == [ann]
    assert applications(cluster.look(user_ms - all_ms - 1)) == []
    assert applications(cluster.look(1)) == mallory[1:2]
    cluster.now_ms -= 3_600_000
    assert applications(cluster.look()) == mallory[2:], "a clock that was set back is not waited for"


def test_files_that_are_none_count_too(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.job("mallory", b"")
    reads = 0
    before = split_meta.read_splits

    def counted(stream: Any) -> Any:
        nonlocal reads
        reads += 1
        return before(stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treadle.live.event_source.read_splits", counted)
        for _ in range(10):
            assert cluster.look(1) == []
    assert reads == 1


def test_a_job_whose_master_has_a_container_is_not_read_any_more(cluster: Cluster) -> None:
    app = cluster.job("ann")
    assert cluster.look(pending=("ann",)) == []
    cluster.rm.applications[app].awaiting_am = False
    cluster.rm.change(app)
    assert cluster.look(1000) == []


def test_so_many_jobs_wait_and_those_of_the_user_with_most_go_first(cluster: Cluster) -> None:
    ann = cluster.job("ann")
    for _ in range(WAITING.user // 1024 + 20):
        cluster.job("mallory")
    cluster.look(pending=("ann", "mallory"))
    assert len(cluster.staged._waiting) == WAITING.user // 1024 + 1
    assert applications(cluster.look(1000)) == [ann]


@pytest.mark.parametrize("user", ["a\0b", "..", "", "\n"])
def test_a_name_that_no_folder_can_have_costs_nothing(cluster: Cluster, user: str) -> None:
    cluster.rm.application(cluster.leaf, kind="MAPREDUCE", user=user, awaiting_am=True)
    assert cluster.look() == []


def _run(user: str, number: int, stages: int) -> JobRun:
    from tests.unit.history.conftest import NOW_MS, make_run

    made = tuple(StageRun(f"s{at}", 1, DurationSketch([1])) for at in range(stages))
    run = make_run(number, user=user)
    return JobRun(run.key, run.id, NOW_MS - 1, NOW_MS, made)


def test_runs_that_wait_for_a_store_are_bounded_by_user(tmp_path: Path) -> None:
    recorder = ProfileRecorder()
    recorder._enabled = True
    recorder.remember(_run("ann", 1, 2))
    for number in range(200):
        recorder.remember(_run("mallory", number, 1000))
    kept = [run.key.user for _, run in recorder._runs.things()]
    assert kept.count("ann") == 1
    assert 0 < kept.count("mallory") < 60
    assert recorder._runs.bytes <= WAITING_RUNS.user + size_of_run(_run("ann", 1, 2)) + 1024
    recorder.remember(_run("mallory", 1, 30_000))
    assert recorder._runs.bytes <= WAITING_RUNS.all, "a run that is too large is left out"


def test_what_nobody_has_taken_is_bounded_and_one_user_does_not_push_out_another() -> None:
    assert (SPLITS.user, SPLITS.all) == (1 << 10, 100 << 10), "one of a user, a hundred in all"
    told: Keeping[int, str] = Keeping(HINTS)
    for number in range(30_000):
        user = "ann" if number < 100 else "mallory"
        told.put(number, user, user, 0)
    kept = [user for _, user in told.things()]
    assert (len(kept), kept.count("ann")) == (10_000, 100)
