"""Orders that rank asks, and parts that say which nodes asks may use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engine.fake_rm import LEAF, FakeRM, cluster, placed
from tests.engine.parts import settings_with

from treadle.compiled.array_types import F64, Records
from treadle.config.parts import Kind, NoParameters, Part, Traits
from treadle.config.settings import Hold, Settings
from treadle.engine import Engine
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.node_search import FirstFit
from treadle.policy.node_sets import NodeSets
from treadle.policy.parts import Gate, Order
from treadle.policy.work import Jobs


class LargestAsk(Order):
    """The ask that wants most memory first, whose ever it is."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def ask_keys(self, jobs: Jobs, key: F64) -> None:
        """Set the memory that is asked for, the most first."""
        key[:] = -jobs.cluster.requests.capability[:, 0]


class EvenNodes(FirstFit):
    """Asks for one unit of memory may use every other node alone."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def choose_nodes(self, cluster: Cluster, view: View, now_ms: int, sets: NodeSets) -> None:
        """Restrict them."""
        sets.restrict(np.flatnonzero(view.capability[:, 0] == 1), np.arange(len(view.nodes)) % 2 == 0)


class LowNodes(Gate):
    """All may run, on the first four nodes."""

    def __init__(self, parameters: NoParameters) -> None:
        pass

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Let all through."""
        rows["may"] = 1

    def choose_nodes(self, cluster: Cluster, view: View, now_ms: int, sets: NodeSets) -> None:
        """Restrict all."""
        sets.restrict(np.arange(len(view.rows)), np.ones(4, bool))


PARTS: dict[str, tuple[Any, Traits]] = {
    "order": (LargestAsk, Traits(ranks_asks=True)),
    "fit": (EvenNodes, Traits(chooses_nodes=True)),
    "gate": (LowNodes, Traits(chooses_nodes=True)),
}


def settings(*own: str, nodes_held: int = 0, **others: Any) -> Settings:
    """Return settings with some of the parts above, and others by name."""
    found = settings_with(**others)
    made: dict[str, Any] = {part: Part(Kind(part, NoParameters, *_described(part)), NoParameters()) for part in own}
    return replace(found, policy=replace(found.policy, **made), hold=Hold(nodes_max=nodes_held))


def _described(part: str) -> tuple[Any, str, Traits]:
    made, traits = PARTS[part]
    return made, "", traits


def two_applications(size: int = 100) -> FakeRM:
    """Return a leaf with applications 0, that asks for 1 and 4 units, and 1, that asks for 2 and 3."""
    rm = cluster((size, 100))
    for asks in (((0, 1), (1, 4)), ((0, 2), (1, 3))):
        app = rm.application(LEAF)
        for key, memory in asks:
            rm.ask(app, key, 2, (memory, 1), priority=key)
    return rm


@pytest.mark.parametrize("share", ["capacity", "none", "hdrf", "deficit"])
def test_an_order_may_rank_asks_across_applications(share: str) -> None:
    served = placed(two_applications(), 100, Engine(settings("order", share=share)))
    assert [(app, key) for app, key, _ in served] == [(0, 1), (0, 1), (1, 1), (1, 1), (1, 0), (1, 0), (0, 0), (0, 0)]


def test_an_ask_that_does_not_fit_makes_room_for_the_next_one_of_whichever_application() -> None:
    served = placed(two_applications(7), 100, Engine(settings("order")))
    assert [(app, key) for app, key, _ in served] == [(0, 1), (1, 1)]


def test_ranked_asks_compete_for_a_node() -> None:
    rm = two_applications()
    served = placed(rm, 100, Engine(settings("order", fit=("tetris", {"srpt_weight": 0.0}))))
    assert sorted(served) == sorted((app, key, 0) for app in (0, 1) for key in (0, 1) for _ in range(2))


def eight_nodes(*asks: int) -> FakeRM:
    """Return eight nodes of 4 units, and an application for each number of containers of one unit."""
    rm = cluster(*[(4, 4)] * 8)
    for count in asks:
        rm.job(count)
    return rm


@pytest.mark.parametrize("fit", ["first_fit", "packing", "random_fit", "tetris"])
def test_a_gate_may_say_which_nodes_asks_use(fit: str) -> None:
    engine = Engine(settings("gate", fit=fit))
    assert {node for _, _, node in placed(eight_nodes(32), 100, engine)} == {0, 1, 2, 3}
    assert engine.waits_for() == "nodes that asks may use"


@pytest.mark.parametrize("share", ["capacity", "hdrf", "deficit", "none"])
def test_of_what_several_parts_say_all_holds(share: str) -> None:
    rm = eight_nodes(32)
    rm.job(16, (2, 2))
    served = placed(rm, 100, Engine(settings("gate", "fit", share=share)))
    assert {node for app, _, node in served if app == 0} <= {0, 2}
    assert {node for app, _, node in served} == {0, 1, 2, 3}
    assert len(rm.containers) == len(served)


def test_that_an_ask_finds_no_node_of_its_own_says_nothing_of_others() -> None:
    rm = eight_nodes(40)
    rm.job(4, (1, 2))
    for at in range(0, 8, 2):
        rm.nodes[at].free = (0, 0)
    rm.nodes[1].free = (4, 4)
    engine = Engine(settings("fit"))
    assert placed(rm, 100, engine) == []
    rm.job(4, (2, 1))
    assert {node for _, _, node in placed(rm, 100, engine)} == {1, 3}


def test_no_node_is_held_that_the_ask_may_not_use() -> None:
    rm = eight_nodes()
    for at in range(8):
        rm.nodes[at].free = (1, 1) if at < 4 else (3, 3)  # the others lack less
    rm.job(1, (4, 4))
    rm.job(8)
    engine = Engine(settings("gate", nodes_held=4))
    assert len(placed(rm, 100, engine)) == 4
    assert engine.waits_for() == "nodes that asks may use, a held node"
    assert engine._cluster is not None
    assert np.flatnonzero(engine._cluster.nodes.at["hold_row"] >= 0).tolist() == [0]
