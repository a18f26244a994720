"""Nodes keep room for the largest ask (H-DRF, section 5), by the engine and by the exact algorithm alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.fake_rm import FakeRM, flat
from tests.engine.sleepers import Sleepers, sharing
from tests.engine.test_engine_order import placed

from treadle.config.settings import Hold, Settings
from treadle.engine import Engine

HEADROOM = Hold(nodes_max=0, headroom=True)
NEITHER = Hold(nodes_max=0)


def kept(kind: str = "hdrf", hold: Hold = HEADROOM) -> Settings:
    return replace(sharing(kind), hold=hold)


def cluster(*nodes: tuple[int, int]) -> FakeRM:
    rm = FakeRM()
    for at, total in enumerate(nodes):
        rm.node(f"n{at}", total)
    flat(rm, 2, (1000, 1000))
    return rm


def counts(made: list[Any]) -> list[int]:
    """How many containers the applications 0 and 1 got."""
    return [sum(app == which for app, _, _ in made) for which in (0, 1)]


def test_small_asks_leave_what_the_large_one_needs() -> None:
    """Nobody shares: the small asks come first, and stop when the node has no room for a large one any more."""
    for hold, expected in ((NEITHER, [8, 0]), (HEADROOM, [5, 0])):
        rm = cluster((8, 8))
        rm.ask(rm.application(1), 0, 100, (1, 1))
        rm.ask(rm.application(2), 0, 100, (4, 4))
        assert counts(placed(rm, 100, Engine(kept("none", hold)))) == expected


def test_the_largest_ask_itself_needs_no_more_than_it_asks_for() -> None:
    rm = cluster((8, 8))
    rm.ask(rm.application(1), 0, 100, (4, 4))
    assert counts(placed(rm, 100, Engine(kept()))) == [2, 0]


def test_only_resources_that_an_ask_needs_are_kept_free() -> None:
    """One task of application 0 leaves fewer cores than application 2 needs; 1, which needs none, goes on."""
    rm = cluster((8, 4))
    rm.ask(rm.application(1), 0, 2, (1, 1))
    rm.ask(rm.application(2), 0, 100, (1, 0))
    rm.ask(rm.application(2), 0, 1, (1, 4))
    assert counts(placed(rm, 100, Engine(kept("none")))) == [1, 7]


def test_what_fits_no_node_keeps_nothing_free_and_nodes_differ() -> None:
    rm = cluster((4, 4), (8, 8))
    rm.ask(rm.application(1), 0, 100, (1, 1))
    rm.ask(rm.application(2), 0, 1, (100, 1))
    assert counts(placed(rm, 100, Engine(kept("none")))) == [12, 0]
    rm = cluster((4, 4), (8, 8))
    rm.ask(rm.application(1), 0, 100, (1, 1))
    rm.ask(rm.application(2), 0, 100, (6, 6))
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
