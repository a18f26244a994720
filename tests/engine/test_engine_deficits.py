"""Shares `deficit` and `none`: the order across all queues, and how unfair it may be."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.engine.sleepers import Sleepers, sharing

COMMON = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])


def leaves(*weights: int) -> dict[str, None]:
    return {f"q{at}:{weight}": None for at, weight in enumerate(weights)}


def test_none_serves_the_oldest_application_of_all_queues_first() -> None:
    cluster = Sleepers(leaves(1, 1, 1), nodes=2, cpu=5, gpu=1, settings=sharing("none"))
    for leaf, tasks in (("q2", 4), ("q0", 4), ("q1", 4)):
        cluster.join(leaf, 1, 0, tasks)
    cluster.tick(limit=6)
    assert cluster.tasks() == {"q2": 4, "q0": 2, "q1": 0}
    cluster.tick()
    assert cluster.tasks() == {"q2": 4, "q0": 4, "q1": 2}


def test_none_looks_elsewhere_when_the_first_cannot_be_served() -> None:
    cluster = Sleepers(leaves(1, 1), nodes=1, cpu=4, gpu=2, settings=sharing("none"))
    cluster.begin({"q0": (0, 1), "q1": (1, 0)})
    assert cluster.tasks() == {"q0": 2, "q1": 4}


@pytest.mark.parametrize("kappa", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("slots", [True, False])
def test_the_largest_deficit_stays_within_its_bound(kappa: float, slots: bool) -> None:
    """The first application would take everything; after kappa x C it does not. C is 40 slots, or one cluster."""
    weights = (1, 2, 3, 4)
    cluster = Sleepers(leaves(*weights), nodes=4, cpu=10, gpu=1, settings=sharing("deficit", kappa=kappa, slots=slots))
    for at in range(len(weights)):
        cluster.join(f"q{at}", 1, 0)
    counts, capacity = (1.0, 40.0) if slots else (1 / 40, 1.0)
    given_out = [0] * len(weights)
    largest = 0.0
    for tick in range(300):
        if tick:
            cluster.end(0)
        before = cluster.tasks()
        made = cluster.tick(limit=1)
        assert made == 1
        after = cluster.tasks()
        for at in range(len(weights)):
            given_out[at] += after[f"q{at}"] - before[f"q{at}"]
        total = sum(given_out)
        behind = [counts * (total * weight / sum(weights) - n) for weight, n in zip(weights, given_out, strict=True)]
        largest = max(largest, *behind)
    assert largest <= kappa * capacity + counts * (1 + log(len(weights)))
    assert largest >= kappa * capacity - counts
    cluster.tick()


def test_in_the_long_run_shares_are_those_of_drf() -> None:
    """Tasks of equal length end ten at a time: each queue's dominant share is the same, though of other resources."""
    demands = {"q0": (3, 1), "q1": (1, 2), "q2": (2, 2)}
    running: dict[str, dict[str, float]] = {}
    for kind, policy in (("drf", sharing("drf")), ("deficit", sharing("deficit", kappa=0.05))):
        cluster = Sleepers(leaves(1, 1, 1), nodes=1, cpu=120, gpu=120, settings=policy)
        for leaf, (cpu, gpu) in demands.items():
            cluster.join(leaf, cpu, gpu)
        cluster.tick()
        sums = dict.fromkeys(demands, 0.0)
        for tick in range(100):
            for _ in range(10):
                cluster.end(0)
            cluster.tick()
            if tick >= 20:
                for leaf, tasks in cluster.tasks().items():
                    sums[leaf] += tasks
        running[kind] = {leaf: total / 80 for leaf, total in sums.items()}
    for leaf, ideal in running["drf"].items():
        assert running["deficit"][leaf] == pytest.approx(ideal, rel=0.1)


@dataclass
class Counters:
    """The paper's counters, added up one by one, in slots, with kappa 0."""

    weights: list[int]
    asks: list[int]
    deficits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.deficits = [0.0] * len(self.weights)

    def next(self) -> int:
        servable = [g for g, asks in enumerate(self.asks) if asks]
        total = sum(self.weights[g] for g in servable)
        best = max(servable, key=lambda g: (round(self.deficits[g], 9), self.weights[g], -g))
        if round(self.deficits[best], 9) < 0:
            best = servable[0]  # below kappa x C, which is 0: first in, first out
        for g in servable:
            self.deficits[g] += self.weights[g] / total
        self.deficits[best] -= 1
        self.asks[best] -= 1
        return best

    def begin(self, asks: list[int]) -> None:
        self.asks = asks
        if not any(asks):
            return  # nothing is looked at
        self.deficits = [d if n else 0.0 for d, n in zip(self.deficits, asks, strict=True)]


@example(weights=[1, 1, 1, 5], rounds=[([0, 0, 2, 6, 0, 0, 0, 0, 0], 7)])  # ends in equals at 0
@example(weights=[1, 1, 1, 1, 1, 5], rounds=[([0, 0, 1, 1, 1, 2, 0, 0, 0], 3)])  # a match ends in equals
@given(
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    rounds=st.lists(st.tuples(st.lists(st.integers(0, 12), min_size=9, max_size=9), st.integers(1, 60)), max_size=4),
)
@COMMON
def test_deficits_are_those_of_the_paper(weights: list[int], rounds: list[tuple[list[int], int]]) -> None:
    """With kappa 0 the group with the largest deficit is served; the kinetic tournament finds the same one."""
    tree = {f"q{at + 1}": {"weight": float(weight)} for at, weight in enumerate(weights)}
    policy = sharing("deficit", kappa=0.0, slots=True, tree=tree)
    cluster = Sleepers(leaves(*weights), nodes=1, cpu=10_000, gpu=1, settings=policy)
    counters = Counters(weights, [0] * len(weights))
    for asks, limit in rounds:
        counters.begin([min(n, 10_000) for n in asks[: len(weights)]])
        for at in range(len(weights)):
            cluster.join(f"q{at}", 1, 0, asks[at])
        before = len(cluster.rm.containers)
        cluster.tick(limit)
        leaf_of = {job: int(name[1:]) for name, job in cluster.jobs.items()}
        got = [leaf_of[application] for application, _, _, _ in cluster.rm.containers[before:]]
        expected = [counters.next() for _ in range(min(limit, sum(counters.asks)))]
        assert got == expected
