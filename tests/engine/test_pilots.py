"""The gate that samples tasks first (SLearn): what it holds back, for how long, and what it learns."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.fake_rm import FakeRM, flat
from tests.engine.parts import containers, engine_with, estimates, job_row

from treadle.config.parts import PARTS
from treadle.events import ContainerEvent, Event
from treadle.proposals import Proposals

MAP, FAILED_MAP, REDUCE = 20, 5, 10
STARTED, ENDED = ContainerEvent.ALLOCATED, ContainerEvent.COMPLETED
FAILED, LOST = 1, -100
RELEASED, PREEMPTED, KILLED_BY_AM = LOST, -102, -105
FIXED = {"ratio": "fixed", "ratio_percent": 10.0, "work_conserving": False}


class Bench:
    """One leaf of 1,000 slots, and an engine whose answers are committed and sent back as containers that begin."""

    def __init__(self, nodes: int = 1, slots: int = 1000, estimate: str = "pilots", **gate: Any) -> None:
        self.rm = FakeRM()
        for node in range(nodes):
            self.rm.node(f"n{node}", (slots // nodes, slots // nodes))
        (self.leaf,) = flat(self.rm, 1, (slots, slots))
        self.engine = engine_with(gate=("pilots", FIXED | gate), order=("mlfq", {"size": "whole"}), estimate=estimate)
        self.now_ms = 1_000_000
        self.running: list[tuple[int, int, int, int]] = []
        """(application, container, priority, begin)"""
        self._container = 0
        self._more: list[Event] = []

    def job(self, maps: int, reduces: int = 0, kind: str = "MAPREDUCE", priority: int = MAP) -> int:
        app = self.rm.application(self.leaf, kind=kind)
        self.ask(app, 0, maps, priority)
        if reduces:
            self.ask(app, 1, reduces, REDUCE)
        return app

    def ask(self, app: int, key: int, count: int, priority: int) -> None:
        self.rm.ask(app, key, count, (1, 1), priority=priority)

    def tell(self, *events: Event) -> None:
        self._more += events

    def begun(self, after_ms: int = 1000) -> list[tuple[int, int]]:
        """Decide, and return (application, priority) of each container that begins."""
        self.now_ms += after_ms
        self.engine.apply([*self.rm.frame(), *self._more])
        self._more.clear()
        made = self.engine.decide(self.now_ms, 100_000, sequence=self.rm.sequence)
        priorities = [self._priority(made, at) for at in range(len(made))]
        self.rm.commit(made)
        found = list(zip(made.application.tolist(), priorities, strict=True))
        for app, priority in found:
            self._container += 1
            life = (app, self._container, priority, self.now_ms)
            self.running.append(life)
            self.tell(containers(STARTED, (*life, self.now_ms)))
        return found

    def _priority(self, made: Proposals, at: int) -> int:
        return self.rm.applications[int(made.application[at])].asks[int(made.key[at])].priority

    def end(self, count: int = 1, exit_status: int = 0, app: int | None = None) -> None:
        """End the containers that have run for longest."""
        ending = [life for life in self.running if app in (None, life[0])][:count]
        for life in ending:
            place = next(at for at, held in enumerate(self.rm.containers) if held[0] == life[0])
            self.rm.complete(place)
            self.running.remove(life)
            self.tell(containers(ENDED, (*life, self.now_ms), exit_status=exit_status))


def test_a_tenth_of_the_maps_runs_first_and_the_rest_when_it_has_ended() -> None:
    bench = Bench()
    bench.job(40)
    assert len(bench.begun()) == 4
    assert bench.begun() == []
    bench.end(3)
    assert bench.begun() == []
    bench.end(1)
    assert len(bench.begun()) == 36


def test_thin_jobs_are_not_sampled() -> None:
    bench = Bench()
    bench.job(2)
    assert len(bench.begun()) == 2


def test_a_job_has_one_pilot_at_least() -> None:
    bench = Bench()
    bench.job(3)
    assert len(bench.begun()) == 1


def test_no_reduce_runs_while_maps_are_held_back() -> None:
    bench = Bench()
    app = bench.job(40)
    bench.begun()
    bench.end(1)
    bench.ask(app, 1, 5, REDUCE)
    assert bench.begun() == []
    bench.end(3)
    assert bench.begun() == [(app, MAP)] * 36
    assert bench.begun() == [(app, REDUCE)] * 5


def test_no_reduce_takes_the_room_of_maps_that_wait() -> None:
    bench = Bench(slots=20)
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
    bench = Bench()
    app = bench.job(40)
    bench.begun()
    bench.end(1, FAILED)
    bench.ask(app, 2, 1, FAILED_MAP)
    assert bench.begun() == [(app, FAILED_MAP)]
    bench.end(4)
    assert len(bench.begun()) == 36, "the attempt that was made again is a pilot"


def test_pilots_that_fail_alone_are_recognized_by_the_asks_that_follow() -> None:
    bench = Bench(slots=8)
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
    bench = Bench(slots=8)
    app = bench.job(40)
    bench.begun()
    bench.end(4)
    assert bench.begun() == [(app, MAP)] * 8
    bench.ask(app, 2, 4, FAILED_MAP)
    bench.begun()
    assert job_row(bench.engine, app)["pilot_mean_ms"] == -1


@pytest.mark.parametrize("status", [FAILED, LOST, PREEMPTED, KILLED_BY_AM])
def test_pilots_that_do_not_end_well_are_replaced(status: int) -> None:
    bench = Bench()
    bench.job(40)
    for _ in range(5):
        assert len(bench.begun()) == 4
        bench.end(4, status)
    assert len(bench.begun()) == 4
    bench.end(4)
    assert len(bench.begun()) == 16


@pytest.mark.parametrize("status", [PREEMPTED, KILLED_BY_AM])
def test_what_was_preempted_or_killed_hides_no_failure(status: int) -> None:
    bench = Bench(slots=8)
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
    bench = Bench(pilot_timeout_ms=60_000, hold_timeout_ms=300_000)
    bench.job(40)
    bench.begun()
    bench.end(3)
    assert bench.begun(30_000) == []
    assert len(bench.begun(40_000)) == 1
    assert bench.begun(10_000) == []
    assert len(bench.begun(230_000)) == 35


def test_the_replacement_of_a_hanging_pilot_opens_the_gate() -> None:
    bench = Bench(pilot_timeout_ms=60_000)
    bench.job(20)
    bench.begun()
    bench.end(1)
    assert len(bench.begun(70_000)) == 1
    hanging = bench.running.pop(0)
    bench.end(1)
    assert len(bench.begun()) == 17
    assert hanging[0] == 0


def test_time_alone_opens_the_gate() -> None:
    bench = Bench(hold_timeout_ms=300_000)
    bench.job(40)
    bench.begun()
    bench.begun()
    assert len(bench.engine.decide(bench.now_ms + 298_000, 1000, sequence=90)) == 0
    assert len(bench.engine.decide(bench.now_ms + 299_000, 1000, sequence=91)) == 36


def test_a_clock_that_steps_back_holds_no_job_for_longer() -> None:
    bench = Bench(hold_timeout_ms=300_000)
    bench.job(40)
    bench.begun()
    bench.begun(-500_000)
    assert bench.begun(200_000) == []
    assert len(bench.begun(110_000)) == 36


def test_a_job_of_a_hundred_thousand_maps() -> None:
    bench = Bench(slots=20_000)
    bench.job(100_000)
    assert len(bench.begun()) == 4096, "as many as an answer holds"
    assert len(bench.begun()) == 4096
    assert len(bench.begun()) == 10_000 - 2 * 4096
    assert bench.begun() == []


def test_more_pilots_run_when_the_width_grows() -> None:
    bench = Bench()
    app = bench.job(2)
    bench.ask(app, 0, 1, MAP)
    assert len(bench.begun()) == 1, "it looks thin"
    bench.ask(app, 0, 29, MAP)
    assert len(bench.begun()) == 2
    bench.ask(app, 0, 57, MAP)
    assert len(bench.begun()) == 3
    bench.end(6)
    assert len(bench.begun()) == 54


def test_two_jobs_of_one_name_are_sampled_each() -> None:
    bench = Bench()
    first, second = bench.job(20), bench.job(20)
    assert sorted(bench.begun()) == [(first, MAP)] * 2 + [(second, MAP)] * 2
    bench.end(2, app=first)
    assert bench.begun() == [(first, MAP)] * 18


def test_idle_machines_run_what_is_held_back_by_arrival_but_no_reduces() -> None:
    bench = Bench(slots=30, work_conserving=True)
    first, second = bench.job(20, 3), bench.job(20)
    assert bench.begun() == [(first, MAP)] * 2 + [(second, MAP)] * 2 + [(first, MAP)] * 18 + [(second, MAP)] * 8


def test_only_the_tasks_begun_first_are_pilots() -> None:
    bench = Bench(slots=21, work_conserving=True)
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
    bench = Bench()
    bench.job(40, kind="TEZ", priority=2)
    bench.job(40, kind="SPARK", priority=0)
    assert len(bench.begun()) == 80


def test_tez_is_sampled_by_its_first_vertex_where_that_is_allowed() -> None:
    bench = Bench(tez=True)
    app = bench.job(40, kind="TEZ", priority=5)
    bench.ask(app, 1, 10, 8)
    assert bench.begun() == [(app, 5)] * 4
    bench.end(4)
    assert sorted(bench.begun()) == [(app, 5)] * 36 + [(app, 8)] * 10


def test_containers_that_tez_gives_back_have_done_their_task() -> None:
    bench = Bench(tez=True)
    app = bench.job(40, kind="TEZ", priority=5)
    assert bench.begun() == [(app, 5)] * 4
    bench.now_ms += 9000
    bench.end(4, RELEASED)
    assert bench.begun() == [(app, 5)] * 36
    assert job_row(bench.engine, app)["pilot_mean_ms"] == 9000


def test_a_confident_hint_needs_no_pilots() -> None:
    bench = Bench(estimate="combined", trusted_deviation=0.2)
    app = bench.job(40)
    told = estimates((app, 0, 10_000, -1))
    told.deviation_ms[:] = 1000
    bench.tell(told)
    assert len(bench.begun()) == 40


def test_a_hint_that_comes_a_tick_later_opens_the_gate_too() -> None:
    bench = Bench(estimate="combined", trusted_deviation=0.2)
    app = bench.job(40)
    assert len(bench.begun()) == 4
    told = estimates((app, 0, 10_000, -1))
    bench.tell(told)
    assert bench.begun() == [], "nothing is said of how certain it is"
    told.deviation_ms[:] = 1000
    bench.tell(told)
    assert len(bench.begun()) == 36


def test_levels_follow_the_pilots() -> None:
    bench = Bench(slots=8)
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
    bench = Bench(slots=6)
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
    bench = Bench(slots=30)
    bench.engine = engine_with(gate=("pilots", FIXED), order="srpt", estimate="pilots", share=share)
    first, second = bench.job(20), bench.job(20)
    assert sorted(bench.begun()) == [(first, MAP)] * 2 + [(second, MAP)] * 2
    bench.end(4)
    assert len(bench.begun()) == 30


def test_pilots_run_on_nodes_drawn_at_random() -> None:
    used = set()
    for seed_job in range(8):
        bench = Bench(nodes=10, slots=1000)
        for _ in range(seed_job):
            bench.job(2)
        bench.job(20)
        bench.begun()
        used |= {held[1] for held in bench.rm.containers[2 * seed_job :]}
    assert len(used) >= 4


def test_the_same_events_give_the_same_proposals() -> None:
    def run() -> list[tuple[int, int]]:
        bench = Bench(nodes=10, slots=60, work_conserving=True)
        found = []
        for maps in (20, 35, 2, 9):
            bench.job(maps)
            found += bench.begun()
            bench.end(7)
        return found + [held[:2] for held in bench.rm.containers]

    assert run() == run()
