"""Every plan, of every algorithm, can be run: edges, capacities, ranks; and none is shorter than the lower bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lab.planner.schedules import check, check_ranks, instances, projects
from tests.support.examples import few

from treadle.planner.graphene import Search
from treadle_lab.dags import Instance
from treadle_lab.planning import NAMES, PaperSearch, PlannedSearch, baseline, graphene_plan


@pytest.mark.parametrize("kind", [Search, PlannedSearch, PaperSearch])
@settings(max_examples=few(20), deadline=None)
@given(instances(), st.integers(1, 300))
def test_graphene_keeps_to_edges_and_capacities(kind: type[Search], made: Instance, budget: int) -> None:
    found = graphene_plan(made.dag, made.capacity, made.machines, budget, kind=kind)
    check(found, made.capacity, found.makespan)
    check_ranks(found)
    bounds = found.bounds
    assert max(bounds.critical_path, bounds.work) <= bounds.best <= min(found.makespan, found.executed_makespan)


@settings(deadline=None)
@given(instances(stages_max=5, tasks_max=130), st.sampled_from((Search, PlannedSearch)), st.integers(1, 150))
def test_stages_of_more_tasks_than_rank_groups_keep_to_edges(made: Instance, kind: type[Search], budget: int) -> None:
    found = graphene_plan(made.dag, made.capacity, made.machines, budget, kind=kind)
    check(found, made.capacity, found.makespan)
    check_ranks(found)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(instances(), st.booleans())
def test_baselines_keep_to_edges_and_capacities(name: str, made: Instance, in_space: bool) -> None:
    found = baseline(name, made.dag, made.capacity, made.machines, in_space=in_space)
    check(found, made.capacity, found.makespan)
    check_ranks(found)
    assert found.bounds.best <= min(found.makespan, found.executed_makespan)


@settings(deadline=None)
@given(instances(stages_max=14))
def test_graphene_executes_no_later_than_critical_path(made: Instance) -> None:
    where = (made.dag, made.capacity, made.machines)
    assert graphene_plan(*where, 40).executed_makespan <= baseline("cp", *where).executed_makespan


@settings(deadline=None)
@given(projects())
def test_graphene_plans_projects_no_longer_than_critical_path(made: Instance) -> None:
    where = (made.dag, made.capacity, made.machines)
    found = graphene_plan(*where, 40, kind=PlannedSearch)
    assert found.makespan <= baseline("cp", *where, in_space=True).makespan
    assert found.makespan <= baseline("cp", *where).makespan
