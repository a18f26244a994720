"""Graphene's troublesome tasks: a generated DAG with the stages that the paper's search places first."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from treadle.dag.generate import Shape, generate
from treadle.planner import baselines
from treadle.planner.candidates import Objective, Schedules
from treadle.planner.graphene import Options
from treadle.planner.graphene import plan as plan_graphene
from treadle_lab.docs.pictures.canvas import pyplot
from treadle_lab.planning.drawing import draw_dag

SEED: Final = 3
SCHEDULES: Final = 400
SHAPE: Final = Shape(depth=(4, 4), stages=(12, 14), tasks=(100, 300))


def draw_troublesome(path: Path) -> None:
    """Draw the DAG, with how long it takes by this plan and breadth first."""
    instance = generate(SEED, SHAPE)
    where = (instance.dag, instance.capacity, instance.machines)
    found = plan_graphene(*where, Schedules(SCHEDULES), objective=Objective.EXECUTED, options=Options(paper=True))
    breadth = baselines.baseline("bfs", *where, objective=Objective.EXECUTED, seed=SEED)
    title = (
        f"{instance.dag.name}: troublesome stages red, longest path bold (tasks x ms, largest demand)\n"
        f"{found.executed_makespan / 1000:.0f} s by the plan, {breadth.executed_makespan / 1000:.0f} s breadth first, "
        f"at least {found.bounds.best / 1000:.0f} s"
    )
    pyplot()  # how SVG is written
    draw_dag(instance.dag, found.troublesome, title, path)
