"""An order of ours compares application priority first where the queue's own ordering-policy does: fifo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.fake_rm import FakeRM, flat
from tests.engine.parts import settings_with
from tests.engine.test_orders import served

from treadle.config.errors import ConfigError
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.engine import Engine

ORDERS: list[dict[str, Any]] = [
    {"order": "fifo"},
    {"order": "srpt"},
    {"order": "las"},
    {"order": "fair"},
    {"order": "mlfq"},
    {"order": "srpt", "fit": "tetris"},
    {"order": "srpt", "share": "hdrf"},
]


def leaf_with_late_priority(order: str) -> FakeRM:
    """Return one leaf: a large and a small application of priority 0, then a large and a small one of priority 5."""
    rm = FakeRM()
    rm.node("n0", (100, 100))
    (leaf,) = flat(rm, 1, (100, 100), order=order)
    for priority, count in ((0, 6), (0, 2), (5, 6), (5, 2)):
        rm.ask(rm.application(leaf, priority=priority), 0, count, (1, 1))
    return rm


def ignoring(settings: Settings) -> Settings:
    return replace(settings, policy=replace(settings.policy, ignore_priority=True))


@pytest.mark.parametrize("parts", ORDERS, ids=lambda parts: "-".join(parts.values()))
def test_all_of_a_higher_priority_comes_before_the_rest(parts: dict[str, Any]) -> None:
    rm = leaf_with_late_priority("fifo")
    found = served(rm, Engine(settings_with(**parts)), 16)
    assert set(found[:8]) == {2, 3}
    assert set(found[8:]) == {0, 1}


@pytest.mark.parametrize("fit", ["first_fit", ("tetris", {"across_queues": True})])
def test_one_order_for_all_queues_compares_priority_first_too(fit: Any) -> None:
    rm = FakeRM()
    rm.node("n0", (100, 100))
    for leaf, priority, count in zip(flat(rm, 2, (50, 50)), (0, 5), (2, 6), strict=True):
        rm.ask(rm.application(leaf, priority=priority), 0, count, (1, 1))
    assert served(rm, Engine(settings_with(order="srpt", share="none", fit=fit)), 16) == [1] * 6 + [0] * 2


def test_within_a_priority_the_order_decides() -> None:
    rm = leaf_with_late_priority("fifo")
    assert served(rm, Engine(settings_with(order="srpt")), 16) == [3] * 2 + [2] * 6 + [1] * 2 + [0] * 6


@pytest.mark.parametrize("order", ["srpt", "las", "fair", "mlfq"])
def test_a_queue_with_yarns_fair_ordering_has_no_priorities(order: str) -> None:
    ignored, fair = leaf_with_late_priority("fifo"), leaf_with_late_priority("fair")
    settings = settings_with(order=order)
    assert served(fair, Engine(settings), 9) == served(ignored, Engine(ignoring(settings)), 9)


def test_a_policy_may_ignore_priorities() -> None:
    settings = ignoring(settings_with(order="srpt"))
    assert served(leaf_with_late_priority("fifo"), Engine(settings), 16) == [3, 3, 1, 1] + [2] * 6 + [0] * 6
    assert "ignore_priority" in settings.policy.name()


def test_the_key_is_read_and_checked() -> None:
    assert parse_settings("x", "policy: {order: {kind: srpt}, ignore_priority: true}\n").policy.ignore_priority
    for order in ("fifo", "queue"):
        with pytest.raises(ConfigError, match=rf"policy\.ignore_priority: has no effect: the order {order} compares"):
            parse_settings("x", f"policy: {{order: {{kind: {order}}}, ignore_priority: true}}\n")
    assert not parse_settings("x", "policy: {order: {kind: srpt}}\n").policy.ignore_priority
    with pytest.raises(ConfigError, match=r"policy\.ignore_priority: 'yes, please' is neither true nor false"):
        parse_settings("x", "policy: {ignore_priority: 'yes, please'}\n")
