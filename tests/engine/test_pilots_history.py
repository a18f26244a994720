"""History has a say while pilots run: how many other tasks begin beside them, and at which level."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from tests.engine.bench import MAP, REDUCE, Bench
from tests.engine.fake_rm import LEAF
from tests.engine.parts import engine_with, estimates, pilot_table, settings_with
from tests.engine.test_pilots import FIXED, pilots

from treadle import events
from treadle.dag import Dag, Stage
from treadle.engine import Engine
from treadle.events import TaskEstimates
from treadle.history.splits import Split, SplitFollower, SplitOrder
from treadle.simulator.scenario import ScenarioModel
from treadle.simulator.simulation import Simulation
from treadle.workload.job import Framework, Job, arranged

TASKS = 20
"""A fiftieth of the bench's 1,000 slots."""
HISTORY = {"history_fraction": 0.02}


def bench_with(**gate: Any) -> Bench:
    """Return a bench where history has a say."""
    return pilots(**(HISTORY | gate))


def test_other_tasks_run_beside_the_pilots_up_to_a_part_of_the_cluster() -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    assert len(bench.begun()) == 4, "its pilots"
    assert len(bench.begun()) == TASKS - 4
    assert bench.begun() == []
    bench.end(4)
    assert len(bench.begun()) == 40 - TASKS, "pilots have ended"


@pytest.mark.parametrize(
    ("duration_s", "deviation_s", "first", "then"),
    [
        (600, 120, 1.0, 2.0),  # 24,000 s, at most 33,000
        (600, 900, 1.0, 3.0),  # at most 283,000
        (5, 1, 0.0, 0.0),  # 200 s, at most 280: pilots are as urgent
        (5, 15, 1.0, 2.0),  # at most 28,000 s
    ],
)
def test_the_level_is_that_of_the_upper_end_of_the_interval(
    duration_s: int, deviation_s: int, first: float, then: float
) -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.tell(told((app, 0, 1000 * duration_s, 1000 * deviation_s, -1)))
    bench.begun()
    assert levels(bench) == [first]
    bench.begun(0)
    assert levels(bench) == [then]


def test_pilots_that_run_for_longer_than_history_says_put_the_job_further_down() -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.tell(told((app, 0, 5000, 1000, -1)))
    bench.begun()
    bench.begun()
    assert levels(bench) == [0.0]
    bench.begun(30_000)  # 40 tasks of more than 30 s
    assert levels(bench) == [1.0]
    bench.end(3)
    bench.begun(500_000)  # the fourth has run for 531 s: 40 tasks of 156 s in the mean
    assert levels(bench) == [1.0]
    assert len(bench.begun(500_000)) == 1, "it hangs, and one more runs"
    assert levels(bench) == [1.0]
    bench.begun()
    assert levels(bench) == [1.0], "40 tasks of 225 s, five pilots"


def test_pilots_have_the_last_word() -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.tell(told((app, 0, 5_000_000, 1000, -1)))
    bench.begun()
    bench.begun(10_000)
    assert levels(bench) == [3.0]
    bench.end(4)
    bench.begun(0)
    assert levels(bench) == [0.0]


def test_jobs_of_which_history_says_nothing_or_has_seen_one_run_only_have_their_pilots() -> None:
    bench = bench_with()
    unknown, once = bench.job(40), bench.job(40)
    bench.tell(told((once, 0, 600_000, -1, -1)))
    assert len(bench.begun()) == 8
    assert bench.begun() == []
    assert levels(bench) == [1.0, 1.0]
    assert {unknown, once} == {app for app, *_ in bench.running}


def test_a_part_counts_by_the_resource_that_tasks_take_most_of() -> None:
    bench = bench_with()
    app = bench.rm.application(LEAF, kind="MAPREDUCE")
    bench.rm.ask(app, 0, 40, (2, 1), priority=MAP)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    bench.begun()
    bench.begun()
    assert len(bench.running) == TASKS / 2


def test_a_part_smaller_than_the_pilots_leaves_them_alone_but_sets_the_level() -> None:
    bench = bench_with(history_fraction=0.001)
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    assert len(bench.begun()) == 4
    assert bench.begun() == []
    assert levels(bench) == [2.0]


@pytest.mark.parametrize(
    ("gate", "estimate"),
    [(HISTORY, "pilots"), ({"settled_fraction": 1.0}, "combined")],
    ids=["beside pilots", "settled"],
)
def test_without_levels_history_has_no_say(gate: dict[str, float], estimate: str) -> None:
    bench = pilots()
    bench.engine = engine_with(gate=("pilots", FIXED | gate), order="srpt", estimate=estimate)
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, 1, -1)))
    assert len(bench.begun()) == 4
    assert bench.begun() == []


SETTLES: dict[str, Any] = {"estimate": "combined", "settled_fraction": 1.0}
SECOND = (0, 1, 600_000, 500_000, 120)


@pytest.mark.parametrize(
    ("gate", "said", "begun"),
    [
        pytest.param(
            HISTORY | {"work_conserving": True},
            [(0, 0, 600_000, 100_000, -1)],
            40,
            id="idle machines run what history does not vouch for",
        ),
        # 1,000 s, give or take: the first level or the second
        pytest.param(SETTLES, [(0, 0, 25_000, 20_000, -1)], 40, id="of no higher level than that of pilots is enough"),
        pytest.param(SETTLES, [(0, 0, 600_000, -1, -1)], 4, id="a history of one run settles nothing"),
        # with the second stage the size lies in the third level or the fourth
        pytest.param(
            SETTLES | {"tez": True}, [(0, 0, 600_000, 100_000, -1), SECOND], 4, id="later stages count for the level"
        ),
    ],
)
def test_what_history_says_lets_tasks_begin(gate: dict[str, Any], said: list[Any], begun: int) -> None:
    bench = pilots(**gate)
    bench.job(40, kind="TEZ", priority=2) if gate.get("tez") else bench.job(40)
    bench.tell(told(*said))
    assert len(bench.begun()) == begun


def test_tasks_beside_the_pilots_give_way_to_jobs_of_higher_levels() -> None:
    bench = pilots(slots=100, history_fraction=0.2)
    large, small = bench.job(100), bench.job(40)
    bench.tell(told((large, 0, 600_000, 100_000, -1), (small, 0, 5000, 1000, -1)))
    assert len(bench.begun()) == 14, "pilots"
    begun = [app for app, _ in bench.begun()]
    assert [begun.count(app) for app in (large, small)] == [10, 16]
    assert [app for app, _ in bench.begun()] == []
    assert levels(bench) == [2.0, 0.0]


def test_reduces_wait_for_the_pilots() -> None:
    bench = bench_with()
    app = bench.job(10, reduces=5)
    bench.tell(told((app, 0, 5000, 100, -1)))
    bench.begun()
    bench.begun()
    assert bench.running == [life for life in bench.running if life[2] == MAP]
    assert len(bench.running) == 10, "all maps"
    bench.end(1)
    assert [priority for _, priority in bench.begun()] == [REDUCE] * 5


def test_later_stages_count_and_wait() -> None:
    bench = bench_with(tez=True)
    app = bench.job(40, kind="TEZ", priority=2)
    bench.tell(told((app, 0, 5000, 100, -1), (app, 1, 600_000, 100_000, 120)))
    bench.begun()
    bench.begun()
    assert levels(bench) == [2.0], "72,000 s of the second stage, at most 95,000"
    bench.ask(app, 1, 120, 5)
    bench.begun()
    assert [priority for *_, priority, _ in bench.running] == [2] * TASKS


def test_a_pilot_that_fails_runs_again_before_others_begin() -> None:
    bench = bench_with()
    app = bench.job(40)
    bench.begun()
    bench.end(1, exit_status=-100)
    bench.ask(app, 0, 37, MAP)
    bench.tell(told((app, 0, 600_000, 100_000, -1)))
    assert len(bench.begun()) == 1
    assert levels(bench) == [1.0]
    assert len(bench.begun()) == TASKS - 4


# History where pilots need not say it: jobs whose level it settles, and later stages, corrected by pilots.

LATER = 5
"""The priority of the second vertex of a Tez job, of which the first has 2."""
THOUSAND_S = 1_000_000


def told(*keys: tuple[int, int, int, int, int]) -> TaskEstimates:
    """Return estimates of (application, key, duration_ms, deviation_ms, tasks)."""
    found = estimates(*(key[:3] + key[4:] for key in keys))
    found.deviation_ms[:] = [key[3] for key in keys]
    return found


def settling(**gate: Any) -> Bench:
    """Return a bench where history counts that settles a job's level."""
    return pilots(estimate="combined", settled_fraction=1.0, **gate)


def levels(bench: Bench) -> list[float]:
    """Return the level of each application in the latest decide."""
    scratch: Any = bench.engine._policy.latest
    return [float(key) for key in scratch.apps["key"][: len(bench.rm.applications)]]


def test_a_job_of_which_the_level_is_settled_needs_no_pilots() -> None:
    bench = settling()
    sure, unsure, unknown = bench.job(40), bench.job(40), bench.job(40)
    # 40 tasks of 2,500 s are at the bound between the third level and the fourth; of 600 s well within the third.
    bench.tell(told((sure, 0, 600_000, 100_000, -1), (unsure, 0, 2_500_000, 1_000_000, -1)))
    begun = [app for app, _ in bench.begun()]
    assert [begun.count(app) for app in (sure, unsure, unknown)] == [40, 4, 4]
    assert levels(bench) == [2.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("estimate", "level"),
    [
        (("pilots", {"scale_history": True}), 3.0),
        (("pilots", {}), 2.0),
        (("combined", {"scale_history": False}), 2.0),
    ],
)
def test_later_stages_take_as_many_times_longer_as_the_first(estimate: Any, level: float) -> None:
    bench = pilots(tez=True)
    parts = {"gate": ("pilots", FIXED | {"tez": True}), "order": ("mlfq", {"size": "estimated_total"})}
    bench.engine = engine_with(estimate=estimate, **parts)
    app = bench.job(40, kind="TEZ", priority=2)
    # By history 40 tasks of 1 s and 40 of 1,000 s, 40,040 s; pilots say 5 s, so that it is 200,200 s.
    bench.tell(told((app, 0, 1000, 500, -1), (app, 1, THOUSAND_S, THOUSAND_S, 40)))
    assert len(bench.begun()) == 4
    assert levels(bench) == [1.0], "its pilots run"
    bench.now_ms += 5000
    bench.end(4)
    bench.begun(0)
    assert levels(bench) == [level]


def test_the_size_stays_when_later_stages_are_asked_for_run_and_end() -> None:
    bench = pilots(tez=True)
    parts = {"gate": ("pilots", FIXED | {"tez": True}), "order": ("mlfq", {"size": "estimated_total"})}
    bench.engine = engine_with(estimate=("pilots", {"scale_history": True}), **parts)
    app = bench.job(10, kind="TEZ", priority=2)
    bench.tell(told((app, 0, 1000, 500, -1), (app, 1, 1000, 500, 10), (app, 2, 1000, 500, 10)))

    def whole_ms() -> float:
        jobs: Any = bench.engine._policy.jobs
        return float(jobs.whole_ms()[app])

    bench.begun()
    bench.now_ms += 2000
    bench.end(1)
    bench.begun(0)
    assert whole_ms() == pytest.approx(60_000)
    bench.end(9)
    bench.ask(app, 1, 10, LATER)
    bench.tell(told((app, 1, 1000, 500, -1)))
    assert len(bench.begun()) == 10
    assert whole_ms() == pytest.approx(60_000)
    bench.end(4)
    bench.begun()
    assert whole_ms() == pytest.approx(60_000)


def test_a_job_is_not_thin_if_a_later_stage_is_wide() -> None:
    bench = pilots(tez=True)
    narrow, wide = (bench.job(1, kind="TEZ", priority=2) for _ in range(2))
    bench.tell(told((narrow, 1, 1000, 500, 2), (wide, 1, 1000, 500, 3)))
    bench.begun()
    assert levels(bench) == [0.0, 1.0]


def test_srpt_counts_stages_to_come_once_pilots_have_ended() -> None:
    bench = pilots(slots=8)
    gate = ("pilots", FIXED | {"tez": True})
    bench.engine = engine_with(gate=gate, order="srpt", estimate=("pilots", {"scale_history": True}))
    long, short = (bench.job(20, kind="TEZ", priority=2) for _ in range(2))
    bench.tell(told((long, 0, 1000, 1, -1), (long, 1, 1000, 1, 90), (short, 0, 1000, 1, -1)))
    assert len(bench.begun()) == 4
    bench.end(4)
    assert bench.begun()[:8] == [(short, 2)] * 8, "equal but for the stage to come"


def test_what_pilots_and_history_say_together_corrects_later_stages() -> None:
    bench = pilots(tez=True)
    gate = ("pilots", FIXED | {"tez": True})
    bench.engine = engine_with(gate=gate, order=("mlfq", {"size": "estimated_total"}), estimate="combined")
    app = bench.job(40, kind="TEZ", priority=2)
    bench.tell(told((app, 0, 1000, 1, -1), (app, 1, 1000, 1, 40)))
    bench.begun()
    bench.now_ms += 100_000
    bench.end(4)
    bench.begun(0)
    jobs: Any = bench.engine._policy.jobs
    assert float(jobs.whole_ms()[app]) == pytest.approx(80_000, rel=0.05), "history is far more certain than pilots"


# MapReduce hands out its largest splits first: pilots are no random sample. Where splits are known that is put right.
# In the simulator, whose application master does as the real one: of a node's splits the first, else of its rack's,
# else the first of all; lists are sorted by length. Tasks take as long as their split is large, but for some noise.

NODES, MAPS, JOBS = 10, 120, 16
GATE = ("pilots", {"ratio": "fixed", "ratio_fraction": 0.05, "work_conserving": False})
MB = 1 << 20


def _job(generator: np.random.Generator, number: int, local: bool) -> tuple[Job, list[Split]]:
    """A job of splits from 1 to some 300 MB, the largest first, each on three nodes or nowhere; 10 MB take a second."""
    sizes = np.sort(generator.lognormal(3.0, 1.0, MAPS) + 1.0)[::-1]
    durations = np.maximum(1, np.round(100 * sizes * generator.lognormal(0.0, 0.1, MAPS))).astype(np.int64)
    hosts = tuple(
        tuple(f"node-{at}" for at in sorted(generator.choice(NODES, 3, replace=False))) if local else ()
        for _ in range(MAPS)
    )
    stage = Stage(0, MAPS, round(durations.mean()), {"memory-mb": 1.0}, durations_ms=durations, name="map")
    name = f"job{number}"
    placed: Any = {0: hosts} if local else {}
    job = Job(name, 1000 * number, Dag(name, (stage,)), Framework.MAPREDUCE, name, "ann", hosts=placed)
    splits = [Split(int(size * MB), at) for size, at in zip(sizes, hosts, strict=True)]
    return job, splits


def _errors(local: bool, known: bool, seed: int) -> tuple[list[float], list[float]]:
    """Run jobs; return the pilots' estimates over the true durations, and their standard errors, as logarithms."""
    generator = np.random.default_rng(seed)
    made = [_job(generator, number, local) for number in range(JOBS)]
    scenario = ScenarioModel.model_validate(
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
            jobs = pilot_table(self).jobs
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
