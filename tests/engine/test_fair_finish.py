"""Fair-finish: sizes by total time on test, and jobs in the order in which fair sharing would end them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from tests.engine.bench import Bench
from tests.engine.fake_rm import FakeRM, cluster, flat
from tests.engine.parts import engine_with, estimates, settings_with
from tests.engine.twins import Shifts, Twins

from treadle.compiled.array_types import F64
from treadle.engine import Engine
from treadle.events import ApplicationState
from treadle.policy.fair_finish import Progress
from treadle.policy.state import SUMS
from treadle.policy.work import Durations

PARTS: dict[str, Any] = {"order": "fair_finish", "estimate": ("time_on_test", {"prior_ms": 1000})}
COMMON = settings(deadline=None, max_examples=8, suppress_health_check=list(HealthCheck))


def progress_of(engine: Engine) -> Progress:
    """Return what the policy keeps."""
    return cast(Progress, engine._policy._keepers[Progress])


def rows_ms(engine: Engine) -> F64:
    """Return how long the estimate says that a task of each request row takes."""
    cluster_ = engine._cluster
    assert cluster_ is not None
    view = cluster_.view()
    rows, groups, hints = (np.zeros(len(table)) for table in (view.rows, view.groups, view.hints))
    sizes = cluster_.requests.size, cluster_.hints.size, cluster_.tasks.size
    found = Durations(rows, groups, hints, 1000.0, *sizes)
    engine._policy.estimate.durations(cluster_, view, np.zeros(0, SUMS), found)
    return found.rows_ms


class Run(Bench):
    """A fake RM whose tasks end, and an engine."""

    def __init__(self, rm: FakeRM, **parts: Any) -> None:
        super().__init__(engine_with(**(PARTS | parts)), rm=rm)
        self.now_ms = 0

    def go(self, app: int) -> None:
        """Let an application end."""
        self.rm.applications[app].state = ApplicationState.GONE
        self.rm.applications[app].asks.clear()
        self.rm.change(app)

    def tick(self, limit: int = 100) -> list[int]:
        """Let a second pass and return the applications that are served."""
        return [app for app, _ in self.begun(limit=limit)]


def test_a_task_takes_the_time_on_test_over_what_has_ended_with_a_prior() -> None:
    run = Run(cluster((4, 4)))
    run.rm.job(8)
    run.tick()
    for _ in range(10):
        run.tick(limit=0)
    run.end(app=0)
    run.end(app=0)
    run.tick(limit=0)
    job = progress_of(run.engine).jobs.at[0]
    assert (job["ended"], job["open"], job["running"]) == (2, 6, 2)
    # four that have run for ten seconds, two of which ended: 40 s, and 1 s of the prior, over two ended and one
    assert job["tested_ms"] == pytest.approx(40_000)
    assert rows_ms(run.engine)[0] == pytest.approx(41_000 / 3)


def test_who_would_end_first_under_fair_sharing_comes_first() -> None:
    rm = cluster((4, 4))
    for count in (8, 2, 4):
        rm.job(count)
    assert Run(rm).tick() == [1, 1, 2, 2]


def test_a_job_that_runs_on_is_thought_larger() -> None:
    run = Run(cluster((2, 2)))
    run.rm.job(3)
    assert run.tick() == [0, 0]
    for _ in range(20):
        run.tick()
    assert progress_of(run.engine).jobs.at["virtual_ms"][0] > 20_000
    run.rm.job(3)
    run.end(app=0)
    assert run.tick() == [1]


def test_jobs_that_have_ended_there_come_before_all_and_share_fairly() -> None:
    """Two wait for as long as fair sharing would have taken to end both; then shorter ones come."""
    run = Run(cluster((2, 2)))
    run.rm.job(2)
    assert run.tick() == [0, 0]
    run.rm.job(2)
    run.rm.job(5)
    for _ in range(60):
        run.tick()
    assert progress_of(run.engine).jobs.at["virtual_ms"][1:3].tolist() == [0.0, 0.0]
    run.rm.job(1)
    run.end(app=0)
    run.end(app=0)
    assert run.tick() == [1, 2]


def test_spark_applications_share_fairly_up_to_an_equal_part_and_come_last_beyond() -> None:
    rm = cluster((12, 12))
    rm.job(20, kind="SPARK")
    rm.job(20, kind="SPARK")
    rm.job(4)
    run = Run(rm)
    served = run.tick()
    assert [served.count(app) for app in range(3)] == [4, 4, 4]
    assert served[:2] == [0, 1], "first those below an equal part, in turn"


def test_spark_applications_alone_are_served_as_by_fair() -> None:
    served = []
    for parts in (PARTS, {"order": "fair"}):
        rm = cluster((30, 30))
        for count in (20, 3, 20):
            rm.job(count, (1 + count % 2, 1), kind="SPARK")
        served.append(Run(rm, **parts).tick())
    assert served[0] == served[1]


def test_what_ended_here_and_not_in_the_virtual_system_still_has_its_share_there() -> None:
    run = Run(cluster((4, 4)))
    run.rm.job(8)
    run.rm.job(8)
    run.tick()
    run.go(0)
    for app in [life[0] for life in run.running if life[0] == 0]:
        run.end(app=app)
    run.tick()
    assert len(progress_of(run.engine).ghost_ms) == 1
    for _ in range(60):
        run.tick()
    assert len(progress_of(run.engine).ghost_ms) == 0


def test_jobs_that_ended_teach_those_of_their_name() -> None:
    run = Run(cluster((1, 1)))
    for name in ("long", "short"):
        app = run.rm.job(1, name=name)
        run.tick()
        for _ in range(60 if name == "long" else 2):
            run.tick()
        run.end(app=app)
        run.tick()
        run.go(app)
        run.tick()
    run.rm.job(1, name="long")
    run.rm.job(1, name="short")
    assert run.tick() == [3]


def test_priority_comes_before_the_order_of_ends() -> None:
    rm = cluster((2, 2))
    rm.job(1)
    rm.job(5, priority=1)
    assert Run(rm).tick() == [1, 1]


@COMMON
@given(factor=st.floats(0.01, 100.0), others=st.floats(0.01, 100.0))
@example(factor=100.0, others=0.01)
@example(factor=100.0, others=100.0)
def test_nobody_starves_however_wrong_sizes_are(factor: float, others: float) -> None:
    """Others come as fast as they can be served. Where these are taken for larger than they are, so is everybody."""
    assume(factor <= others or others <= 0.5)
    assert _served_after(factor, others, PARTS) < 450


def _served_after(factor: float, others: float, parts: dict[str, Any]) -> int:
    """Return after how many seconds, at most 450, two tasks of a second begin, thought to take ``factor`` seconds."""
    run = Run(cluster((2, 2)), **(parts | {"estimate": "hints"}))
    left = {run.rm.job(2): 2}
    told = [estimates((0, 0, int(1000 * factor), -1))]
    for second in range(450):
        app = run.rm.job(2, start_ms=second)
        left[app] = 2
        told.append(estimates((app, 0, int(1000 * others), -1)))
        for each in [life[0] for life in run.running]:
            run.end(app=each)
        run.tell(*told)
        for each in run.tick():
            left[each] -= 1
        if left[0] == 0:
            return second
        for each in [
            each for each, tasks in left.items() if tasks == 0 and all(life[0] != each for life in run.running)
        ]:
            run.go(each)
            del left[each]
        told = []
    return 450


def test_what_is_kept_outlives_a_snapshot_and_a_move() -> None:
    rm = FakeRM()
    rm.node("n0", (4, 4))
    leaves = flat(rm, 2, (2, 2))
    for at in range(4):
        rm.ask(rm.application(leaves[at % 2], start_ms=at, name=f"job {at}"), 0, 3 + 2 * at, (1, 1), priority=1)
    twins = Twins(rm, settings_with(**PARTS))
    twins.tick(limit=4)
    for at in range(12):
        twins.tick(limit=0)
        if twins.running:
            twins.end(0)
        if at == 5:

            def move(rm: FakeRM) -> None:
                rm.applications[3].queue = leaves[0]
                rm.change(3)

            twins.do(move)
        twins.tick(limit=1, snapshot=Shifts(application=3, node=2, queue=5, key=7, name=11) if at % 4 == 2 else None)
