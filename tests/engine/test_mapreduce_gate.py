"""The gate that says how many tasks of a MapReduce job run at a time (Omega, section 6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.engine.fake_rm import LEAF, cluster
from tests.engine.parts import containers, engine_with, estimates

from treadle import events
from treadle.events import ContainerEvent, Event
from treadle.policy.mapreduce import WORKERS_MAX, MapReduceJob, workers_of

MAP, REDUCE = 20, 10


class Bench:
    """A leaf of this many slots, and an engine whose answers are committed and sent back as containers that begin."""

    def __init__(self, slots: int = 100, **gate: Any) -> None:
        self.rm, self.leaf = cluster((slots, slots)), LEAF
        self.engine = engine_with(gate=("workers", gate))
        self.now_ms = 1_000_000
        self.running: list[tuple[int, int, int, int]] = []
        self._numbers = 0
        self._more: list[Event] = []

    def job(self, maps: int, reduces: int = 0, kind: str = "MAPREDUCE") -> int:
        app = self.rm.application(self.leaf, kind=kind)
        self.rm.ask(app, 0, maps, (1, 1), priority=MAP)
        if reduces:
            self.rm.ask(app, 1, reduces, (1, 1), priority=REDUCE)
        return app

    def tell(self, *more: Event) -> None:
        self._more += more

    def begun(self) -> dict[int, int]:
        """Decide, commit, and return how many containers begin by application."""
        self.now_ms += 1000
        self.engine.apply([*self.rm.frame(), *self._more])
        self._more.clear()
        made = self.engine.decide(self.now_ms, 100_000, sequence=self.rm.sequence)
        asks = [self.rm.applications[app].asks[key] for app, key in zip(made.application, made.key, strict=True)]
        self.rm.commit(made)
        for app, ask in zip(made.application.tolist(), asks, strict=True):
            self._numbers += 1
            life = (app, self._numbers, ask.priority, self.now_ms)
            self.running.append(life)
            self.tell(containers(ContainerEvent.ALLOCATED, (*life, self.now_ms)))
        found = np.bincount(made.application, minlength=1)
        return {app: int(count) for app, count in enumerate(found) if count}

    def end(self, count: int, app: int) -> None:
        """End the containers of an application that have run for longest."""
        for life in [life for life in self.running if life[0] == app][:count]:
            place = next(at for at, held in enumerate(self.rm.containers) if held[0] == app)
            self.rm.complete(place)
            self.running.remove(life)
            self.tell(containers(ContainerEvent.COMPLETED, (*life, self.now_ms)))


def test_a_job_has_its_base_width_to_one_container() -> None:
    bench = Bench(policy="as_requested", workers=7)
    app = bench.job(maps=20, reduces=3)
    assert bench.begun() == {app: 7}, "of a hundred slots"
    assert bench.engine.waits_for() == "workers of MapReduce jobs"
    for ended in (1, 3, 2):
        assert bench.begun() == {}
        bench.end(ended, app)
        assert bench.begun() == {app: ended}
    assert len(bench.running) == 7


def test_what_is_no_mapreduce_is_served_at_once() -> None:
    bench = Bench(policy="as_requested", workers=2)
    other, app = bench.job(maps=20, kind="TEZ"), bench.job(maps=20)
    assert bench.begun() == {other: 20, app: 2}


def test_a_master_is_no_worker_and_is_not_held_back() -> None:
    bench = Bench(policy="as_requested", workers=2)
    app = bench.rm.application(bench.leaf, kind="MAPREDUCE", awaiting_am=True)
    bench.rm.ask(app, 0, 1, (1, 1), priority=0)
    assert bench.begun() == {app: 1}
    bench.rm.applications[app].awaiting_am = False
    bench.rm.ask(app, 1, 10, (1, 1), priority=MAP)
    assert bench.begun() == {app: 2}, "the master's container does not count"


def test_a_tag_says_the_base_width() -> None:
    assert workers_of(["a", "treadle:workers=3", "treadle:workers=5", "treadle:workers=x"]) == 5
    assert workers_of(["treadle:workers=99999999999"]) == WORKERS_MAX
    bench = Bench(policy="as_requested", workers=2)
    app = bench.job(maps=20)
    bench.begun()
    names = len(bench.engine._cluster.names.texts) if bench.engine._cluster is not None else 0
    bench.tell(events.Names(("treadle:workers=6",)), tags(app, names))
    assert bench.begun() == {app: 4}


def tags(app: int, name: int) -> events.Tags:
    return events.filled(events.Tags, 1, application=app, tag_name=name)


def test_idle_room_lets_a_job_run_all_its_maps_at_once() -> None:
    bench = Bench(workers=5)
    app = bench.job(maps=60)
    assert bench.begun() == {app: 60}
    bench = Bench(slots=40, workers=5)
    app = bench.job(maps=60)
    assert bench.begun() == {app: 40}


def test_relative_job_size_is_four_times_the_base_width() -> None:
    bench = Bench(policy="relative_job_size", workers=5)
    app = bench.job(maps=60)
    assert bench.begun() == {app: 20}
    assert bench.begun() == {}


def test_global_cap_leaves_forty_percent_free() -> None:
    bench = Bench(policy="global_cap", workers=5)
    app = bench.job(maps=100)
    assert bench.begun() == {app: 60}
    assert bench.begun() == {}
    small = bench.job(maps=10)
    assert bench.begun() == {small: 5}, "the base width does not know the cap"


def test_room_that_others_ask_for_is_not_idle() -> None:
    bench = Bench(slots=40, workers=5)
    app, other = bench.job(maps=60), bench.job(maps=30, kind="SPARK")
    assert bench.begun() == {app: 10, other: 30}


def test_spare_room_goes_where_it_shortens_an_end_most() -> None:
    bench = Bench(slots=50, workers=5)
    long, short = bench.job(maps=40), bench.job(maps=40)
    bench.tell(estimates((long, 0, 90_000, 40), (short, 0, 1_000, 40)))
    found = bench.begun()
    assert found[long] + found[short] == 50
    assert found[long] >= 35
    assert found[short] >= 5, "its base width is its own"


def test_more_workers_than_activities_gain_nothing() -> None:
    bench = Bench(workers=50)
    app = bench.job(maps=10, reduces=4)
    # all maps and all reduces may run at once, but no more than the wider of both
    assert bench.begun() == {app: 10}


def gate_job(bench: Bench) -> MapReduceJob:
    """Return what the gate said of the only job."""
    gate: Any = bench.engine._policy._parts._gate
    (job,) = gate.jobs
    assert isinstance(job, MapReduceJob)
    return job


def test_a_profile_knows_of_reduces_that_are_not_asked_for_and_of_durations_until_tasks_have_ended() -> None:
    bench = Bench(policy="as_requested", workers=5)
    app = bench.job(maps=10)
    bench.tell(estimates((app, 0, 6_000, -1), (app, 1_000_000, 3_000, 5)))
    bench.begun()
    job = gate_job(bench)
    assert (job.maps, job.reduces, job.map_s, job.reduce_s) == (10, 5, 6.0, 3.0)
    assert job.left_s(5) == pytest.approx(2 * 6.0 + 3.0)
    bench.now_ms += 8_000
    bench.end(5, app)
    bench.begun()
    assert gate_job(bench).map_s > 7.0, "what containers of its own took says more"


def test_of_a_job_whose_maps_have_ended_reduces_are_left() -> None:
    assert MapReduceJob(0, 3, maps=0, reduces=6, map_s=9.0, reduce_s=4.0).left_s(3) == pytest.approx(8.0)
    assert MapReduceJob(0, 3, maps=0, reduces=0, map_s=9.0).left_s(3) == pytest.approx(9.0), "nothing is known of it"


@pytest.mark.parametrize(("workers", "left_s"), [(10, 10 * 6.0 + 2 * 3.0), (60, 6.0 + 3.0), (5, 20 * 6.0 + 4 * 3.0)])
def test_the_end_is_predicted_in_waves(workers: int, left_s: float) -> None:
    job = MapReduceJob(0, 10, maps=100 if workers < 60 else 60, reduces=20, map_s=6.0, reduce_s=3.0)
    assert job.left_s(workers) == pytest.approx(left_s)
