"""On which node: locality and its delay, labels, blacklists, rejections, asks too big for any node's free space."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.fake_rm import LEAF, FakeRM, cluster, flat, nodes_of, placed
from tests.engine.parts import engine_with

from treadle.config.settings import EngineReservation, default_settings
from treadle.engine import Engine
from treadle.engine.testing import small_cluster
from treadle.events import Fate
from treadle.model.tables import ModelError
from treadle.policy.state import SCANNED


def racks(delay: str, **ask: Any) -> FakeRM:
    """Return two nodes on rack /a, two on /b, and an application that wants node n0 or its rack."""
    rm = FakeRM(settings={"node-locality-delay": delay, "rack-locality-additional-delay": "2"})
    for name, rack in (("n0", "/a"), ("n1", "/a"), ("n2", "/b"), ("n3", "/b")):
        rm.node(name, (4, 4), rack=rack)
    (leaf,) = flat(rm, 1, (16, 16))
    rm.ask(rm.application(leaf), 0, 2, (4, 4), places={"n0": (2, True), "/a": (2, True)}, **ask)
    return rm


def test_preferred_node_then_after_a_delay_its_rack_then_anywhere() -> None:
    rm = racks("2")
    rm.applications[0].asks[0].count = 3
    rm.applications[0].asks[0].places = {"n0": (3, True), "/a": (3, True)}
    engine = Engine(default_settings())
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == [0]
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == [1]  # four nodes with room were passed over
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == []  # the rack-local container began the count anew: three more
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == [2]


def test_one_decide_goes_from_node_to_rack_to_anywhere_without_a_delay() -> None:
    rm = racks("0")
    rm.settings["rack-locality-additional-delay"] = "0"
    rm.applications[0].asks[0] = replace(
        rm.applications[0].asks[0], capability=(2, 2), count=8, places={"n0": (8, True), "/a": (8, True)}
    )
    made = nodes_of(placed(rm, 10))
    assert made[:4] == [0, 0, 1, 1]
    assert sorted(made[4:]) == [2, 2, 3, 3]


def test_names_that_no_node_has_cost_one_search_and_not_one_for_each_container() -> None:
    rm = FakeRM(settings={"node-locality-delay": "0", "rack-locality-additional-delay": "0"})
    for number in range(200):
        rm.node(f"n{number}", (4, 4), rack="/a")
    (leaf,) = flat(rm, 1, (800, 800))
    names = {f"m{number}": (1, True) for number in range(100)}
    rm.ask(rm.application(leaf), 0, 100, (1, 1), places={**names, "/elsewhere": (100, True)})
    engine = Engine(default_settings())
    assert len(placed(rm, 100, engine)) == 100
    window = engine._policy.fit.window
    assert engine._policy.latest is not None
    assert engine._policy.latest.counters[SCANNED] <= 200 + 100 * window


def test_a_long_tick_brings_as_many_rack_local_containers_as_there_were_delays_in_it() -> None:
    rm = racks("1")
    rm.applications[0].asks[0] = replace(
        rm.applications[0].asks[0], capability=(1, 1), count=8, places={"n0": (8, True), "/a": (8, True)}
    )
    engine = Engine(default_settings())
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == [0, 0, 0, 0]
    assert nodes_of(placed(rm, 10, engine, now_ms=2000)) == [1, 1], "two delays of two in a round over four nodes"
    assert nodes_of(placed(rm, 10, engine, now_ms=2100)) == [1, 1], "three nodes with room were passed over"


def test_each_container_placed_meanwhile_is_an_opportunity_missed() -> None:
    rm = racks("2")
    other = rm.application(rm.applications[0].queue)
    rm.ask(other, 0, 2, (4, 4), places={"n2": (1, True), "n3": (1, True), "/b": (2, True)})
    engine = Engine(default_settings())
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == [0, 2, 3]
    assert nodes_of(placed(rm, 10, engine, now_ms=0)) == [1], "two more were placed: two more offers"


def test_without_relax_locality_nothing_goes_elsewhere() -> None:
    rm = racks("0", relax=False)
    rm.applications[0].asks[0].places["/a"] = (2, False)
    engine = Engine(default_settings())
    assert nodes_of(placed(rm, 10, engine)) == [0]
    assert nodes_of(placed(rm, 10, engine, now_ms=100_000)) == []


def test_idle_nodes_of_a_non_exclusive_label_are_lent_to_asks_without_one() -> None:
    rm = FakeRM(settings={"shared-partitions": "gpu"})
    rm.node("n0", (4, 4), partition="gpu")
    rm.node("n1", (4, 4), partition="fpga")
    rm.node("n2", (4, 4))
    (leaf,) = flat(rm, 1, (4, 4))
    app = rm.job(9, queue=leaf)
    rm.ask(app, 1, 1, (1, 1), partition="gpu")
    engine = Engine(default_settings())
    made = placed(rm, 20, engine)
    assert [node for _, key, node in made if key == 1] == [0]
    assert sorted(node for _, key, node in made if key == 0) == [0] * 3 + [2] * 4
    assert placed(rm, 20, engine) == []


def test_an_application_master_is_never_on_a_lent_node() -> None:
    rm = FakeRM(settings={"shared-partitions": "gpu"})
    rm.node("n0", (4, 4), partition="gpu")
    flat(rm, 1, (4, 4))
    rm.job(1, awaiting_am=True)
    assert placed(rm, 20) == []


def test_after_a_rejection_another_node_is_tried_and_later_the_first_again() -> None:
    rm = cluster((4, 4), (4, 4))
    rm.ask(rm.application(LEAF), 0, 1, (1, 1), constrained=True)
    engine = Engine(default_settings())
    tried = []
    for tick in range(12):
        tried += rm.turn(engine, tick * 10, 10, fate=Fate.CONSTRAINT).node.tolist()
    assert tried[:2] in ([0, 1], [1, 0])
    assert 2 < len(tried) < 8


def test_what_a_constraint_on_other_applications_forbade_is_tried_again_within_a_second() -> None:
    """YARN tries a node at each heartbeat; backoff in decides would be ten seconds at 10 ms each."""
    rm = cluster((4, 4), (4, 4))
    rm.ask(rm.application(LEAF), 0, 1, (1, 1), constrained=True)
    engine = Engine(default_settings())
    rejected_for_ms, gone_ms = 30_000, 0
    for now_ms in range(0, 2 * rejected_for_ms, 10):
        engine.apply(rm.frame())
        made = engine.decide(now_ms, 10, sequence=rm.sequence)
        gone_ms = now_ms - rejected_for_ms
        if len(made) and gone_ms >= 0:
            break
        rm.commit(made, lambda position: Fate.CONSTRAINT)
    assert gone_ms <= 1_000


def test_backoff_after_a_constraint_survives_a_snapshot_and_a_clock_that_steps_back() -> None:
    rm = cluster((4, 4))
    rm.ask(rm.application(LEAF), 0, 1, (1, 1), constrained=True)
    engine = Engine(default_settings())

    def tried(now_ms: int) -> int:
        return len(rm.turn(engine, now_ms, 10, fate=Fate.CONSTRAINT))

    for now_ms in range(100_000, 110_000, 10):
        tried(now_ms)
    made_at = next(now_ms for now_ms in range(110_000, 112_000, 10) if tried(now_ms))
    assert not tried(made_at + 10)
    rm.snapshot_next()
    assert not tried(made_at + 20)
    assert not tried(made_at + 900)
    assert tried(made_at + 1_010)
    assert tried(50_000), "it is not kept apart until the clock is back where it was"


def test_packing_prefers_the_node_whose_free_space_is_most_like_the_ask() -> None:
    rm = cluster((32, 2), (4, 16))
    app = rm.application(LEAF)
    rm.ask(app, 0, 1, (1, 2), priority=1)
    rm.ask(app, 1, 1, (4, 1), priority=2)
    assert nodes_of(placed(rm, 2)) == [1, 0]


def test_first_fit_fills_nodes_in_their_order() -> None:
    engine = engine_with(fit="first_fit")
    engine.apply(small_cluster(nodes=3, leaves=1, applications=2))
    assert engine.decide(0, 12, sequence=1).node.tolist() == [0] * 8 + [1] * 4


def big_and_small(hold: EngineReservation) -> tuple[FakeRM, Engine]:
    """Return two full nodes, an older application that wants a whole node and a younger one that takes every gap."""
    rm = cluster((4, 4), (4, 4))
    big, small = rm.application(LEAF), rm.application(LEAF)
    rm.ask(small, 0, 1000, (1, 1))
    engine = Engine(replace(default_settings(), engine_reservation=hold))
    placed(rm, 100, engine)
    rm.ask(big, 0, 1, (4, 4))
    return rm, engine


def ticks_until_big(rm: FakeRM, engine: Engine, most: int) -> int:
    """Let the oldest container end at each tick of a second; return when the big ask was placed, or ``most``."""
    for tick in range(most):
        rm.complete(0)
        if any(app == 0 for app, _, _ in placed(rm, 100, engine, now_ms=2000 + 1000 * tick)):
            return tick
    return most


def test_a_big_ask_gets_a_held_node_while_small_ones_go_around_it() -> None:
    rm, engine = big_and_small(EngineReservation(nodes_max=1, duration_ms=30_000))
    assert ticks_until_big(rm, engine, 30) < 20
    rm, engine = big_and_small(EngineReservation(nodes_max=0))
    assert ticks_until_big(rm, engine, 30) == 30


def test_a_hold_ends_with_its_time_and_small_asks_get_the_node() -> None:
    rm, engine = big_and_small(EngineReservation(nodes_max=1, duration_ms=5_000))
    rm.complete(0)
    assert len(placed(rm, 100, engine, now_ms=2000)) == 1  # passed over: now a node is held
    rm.complete(0)
    held = engine._policy.holds
    assert len(held) == 1
    rm.applications[0].asks[0].capability = (64, 64)  # too big for any node from now on
    engine.apply(rm.frame())
    engine.decide(7000, 100, sequence=rm.sequence)
    assert len(held) == 0


def test_proposals_without_a_fate_are_given_up_after_a_time() -> None:
    engine = Engine(default_settings())
    engine.apply(small_cluster())
    first = engine.decide(0, 1000, sequence=1)
    assert len(engine.decide(9_999, 1000, sequence=2)) == 0
    assert len(engine.decide(10_000, 1000, sequence=3)) == len(first)


def test_events_before_a_snapshot_are_refused() -> None:
    with pytest.raises(ModelError, match="snapshot"):
        Engine(default_settings()).apply(small_cluster()[3:])
