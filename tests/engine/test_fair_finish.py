"""Fair-finish: sizes by total time on test, and jobs in the order in which fair sharing would end them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.engine.bench import Bench
from tests.engine.fake_rm import LEAF, FakeRM, cluster, flat
from tests.engine.parts import engine_with, estimates, settings_with
from tests.engine.twins import Shifts, Twins

from treadle.compiled.array_types import F64
from treadle.engine import Engine
from treadle.events import ApplicationState, LearnedState
from treadle.model.tables import ModelError
from treadle.policy import fair_finish
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
    sizes = cluster_.requests.size, cluster_.hints.size, cluster_.groups.size
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

    def end_those_without(self, waits: dict[int, int]) -> None:
        """Let applications end, and leave ``waits``, that neither wait for tasks nor run any."""
        for app in [app for app in waits if waits[app] == 0 and all(life[0] != app for life in self.running)]:
            self.go(app)
            del waits[app]

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


def test_the_jobs_that_ended_here_alone_and_have_least_left_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_finish, "GHOSTS_MAX", 2)
    run = Run(cluster((4, 4)))
    run.rm.job(1)
    run.tick()
    progress = progress_of(run.engine)
    progress.ghost_leaf, progress.ghost_ms = np.full(4, LEAF, np.int32), np.array([9e6, 3e6, 8e6, 2e6])
    run.tick(limit=0)
    assert progress.ghost_ms.tolist() == pytest.approx([3e6, 2e6], rel=0.01)


def test_requests_that_are_withdrawn_make_no_class_of_jobs_shorter_than_a_millisecond_a_task() -> None:
    run = Run(cluster((4, 4)))
    for count in (1_000_000_000, 4):
        run.rm.ask(run.rm.job(1) if count > 4 else 0, 0, count, (1, 1))
        run.tick(limit=1)
    run.end()
    run.go(0)
    run.tick()
    assert (progress_of(run.engine).counts[-1], progress_of(run.engine).logs[-1]) == (1.0, 0.0)


def test_long_names_stay_distinct_and_take_little_room() -> None:
    run = Run(cluster((4, 4)))
    for end in "ab":
        app = run.rm.job(1, name="\x01" * 999 + end)
        run.tick()
        run.tick()
        run.end()
        run.go(app)
        run.tick()
    assert [key for key in progress_of(run.engine).known if len(key) > 100] == []
    assert len(progress_of(run.engine).known) == 3


def test_priority_comes_before_the_order_of_ends() -> None:
    rm = cluster((2, 2))
    rm.job(1)
    rm.job(5, priority=1)
    assert Run(rm).tick() == [1, 1]


def test_the_share_of_a_queue_comes_before_the_order_of_ends() -> None:
    """A leaf of short jobs takes no more than the other leaf leaves."""
    rm = cluster((8, 8), leaves=2)
    rm.job(20, queue=LEAF)
    for _ in range(10):
        rm.job(1, queue=LEAF + 1)
    served = Run(rm).tick()
    assert (served.count(0), len(served)) == (4, 8)


def test_a_user_at_the_limit_gets_nothing_more_however_soon_a_job_would_end() -> None:
    rm = cluster((20, 20))
    rm.user_limit["u"] = (5, 5)
    for _ in range(10):
        rm.job(1)
    rm.job(12, user="v")
    served = Run(rm).tick()
    assert served.count(10) == 12
    assert len(served) == 12 + 6, "up to one container over the limit, as in YARN"


def test_under_hdrf_the_order_decides_within_a_leaf() -> None:
    rm = cluster((8, 8), leaves=2)
    for leaf, count in ((LEAF, 12), (LEAF, 2), (LEAF + 1, 12)):
        rm.job(count, queue=leaf)
    served = Run(rm, share=("hdrf", {"weights": "guaranteed"})).tick()
    assert [app for app in served if app != 2] == [1, 1, 0, 0]
    assert len(served) == 8


@COMMON
@given(factor=st.floats(0.01, 100.0), others=st.floats(0.01, 100.0))
@example(factor=100.0, others=0.01)
@example(factor=100.0, others=0.5)
@example(factor=100.0, others=1.0)
@example(factor=100.0, others=100.0)
def test_nobody_starves_however_wrong_sizes_are(factor: float, others: float) -> None:
    """A job is thought ``factor`` times as large as it is; others, thought ``others`` times as large, take all."""
    run = Run(cluster((2, 2)), estimate="hints")
    waits = {run.rm.job(2): 2}
    told = [estimates((0, 0, int(1000 * factor), -1))]
    for second in range(450):
        app = run.rm.job(2, start_ms=second)
        waits[app] = 2
        run.tell(*told, estimates((app, 0, int(1000 * others), -1)))
        for each in [life[0] for life in run.running]:
            run.end(app=each)
        for each in run.tick():
            waits[each] -= 1
        if waits[0] == 0:
            return
        run.end_those_without(waits)
        told = []
    raise AssertionError(f"{waits[0]} of its two tasks wait after 450 jobs of two")


SIZES = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6), st.floats(-2.0, 2.0)), min_size=2, max_size=8)
"""Jobs: tasks, seconds of each, and the common logarithm of how many times too large they are thought."""


@COMMON
@given(jobs=SIZES)
@example(jobs=[(12, 6, 2.0), (1, 1, -2.0), (12, 6, -2.0), (1, 1, 2.0)])
def test_jobs_with_wrong_sizes_end_as_soon_as_their_work_can_be_done(jobs: list[tuple[int, int, float]]) -> None:
    """Nothing idles while somebody waits, so that the last one ends when all work is done."""
    slots = 3
    run = Run(cluster((slots, slots)), estimate="hints")
    for tasks, seconds, error in jobs:
        run.tell(estimates((run.rm.job(tasks), 0, round(1000 * seconds * 10**error), -1)))
    waits = {at: tasks for at, (tasks, _, _) in enumerate(jobs)}
    work = sum(tasks * seconds for tasks, seconds, _ in jobs)
    for _ in range(work // slots + 7):
        for app, _, _, begun_ms in list(run.running):
            if run.now_ms - begun_ms >= 1000 * (jobs[app][1] - 1):
                run.end(app=app)
        for app in run.tick():
            waits[app] -= 1
        assert sum(waits.values()) == 0 or len(run.running) == slots
        run.end_those_without(waits)
    assert waits == {}
    assert run.running == []


class Both(Twins):
    """Two clusters with four jobs in two leaves, which are served one by one."""

    def __init__(self) -> None:
        rm = FakeRM()
        rm.node("n0", (4, 4))
        self.leaves = flat(rm, 2, (2, 2))
        for at in range(4):
            app = rm.application(self.leaves[at % 2], start_ms=at, name=f"job {at}")
            rm.ask(app, 0, 3 + 2 * at, (1, 1), priority=1)
        super().__init__(rm, settings_with(**PARTS))
        self.tick(limit=4)

    def step(self, snapshot: Shifts | None = None) -> None:
        """Let a task end, and another one begin."""
        self.tick(limit=0)
        if self.running:
            self.end(0)
        self.tick(limit=1, snapshot=snapshot)

    def lose(self, app: int) -> None:
        """Let an application end before all others think so."""

        def end(rm: FakeRM) -> None:
            rm.applications[app].state = ApplicationState.GONE
            rm.applications[app].asks.clear()
            rm.change(app)

        while any(life[0] == app for life in self.running):
            self.end(next(at for at, life in enumerate(self.running) if life[0] == app))
        self.do(end)

    def move(self, app: int, leaf: int) -> None:
        """Move an application to another leaf."""

        def move(rm: FakeRM) -> None:
            rm.applications[app].queue = self.leaves[leaf]
            rm.change(app)

        self.do(move)


INDICES = Shifts(application=3, node=2, queue=5, key=7, name=11)


def test_the_virtual_system_outlives_snapshots() -> None:
    both = Both()
    for at in range(12):
        if at == 4:
            both.lose(1)
        both.step(INDICES if at % 4 == 2 else None)
        ghosts = [progress_of(side.engine).ghost_ms.tolist() for side in (both.plain, both.other)]
        assert ghosts[0] == pytest.approx(ghosts[1])
        assert len(ghosts[0]) == (at in range(4, 10)), "5.5 s are left, of which a step takes one"


def test_the_virtual_system_outlives_a_process() -> None:
    """The next one hears of the cluster half a minute later; one that has decided is not disturbed."""
    both = Both()
    for at in range(12):
        if at == 3:
            both.lose(1)
        if at == 5:
            both.tick(limit=0)
            learned = both.other.engine.learned()
            assert learned is not None
            both.other.engine = Engine(settings_with(**PARTS))
            both.tell(learned)
            both.tick(30_000, 1, INDICES)
        both.step()
        sides = [progress_of(side.engine) for side in (both.plain, both.other)]
        assert sides[0].known == sides[1].known
        assert sides[0].ghost_ms.tolist() == pytest.approx(sides[1].ghost_ms.tolist())
        left = [np.sort(side.jobs.at["virtual_ms"][side.jobs.at["general"] > 0.0]) for side in sides]
        assert left[0].tolist() == pytest.approx(left[1].tolist())


def test_a_state_that_is_damaged_is_refused() -> None:
    """A recording of any author may have one."""
    run = Run(cluster((4, 4)))
    run.rm.job(2)
    run.tell(LearnedState(np.frombuffer(b"{}", np.uint8)))
    with pytest.raises(ModelError, match="Field required"):
        run.tick()


def test_a_policy_without_this_order_has_no_use_for_the_state() -> None:
    run = Run(cluster((4, 4)))
    run.rm.job(2)
    run.tick()
    learned = run.engine.learned()
    assert learned is not None
    other = Run(cluster((4, 4)), order="fifo", estimate="none", gate="pilots")
    other.rm.job(2)
    other.tell(learned)
    assert other.tick() == [0, 0]
    assert other.engine.learned() is None


def test_the_virtual_rest_moves_with_an_application() -> None:
    both = Both()
    for _ in range(3):
        both.step()
    before = progress_of(both.plain.engine).jobs.at[3].copy()
    both.move(3, 0)
    both.tick(limit=0, after_ms=0)
    after = progress_of(both.plain.engine).jobs.at[3]
    assert after["virtual_ms"] == pytest.approx(before["virtual_ms"])
    assert after["service_ms"] == before["service_ms"] > 0.0
    for at in range(6):
        both.step(INDICES if at == 2 else None)
