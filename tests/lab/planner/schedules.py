"""Random problems, and what must hold for every schedule of them."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from treadle.dag import Dag, Stage
from treadle.planner.plan import Plan
from treadle_lab.dags import Instance
from treadle_lab.planning import MeasuredPlan


@st.composite
def instances(draw: st.DrawFn, stages_max: int = 9, tasks_max: int = 12) -> Instance:
    """DAGs with empty stages, stages that take no time, one-to-one edges, and tasks that need nothing."""
    capacity = {"cpu": 1.0, "memory": 4.0}
    stages: list[Stage] = []
    for at in range(draw(st.integers(1, stages_max))):
        parents = draw(st.sets(st.integers(0, at - 1), max_size=3)) if at else set()
        tasks = draw(st.integers(0, tasks_max) | st.sampled_from((0, 1, tasks_max)))
        alike = [parent for parent in sorted(parents) if stages[parent].tasks == tasks]
        single = frozenset(parent for parent in alike if draw(st.booleans()))
        demand = {
            "cpu": draw(st.sampled_from((0.0, 0.1, 0.25, 1 / 3, 0.6, 1.0))),
            "memory": draw(st.integers(0, 4)) * 1.0,
        }
        stages.append(Stage(at, tasks, draw(st.integers(0, 5)), demand, tuple(sorted(parents)), single))
    return Instance(Dag("random", tuple(stages)), capacity, draw(st.integers(1, 3)))


@st.composite
def projects(draw: st.DrawFn) -> Instance:
    """Stages of one task on one machine."""
    made = draw(instances(tasks_max=1))
    return Instance(made.dag, made.capacity, 1)


def check(plan: MeasuredPlan, capacity: Mapping[str, float], makespan: int) -> None:
    """Fail unless the planned schedule keeps to edges and capacities at every instant, and ends when it says."""
    spans: dict[int, list[tuple[int, int]]] = {stage.id: [] for stage in plan.dag.stages}
    changes: dict[tuple[int, str], dict[int, float]] = {}
    for first, at, machine, tasks, times in plan.rows().tolist():
        stage = plan.dag.stages[at]
        for time in range(times):
            start = first + time * stage.duration_ms
            end = start + stage.duration_ms
            spans[stage.id] += [(start, end)] * tasks
            if end > start:
                for resource, amount in stage.demand.items():
                    change = changes.setdefault((machine, resource), {})
                    change[start] = change.get(start, 0.0) + amount * tasks
                    change[end] = change.get(end, 0.0) - amount * tasks
    for (_, resource), change in changes.items():
        used = 0.0
        for time in sorted(change):
            used += change[time]
            assert used <= capacity[resource] * (1 + 2e-6) + 1e-9
    for stage in plan.dag.stages:
        mine = sorted(spans[stage.id])
        assert len(mine) == stage.tasks
        assert all(start >= 0 for start, _ in mine)
        for parent in stage.parents:
            before = sorted(spans[parent])
            if parent in stage.one_to_one:
                assert all(end <= start for (_, end), (start, _) in zip(before, mine, strict=True))
            elif before and mine:
                assert max(end for _, end in before) <= mine[0][0]
    assert makespan == max((end for ends in spans.values() for _, end in ends), default=0)


def rank_of(plan: Plan, stage: int, task: int) -> int:
    """Return the rank of a task: from 0 to the number of tasks less one."""
    ranks = plan.ranks[stage]
    tasks = next(found.tasks for found in plan.dag.stages if found.id == stage)
    group = task * len(ranks) // tasks
    return int(ranks[group]) + task - -(-group * tasks // len(ranks))


def check_ranks(plan: Plan) -> None:
    """Fail unless ranks are 0, 1, 2, ... and no task comes before one that it waits for."""
    ranks = {stage.id: [rank_of(plan, stage.id, task) for task in range(stage.tasks)] for stage in plan.dag.stages}
    assert sorted(rank for found in ranks.values() for rank in found) == list(range(plan.dag.tasks))
    for stage in plan.dag.stages:
        assert ranks[stage.id] == sorted(ranks[stage.id])
        for parent in stage.parents:
            if parent in stage.one_to_one:
                assert all(a < b for a, b in zip(ranks[parent], ranks[stage.id], strict=True))
            elif ranks[parent] and ranks[stage.id]:
                assert ranks[parent][-1] < ranks[stage.id][0]
        scores = plan.scores(stage.id)
        assert ((scores >= 0) & (scores <= 1)).all()
