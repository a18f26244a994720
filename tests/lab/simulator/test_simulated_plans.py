"""Plans followed online: jobs in the simulator, with the engine that schedules live clusters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from treadle.config.reader import parse_settings, read_settings
from treadle.config.settings import Settings
from treadle.dag import Dag, Stage
from treadle.planner.online import Machines, PlanSource, machines_of, plan_online
from treadle.simulator.feed import FollowedPlans, planned_machines
from treadle.simulator.measure import Window
from treadle.simulator.results import as_json, summarise
from treadle.simulator.scenario import ScenarioModel
from treadle.simulator.simulation import SimulatedRun, Simulation
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle_lab.dags import Shape, generate
from treadle_lab.planning import executed_makespan, graphene_plan

ROOT = Path(__file__).resolve().parents[3]
RESOURCES = ("cpu", "memory", "network")
SMALL = Shape(machines=4, depth=(3, 5), stages=(6, 12), tasks=(60, 150))
MOTIVATING = Dag(
    "motivating",
    (
        Stage(0, 1, 100_000, {"cpu": 0.3}),
        Stage(1, 1, 20_000, {"cpu": 1.0}),
        Stage(2, 1, 100_000, {"cpu": 0.3}, (1,)),
        Stage(3, 1, 20_000, {"cpu": 1.0}),
        Stage(4, 1, 20_000, {"cpu": 1.0}, (3,)),
        Stage(5, 1, 100_000, {"cpu": 0.3}, (4,)),
        Stage(6, 1, 20_000, {"cpu": 0.3}, (0, 2, 5)),
    ),
)


def scenario(machines: int, *, order: str = "natural", **sections: Any) -> ScenarioModel:
    frameworks = {"heartbeat_ms": 0, "tez_order": order, "tez_min_fraction": 1, "tez_max_fraction": 1}
    return ScenarioModel.model_validate(
        {
            "cluster": {
                "resources": [{"name": name, "scale": 1000} for name in RESOURCES],
                "nodes": [{"count": machines, "resources": dict.fromkeys(RESOURCES, 1.0)}],
                "heartbeat_ms": 0,
            },
            "frameworks": frameworks | {"tez_reuse": False},
            "decision": {"tick_ms": 10, "idle_ms": 2**40},
            "workload": {"jobs": [{"stages": [{"tasks": 1, "duration_s": 1}]}]},
        }
        | sections
    )


def policy(fit: str = "tetris", schedules: int = 50, more: str = "") -> Settings:
    return parse_settings(
        "test",
        f"policy: {{order: {{kind: srpt}}, fit: {{kind: {fit}}}, estimate: {{kind: hints}}}}\n"
        f"plans: {{schedules: {schedules}{more}}}\n",
    )


def run(workload: Workload, settings: Settings, machines: int = 4, **given: Any) -> tuple[SimulatedRun, Simulation]:
    believed, model, plans = given.pop("believed", None), scenario(machines, **given), None
    if believed is not None:
        source = PlanSource(planned_machines(model, settings), settings.plans.schedules, 100)
        plans = FollowedPlans(source, workload, believed, settings.plans, model)
    simulation = Simulation(model, workload, settings, 1, plans=plans)
    return simulation.run(), simulation


def replans(plans: FollowedPlans) -> int:
    return sum(each.job.replans for each in plans._followed.values())


def alone(dag: Dag) -> Workload:
    return arranged([Job("alone", 0, dag, Framework.TEZ)])


def many(seeds: range, gap_ms: int = 5000) -> Workload:
    return arranged(
        Job(f"job{seed}", number * gap_ms, generate(seed, SMALL).dag, Framework.TEZ)
        for number, seed in enumerate(seeds)
    )


@pytest.mark.parametrize(
    ("settings", "order", "seconds"),
    [
        (policy("packing", schedules=0), "natural", 380),
        (policy("tetris", schedules=0), "natural", 380),
        (policy("packing"), "plan", 180),
        (policy("tetris"), "natural", 180),
        (policy("tetris"), "plan", 180),
    ],
    ids=["natural", "packing alone", "order alone", "scores alone", "both"],
)
def test_the_motivating_example_takes_180_instead_of_380(settings: Settings, order: str, seconds: int) -> None:
    assert run(alone(MOTIVATING), settings, 1, order=order)[0].end_ms == 1000 * seconds


def test_a_plan_is_followed_by_a_work_conserving_cluster() -> None:
    """Planned, followed in the planner and followed by the engine a DAG takes about as long."""
    ratios = []
    for seed in range(1, 9):
        instance = generate(seed, SMALL)
        machines = machines_of([Machines(instance.capacity, 4)])
        where = machines.capacity, machines.count
        planned = executed_makespan(plan_online(instance.dag, machines, 50), *where)
        followed, _ = run(alone(instance.dag), policy("packing"), order="plan")
        natural, _ = run(alone(instance.dag), policy("packing", schedules=0))
        assert followed.end_ms >= graphene_plan(instance.dag, *where, 1).bounds.best
        ratios.append((followed.end_ms / planned, natural.end_ms / planned))
    followed_ratio, natural_ratio = np.mean(ratios, axis=0)
    assert followed_ratio < 1.02
    assert natural_ratio > followed_ratio + 0.02


def test_many_jobs_at_once_are_planned_and_all_end() -> None:
    found, simulation = run(many(range(1, 5)), policy(), order="plan")
    assert found.unfinished == 0
    assert simulation.plans is not None
    assert simulation.plans.source.planned == 4
    assert replans(simulation.plans) == 0


def test_jobs_without_a_plan_run_beside_jobs_with_one() -> None:
    workload = many(range(1, 5))
    believed = [job.dag if at % 2 else None for at, job in enumerate(workload.jobs)]
    found, simulation = run(workload, policy(), order="plan", believed=believed)
    assert found.unfinished == 0
    assert simulation.plans is not None
    assert simulation.plans.source.planned == 2


def misjudged(dag: Dag, seed: int, factor: float = 10.0) -> Dag:
    factors = np.random.default_rng(seed).choice([1 / factor, 1.0, factor], len(dag.stages))
    stages = zip(dag.stages, factors.tolist(), strict=True)
    return Dag(dag.name, tuple(replace(stage, duration_ms=round(stage.duration_ms * by)) for stage, by in stages))


def test_a_plan_off_tenfold_is_made_anew_and_then_dropped() -> None:
    dag = generate(4, SMALL).dag
    found, simulation = run(alone(dag), policy(), believed=[misjudged(dag, 1)])
    assert found.unfinished == 0
    assert simulation.plans is not None
    assert replans(simulation.plans) > 0
    assert simulation.plans.source.planned > 1
    found, simulation = run(alone(dag), policy(more=", replans_max: 0"), believed=[misjudged(dag, 1)])
    assert found.unfinished == 0
    assert simulation.plans is not None
    assert (replans(simulation.plans), simulation.plans.source.planned) == (1, 1)


def test_a_stage_of_another_width_than_believed_is_planned_anew() -> None:
    dag = generate(4, SMALL).dag
    narrow = Dag(dag.name, tuple(replace(stage, tasks=max(1, stage.tasks // 5)) for stage in dag.stages))
    found, simulation = run(alone(dag), policy(), believed=[narrow])
    assert found.unfinished == 0
    assert simulation.plans is not None
    assert replans(simulation.plans) > 0


def test_failing_tasks_do_not_stop_a_planned_job() -> None:
    found, _ = run(many(range(1, 4)), policy(), order="plan", failures={"task_probability": 0.1, "attempts_max": 50})
    assert found.unfinished == 0
    assert found.counts["tasks_failed"] > 0


def test_container_reuse_and_plans_go_together() -> None:
    frameworks = {"heartbeat_ms": 0, "tez_order": "plan", "tez_reuse": True}
    found, _ = run(many(range(1, 4)), policy(), frameworks=frameworks)
    assert found.unfinished == 0


def test_the_same_seed_gives_the_same_bytes() -> None:
    def told() -> str:
        workload = many(range(1, 3))
        believed = [misjudged(job.dag, at) for at, job in enumerate(workload.jobs)]
        found, _ = run(workload, policy(), order="plan", believed=believed)
        summary = as_json([summarise(found, "graphene", 1)])["runs"][0]
        windows: list[Window] = found.measurements.windows
        times = {"wall_s", "cpu_s", "cpu", "completions_per_s", "completions_per_cpu_s"}
        return json.dumps({key: each for key, each in summary.items() if key not in times}) + str(windows)

    assert told() == told()


def test_the_ready_made_policy_plans() -> None:
    settings = read_settings(ROOT / "conf" / "policies" / "graphene.yaml")
    found, simulation = run(many(range(1, 3)), settings)
    assert found.unfinished == 0
    assert simulation.plans is not None
    assert simulation.plans.source.planned == 2
