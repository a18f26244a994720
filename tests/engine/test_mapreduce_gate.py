"""The gate that says how many tasks of a MapReduce job run at a time (Omega, section 6)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from tests.engine.bench import MAP, REDUCE, Bench
from tests.engine.fake_rm import LEAF
from tests.engine.parts import engine_with, estimates

from treadle import events
from treadle.policy.mapreduce import WORKERS_MAX, MapReduceJob, workers_of


class Workers(Bench):
    """A bench whose gate says how many tasks of a job run at a time."""

    def __init__(self, slots: int = 100, **gate: Any) -> None:
        super().__init__(engine_with(gate=("parallelism", gate)), slots)

    def counted(self) -> dict[int, int]:
        """Decide, commit, and return how many containers begin by application."""
        return dict(Counter(app for app, _ in self.begun()))


def test_a_job_has_its_base_width_to_one_container() -> None:
    bench = Workers(mode="as_requested", workers=7)
    app = bench.job(maps=20, reduces=3)
    assert bench.counted() == {app: 7}, "of a hundred slots"
    assert bench.engine.waits_for() == "workers of MapReduce jobs"
    for ended in (1, 3, 2):
        assert bench.counted() == {}
        bench.end(ended, app=app)
        assert bench.counted() == {app: ended}
    assert len(bench.running) == 7


def test_reduces_do_not_take_the_workers_of_the_maps_that_they_wait_for() -> None:
    bench = Workers(mode="as_requested", workers=2)
    app = bench.job(maps=3, reduces=2)
    assert bench.begun() == [(app, MAP)] * 2
    bench.end(1)
    assert bench.begun() == [(app, MAP)]
    bench.end(2)
    assert bench.begun() == [(app, REDUCE)] * 2


def test_what_is_no_mapreduce_is_served_at_once() -> None:
    bench = Workers(mode="as_requested", workers=2)
    other, app = bench.job(maps=20, kind="TEZ"), bench.job(maps=20)
    assert bench.counted() == {other: 20, app: 2}


def test_a_master_is_no_worker_and_is_not_held_back() -> None:
    bench = Workers(mode="as_requested", workers=2)
    app = bench.rm.application(LEAF, kind="MAPREDUCE", awaiting_am=True)
    bench.rm.ask(app, 0, 1, (1, 1), priority=0)
    assert bench.counted() == {app: 1}
    bench.rm.applications[app].awaiting_am = False
    bench.rm.ask(app, 1, 10, (1, 1), priority=MAP)
    assert bench.counted() == {app: 2}, "the master's container does not count"


def test_a_tag_says_the_base_width() -> None:
    assert workers_of(["a", "treadle:workers=3", "treadle:workers=5", "treadle:workers=x"]) == 5
    assert workers_of(["treadle:workers=99999999999"]) == WORKERS_MAX
    bench = Workers(mode="as_requested", workers=2)
    app = bench.job(maps=20)
    bench.counted()
    names = len(bench.engine._cluster.names.texts) if bench.engine._cluster is not None else 0
    bench.tell(events.Names(("treadle:workers=6",)), tags(app, names))
    assert bench.counted() == {app: 4}


def tags(app: int, name: int) -> events.Tags:
    return events.filled(events.Tags, 1, application=app, tag_name=name)


@pytest.mark.parametrize(
    ("slots", "gate", "maps", "begun"),
    [
        pytest.param(100, {}, 60, 60, id="idle room lets all run at once"),
        pytest.param(40, {}, 60, 40, id="idle room, less than all"),
        pytest.param(100, {"mode": "relative_job_size"}, 60, 20, id="four times the base width"),
        pytest.param(100, {"mode": "global_cap"}, 100, 60, id="forty percent stay free"),
    ],
)
def test_a_policy_says_how_much_wider_a_job_may_be(slots: int, gate: dict[str, str], maps: int, begun: int) -> None:
    bench = Workers(slots=slots, workers=5, **gate)
    app = bench.job(maps=maps)
    assert bench.counted() == {app: begun}
    assert bench.counted() == {}
    if gate.get("mode") == "global_cap":
        small = bench.job(maps=10)
        assert bench.counted() == {small: 5}, "the base width does not know the cap"


def test_room_that_others_ask_for_is_not_idle() -> None:
    bench = Workers(slots=40, workers=5)
    app, other = bench.job(maps=60), bench.job(maps=30, kind="SPARK")
    assert bench.counted() == {app: 10, other: 30}


def test_spare_room_goes_where_it_shortens_an_end_most() -> None:
    bench = Workers(slots=50, workers=5)
    long, short = bench.job(maps=40), bench.job(maps=40)
    bench.tell(estimates((long, 0, 90_000, 40), (short, 0, 1_000, 40)))
    found = bench.counted()
    assert found[long] + found[short] == 50
    assert found[long] >= 35
    assert found[short] >= 5, "its base width is its own"


def test_more_workers_than_activities_gain_nothing() -> None:
    bench = Workers(workers=50)
    app = bench.job(maps=10, reduces=4)
    # all maps and all reduces may run at once, but no more than the wider of both
    assert bench.counted() == {app: 10}


def gate_job(bench: Workers) -> MapReduceJob:
    """Return what the gate said of the only job."""
    gate: Any = bench.engine._policy.gate
    (job,) = gate.jobs
    assert isinstance(job, MapReduceJob)
    return job


def test_a_profile_knows_of_reduces_that_are_not_asked_for_and_of_durations_until_tasks_have_ended() -> None:
    bench = Workers(mode="as_requested", workers=5)
    app = bench.job(maps=10)
    bench.tell(estimates((app, 0, 6_000, -1), (app, 1_000_000, 3_000, 5)))
    bench.counted()
    job = gate_job(bench)
    assert (job.maps, job.reduces, job.map_s, job.reduce_s) == (10, 5, 6.0, 3.0)
    assert job.left_s(5) == pytest.approx(2 * 6.0 + 3.0)
    bench.now_ms += 8_000
    bench.end(5, app=app)
    bench.counted()
    assert gate_job(bench).map_s > 7.0, "what containers of its own took says more"


@pytest.mark.parametrize(
    ("job", "workers", "left_s"),
    [
        (MapReduceJob(0, 10, maps=100, reduces=20, map_s=6.0, reduce_s=3.0), 10, 10 * 6.0 + 2 * 3.0),
        (MapReduceJob(0, 10, maps=60, reduces=20, map_s=6.0, reduce_s=3.0), 60, 6.0 + 3.0),
        (MapReduceJob(0, 10, maps=100, reduces=20, map_s=6.0, reduce_s=3.0), 5, 20 * 6.0 + 4 * 3.0),
        (MapReduceJob(0, 3, maps=0, reduces=6, map_s=9.0, reduce_s=4.0), 3, 8.0),
        (MapReduceJob(0, 3, maps=0, reduces=0, map_s=9.0), 3, 9.0),  # nothing is known of it
    ],
)
def test_the_end_is_predicted_in_waves(job: MapReduceJob, workers: int, left_s: float) -> None:
    assert job.left_s(workers) == pytest.approx(left_s)
