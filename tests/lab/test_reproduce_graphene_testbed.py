"""`treadle lab reproduce graphene --on sls`: everything but the simulated cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.support.optional import present
from tests.support.tables import rows_of

from treadle.config.reader import read_settings
from treadle.history.profile import recurrence_key
from treadle.history.store import open_store
from treadle.planner.online import critical_path_order
from treadle.policy.catalogue import register_parts
from treadle_lab.papers.graphene import sls as testbed
from treadle_lab.papers.graphene.sls import (
    QUICK,
    SCHEMES,
    Size,
    dags_of,
    named,
    remember,
    results_of,
    scheduling,
    script_of,
)
from treadle_lab.sls.play import Draw, Played, PlayedJob

SCHEME = {scheme.name: scheme for scheme in SCHEMES}


def test_tasks_leave_room_for_masters_alone() -> None:
    cluster = Size().cluster
    assert cluster.memory_mb - testbed.UNITS * testbed.UNIT["memory-mb"] < testbed.UNIT["memory-mb"]
    assert cluster.vcores - testbed.UNITS * testbed.UNIT["vcores"] < testbed.UNIT["vcores"]
    for _, dag in dags_of(1, QUICK):
        for stage in dag.stages:
            assert all(stage.demand[name] % unit == 0 for name, unit in testbed.UNIT.items())
            assert all(stage.demand[name] <= testbed.UNITS * unit for name, unit in testbed.UNIT.items())


def test_masters_ask_in_tezs_order_or_by_the_critical_path() -> None:
    dags = dags_of(1, QUICK)
    own, critical = (script_of(dags, SCHEME[name]).jobs for name in ("bfs", "cp"))
    assert {job.type for job in own} == {"TEZ"}
    assert [job.name for job in own] == ["dag aa", "dag ab", "dag ac", "dag ad"]
    assert script_of(dags, SCHEME["graphene"]).jobs == own, "priorities of a plan come from the listener"
    for job, (_, dag) in zip(critical, dags, strict=True):
        by_priority = sorted(range(len(job.stages)), key=lambda at: job.stages[at].priority)
        assert [dag.stages[at].id for at in by_priority] == list(critical_path_order(dag))


def test_names_are_no_runs_of_one_job() -> None:
    keys = {recurrence_key("ann", "default", "TEZ", named(number)) for number in range(testbed.JOBS_MAX)}
    assert len(keys) == testbed.JOBS_MAX


def test_the_store_knows_what_tasks_take_on_the_testbed(tmp_path: Path) -> None:
    dags = dags_of(1, QUICK)
    store = tmp_path / "profiles.db"
    remember(dags, store)
    remember(dags, store)
    with open_store(str(store), read_only=True) as opened:
        for _, dag in dags:
            profile = present(opened.get(recurrence_key("ann", "default", "TEZ", dag.name)))
            known = {stage.name: (stage.width, stage.durations.mean_ms, stage.parents) for stage in profile.stages}
            assert known == {
                f"v{each.id}": (each.tasks, each.duration_ms, tuple(f"v{parent}" for parent in each.parents))
                for each in dag.stages
            }


def test_the_policy_is_the_one_that_ships_and_tetris_sees_all_tasks(tmp_path: Path) -> None:
    register_parts()
    made = {name: scheduling(scheme, tmp_path / "p.db", 8047) for name, scheme in SCHEME.items()}
    assert [name for name, one in made.items() if one.policy is None] == ["bfs", "cp"]
    assert [name for name, one in made.items() if one.observed] == ["graphene-capacity"]
    assert [name for name, one in made.items() if one.settings] == ["graphene-capacity", "graphene"]
    for name in ("tetris", "graphene"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(str(made[name].policy))
        settings = read_settings(file)
        assert settings.policy.fit.parameters.model_dump()["all_priorities"] == (name == "tetris")
        assert settings.plans.schedules > 0
    assert "listener" not in yaml.safe_load(str(made["tetris"].policy))
    assert made["graphene"].settings["treadle.plan.addresses"] == "127.0.0.1:8047"


def draw(seed: int, shorter: float, **wrong: bool) -> Draw:
    def run(scheme: testbed.TestbedScheme) -> Played:
        times = [round((shorter if scheme.name == "graphene" else 1.0) * each) for each in (2_000, 4_000, 9_000)]
        status = "UNKNOWN" if "unknown" in wrong and scheme.name == "cp" else "SUCCEEDED"
        planned = scheme.plans and "unplanned" not in wrong
        natively = 3 if "natively" in wrong and scheme.scoring else 0
        jobs = tuple(PlayedJob(named(at), status, time, planned=planned) for at, time in enumerate(times))
        return Played(jobs, 20_000, {"PlacedByCapacityScheduler": natively})

    return Draw(seed, {scheme.name: run(scheme) for scheme in SCHEMES})


def test_the_report_says_what_is_reached_and_what_is_not() -> None:
    good = [draw(1, 0.7), draw(2, 0.6)]
    written = json.loads(json.dumps(results_of(good, Size()).as_json()))
    assert written["shortfalls"] == []
    rows = rows_of(written, "graphene-testbed")
    assert len(rows) == len(SCHEMES)
    for base in ("stock", "Tetris"):
        assert rows["Graphene",][f"median shorter than {base} (%)"]["mean"] == pytest.approx(35.0)
    assert rows["Graphene",]["jobs by a plan"]["mean"] == 6
    bad = results_of([draw(1, 0.9, unplanned=True, natively=True, unknown=True)], Size()).facts["shortfalls"]
    assert "the median is 10 % shorter with Graphene than with stock; expected: 25 %" in bad
    assert "seed 1, graphene-capacity: 3 jobs had no plan" in bad
    assert "seed 1, graphene: the stock scheduler placed 3 containers in Treadle's stead" in bad
    assert "seed 1, cp: dag aa ended as UNKNOWN" in bad
