"""A DAG is what it says, or is refused with the stage's id."""

from __future__ import annotations

from pathlib import Path

import networkx
import numpy as np
import pytest

from treadle.dag import Dag, DagError, Stage, graph_of, ordered
from treadle.planner.graphene import _reduced, levels
from treadle.planner.plan import structure
from treadle.planner.problem import compile_problem
from treadle_lab.dags import Shape, generate
from treadle_lab.planning import critical_path, draw_dag, label_of


def stage(identity: int, *parents: int, tasks: int = 1) -> Stage:
    return Stage(identity, tasks, 1000, {"cpu": 1.0}, parents)


def test_stages_in_any_order_come_parents_first() -> None:
    dag = ordered("q", (stage(2, 0, 1), stage(1, 0), stage(0)))
    assert [s.id for s in dag.stages] == [0, 1, 2]
    assert dag.tasks == 3


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ((stage(0), stage(1, 2), stage(2, 1)), "stages 1 -> 2 -> 1 wait for each other; take one of these edges out"),
        ((stage(0), stage(1, 7)), "stage 1 has an unknown parent, 7"),
        ((stage(2, 0), stage(0, 7)), "stage 0 has an unknown parent, 7"),  # before the order
        ((stage(0), stage(0)), "two stages have the id 0"),
        *(((Stage(0, 1, 1, {"cpu": amount}),), "stage 0: demands") for amount in (-1.0, float("nan"), float("inf"))),
        (
            tuple(stage(at, (at - 1) % 100) for at in range(100)),
            r"stages 0 -> 1 -> .* -> \.\.\. -> .* -> 98 -> 99 -> 0 wait",
        ),
    ],
)
def test_what_is_no_dag_is_refused(stages: tuple[Stage, ...], said: str) -> None:
    with pytest.raises(DagError, match=said) as told:
        ordered("q", stages)
    assert len(str(told.value)) < 400


def test_one_to_one_needs_as_many_tasks() -> None:
    child = Stage(1, 3, 1000, {}, (0,), frozenset({0}))
    Dag("q", (stage(0, tasks=3), child))
    with pytest.raises(DagError, match="one_to_one"):
        Dag("q", (stage(0, tasks=2), child))


def test_levels_and_paths() -> None:
    dag = ordered("q", (stage(2, 0, 1), stage(1, 0), stage(0), Stage(3, 1, 5000, {})))
    assert critical_path(dag) == [3]
    assert set(graph_of(dag.stages).edges) == {(0, 1), (0, 2), (1, 2)}
    assert graph_of(dag.stages).nodes[3]["stage"] is dag.stages[3]
    assert critical_path(Dag("q", ())) == []


@pytest.mark.parametrize("seed", range(5))
def test_the_graph_agrees_with_the_planners_own(seed: int) -> None:
    made = generate(seed, Shape(stages=(20, 30)))
    dag = made.dag
    problem = compile_problem(dag, made.capacity, made.machines)
    found = structure(problem)
    graph = graph_of(dag.stages)
    generations = enumerate(networkx.topological_generations(graph))
    assert [level for _, level in sorted((s, at) for at, level in generations for s in level)] == list(levels(problem))
    behind = networkx.transitive_closure_dag(graph)
    assert {(int(a), int(b)) for a, b in np.argwhere(found.some)} == set(behind.edges)
    children = {(s, child) for s, below in enumerate(_reduced(problem, found)) for child in below}
    assert children == set(networkx.transitive_reduction(graph).edges)
    assert sum(dag.stages[s].duration_ms for s in critical_path(dag)) == found.bounds.critical_path


def test_a_dag_is_drawn(tmp_path: Path) -> None:
    dag = ordered("q $a_1$", (stage(2, 0, 1), stage(1, 0), stage(0), Stage(3, 1, 5000, {"$": 1.0}, name="$x^$")))
    draw_dag(dag, {1}, dag.name, tmp_path / "q.png")
    assert (tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")
    assert label_of(dag.stages[0]) == "0\n1 x 1000\n1 cpu"
