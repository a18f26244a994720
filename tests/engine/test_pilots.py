"""The gate that samples tasks first (SLearn): what it holds back, for how long, and what it learns."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.bench import ENDED, FAILED_MAP, MAP, REDUCE, STARTED, Bench
from tests.engine.fake_rm import cluster
from tests.engine.parts import containers, engine_with, estimates, job_row, pilot_table, settings_with
from tests.engine.test_snapshots import ELSEWHERE
from tests.engine.twins import Shifts, Twins
from tests.support.optional import present

from treadle.config.parts import PARTS
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.events import ApplicationState, Samples, StageInputs, TaskInputs
from treadle.model.tables import ModelError
from treadle.policy.slearn.table import Sampling

FAILED, LOST = 1, -100
RELEASED, PREEMPTED, KILLED_BY_AM = LOST, -102, -105
FIXED = {"ratio": "fixed", "ratio_fraction": 0.1, "work_conserving": False}


def pilots(nodes: int = 1, slots: int = 1000, estimate: str = "pilots", **gate: Any) -> Bench:
    """Return a bench whose gate samples a tenth of a job's maps first."""
    parts = {"gate": ("pilots", FIXED | gate), "order": ("mlfq", {"size": "estimated_total"}), "estimate": estimate}
    return Bench(engine_with(**parts), slots, nodes)


def test_a_tenth_of_the_maps_runs_first_and_the_rest_when_it_has_ended() -> None:
    bench = pilots()
    bench.job(40)
    assert len(bench.begun()) == 4
    assert bench.begun() == []
    bench.end(3)
    assert bench.begun() == []
    bench.end(1)
    assert len(bench.begun()) == 36


@pytest.mark.parametrize(("maps", "first"), [(2, 2), (3, 1)], ids=["a thin job has none", "one at least"])
def test_small_jobs_have_no_pilot_or_one(maps: int, first: int) -> None:
    bench = pilots()
    bench.job(maps)
    assert len(bench.begun()) == first


def test_no_reduce_runs_while_maps_are_held_back() -> None:
    bench = pilots()
    app = bench.job(40)
    bench.begun()
    bench.end(1)
    bench.ask(app, 1, 5, REDUCE)
    assert bench.begun() == []
    bench.end(3)
    assert bench.begun() == [(app, MAP)] * 36
    assert bench.begun() == [(app, REDUCE)] * 5


def test_no_reduce_takes_the_room_of_maps_that_wait() -> None:
    bench = pilots(slots=20)
    app = bench.job(40)
    bench.begun()
    bench.end(4)
    assert bench.begun() == [(app, MAP)] * 20
    bench.ask(app, 1, 5, REDUCE)
    bench.end(12)
    assert bench.begun() == [(app, MAP)] * 12
    bench.end(12)
    assert bench.begun() == [(app, MAP)] * 4, "the last ones"
    assert bench.begun() == [(app, REDUCE)] * 5
    thin = bench.job(2, 1)
    assert bench.begun() == [(thin, MAP)] * 2
    assert bench.begun() == [(thin, REDUCE)]


def test_failed_maps_are_served_at_once() -> None:
    bench = pilots()
    app = bench.job(40)
    bench.begun()
    bench.end(1, FAILED)
    bench.ask(app, 2, 1, FAILED_MAP)
    assert bench.begun() == [(app, FAILED_MAP)]
    bench.end(4)
    assert len(bench.begun()) == 36, "the attempt that was made again is a pilot"


def test_pilots_that_fail_alone_are_recognized_by_the_asks_that_follow() -> None:
    bench = pilots(slots=8)
    app = bench.job(40)
    for turn in range(3):
        begun = bench.begun()
        assert begun == ([(app, FAILED_MAP)] * 4 if turn else [(app, MAP)] * 4), "the same four tasks, and no others"
        bench.now_ms += 2000
        bench.end(4)  # with status 0, as a map ends that reports its failure
        bench.ask(app, 2, 4, FAILED_MAP)
    assert bench.begun() == [(app, FAILED_MAP)] * 4
    bench.now_ms += 60_000
    bench.end(4)
    assert bench.begun() == [(app, MAP)] * 8
    assert job_row(bench.engine, app)["pilot_mean_ms"] == 60_000, "what failed had taken two seconds"


def test_pilots_that_turn_out_to_have_failed_when_the_gate_is_open_say_nothing() -> None:
    bench = pilots(slots=8)
    app = bench.job(40)
    bench.begun()
    bench.end(4)
    assert bench.begun() == [(app, MAP)] * 8
    bench.ask(app, 2, 4, FAILED_MAP)
    bench.begun()
    assert job_row(bench.engine, app)["pilot_mean_ms"] == -1


@pytest.mark.parametrize("status", [FAILED, LOST, PREEMPTED, KILLED_BY_AM])
def test_pilots_that_do_not_end_well_are_replaced(status: int) -> None:
    bench = pilots()
    bench.job(40)
    for _ in range(5):
        assert len(bench.begun()) == 4
        bench.end(4, status)
    assert len(bench.begun()) == 4
    bench.end(4)
    assert len(bench.begun()) == 16


@pytest.mark.parametrize("status", [PREEMPTED, KILLED_BY_AM])
def test_what_was_preempted_or_killed_hides_no_failure(status: int) -> None:
    bench = pilots(slots=8)
    app = bench.job(40)
    bench.begun()
    bench.end(4, status)  # these are asked for again as they were
    assert bench.begun() == [(app, MAP)] * 4
    bench.now_ms += 2000
    bench.end(4)  # with status 0, as a map ends that reports its failure
    bench.ask(app, 2, 4, FAILED_MAP)
    assert bench.begun() == [(app, FAILED_MAP)] * 4, "and no other: the gate is closed"
    bench.now_ms += 60_000
    bench.end(4)
    bench.begun()
    assert job_row(bench.engine, app)["pilot_mean_ms"] == 60_000


def test_a_pilot_that_hangs_is_replaced_and_in_the_end_nothing_is_held() -> None:
    bench = pilots(pilot_timeout_ms=60_000, hold_timeout_ms=300_000)
    bench.job(40)
    bench.begun()
    bench.end(3)
    assert bench.begun(30_000) == []
    assert len(bench.begun(40_000)) == 1
    assert bench.begun(10_000) == []
    assert len(bench.begun(230_000)) == 35


def test_the_replacement_of_a_hanging_pilot_opens_the_gate() -> None:
    bench = pilots(pilot_timeout_ms=60_000)
    bench.job(20)
    bench.begun()
    bench.end(1)
    assert len(bench.begun(70_000)) == 1
    hanging = bench.running.pop(0)
    bench.end(1)
    assert len(bench.begun()) == 17
    assert hanging[0] == 0


def test_a_clock_that_steps_back_holds_no_job_for_longer() -> None:
    bench = pilots(hold_timeout_ms=300_000)
    bench.job(40)
    bench.begun()
    bench.begun(-500_000)
    assert bench.begun(200_000) == []
    assert len(bench.begun(110_000)) == 36


def test_more_pilots_run_when_the_width_grows() -> None:
    bench = pilots()
    app = bench.job(2)
    bench.ask(app, 0, 1, MAP)
    assert len(bench.begun()) == 1, "it looks thin"
    bench.ask(app, 0, 29, MAP)
    assert len(bench.begun()) == 2
    bench.ask(app, 0, 57, MAP)
    assert len(bench.begun()) == 3
    bench.end(6)
    assert len(bench.begun()) == 54


def test_idle_machines_run_what_is_held_back_by_arrival_but_no_reduces() -> None:
    bench = pilots(slots=30, work_conserving=True)
    first, second = bench.job(20, 3), bench.job(20)
    assert bench.begun() == [(first, MAP)] * 2 + [(second, MAP)] * 2 + [(first, MAP)] * 18 + [(second, MAP)] * 8


def test_only_the_tasks_begun_first_are_pilots() -> None:
    bench = pilots(slots=21, work_conserving=True)
    bench.job(40)
    assert len(bench.begun()) == 21
    later = bench.running[4:]
    bench.running = bench.running[:4] + later
    for life in later[:10]:
        bench.running.remove(life)
        bench.rm.complete(0)
        bench.tell(containers(ENDED, (*life, bench.now_ms)))
    thin = bench.job(2)
    assert bench.begun()[:2] == [(thin, MAP)] * 2, "before what is held back"


def test_neither_tez_nor_spark_is_held_back() -> None:
    bench = pilots()
    bench.job(40, kind="TEZ", priority=2)
    bench.job(40, kind="SPARK", priority=0)
    assert len(bench.begun()) == 80


def test_tez_is_sampled_by_its_first_vertex_where_that_is_allowed() -> None:
    bench = pilots(tez=True)
    app = bench.job(40, kind="TEZ", priority=5)
    bench.ask(app, 1, 10, 8)
    assert bench.begun() == [(app, 5)] * 4
    bench.end(4)
    assert sorted(bench.begun()) == [(app, 5)] * 36 + [(app, 8)] * 10


def test_containers_that_tez_gives_back_have_done_their_task() -> None:
    bench = pilots(tez=True)
    app = bench.job(40, kind="TEZ", priority=5)
    assert bench.begun() == [(app, 5)] * 4
    bench.now_ms += 9000
    bench.end(4, RELEASED)
    assert bench.begun() == [(app, 5)] * 36
    assert job_row(bench.engine, app)["pilot_mean_ms"] == 9000


def test_a_hint_that_comes_a_tick_later_opens_the_gate_too() -> None:
    bench = pilots(estimate="combined", trusted_deviation=0.2)
    app = bench.job(40)
    assert len(bench.begun()) == 4
    told = estimates((app, 0, 10_000, -1))
    bench.tell(told)
    assert bench.begun() == [], "nothing is said of how certain it is"
    told.deviation_ms[:] = 1000
    bench.tell(told)
    assert len(bench.begun()) == 36


def test_levels_follow_the_pilots() -> None:
    bench = pilots(slots=8)
    long, short = bench.job(20), bench.job(20)
    assert len(bench.begun()) == 4
    bench.now_ms += 10_000
    bench.end(2, app=short)
    bench.begun()
    bench.now_ms += 600_000
    bench.end(2, app=long)
    bench.end(8, app=short)
    # 20 tasks of 10 s are of the first level, 20 of 10 minutes of the third.
    assert [app for app, _ in bench.begun()][:6].count(short) >= 5


def test_srpt_serves_the_smaller_job_by_its_pilots() -> None:
    bench = pilots(slots=6)
    bench.engine = engine_with(gate=("pilots", FIXED), order="srpt", estimate="pilots")
    long, short = bench.job(10), bench.job(10)
    assert sorted(bench.begun()) == [(long, MAP), (short, MAP)]
    bench.now_ms += 1000
    bench.end(1, app=short)
    bench.now_ms += 50_000
    bench.end(1, app=long)
    assert bench.begun() == [(short, MAP)] * 6


@pytest.mark.parametrize("share", sorted({*PARTS.kinds("share")} - {"file"}))
def test_any_share_counts_only_what_the_gate_lets_through(share: str) -> None:
    bench = pilots(slots=30)
    bench.engine = engine_with(gate=("pilots", FIXED), order="srpt", estimate="pilots", share=share)
    first, second = bench.job(20), bench.job(20)
    assert sorted(bench.begun()) == [(first, MAP)] * 2 + [(second, MAP)] * 2
    bench.end(4)
    assert len(bench.begun()) == 30


def test_pilots_run_on_nodes_drawn_at_random() -> None:
    used = set()
    for seed_job in range(8):
        bench = pilots(nodes=10, slots=1000)
        for _ in range(seed_job):
            bench.job(2)
        bench.job(20)
        bench.begun()
        used |= {held[1] for held in bench.rm.containers[2 * seed_job :]}
    assert len(used) >= 4


# What the gate `pilots` keeps beside the model: there only where it is wanted, and as right as the model itself.

TEZ = 5
LEVELS = ("mlfq", {"size": "estimated_total", "first_threshold_ms": 1_000_000_000})
"""All of these jobs are of the first level, but for those that run pilots."""
SAMPLES = settings_with(gate=("pilots", FIXED), order=LEVELS, estimate="pilots")
LETS_ALL = settings_with(gate="all", order=LEVELS, estimate="pilots")


def bench_with(settings: Settings) -> Bench:
    bench = pilots(slots=8)
    bench.engine = Engine(settings)
    return bench


def levels(engine: Engine) -> list[float]:
    scratch = present(engine._policy.latest)
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
    assert len(engine._cluster.groups.effects) == 0
    assert engine.samples() is None
    (group,) = np.flatnonzero(engine._cluster.groups.at["application"] == app)
    assert engine._cluster.groups.at["ended"][group] == 4, "the model has followed all the same"


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
    rm = cluster((60, 60))
    gate = ("pilots", FIXED | {"tez": True})
    twins = Twins(rm, settings_with(gate=gate, order=("mlfq", {"size": "estimated_total"}), estimate="observed"))
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
        sizes = [told.engine._policy.jobs.whole_ms() for told in (twins.plain, twins.other)]  # type: ignore[union-attr]
        assert sizes[0][app] == sizes[1][app + snapshot.application] > 0.0
    ended = [int(pilot_table(told.engine).ended["ended"].sum()) for told in (twins.plain, twins.other)]
    assert ended == ([5, 5] if status == RELEASED else [0, 0]), "the model counts by itself what it understands"


def test_nothing_stays_of_the_groups_of_an_application_that_is_gone() -> None:
    bench = pilots(tez=True)
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
    tasks = bench.engine._cluster.groups  # type: ignore[union-attr]
    assert tasks.index.find(second, TEZ) == 0, "its group has the row of the one that is gone"
    assert pilot_table(bench.engine).ended["ended"].sum() == 0


def test_a_row_of_tasks_that_is_used_again_at_once_is_read_before() -> None:
    """A pilot ends and another task begins in its row, in one event: the first counts, the second is none."""
    bench = pilots(slots=8)
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
    tasks = bench.engine._cluster.groups.tasks  # type: ignore[union-attr]
    assert pilot_table(bench.engine).pilot.sum() == 0
    assert len(tasks.at) >= 4


def test_how_much_pilots_read_is_known_after_a_snapshot() -> None:
    rm = cluster((60, 60))
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
    said = present(bench.engine.samples())
    bench.engine = engine_with(order=LEVELS)
    bench.rm.snapshot_next()
    bench.tell(said)
    bench.begun()
    assert levels(bench.engine)[0] == 0.0
    assert bench.engine.samples() is None


# Pilot measurements outlive the engine: sent to the next one after its snapshot, so that nothing is sampled again.


class Sidecar:
    """A bench whose engine may be started anew, and what was remembered of it."""

    def __init__(self, **gate: Any) -> None:
        self.bench = pilots(**gate)
        self.gate = gate
        self.kept: dict[int, Samples] = {}

    def begun(self, after_ms: int = 1000) -> list[tuple[int, int]]:
        found = self.bench.begun(after_ms)
        said = self.bench.engine.samples()
        if said is not None:
            for at, app in enumerate(said.application.tolist()):
                self.kept[app] = row(said, at)
        return found

    def restart(self, tell: bool = True) -> None:
        bench = self.bench
        parameters = {name: value for name, value in (FIXED | self.gate).items() if name not in {"nodes", "slots"}}
        bench.engine = engine_with(
            gate=("pilots", parameters), order=("mlfq", {"size": "estimated_total"}), estimate="pilots"
        )
        bench.rm.snapshot_next()
        bench.more[:] = [containers(STARTED, *((*life, life[3]) for life in bench.running))] if bench.running else []
        if tell:
            bench.tell(*self.kept.values())

    def application(self, app: int) -> np.void:
        return job_row(self.bench.engine, app)


def row(samples: Samples, at: int) -> Samples:
    return Samples(**{field.name: getattr(samples, field.name)[at : at + 1] for field in fields(Samples)})


def test_pilots_that_have_ended_count_on() -> None:
    sidecar = Sidecar()
    sidecar.bench.job(40)
    assert len(sidecar.begun()) == 4
    sidecar.bench.end(3)
    assert sidecar.begun() == []
    sidecar.restart()
    assert sidecar.begun() == [], "three have ended and one runs: none is wanted"
    sidecar.bench.end(1)
    assert len(sidecar.begun()) == 36


def test_without_samples_pilots_run_again() -> None:
    sidecar = Sidecar()
    sidecar.bench.job(40)
    sidecar.begun()
    sidecar.bench.end(3)
    sidecar.begun()
    sidecar.restart(tell=False)
    assert len(sidecar.begun()) == 2, "a tenth of the 37 maps that the snapshot tells of, less one that runs"


def test_a_gate_that_has_opened_stays_open_with_what_the_pilots_said() -> None:
    sidecar = Sidecar(slots=8)
    app = sidecar.bench.job(40)
    sidecar.begun()
    sidecar.bench.now_ms += 9000
    sidecar.bench.end(4)
    sidecar.begun()
    before = sidecar.application(app).copy()
    sidecar.bench.end(8)
    sidecar.restart()
    assert len(sidecar.begun()) == 8
    after = sidecar.application(app)
    assert after["sampling"] == Sampling.OPEN
    for name in ("pilot_mean_ms", "pilot_error", "width", "pilot_percent"):
        assert after[name] == before[name]
    tasks = sidecar.bench.engine._cluster.groups  # type: ignore[union-attr]
    group = tasks.index.find(app, MAP)
    assert tasks.at["ended"][group] == 12, "so that its size stays what it was"
    assert tasks.at["ended_ms"][group] == pytest.approx(12 * before["pilot_mean_ms"], abs=12)


def test_those_that_began_first_are_taken_for_the_pilots_that_run() -> None:
    sidecar = Sidecar(slots=21, work_conserving=True)
    sidecar.bench.job(40)
    sidecar.begun()
    sidecar.bench.end(1)
    sidecar.bench.begun()
    sidecar.restart()
    sidecar.begun()
    tasks = sidecar.bench.engine._cluster.groups.tasks.at  # type: ignore[union-attr]
    is_pilot = pilot_table(sidecar.bench.engine).pilot[: len(tasks)] == 1
    pilots = tasks[is_pilot]
    assert len(pilots) == 4, "that the fourth ended was not sent before the restart"
    others = tasks[~is_pilot & (tasks["created_ms"] > 0)]
    assert len(others) == 17
    assert pilots["created_ms"].max() <= others["created_ms"].min()


def test_thin_jobs_stay_thin() -> None:
    sidecar = Sidecar()
    app = sidecar.bench.job(2)
    sidecar.begun()
    sidecar.restart()
    sidecar.begun()
    assert sidecar.application(app)["sampling"] == Sampling.THIN


def test_samples_of_a_job_that_is_gone_are_left_out() -> None:
    sidecar = Sidecar()
    app = sidecar.bench.job(40)
    sidecar.begun()
    told = row(sidecar.kept[app], 0)
    sidecar.restart(tell=False)
    sidecar.bench.tell(replace(told, application=np.full(1, 7, np.int32)))
    sidecar.begun()
    assert sidecar.application(7)["sampling"] == Sampling.UNKNOWN


@pytest.mark.parametrize("name", ["sampling", "width", "ended", "total_ms", "percent"])
def test_impossible_samples_are_refused(name: str) -> None:
    sidecar = Sidecar()
    app = sidecar.bench.job(40)
    sidecar.begun()
    told = sidecar.kept[app]
    wrong = replace(told, **{name: np.full(1, -3, getattr(told, name).dtype)})
    with pytest.raises(ModelError, match="not possible"):
        sidecar.bench.engine.apply([wrong])
    with pytest.raises(ModelError, match="not possible"):
        sidecar.bench.engine.apply([replace(told, error=np.full(1, np.nan))])


def test_samples_are_sent_once_and_again_when_they_change() -> None:
    bench = pilots()
    first = bench.job(40)
    bench.begun()
    said = present(bench.engine.samples())
    assert (said.application.tolist(), said.pilots.tolist(), said.width.tolist()) == ([first], [4], [40])
    assert bench.engine.samples() is None
    second = bench.job(20)
    bench.begun()
    said = present(bench.engine.samples())
    assert said.application.tolist() == [second]
    bench.end(1, app=first)
    bench.begun()
    said = present(bench.engine.samples())
    assert (said.application.tolist(), said.ended.tolist()) == ([first], [1])
