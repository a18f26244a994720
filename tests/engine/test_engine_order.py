"""Who is served first: shares of queues, orders of applications, priorities, AMs, limits."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from tests.engine.fake_rm import LEAF, FakeRM, assumed, cluster, placed

from treadle.config.reader import parse_settings
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.engine.testing import small_cluster
from treadle.events import ApplicationState


def applications(made: list[Any]) -> Counter[int]:
    return Counter(app for app, _, _ in made)


def test_a_queue_takes_what_the_other_leaves_up_to_its_maximum() -> None:
    rm = cluster((20, 20), leaves=2, maximum=(15, 15))
    rm.job(40)
    assert applications(placed(rm, 100)) == {0: 15}


def test_a_maximum_of_a_parent_binds_its_leaves() -> None:
    rm = FakeRM()
    rm.node("n0", (20, 20))
    root = rm.queue(-1, (20, 20))
    parent = rm.queue(root, (10, 10), maximum=(8, 8))
    for _ in range(2):
        rm.job(20, queue=rm.queue(parent, (5, 5)))
    assert applications(placed(rm, 100)) == {0: 4, 1: 4}


def owed_most(children: list[dict[str, Any]]) -> dict[str, Any]:
    """Return who of siblings comes first, by comparing all of them: exact, with what they use so far."""

    def place(queue: dict[str, Any]) -> tuple[bool, bool, int, Fraction, int, int]:
        ratio = Fraction(queue["used"], queue["guaranteed"] or 1024)  # of the cluster, where nothing is guaranteed
        return queue["guaranteed"] == 0, ratio >= 1, -queue["priority"], ratio, -queue["guaranteed"], queue["queue"]

    return min((child for child in children if child["asks"] > 0), key=place)


@pytest.mark.parametrize("seed", range(12))
def test_containers_go_to_the_queue_that_is_owed_most_at_each_level(seed: int) -> None:
    random = Random(seed)
    rm = FakeRM()
    rm.node("n0", (1024, 1024))
    root = rm.queue(-1, (1024, 1024))
    groups: list[dict[str, Any]] = []
    for _ in range(1 + seed % 5):
        amount = random.choice((0, 4, 8, 16))
        queue = rm.queue(root, (amount, amount), maximum=(1024, 1024))
        group: dict[str, Any] = {"queue": queue, "guaranteed": amount, "priority": 0}
        groups.append(group | {"used": 0, "asks": 0, "leaves": []})
        for _ in range(random.randint(1, 7)):
            amount, priority, asks = random.choice((0, 1, 2, 4)), random.choice((0, 0, 3)), random.randint(1, 6)
            queue = rm.queue(groups[-1]["queue"], (amount, amount), maximum=(1024, 1024), priority=priority)
            leaf: dict[str, Any] = {"queue": queue, "guaranteed": amount, "priority": priority, "used": 0, "asks": asks}
            leaf["application"] = rm.application(queue)
            rm.ask(leaf["application"], 0, asks, (1, 1))
            groups[-1]["leaves"].append(leaf)
            groups[-1]["asks"] += asks
    expected = []
    while any(group["asks"] for group in groups):
        group = owed_most(groups)
        leaf = owed_most(group["leaves"])
        for served in (group, leaf):
            served["used"] += 1
            served["asks"] -= 1
        expected.append(leaf["application"])
    assert [app for app, _, _ in placed(rm, 1000)] == expected


def test_fifo_serves_the_higher_priority_then_the_older_application() -> None:
    rm = cluster((10, 10))
    for priority in (0, 0, 7):
        rm.job(4, priority=priority)
    assert [app for app, _, _ in placed(rm, 10)] == [2] * 4 + [0] * 4 + [1] * 2


def test_fair_serves_the_application_that_uses_least_memory() -> None:
    rm = cluster((30, 30), order="fair")
    rm.job(20, (2, 1))
    rm.job(20)
    assert applications(placed(rm, 9)) == {0: 3, 1: 6}


def test_size_based_weight_favours_the_larger_application() -> None:
    rm = cluster((100, 100), order="fair", sized=1)
    rm.job(4000)
    rm.job(40)
    counts = applications(placed(rm, 40))
    assert counts[0] > counts[1] > 0


def test_an_unknown_ordering_policy_is_served_as_fifo_with_a_warning() -> None:
    rm = cluster((10, 10), order="org.example.Lottery")
    rm.job(1)
    engine = Engine(default_settings())
    assert len(placed(rm, 10, engine)) == 1
    assert any("org.example.Lottery" in warning and "fifo" in warning for warning in engine.warnings())


def test_lower_request_priority_numbers_come_first() -> None:
    rm = cluster((3, 3))
    app = rm.application(LEAF)
    rm.ask(app, 0, 2, (1, 1), priority=20)
    rm.ask(app, 1, 1, (1, 1), priority=10)
    rm.ask(app, 2, 1, (1, 1), priority=5)
    assert [key for _, key, _ in placed(rm, 3)] == [2, 1, 0]


def test_masters_come_first_one_for_each_and_waiting_applications_get_none() -> None:
    rm = cluster((20, 20))
    rm.job(20)
    rm.job(2, awaiting_am=True)
    rm.job(1, state=ApplicationState.WAITING)
    made = placed(rm, 10)
    assert made[0][0] == 1
    assert applications(made) == {1: 1, 0: 9}


def test_a_user_gets_at_most_one_container_over_the_limit() -> None:
    rm = cluster((20, 20))
    rm.user_limit["u"] = (5, 5)
    rm.job(10, (2, 1))
    rm.job(2, user="v")
    assert applications(placed(rm, 20)) == {0: 3, 1: 2}


def test_a_lone_user_of_a_leaf_over_its_guarantee_is_not_slowed_by_a_limit_that_follows_usage() -> None:
    rm = cluster((40, 40), leaves=2)
    rm.user_limit["u"] = (20, 20)
    rm.job(40)
    engine = Engine(default_settings())
    assert len(placed(rm, 40, engine)) == 21  # up to the limit as sent, and one
    rm.user_limit["u"] = (22, 22)  # what the RM says then: used and one more
    assert len(placed(rm, 40, engine)) == 19


# What the engine proposes on small clusters.


def test_nothing_is_proposed_twice() -> None:
    engine = Engine(default_settings())
    engine.apply(small_cluster(nodes=8, leaves=2, applications=4))
    assert len(engine.decide(1000, 1000, sequence=1)) == 32
    assert len(engine.decide(1010, 1000, sequence=2)) == 0
    assert assumed(engine) == 32


def test_warming_up_schedules_an_invented_cluster_and_leaves_the_engine_alone() -> None:
    engine = Engine(default_settings())
    assert engine.warm_up() > 32
    assert assumed(engine) == 0
    engine.apply(small_cluster())
    assert len(engine.decide(1000, 1000, sequence=1)) == 32


class WholePaths(FakeRM):
    """Calls queues by their paths, as the ResourceManager does."""

    def _queue_row(self, at: int) -> dict[str, Any]:
        return super()._queue_row(at) | {"path_name": f"root.q{at}" if at else "root"}


def test_a_selector_that_names_no_queue_is_a_warning_until_the_queue_is_there() -> None:
    text = "engines: {{a: {{select: {{queues: [{}]}}}}, b: {{}}}}"
    lost, there = (parse_settings("t.yaml", text.format(queue)) for queue in ("root.q9", "root.q1"))
    rm = WholePaths()
    root = rm.queue(-1, (8, 8))
    rm.queue(root, (8, 8))
    engine = Engine(default_settings())
    engine.configure(lost)
    engine.apply(rm.frame())
    text = "engines.a.select.queues: root.q9 is not a queue of the cluster; did you mean root.q1?"
    assert engine.warnings() == (text,)
    engine.configure(there)
    assert engine.warnings() == ()
    engine.configure(lost)
    for _ in range(8):
        rm.queue(root, (8, 8))
    rm.snapshot_next()
    engine.apply(rm.frame())
    assert engine.warnings() == ()
