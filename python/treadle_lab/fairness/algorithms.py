"""The named algorithms on a divisible pool: what `treadle share` computes for a tree without servers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from treadle.fairness.fluid import fill
from treadle.fairness.tree import HDRF, NAIVE, Rule, Tree, flattened

__all__ = ["ALGORITHMS", "Allocation", "allocate_fluid", "capacity_rule", "churn"]

ALGORITHMS = ("hdrf", "hdrf-static", "hdrf-dynamic", "drf-flat", "drf-naive", "capacity")
"""H-DRF filled from empty; the paper's definition of the static allocation; where H-DRF ends as tasks end; collapsed
hierarchies; naive H-DRF as tasks end; and used over guaranteed capacity, as YARN's CapacityScheduler orders
its queues."""

AS_TASKS_END = frozenset({"hdrf-dynamic", "drf-naive"})
"""Computed by letting the tasks of one leaf after another end, which takes a filling for each."""

MAX_ROUNDS = 1000
LONGEST_DENOMINATOR = 10**60
GRAIN = 10**30


@dataclass(frozen=True)
class Allocation:
    """The tasks that each leaf has, by name. `settled`: running tasks that end and start again change nothing more."""

    tasks: Mapping[str, Fraction]
    settled: bool = True


def allocate_fluid(tree: Tree, algorithm: str, calculator: str | None = None) -> Allocation:
    """Share the pool among the leaves of `tree` by one of `ALGORITHMS`.

    `calculator` is for "capacity": the one resource that counts, None for the dominant one.
    Those of `AS_TASKS_END` are where a filling ends as tasks end and others take their place; all others are filled
    from empty.
    """
    if algorithm == "hdrf":
        return Allocation(fill(tree, HDRF))
    if algorithm == "hdrf-static":
        return Allocation(fill(tree, NAIVE))
    if algorithm == "drf-flat":
        return Allocation(fill(flattened(tree), NAIVE))
    if algorithm == "hdrf-dynamic":
        return churn(tree, HDRF, fill(tree, HDRF))
    if algorithm == "drf-naive":
        return churn(tree, NAIVE, fill(tree, NAIVE))
    if algorithm == "capacity":
        return Allocation(fill(tree, capacity_rule(calculator)))
    raise ValueError(f"unknown algorithm {algorithm!r}; choose one of {', '.join(ALGORITHMS)}")


def capacity_rule(calculator: str | None) -> Rule:
    """How the CapacityScheduler measures a queue: its use over its guarantee, of one resource or of the dominant."""
    return NAIVE if calculator is None else Rule(False, False, frozenset({calculator}))


def churn(tree: Tree, rule: Rule, held: Mapping[str, Fraction], portion: Fraction = Fraction(1)) -> Allocation:
    """Where an allocation ends when tasks end and what they leave is handed out again by `rule`.

    One leaf after another loses `portion` of its tasks and the pool is filled again, until a round through all leaves
    changes nothing, or until a state comes back or 1,000 rounds are over (then the result is not settled). A state
    that is only approached, never reached, is taken as reached when it is within 10^-30 tasks.
    """
    state = dict(held)
    seen: set[tuple[Fraction, ...]] = set()
    for _ in range(MAX_ROUNDS):
        before = tuple(state[leaf.name] for leaf in tree.leaves)
        if before in seen:
            break
        seen.add(before)
        for leaf in tree.leaves:
            if any(tree.demand_share(leaf)):
                state[leaf.name] -= state[leaf.name] * portion
                state = fill(tree, rule, {name: _shortened(tasks) for name, tasks in state.items()})
        if tuple(state[leaf.name] for leaf in tree.leaves) == before:
            return Allocation(state)
    return Allocation(state, settled=False)


def _shortened(tasks: Fraction) -> Fraction:
    """`tasks`, or if it has become a number of many digits, what is left when slivers under 10^-30 are cut off."""
    return tasks if tasks.denominator <= LONGEST_DENOMINATOR else Fraction(math.floor(tasks * GRAIN), GRAIN)
