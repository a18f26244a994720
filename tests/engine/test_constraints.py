"""Asks that only some nodes can serve: no policy places them elsewhere, whatever comes, goes or changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.constrained_rm import LEAF, ConstrainedRM, attribute, cluster, own
from tests.engine.parts import any_parts, engine_with, settings_with
from tests.support.optional import present

from treadle.config.settings import EngineReservation, Limits
from treadle.engine import Engine
from treadle.events import NodeState
from treadle.explain import Explainer, Why
from treadle.model.nodes import CLASSES_MAX, ROWS_AT_ONCE
from treadle.policy.state import SCANNED


def round_of(rm: ConstrainedRM, engine: Engine, now_ms: int = 1_000) -> list[int]:
    """Let the engine decide once; every proposal is checked. Return the nodes."""
    return sorted(rm.turn(engine, now_ms).node.tolist())


def one(count: int, *requires: str, nodes: int = 8, **more: Any) -> ConstrainedRM:
    """Return a cluster with an application that asks for containers of one unit."""
    rm = cluster(nodes)
    app = rm.application(LEAF)
    rm.ask(app, 0, count, (1, 1), **more)
    if requires:
        rm.require(app, *requires)
    return rm


def test_a_requirement_holds_and_what_no_node_meets_is_not_placed() -> None:
    assert round_of(one(20, "zone=z1"), engine_with()) == [1] * 4 + [5] * 4
    assert round_of(one(20, "zone=z1", "host=n5"), engine_with()) == [5] * 4
    assert round_of(one(20, "zone=z9"), engine_with()) == []
    assert round_of(one(20, "zone"), engine_with()) == [], "malformed: it waits"


def test_an_ask_of_few_nodes_does_not_look_at_all_the_others() -> None:
    engine = engine_with()
    assert round_of(one(20, "host=n5|n77", nodes=256), engine) == [5] * 4 + [77] * 4
    scratch = present(engine._policy.latest)
    assert scratch.counters[SCANNED] <= 2 * 20


def test_what_is_preferred_is_no_condition() -> None:
    rm = one(20)
    rm.require(0, prefer=("zone=z1",))
    assert len(round_of(rm, engine_with())) == 20


def test_an_application_master_may_run_anywhere() -> None:
    rm = one(1, "zone=z9")
    rm.applications[0].awaiting_am = True
    assert len(round_of(rm, engine_with())) == 1
    rm.ask(0, 0, 4, (1, 1))
    rm.snapshot_next()
    assert round_of(rm, engine_with()) == []


def test_attributes_nodes_and_asks_may_change_while_asks_wait() -> None:
    rm = one(4, "zone=z9")
    engine = engine_with()
    assert round_of(rm, engine) == []
    rm.special(3, zone="z9")
    assert round_of(rm, engine, 2_000) == [3] * 4
    rm.ask(0, 1, 4, (1, 1))
    rm.nodes[3].state = NodeState.GONE
    rm.attributes.pop(3)
    assert round_of(rm, engine, 3_000) == []
    rm.node("n9", (4, 4))
    rm.special(8, zone="z9")
    assert round_of(rm, engine, 4_000) == [8] * 4
    rm.require(0, "zone=z0")
    rm.ask(0, 2, 1, (1, 1))
    engine = engine_with()
    rm.snapshot_next()
    assert round_of(rm, engine, 5_000) == [0]


def test_labels_may_change_while_asks_wait() -> None:
    rm = one(6, "zone=z1", partition="gpu")
    engine = engine_with()
    assert round_of(rm, engine) == [], "no node has the label"
    rm.nodes[1].partition = rm.nodes[2].partition = "gpu"
    assert round_of(rm, engine, 2_000) == [1] * 4, "of the nodes with the label one is in the zone"
    rm.nodes[1].partition = ""
    rm.ask(0, 1, 1, (1, 1))
    assert round_of(rm, engine, 3_000) == [5], "what waits needs the label; another ask does not"
    rm.nodes[5].partition = "gpu"
    assert round_of(rm, engine, 4_000) == [5] * 2


def test_further_asks_of_an_application_are_bound_as_its_first_until_it_says_otherwise() -> None:
    rm = one(1, "zone=z1")
    engine = engine_with()
    assert round_of(rm, engine) == [1]
    rm.ask(0, 1, 2, (1, 1))
    assert set(round_of(rm, engine, 2_000)) <= {1, 5}
    rm.ask(0, 2, 1, (1, 1))
    rm.constrain(0, 2, attribute("gpu", "yes"))
    assert round_of(rm, engine, 3_000) == [5], "the only node of the zone with a gpu"
    rm.require(0, "zone=z2")
    rm.ask(0, 3, 8, (1, 1))
    assert round_of(rm, engine, 4_000) == [], "both of its tags hold, and no node is in two zones"
    rm.snapshot_next()
    assert round_of(rm, engine, 5_000) == [2] * 4 + [6] * 4, "the other tag is gone"


def test_when_no_node_of_a_class_is_open_its_asks_cost_nothing_and_others_go_on() -> None:
    rm = one(4, "host=n5", nodes=8)
    for _ in range(40):
        rm.require(rm.application(LEAF), "host=n5")
        rm.ask(len(rm.applications) - 1, 0, 1, (1, 1))
    rm.job(28)
    engine = engine_with()
    assert round_of(rm, engine) == sorted([5] * 4 + [node for node in range(8) if node != 5] * 4)
    assert round_of(rm, engine, 2_000) == []
    rm.complete(next(at for at, held in enumerate(rm.containers) if held[1] == 5))
    assert round_of(rm, engine, 3_000) == [5], "a node of the class that opens again serves one of them"


def test_placement_constraints_hold_and_an_or_takes_any_child() -> None:
    rm = one(20)
    rm.constrain(0, 0, {"and": [{"or": [attribute("zone", "z1"), attribute("zone", "z2")]}, attribute("gpu", "yes")]})
    assert round_of(rm, engine_with()) == [5] * 4
    rm = one(20)
    rm.constrain(0, 0, {"and": [attribute("zone", "z0", "NE"), attribute("gpu", "yes", "NE")]})
    assert sorted(set(round_of(rm, engine_with()))) == [1, 2, 3, 6, 7]


def test_own_tags_are_counted_while_containers_are_placed() -> None:
    rm = one(20)
    rm.constrain(0, 0, {"and": [own("w", most=1)]}, "w")
    engine = engine_with()
    first = round_of(rm, engine)
    assert first == sorted([*range(8), *range(8)]), "2 on each: there may be one before"
    assert round_of(rm, engine, 2_000) == []


def test_own_tags_are_counted_by_rack_and_alternatives_count_each_by_itself() -> None:
    rm = one(20)
    rm.constrain(0, 0, {"and": [own("w", most=2, scope="rack")]}, "w")
    found = round_of(rm, engine_with())
    assert sum(node % 2 for node in found) == 3
    assert len(found) == 6
    rm = one(20)
    either = {"or": [{"and": [attribute("zone", "z1"), own("w", most=0)]}, {"and": [attribute("zone", "z2")]}]}
    rm.constrain(0, 0, either, "w")
    assert round_of(rm, engine_with()) == [1, 2, 2, 2, 2, 5, 6, 6, 6, 6]


def test_an_ask_that_wants_to_be_beside_others_goes_where_they_are() -> None:
    rm = one(1)
    rm.constrain(0, 0, attribute("zone", "z3"), "w")
    rm.ask(0, 1, 3, (1, 1), priority=1)
    rm.constrain(0, 1, {"and": [own("w", least=1)]}, "v")
    engine = engine_with()
    found = round_of(rm, engine)
    assert len(set(found)) == 1
    assert len(found) == 4


def test_a_node_reserved_for_an_ask_is_given_back_when_that_may_not_use_it_any_more() -> None:
    rm = cluster(2, (4, 4))
    first, second = rm.application(LEAF), rm.application(LEAF)
    rm.ask(first, 0, 2, (3, 3))
    engine = Engine(replace(settings_with(), engine_reservation=EngineReservation(nodes_max=2, nodes_fraction=1.0)))
    assert len(round_of(rm, engine)) == 2
    rm.require(first, "zone=z1")
    rm.ask(first, 1, 1, (4, 4))
    rm.ask(second, 0, 1, (1, 1))
    round_of(rm, engine, 2_000)
    assert list(engine._policy.holds._missing) == [1]
    rm.special(1, zone="z7")
    rm.ask(second, 1, 8, (1, 1))
    assert 1 in round_of(rm, engine, 3_000), "others may use it"


@pytest.mark.parametrize("fit", ["first_fit", "packing", "random_fit", "tetris"])
def test_the_engine_waits_for_nodes_that_its_asks_may_use(fit: str) -> None:
    engine = engine_with(fit=fit)
    assert round_of(one(20, "zone=z1"), engine) == [1] * 4 + [5] * 4
    assert engine.waits_for() == "nodes that asks may use"


def test_after_a_snapshot_without_requirements_the_engine_waits_for_no_nodes() -> None:
    engine = engine_with()
    round_of(one(20, "zone=z1"), engine)
    rm = cluster(2)
    rm.ask(rm.application(LEAF), 0, 1, (1, 1))
    assert len(round_of(rm, engine, 2_000)) == 1
    assert engine.waits_for() == ""


def test_an_ask_that_finds_no_node_of_its_own_does_not_stop_an_equal_one_of_others() -> None:
    rm = one(4, "zone=z1")
    rm.ask(rm.application(LEAF), 0, 4, (1, 1))
    for at, node in enumerate(rm.nodes):
        node.free = (4, 4) if at == 2 else (0, 0)
    assert round_of(rm, engine_with()) == [2] * 4


def test_no_node_is_reserved_that_the_ask_may_not_use() -> None:
    rm = cluster(8)
    rm.ask(rm.application(LEAF), 0, 1, (4, 4))
    rm.require(0, "zone=z1")
    rm.job(4)
    for at, node in enumerate(rm.nodes):
        node.free = (1, 1) if at % 4 == 1 else (3, 3)  # the others lack less
    engine = Engine(replace(settings_with(), engine_reservation=EngineReservation(nodes_max=4, nodes_fraction=1.0)))
    assert len(round_of(rm, engine)) == 4
    assert list(engine._policy.holds._missing) in ([1], [5])
    assert engine.waits_for() == "nodes that asks may use, a held node"


def test_asks_do_not_wait_for_named_nodes_that_they_may_not_use() -> None:
    rm = one(2, "zone=z1")
    rm.ask(0, 0, 2, (1, 1), places={"n0": (2, True), "/r0": (2, True)})
    rm.change(0)
    assert len(round_of(rm, engine_with())) == 2


def test_a_part_from_a_file_sees_which_nodes_an_ask_may_use() -> None:
    rm = one(4, "gpu=yes")
    engine = engine_with()
    engine.apply(rm.frame())
    engine.decide(1_000, 0, sequence=1)
    view = engine._policy.cluster_view(engine._cluster, 1_000, 0)  # type: ignore[arg-type]
    assert np.flatnonzero(view.eligible(0)).tolist() == [0, 5]
    assert len(view.eligible(0)) == 8


def test_more_classes_than_there_may_be_are_left_to_the_resource_manager_or_wait() -> None:
    rm = cluster(4, (100_000, 100_000))
    app = rm.application(LEAF)
    count = CLASSES_MAX + 200
    for key in range(count):
        rm.ask(app, key, 1, (1, 1))
        rm.constrain(app, key, {"and": [attribute(f"a{key}", "x", "NE"), attribute("zone", "z2")]})
    engine = engine_with()
    rm.turn(engine, limit=1)
    classes = engine._cluster.classes  # type: ignore[union-attr]
    assert len(classes.wanted) == CLASSES_MAX
    assert classes.left_out == {app}
    rm.ask(app, 0, 0, (1, 1))
    rm.require(app, "zone=z3")
    for key in range(1, count):
        rm.constraints.pop((app, key))
        rm.applications[app].asks.pop(key)
    rm.ask(app, count, 1, (1, 1))
    rm.turn(engine, 2_000, 10)
    assert [node for _, node, *_ in rm.containers] == [2, 3]


def patient() -> Engine:
    """Return an engine that proposes as much as there is room for."""
    return Engine(replace(settings_with(), limits=Limits(proposals_max=1_000_000)))


def test_very_many_constraints_are_read_some_at_a_time_and_nobody_waits_for_all() -> None:
    rm = cluster(4, (1_000_000, 1_000_000))
    hoarder, other = rm.application(LEAF), rm.application(LEAF)
    for key in range(3 * ROWS_AT_ONCE):
        rm.ask(hoarder, key, 1, (1, 1))
        rm.constrain(hoarder, key, attribute(f"a{key}", "x", "NE"))
    rm.ask(other, 0, 2, (1, 1))
    engine = patient()
    engine.apply(rm.frame())
    placed = engine.decide(1_000, 300_000, sequence=rm.sequence).application.tolist()
    assert placed.count(other) == 2
    assert placed.count(hoarder) == ROWS_AT_ONCE
    classes = engine._cluster.classes  # type: ignore[union-attr]
    assert classes.unmet(engine._cluster).applications == 0  # type: ignore[arg-type]
    placed = engine.decide(1_100, 300_000, sequence=rm.sequence).application.tolist()
    assert placed == [hoarder] * ROWS_AT_ONCE
    assert len(classes.wanted) <= CLASSES_MAX


def test_asks_that_wait_to_be_read_go_anywhere_once_they_have_no_constraint() -> None:
    rm = cluster(4, (1_000_000, 1_000_000))
    app = rm.application(LEAF)
    for key in range(ROWS_AT_ONCE + 1):
        rm.ask(app, key, 1, (1, 1))
        rm.constrain(app, key, attribute("zone", "z9"))
    engine = patient()
    engine.apply(rm.frame())
    assert len(engine.decide(1_000, 300_000, sequence=rm.sequence)) == 0
    for key in range(1, ROWS_AT_ONCE + 1):
        rm.constraints.pop((app, key))
    rm.change(app)
    engine.apply(rm.frame())
    assert len(engine.decide(1_100, 300_000, sequence=rm.sequence)) == ROWS_AT_ONCE - 1
    assert len(engine.decide(1_200, 300_000, sequence=rm.sequence)) == 1


CONSTRAINT = st.one_of(
    st.builds(attribute, st.sampled_from(["zone", "gpu"]), st.sampled_from(["z0", "z1", "z2", "yes"])),
    st.builds(attribute, st.sampled_from(["zone", "gpu"]), st.sampled_from(["z0", "z1", "yes"]), st.just("NE")),
    st.builds(own, st.just("w"), most=st.integers(0, 2), scope=st.sampled_from(["node", "rack"])),
)
TREE = st.recursive(
    CONSTRAINT,
    lambda child: st.builds(
        lambda kind, children: {kind: children},
        st.sampled_from(["and", "or"]),
        st.lists(child, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


def bound_cluster(trees: list[dict[str, Any]], requires: str, count: int = 3) -> ConstrainedRM:
    """Return a cluster with applications that have constraints, one with a requirement, and one with neither."""
    rm = cluster(9)
    for tree in trees:
        app = rm.job(count)
        rm.constrain(app, 0, tree, "w")
    bound = rm.application(LEAF)
    rm.require(bound, requires)
    rm.ask(bound, 0, 6, (1, 1))
    rm.job(4, (2, 2))
    return rm


REQUIRES = st.sampled_from(["zone=z1|z2", "gpu!=yes", "rack=/r1;zone!=z1", "vcores>=4", "host=n3"])


@settings(max_examples=40, deadline=None)
@given(parts=any_parts(), trees=st.lists(TREE, min_size=1, max_size=4), requires=REQUIRES)
def test_no_ask_that_the_engine_could_not_place_is_said_to_have_nodes_that_would_do(
    parts: dict[str, str], trees: list[dict[str, Any]], requires: str
) -> None:
    """An answer with room left has all that could be placed, so that something is against each ask that is left."""
    rm = bound_cluster(trees, requires, count=12)
    engine = engine_with(**parts)
    for at in range(3):
        round_of(rm, engine, 1_000 + 30_000 * at)
        engine.apply(rm.frame())
        explainer = Explainer(engine)
        for application in range(len(rm.applications)):
            for ask in explainer.explain(application).asks:
                said = [cause.text for cause in ask.causes if cause.why in (Why.NOT_REACHED, Why.NEARER_NODE)]
                assert not said, f"application {application}: {said}, nodes {ask.nodes}"


@settings(max_examples=20, deadline=None)
@given(
    parts=any_parts(),
    trees=st.lists(TREE, min_size=1, max_size=4),
    requires=REQUIRES,
    changed=st.lists(st.integers(0, 8), max_size=4),
)
def test_no_policy_places_on_a_node_that_will_not_do(
    parts: dict[str, str], trees: list[dict[str, Any]], requires: str, changed: list[int]
) -> None:
    """`FakeRM.commit` fails on each proposal that the words of the constraint forbid."""
    rm = bound_cluster(trees, requires)
    engine = engine_with(**parts)
    for at in range(4):
        rm.turn(engine, 1_000 + 30_000 * at, 7)
        for node in changed[at : at + 1]:
            rm.special(node, zone=f"z{at}")
        if at == 2:
            rm.snapshot_next()
