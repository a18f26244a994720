"""MapReduce hands out its largest splits first: pilots are no random sample. Where splits are known that is put right.

In the simulator, whose application master does as the real one: of a node's splits the first, else of its rack's, else
the first of all; lists are sorted by length. Tasks take as long as their split is large, but for some noise.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from tests.engine.parts import pilot_table, settings_with

from treadle import events
from treadle.dag.dag import Dag, Stage
from treadle.engine import Engine
from treadle.history.splits import Split, SplitFollower, SplitOrder
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation
from treadle.workload.job import Framework, Job, arranged

NODES, TASKS, JOBS = 20, 120, 40
GATE = ("pilots", {"ratio": "fixed", "ratio_percent": 5.0, "work_conserving": False})
MB = 1 << 20


def _job(generator: np.random.Generator, number: int, local: bool) -> tuple[Job, list[Split]]:
    """A job of splits from 1 to some 300 MB, the largest first, each on three nodes or nowhere; 10 MB take a second."""
    sizes = np.sort(generator.lognormal(3.0, 1.0, TASKS) + 1.0)[::-1]
    durations = np.maximum(1, np.round(100 * sizes * generator.lognormal(0.0, 0.1, TASKS))).astype(np.int64)
    hosts = tuple(
        tuple(f"node-{at}" for at in sorted(generator.choice(NODES, 3, replace=False))) if local else ()
        for _ in range(TASKS)
    )
    stage = Stage(0, TASKS, round(durations.mean()), {"memory-mb": 1.0}, durations_ms=durations, name="map")
    name = f"job{number}"
    placed: Any = {0: hosts} if local else {}
    job = Job(name, 1000 * number, Dag(name, (stage,)), Framework.MAPREDUCE, name, "ann", hosts=placed)
    splits = [Split(int(size * MB), at) for size, at in zip(sizes, hosts, strict=True)]
    return job, splits


def _errors(local: bool, known: bool, seed: int) -> tuple[list[float], list[float]]:
    """Run jobs; return the pilots' estimates over the true durations, and their standard errors, as logarithms."""
    generator = np.random.default_rng(seed)
    made = [_job(generator, number, local) for number in range(JOBS)]
    scenario = Scenario.model_validate(
        {
            # heartbeats of a second would make each task half a second longer, which is another matter
            "cluster": {"nodes": [{"count": NODES, "resources": {"memory-mb": 40, "vcores": 40}}], "heartbeat_ms": 0},
            "frameworks": {"heartbeat_ms": 0},
            "workload": {"generator": {"jobs": 1}},
            "decision": {"node_locality_delay": 0},
        }
    )
    settings = settings_with(gate=GATE, order="fifo", estimate="pilots")
    simulation = Simulation(scenario, arranged(job for job, _ in made), settings, seed, check=False)
    follower, said = SplitFollower(), {}
    frame = simulation.rm.frame

    def with_splits(engine: int = 0) -> list[events.Event]:
        told = frame(engine)
        before = follower.follow([event for event in told if not isinstance(event, events.Containers)])
        if known:
            for event in told:
                if isinstance(event, events.Applications):
                    for app, state in zip(event.application.tolist(), event.state.tolist(), strict=True):
                        if state and app not in said:
                            said[app] = (0.0, 0.0)
                            follower.know(app, SplitOrder(made[app][1], follower.places.racks()))
        return told + before + follower.follow([event for event in told if isinstance(event, events.Containers)])

    simulation.rm.frame = with_splits  # type: ignore[method-assign]
    watched = _Watched(settings)
    simulation.engine = watched
    simulation.run()
    truth = [job.dag.stages[0].durations().mean() for job, _ in made]
    ratios = [watched.said[app][0] / truth[app] for app in range(JOBS)]
    return ratios, [watched.said[app][1] for app in range(JOBS)]


class _Watched(Engine):
    """Remembers what the pilots of each application said."""

    said: dict[int, tuple[float, float]]

    def decide(self, now_ms: int, limit: int, *, sequence: int, assume: bool = True) -> Any:
        made = super().decide(now_ms, limit, sequence=sequence, assume=assume)
        if not hasattr(self, "said"):
            self.said = {}
        if self._cluster is not None:
            jobs = pilot_table(self).jobs.at
            for app in np.flatnonzero(jobs["pilot_mean_ms"] > 0.0).tolist():
                self.said[app] = float(jobs["pilot_mean_ms"][app]), float(jobs["pilot_error"][app])
        return made


@pytest.mark.parametrize("local", [True, False], ids=["data on nodes", "data elsewhere"])
def test_the_plain_mean_of_pilots_is_biased_and_that_of_known_splits_is_not(local: bool) -> None:
    plain, plain_errors = _errors(local, known=False, seed=1)
    scaled, scaled_errors = _errors(local, known=True, seed=1)
    logs = np.log(plain)
    uncertain = sqrt(float(np.square(plain_errors).mean()) / JOBS)
    assert logs.mean() > 10 * uncertain, "far beyond what chance would do"
    assert np.median(plain) > 2.0, "twice too long in half of the jobs"
    logs = np.log(scaled)
    assert abs(logs.mean()) < 2 * sqrt(float(logs.var(ddof=1)) / JOBS) + 0.01
    within = np.abs(logs) <= 2 * np.array(scaled_errors)
    assert within.mean() >= 0.9, "the error that it says is its error"


def test_a_node_s_own_splits_come_first_then_its_rack_s_then_the_largest() -> None:
    splits = [Split(9, ("a",)), Split(8, ("b", "c")), Split(7, ("a",)), Split(6, ("d",)), Split(5, ("c",)), Split(4)]
    order = SplitOrder(splits, {"a": "/r1", "b": "/r1", "c": "/r2", "d": "/r2"})
    assert order.mean_bytes == pytest.approx(6.5)
    assert order.take("c", "/r2") == 8
    assert order.take("e", "/r2") == 6, "the first of the rack"
    assert order.take("a", "/r1") == 9
    assert order.take("b", "/r1") == 7
    assert order.take("x", "/r9") == 5
    assert order.take("x", "/r9") == 4
    assert order.take("a", "/r1") is None


def test_containers_of_jobs_whose_splits_are_not_known_say_nothing() -> None:
    follower = SplitFollower()
    assert follower.follow([events.Snapshot(1), events.Names(("",))]) == []
    assert follower.follow([]) == []


def test_hosts_that_are_not_the_cluster_s_take_no_room() -> None:
    order = SplitOrder([Split(1, tuple(f"stranger-{split}-{at}" for at in range(10))) for split in range(100)], {})
    assert order._at == {}
    assert order.take("a", "/r1") == 1
