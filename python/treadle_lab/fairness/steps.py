"""Computes the steps of a problem, one before the first event and one after each, and writes them as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from treadle.fairness.tree import Leaf, Tree, TreeError
from treadle_lab.fairness.algorithms import AS_TASKS_END, Allocation, allocate_fluid
from treadle_lab.fairness.document import Event, Problem
from treadle_lab.fairness.servers import allocate_whole

__all__ = ["LeafResult", "Step", "compute_steps", "steps_json"]


LEAVES_MAX: Final = 200
"""For the algorithms of `AS_TASKS_END`: their work grows with the square of the leaves, and by rounds."""


@dataclass(frozen=True)
class LeafResult:
    """What a leaf gets: tasks, resources by name, and its dominant share (0 to 1) of the cluster."""

    tasks: Fraction
    resources: dict[str, Fraction]
    dominant_share: Fraction


@dataclass(frozen=True)
class Step:
    """The allocation after an event (None: at the start). A leaf that has left is there with nothing."""

    event: Event | None
    leaves: dict[str, LeafResult]
    settled: bool


def compute_steps(problem: Problem, algorithm: str) -> Iterator[Step]:
    """Return the allocation at the start and after each event, each the one that the algorithm leads to in the end.

    Raises:
        TreeError: the tree has more leaves than the algorithm can take.
    """
    tree = problem.tree
    if algorithm in AS_TASKS_END and len(tree.leaves) > LEAVES_MAX:
        raise TreeError(
            f"tree: {len(tree.leaves):,} leaves; {algorithm} lets the tasks of one leaf after another end and fills "
            f"the cluster again after each, which is for {LEAVES_MAX} leaves at most; others take them all"
        )
    absent: set[str] = set()
    yield _step(None, problem, tree, absent, algorithm)
    for event in problem.events:
        if event.kind == "leave":
            absent |= set(event.leaves)
        elif event.kind == "join":
            absent -= set(event.leaves)
        else:
            leaves = {leaf.name: leaf for leaf in tree.leaves if leaf.name in event.leaves}
            tree = tree.with_leaves({name: replace(leaf, tasks=event.tasks) for name, leaf in leaves.items()})
        yield _step(event, problem, tree, absent, algorithm)


def steps_json(algorithm: str, steps: list[Step]) -> dict[str, object]:
    """Return the steps as `treadle share --json` prints them; numbers become the nearest floats."""
    return {"algorithm": algorithm, "steps": [_step_json(step) for step in steps]}


def _step(event: Event | None, problem: Problem, tree: Tree, absent: set[str], algorithm: str) -> Step:
    present = tree.without(absent)
    if problem.servers:
        allocation = allocate_whole(
            present, problem.servers, algorithm, calculator=problem.calculator, headroom=problem.headroom
        )
    else:
        allocation = allocate_fluid(present, algorithm, problem.calculator)
    leaves = {leaf.name: _result(tree, leaf, allocation) for leaf in tree.leaves}
    return Step(event, leaves, allocation.settled)


def _result(tree: Tree, leaf: Leaf, allocation: Allocation) -> LeafResult:
    tasks = allocation.tasks.get(leaf.name, Fraction(0))
    resources = {name: tasks * leaf.demand.get(name, 0) for name in tree.resources}
    return LeafResult(tasks, resources, tasks * max(tree.demand_share(leaf)))


def _step_json(step: Step) -> dict[str, object]:
    event = None
    if step.event is not None:
        name = step.event.name
        event = {step.event.kind: name if step.event.tasks is None else {name: step.event.tasks}}
    leaves = {
        name: {
            "tasks": float(result.tasks),
            "resources": {resource: float(amount) for resource, amount in result.resources.items()},
            "dominant_share": float(result.dominant_share),
        }
        for name, result in step.leaves.items()
    }
    return {"event": event, "settled": step.settled, "leaves": leaves}


MOST_LEAVES = 19
MOST_STEPS = 12


def plot_steps(tree: Tree, algorithm: str, steps: Sequence[Step], titles: Sequence[str], target: Path) -> None:
    """Write one chart with a panel for each of the first 12 steps; leaves beyond the 19 largest are one stack."""
    from matplotlib.figure import Figure  # only here: matplotlib is an extra

    steps = steps[:MOST_STEPS]
    names = _largest(steps)
    figure = Figure(figsize=(2.4 * len(steps) + 2.5, 3.6), layout="constrained")
    panels = figure.subplots(1, len(steps), sharey=True, squeeze=False)[0]
    for panel, step, title in zip(panels, steps, titles, strict=False):
        bottoms = [0.0] * len(tree.resources)
        for number, name in enumerate([*names, None]):
            heights = _heights(tree, step, names, name)
            if name is None and not any(heights):
                continue
            color = f"C{number % 10}"
            label = name or "all others"
            panel.bar(tree.resources, heights, bottom=bottoms, label=label, color=color, edgecolor="white")
            bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
        panel.set_title(title, fontsize=9)
        panel.set_ylim(0, 100)
    panels[0].set_ylabel("share of the cluster (%)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    figure.suptitle(algorithm)
    figure.savefig(target, dpi=150)


def _largest(steps: Sequence[Step]) -> list[str]:
    peak = {name: max(step.leaves[name].dominant_share for step in steps) for name in steps[0].leaves}
    chosen = set(sorted(peak, key=lambda name: peak[name], reverse=True)[:MOST_LEAVES])
    return [name for name in peak if name in chosen]


def _heights(tree: Tree, step: Step, names: Sequence[str], name: str | None) -> list[float]:
    chosen = [name] if name is not None else [other for other in step.leaves if other not in set(names)]
    heights = []
    for resource, amount in tree.capacity.items():
        total = sum(step.leaves[leaf].resources[resource] for leaf in chosen)
        heights.append(float(100 * total / amount) if amount else 0.0)
    return heights
