"""Plans for jobs that run: from DAG to ranks, and what is done when a plan turns out wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.dag import Dag, DagError, Stage
from treadle.planner import online
from treadle.planner.online import (
    NO_PLAN,
    Machines,
    PlannedJob,
    PlanSource,
    Progress,
    critical_path_order,
    machines_of,
    plan_online,
    schedules_max,
)
from treadle_lab.dags import Shape, generate
from treadle_lab.planning import executed_makespan

ONE = Machines({"cpu": 3.0}, 1)
MOTIVATING = Dag(
    "motivating",
    (
        Stage(0, 1, 100, {"cpu": 1.0}),
        Stage(1, 1, 20, {"cpu": 3.0}),
        Stage(2, 1, 100, {"cpu": 1.0}, (1,)),
        Stage(3, 1, 20, {"cpu": 3.0}),
        Stage(4, 1, 20, {"cpu": 3.0}, (3,)),
        Stage(5, 1, 100, {"cpu": 1.0}, (4,)),
        Stage(6, 1, 20, {"cpu": 1.0}, (0, 2, 5)),
    ),
)
SMALL = Shape(machines=4, depth=(3, 4), stages=(6, 9), tasks=(40, 80))
IDLE = Progress(-1, 0, 0, 0, 0)


def source(dag: Dag = MOTIVATING, machines: Machines = ONE) -> PlanSource:
    return PlanSource(machines, 50, 8)


def test_equal_dags_are_planned_once() -> None:
    plans = source()
    first = plans.plan(MOTIVATING)
    assert plans.plan(Dag("other name", MOTIVATING.stages)) is first
    assert plans.planned == 1
    longer = Dag("x", (replace(MOTIVATING.stages[0], duration_ms=101), *MOTIVATING.stages[1:]))
    assert plans.plan(longer) is not first
    assert plans.planned == 2


def test_only_the_latest_plans_are_remembered() -> None:
    plans = PlanSource(ONE, 1, remembered=1)
    other = Dag("other", MOTIVATING.stages[:1])
    for dag in (MOTIVATING, other, MOTIVATING):
        plans.plan(dag)
    assert plans.planned == 3


def test_a_large_job_has_fewer_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(stages: int, tasks: int) -> int:
        return schedules_max(Dag("d", tuple(Stage(at, tasks, 1, {}) for at in range(stages))))

    assert counts(1_000, 1_000) == 1
    assert counts(1_000, 5) == 20
    assert counts(30, 40) > 1_000
    budgets: list[int] = []
    monkeypatch.setattr(online, "plan_online", lambda dag, machines, schedules: budgets.append(schedules))
    for most in (online.WORK_MAX, 1):
        monkeypatch.setattr(online, "WORK_MAX", most)
        source().plan(MOTIVATING)
    assert budgets == [50, 1]


def test_a_job_that_fits_on_no_machine_has_no_plan() -> None:
    huge = Dag("huge", (Stage(0, 1, 10, {"cpu": 4.0}),))
    with pytest.raises(DagError, match="a machine has 3"):
        plan_online(huge, ONE, 10)
    assert PlannedJob(source().plan, huge, 3.0, 3).score(0, IDLE) == NO_PLAN


def test_what_machines_do_not_name_is_not_planned() -> None:
    dag = Dag("d", (Stage(0, 5, 10, {"cpu": 1.0, "disk": 7.0}),))
    assert executed_makespan(plan_online(dag, ONE, 10), ONE.capacity, ONE.count) == 20


def test_machines_stand_for_a_cluster_that_is_not_alike() -> None:
    groups = [Machines({"cpu": 8.0, "memory": 64.0}, 10), Machines({"cpu": 16.0, "memory": 32.0}, 10)]
    assert machines_of(groups) == Machines({"cpu": 16.0, "memory": 64.0}, 15)
    assert machines_of(groups, 0.2).count == 3
    assert machines_of([]).count == 1


def test_the_critical_path_comes_first() -> None:
    assert critical_path_order(MOTIVATING) == (3, 1, 4, 0, 2, 5, 6)


def test_scores_follow_the_tasks_of_a_stage() -> None:
    dag = generate(3, SMALL).dag
    job = PlannedJob(PlanSource(Machines(generate(3, SMALL).capacity, 4), 20).plan, dag, 3.0, 3)
    wide = max(dag.stages, key=lambda stage: stage.tasks)
    scores = [job.score(wide.id, Progress(wide.tasks, started, 0, 0, 0)) for started in range(wide.tasks + 1)]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert scores[0] > scores[-1]


def three_stages() -> Dag:
    return Dag("three", tuple(Stage(at, 4, 100, {"cpu": 1.0}) for at in range(3)))


def job(replans_max: int = 3) -> PlannedJob:
    return PlannedJob(source().plan, three_stages(), 3.0, replans_max)


def test_all_tasks_slower_alike_is_no_wrong_plan() -> None:
    planned = job()
    slow = {0: Progress(4, 4, 4, 4000, 1000), 1: Progress(4, 4, 4, 4000, 1000), 2: Progress(4, 1, 0, 0, 900)}
    assert not planned.update(slow)


@pytest.mark.parametrize(
    "third",
    [Progress(4, 4, 3, 3000, 1000), Progress(4, 4, 3, 30, 20), Progress(4, 2, 0, 0, 301), Progress(13, 0, 0, 0, 0)],
    ids=["longer", "shorter", "overdue", "wider"],
)
def test_a_stage_far_off_makes_the_plan_wrong(third: Progress) -> None:
    planned = job()
    right = {0: Progress(4, 4, 4, 400, 100), 1: Progress(4, 4, 3, 300, 100)}
    assert not planned.update({**right, 2: Progress(4, 4, 3, 300, 100)})
    assert planned.update({**right, 2: third})
    assert planned.replans == 1
    assert planned.plan is not None
    assert 0 not in planned.plan.ranks  # it has ended
    assert not planned.update({**right, 2: third})  # known by now


def test_what_was_not_seen_is_scaled_as_what_was() -> None:
    dag = Dag("four", tuple(Stage(at, 4, 100, {"cpu": 1.0}) for at in range(4)))
    planned = PlannedJob(source().plan, dag, 3.0, 3)
    twice = Progress(4, 4, 4, 800, 200)
    assert planned.update({0: twice, 1: twice, 2: Progress(4, 4, 4, 8000, 2000), 3: IDLE})
    assert planned.duration_ms == {0: 200.0, 1: 200.0, 2: 2000.0, 3: 200.0}


def test_a_plan_wrong_again_and_again_is_dropped() -> None:
    planned = job(replans_max=1)
    right = {0: Progress(4, 4, 4, 400, 100), 1: Progress(4, 4, 3, 300, 100)}
    assert planned.update({**right, 2: Progress(4, 4, 3, 3000, 1000)})
    assert planned.update({**right, 2: Progress(40, 4, 3, 3000, 1000)})
    assert planned.plan is None
    assert planned.score(2, Progress(40, 4, 3, 3000, 1000)) == NO_PLAN
    assert not planned.update({**right, 2: Progress(400, 4, 3, 3000, 1000)})


def test_relative_scores_give_the_next_task_of_a_job_one_however_far_the_job_is() -> None:
    planned = PlannedJob(source().plan, MOTIVATING, 3.0, 3)
    ended = Progress(1, 1, 1, 20, 0)
    late = {stage: ended if stage != 6 else IDLE for stage in range(7)}
    assert planned.scores(late)[6] == 0.0
    assert planned.scores(late, relative=True)[6] == 1.0
    middle = {stage: ended if stage in (1, 3, 4) else IDLE for stage in range(7)}
    absolute, relative = planned.scores(middle), planned.scores(middle, relative=True)
    waiting = [0, 2, 5, 6]
    assert max(relative[stage] for stage in waiting) == 1.0
    assert sorted(waiting, key=lambda stage: absolute[stage]) == sorted(waiting, key=lambda stage: relative[stage])
