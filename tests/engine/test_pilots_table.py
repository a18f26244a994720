"""What the gate `pilots` keeps beside the model: there only where it is wanted, and as right as the model itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.engine.fake_rm import FakeRM, flat
from tests.engine.parts import containers, engine_with, job_row, pilot_table, settings_with
from tests.engine.test_pilots import FIXED, KILLED_BY_AM, MAP, RELEASED, STARTED, Bench
from tests.engine.test_snapshots import ELSEWHERE
from tests.engine.twins import Shifts, Twins

from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.events import ApplicationState, StageInputs, TaskInputs
from treadle.policy.slearn.table import Sampling

TEZ = 5
LEVELS = ("mlfq", {"size": "whole", "first_threshold_ms": 1_000_000_000})
"""All of these jobs are of the first level, but for those that run pilots."""
SAMPLES = settings_with(gate=("pilots", FIXED), order=LEVELS, estimate="pilots")
LETS_ALL = settings_with(gate="all", order=LEVELS, estimate="pilots")


def bench_with(settings: Settings) -> Bench:
    bench = Bench(slots=8)
    bench.engine = Engine(settings)
    return bench


def levels(engine: Engine) -> list[float]:
    scratch = engine._policy._scratch
    assert scratch is not None
    found: list[float] = scratch.apps["key"].tolist()
    return found


@pytest.mark.parametrize("estimate", ["observed", "pilots", "combined"])
def test_a_policy_whose_gate_does_not_sample_keeps_no_table_and_has_no_steps_noted(estimate: str) -> None:
    bench = bench_with(settings_with(gate="all", order="srpt", estimate=estimate))
    app = bench.job(40)
    assert len(bench.begun()) == 8
    bench.end(4)
    assert bench.begun() == [(app, MAP)] * 4
    engine = bench.engine
    assert not engine._policy.observes
    assert engine._cluster is not None
    assert len(engine._cluster.tasks.effects) == 0
    assert engine.samples() is None
    (group,) = np.flatnonzero(engine._cluster.tasks.at["application"] == app)
    assert engine._cluster.tasks.at["ended"][group] == 4, "the model has followed all the same"


def test_with_another_gate_levels_are_as_if_nothing_had_been_sampled() -> None:
    bench = bench_with(SAMPLES)
    sampled, thin = bench.job(40), bench.job(2)
    bench.begun()
    assert levels(bench.engine)[:2] == [1.0, 0.0]
    bench.engine.configure(LETS_ALL)
    assert (sampled, MAP) in bench.begun()
    never = bench_with(LETS_ALL)
    assert (never.job(40), never.job(2)) == (sampled, thin)
    never.begun()
    assert levels(bench.engine) == levels(never.engine)
    assert levels(bench.engine)[:2] == [0.0, 0.0]


def test_pilot_measurements_outlive_a_change_of_parameters() -> None:
    bench = bench_with(SAMPLES)
    app = bench.job(40)
    bench.begun()
    bench.now_ms += 9000
    bench.end(2)
    assert bench.begun() == [], "the other two run"
    bench.engine.configure(replace(SAMPLES, policy=settings_with(gate=("pilots", FIXED), order="srpt").policy))
    assert bench.begun() == []
    assert job_row(bench.engine, app)["pilots_ended"] == 2
    bench.end(2)
    assert len(bench.begun()) == 8


@pytest.mark.parametrize("fails_at_ms", [0, 1_003_500])
def test_what_pilots_have_said_is_there_when_another_policy_fails(tmp_path: Path, fails_at_ms: int) -> None:
    """One that fails at once, or after containers have ended under it."""
    body = f"return view.applications['id'] * (1.0 if view.now_ms < {fails_at_ms} else None)"
    (tmp_path / "mine.py").write_text(f"class Mine:\n    def keys(self, view):\n        {body}\n")
    text = "policy:\n  order: {kind: file, path: mine.py, class: Mine}\n"
    bench = bench_with(SAMPLES)
    app = bench.job(40)
    assert len(bench.begun()) == 4
    bench.now_ms = 1_002_000
    bench.end(3)
    bench.engine.configure(parse_settings(str(tmp_path / "t.yaml"), text, trust_code=True))
    bench.begun()
    bench.end(1, app=app)
    bench.begun()
    assert bench.engine.failure is not None, "it has failed by now"
    assert bench.engine.running.policy.gate.kind.name == "pilots"
    assert job_row(bench.engine, app)["pilots_ended"] == 4
    assert job_row(bench.engine, app)["sampling"] == Sampling.OPEN


@pytest.mark.parametrize("status", [RELEASED, KILLED_BY_AM])
def test_containers_that_are_given_back_count_as_ended_as_long_as_before_a_snapshot(status: int) -> None:
    """Of a stage that runs on, and of one of which nothing runs any more."""
    rm = FakeRM()
    rm.node("n0", (60, 60))
    flat(rm, 1, (60, 60))
    gate = ("pilots", FIXED | {"tez": True})
    twins = Twins(rm, settings_with(gate=gate, order=("mlfq", {"size": "whole"}), estimate="observed"))
    leaf = len(rm.queues) - 1
    app = len(rm.applications)
    twins.do(lambda rm: rm.application(leaf, kind="TEZ"))
    twins.do(lambda rm: rm.ask(app, 0, 20, (1, 1), priority=TEZ))
    assert len(twins.tick()) == 2
    twins.now_ms += 9000
    twins.end(0, status)
    twins.end(0, status)
    assert len(twins.tick(limit=1)) == 1
    twins.do(lambda rm: rm.ask(app, 1, 20, (1, 1), priority=TEZ + 3))
    for snapshot in (ELSEWHERE, Shifts(), Shifts(application=1)):
        twins.now_ms += 5000
        twins.end(0, status)
        twins.tick(limit=1)
        twins.tick(snapshot=snapshot, limit=0)
        sizes = [told.engine._policy._parts._jobs.whole_ms() for told in (twins.plain, twins.other)]  # type: ignore[union-attr]
        assert sizes[0][app] == sizes[1][app + snapshot.application] > 0.0
    ended = [int(pilot_table(told.engine).ended["ended"].sum()) for told in (twins.plain, twins.other)]
    assert ended == ([5, 5] if status == RELEASED else [0, 0]), "the model counts by itself what it understands"


def test_nothing_stays_of_the_groups_of_an_application_that_is_gone() -> None:
    bench = Bench(tez=True)
    first = bench.job(40, kind="TEZ", priority=TEZ)
    bench.begun()
    bench.end(4, RELEASED)
    bench.begun()
    assert pilot_table(bench.engine).ended["ended"].sum() == 4
    while bench.running:
        bench.end(1)
    bench.rm.applications[first].asks.clear()
    bench.rm.applications[first].state = ApplicationState.GONE
    bench.rm.change(first)
    second = bench.job(40, kind="TEZ", priority=TEZ)
    bench.begun()
    bench.begun()
    tasks = bench.engine._cluster.tasks  # type: ignore[union-attr]
    assert tasks.index.find(second, TEZ) == 0, "its group has the row of the one that is gone"
    assert pilot_table(bench.engine).ended["ended"].sum() == 0


def test_a_row_of_tasks_that_is_used_again_at_once_is_read_before() -> None:
    """A pilot ends and another task begins in its row, in one event: the first counts, the second is none."""
    bench = Bench(slots=8)
    app = bench.job(40)
    assert len(bench.begun()) == 4
    bench.begun()
    ended = [bench.running.pop(0) for _ in range(4)]
    now_ms = bench.now_ms + 1000
    steps = [(*life, now_ms) for life in ended] + [(app, 100 + at, MAP, now_ms, now_ms) for at in range(4)]
    both = containers(STARTED, *steps)
    both.event[:4] = 3  # completed
    bench.tell(both)
    bench.rm.applications[app].asks[0].count -= 4
    bench.rm.change(app)
    bench.begun()
    row = job_row(bench.engine, app)
    assert (row["pilots_ended"], row["pilots_running"], row["sampling"]) == (4, 0, Sampling.OPEN)
    tasks = bench.engine._cluster.tasks.tasks  # type: ignore[union-attr]
    assert pilot_table(bench.engine).pilot.sum() == 0
    assert len(tasks.at) >= 4


def test_how_much_pilots_read_is_known_after_a_snapshot() -> None:
    rm = FakeRM()
    rm.node("n0", (60, 60))
    flat(rm, 1, (60, 60))
    twins = Twins(rm, settings_with(gate=("pilots", FIXED), order="mlfq", estimate="pilots"))
    app, leaf = len(rm.applications), len(rm.queues) - 1
    twins.do(lambda rm: rm.application(leaf, kind="MAPREDUCE"))
    twins.do(lambda rm: rm.ask(app, 0, 40, (1, 1), priority=MAP))
    assert len(twins.tick()) == 4
    twins.tick()
    apps = np.full(1, app, np.int32)
    twins.tell(StageInputs(apps, np.full(1, 1000.0)))
    running = np.array([life[1] for life in twins.running], np.int64)
    sizes = np.array([4000.0, 3000.0, 2000.0, 1000.0])
    twins.tell(TaskInputs(np.full(4, app, np.int32), running, sizes))
    twins.tick()
    twins.tick(snapshot=ELSEWHERE)
    for _ in range(4):
        twins.end(0)
    twins.tick(9000)
    rows = [job_row(told.engine, app + told.shifts.application) for told in (twins.plain, twins.other)]
    assert rows[0]["sized"] == rows[1]["sized"] == 4
    assert rows[0]["sized_bytes"] == rows[1]["sized_bytes"] == sizes.sum()
    assert rows[0]["pilot_mean_ms"] == rows[1]["pilot_mean_ms"] > 0.0


def test_an_engine_without_the_gate_leaves_samples_out() -> None:
    bench = bench_with(SAMPLES)
    bench.job(40)
    bench.begun()
    said = bench.engine.samples()
    assert said is not None
    bench.engine = engine_with(order=LEVELS)
    bench.rm.snapshot_next()
    bench.tell(said)
    bench.begun()
    assert levels(bench.engine)[0] == 0.0
    assert bench.engine.samples() is None
