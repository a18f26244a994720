"""Nodes held under shares: for asks that are owed, and for nobody else."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.engine.fake_rm import cluster, placed
from tests.engine.sleepers import Sleepers, sharing

from treadle.config.settings import EngineReservation, Settings, default_settings
from treadle.engine import Engine

TWO = {"n1": {"n1.1": None}, "n2": {"n2.1": None, "n2.2": None}}


def holding(kind: str, hold: EngineReservation | None = None) -> Settings:
    return replace(sharing(kind), engine_reservation=hold or EngineReservation())


def medians(cluster: Sleepers, ends: int, seed: int) -> dict[str, float]:
    """Let tasks end one by one; return the medians of what the leaves had in the last two thirds."""
    seen = []
    for at in range(ends):
        cluster.churn(1, seed=1000 * seed + at)
        seen.append(cluster.tasks())
    return {leaf: statistics.median(each[leaf] for each in seen[ends // 3 :]) for leaf in seen[-1]}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_c_on_two_nodes_keeps_its_shares_with_holds(seed: int) -> None:
    """Tasks of three sizes on two nodes: what does not fit is held for only if it is owed (paper, test C)."""
    cluster = Sleepers(TWO, nodes=2, cpu=30, gpu=30, settings=holding("hdrf"))
    cluster.begin({"n1.1": (3, 2), "n2.1": (1, 1), "n2.2": (1, 3)})
    assert medians(cluster, 300, seed) == pytest.approx({"n1.1": 12, "n2.1": 18, "n2.2": 6}, abs=1)
    cluster.leave("n2.2")
    assert medians(cluster, 300, seed) == pytest.approx({"n1.1": 10, "n2.1": 30, "n2.2": 0}, abs=1)
    cluster.join("n2.2", 1, 3)
    assert medians(cluster, 300, seed) == pytest.approx({"n1.1": 12, "n2.1": 18, "n2.2": 6}, abs=1)


def one_by_one(cluster: Sleepers, until: Callable[[], bool], most: int) -> bool:
    """End the oldest task of n2.1 again and again."""
    job = cluster.jobs["n2.1"]
    for _ in range(most):
        cluster.end(next(at for at, held in enumerate(cluster.rm.containers) if held[0] == job))
        cluster.tick()
        if until():
            return True
    return False


@pytest.mark.parametrize("kind", ["hdrf", "drf"])
def test_a_large_ask_that_is_owed_gets_a_node_of_which_small_ones_take_every_gap(kind: str) -> None:
    def came(hold: EngineReservation) -> bool:
        cluster = Sleepers(TWO, nodes=4, cpu=8, gpu=8, settings=holding(kind, hold))
        cluster.join("n2.1", 1, 1)
        cluster.tick()
        cluster.join("n1.1", 6, 6)
        return one_by_one(cluster, lambda: cluster.tasks()["n1.1"] == 1, 100)

    assert came(EngineReservation())
    assert not came(EngineReservation(nodes_max=0))


@pytest.mark.parametrize("kind", ["hdrf", "drf"])
def test_no_node_is_held_for_a_large_ask_of_a_leaf_that_has_its_share(kind: str) -> None:
    cluster = Sleepers({"n1.1": None, "n2.1": None}, nodes=2, cpu=8, gpu=8, settings=holding(kind))
    cluster.join("n1.1", 8, 8, tasks=1)
    cluster.tick()
    cluster.join("n2.1", 1, 1)
    cluster.tick()
    cluster.join("n1.1", 8, 8)
    assert cluster.tasks() == {"n1.1": 1, "n2.1": 8}
    one_by_one(cluster, lambda: False, 50)
    assert cluster.tasks() == {"n1.1": 1, "n2.1": 8}


def most_held(nodes: int, asks: int, settings: Settings) -> int:
    """Let small tasks overtake asks for a whole node each; return how many nodes were held at a time, at most."""
    large = [f"large{at}" for at in range(asks)]
    cluster = Sleepers(dict.fromkeys([*large, "small"]), nodes, cpu=8, gpu=8, settings=settings)
    cluster.join("small", 1, 1)
    cluster.tick()
    for name in large:
        cluster.join(name, 8, 8, tasks=1)
    most = 0
    for _ in range(20):
        cluster.churn(1)
        most = max(most, len(cluster.engine._policy.holds))
    return most


@pytest.mark.parametrize(
    ("nodes", "share", "held"), [(2, 0.25, 1), (4, 0.25, 1), (8, 0.25, 2), (8, 1.0, 4), (40, 0.25, 4)]
)
def test_of_few_nodes_few_are_held_however_many_large_asks_were_overtaken(nodes: int, share: float, held: int) -> None:
    """At most four, and a quarter of the nodes by default, but one in any case."""
    settings = replace(default_settings(), engine_reservation=EngineReservation(nodes_fraction=share))
    assert most_held(nodes, 6, settings) == held


@pytest.mark.parametrize(("kind", "held"), [("capacity", 1), ("hdrf", 2), ("drf", 2)])
def test_any_node_may_be_held_for_who_is_owed_it(kind: str, held: int) -> None:
    """Where shares are compared in a tree, all of a few nodes may be."""
    assert most_held(2, 2, holding(kind)) == held


# Nodes keep room for the largest ask (H-DRF, section 5), by the engine and by the exact algorithm alike.

HEADROOM = EngineReservation(nodes_max=0, headroom=True)
NEITHER = EngineReservation(nodes_max=0)


def kept(kind: str = "hdrf", hold: EngineReservation = HEADROOM) -> Settings:
    return replace(sharing(kind), engine_reservation=hold)


def counts(made: list[Any]) -> list[int]:
    """How many containers the applications 0 and 1 got."""
    return [sum(app == which for app, _, _ in made) for which in (0, 1)]


def test_small_asks_leave_what_the_large_one_needs() -> None:
    """Nobody shares: the small asks come first, and stop when the node has no room for a large one any more."""
    for hold, expected in ((NEITHER, [8, 0]), (HEADROOM, [5, 0])):
        rm = cluster((8, 8), leaves=2)
        rm.job(100)
        rm.job(100, (4, 4), queue=2)
        assert counts(placed(rm, 100, Engine(kept("none", hold)))) == expected


def test_the_largest_ask_itself_needs_no_more_than_it_asks_for() -> None:
    rm = cluster((8, 8), leaves=2)
    rm.job(100, (4, 4))
    assert counts(placed(rm, 100, Engine(kept()))) == [2, 0]


def test_only_resources_that_an_ask_needs_are_kept_free() -> None:
    """One task of application 0 leaves fewer cores than application 2 needs; 1, which needs none, goes on."""
    rm = cluster((8, 4), leaves=2)
    rm.job(2)
    rm.job(100, (1, 0), queue=2)
    rm.job(1, (1, 4), queue=2)
    assert counts(placed(rm, 100, Engine(kept("none")))) == [1, 7]


def test_what_fits_no_node_keeps_nothing_free_and_nodes_differ() -> None:
    rm = cluster((4, 4), (8, 8), leaves=2)
    rm.job(100)
    rm.job(1, (100, 1), queue=2)
    assert counts(placed(rm, 100, Engine(kept("none")))) == [12, 0]
    rm = cluster((4, 4), (8, 8), leaves=2)
    rm.job(100)
    rm.job(100, (6, 6), queue=2)
    made = placed(rm, 100, Engine(kept("none")))
    assert [node for app, _, node in made if app == 0].count(0) == 4, "the small node could not hold a large task"
    assert [node for app, _, node in made if app == 0].count(1) == 3


@pytest.mark.parametrize("kind", ["hdrf", "drf", "capacity", "deficit"])
def test_a_large_task_comes_when_one_ends(kind: str) -> None:
    """Without headroom whatever ends is taken by small tasks; with it the large ones have their share in the end."""
    sleepers = Sleepers({"small": None, "large": None}, nodes=4, cpu=10, gpu=10, settings=kept(kind))
    sleepers.join("small", 1, 1)
    sleepers.tick()
    sleepers.join("large", 4, 4)
    sleepers.churn(200)
    running = sleepers.tasks()
    assert running["large"] >= 4, running
    assert running["small"] > 0, running
