"""Each order serves the applications of a leaf as its definition says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engine.fake_rm import FakeRM, cluster
from tests.engine.parts import containers, engine_with, estimates, settings_with

from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.errors import ConfigError
from treadle.events import ContainerEvent, Event
from treadle.policy.catalogue import BUILTIN_PARTS

ENDED, STARTED = ContainerEvent.COMPLETED, ContainerEvent.ALLOCATED


def leaf_with(*asks: Any, size: int = 100, **queue: Any) -> FakeRM:
    """Return one leaf with an application for each (count, capability)."""
    rm = cluster((size, size), **queue)
    for count, capability in asks:
        rm.job(count, capability)
    return rm


def served(rm: FakeRM, engine: Engine, limit: int, *more: Event, now_ms: int = 1000) -> list[int]:
    """Return the applications served, in order."""
    found: list[int] = rm.turn(engine, now_ms, limit, more).application.tolist()
    return found


def test_fifo_serves_the_oldest_whatever_the_queue_is_configured_with() -> None:
    rm = leaf_with((3, (1, 1)), (3, (1, 1)), order="fair")
    assert served(rm, engine_with(order="fifo"), 4) == [0, 0, 0, 1]


def test_fair_serves_whoever_uses_least_whatever_the_queue_is_configured_with() -> None:
    rm = leaf_with((3, (2, 1)), (6, (1, 1)), order="fifo")
    assert sorted(served(rm, engine_with(order="fair"), 6)) == [0, 0, 1, 1, 1, 1]


def test_fair_by_size_gives_more_to_those_who_ask_for_more() -> None:
    rm = leaf_with((60, (1, 1)), (2, (1, 1)))
    equal = served(rm, engine_with(order="fair"), 4)
    rm = leaf_with((60, (1, 1)), (2, (1, 1)))
    sized = served(rm, engine_with(order=("fair", {"size_based_weight": True})), 4)
    assert (equal.count(1), sized.count(1)) == (2, 1)


def test_fair_by_size_weighs_by_memory_used_and_asked_for_as_yarn() -> None:
    """10 / log2(31) is more than 6 / log2(9), though 10 / log2(21) is less than 6 / log2(3)."""
    rm = leaf_with((10, (1, 1)), (6, (1, 1)))
    engine = engine_with(order=("fair", {"size_based_weight": True}))
    served(rm, engine, 16)
    rm.ask(0, 0, 20, (1, 1))
    rm.ask(1, 0, 2, (1, 1))
    assert served(rm, engine, 1) == [1]


def test_srpt_serves_the_least_sum_of_demands_when_nothing_is_known_of_durations() -> None:
    rm = leaf_with((4, (1, 1)), (1, (9, 3)), (2, (1, 3)))  # 8, 12 and 8 hundredths of the cluster
    assert served(rm, engine_with(order="srpt"), 10) == [0, 0, 0, 0, 2, 2, 1]


def test_srpt_serves_the_least_estimated_duration_times_demands() -> None:
    rm = leaf_with((4, (1, 1)), (1, (9, 3)), (2, (1, 3)))
    told = estimates((0, 0, 900, -1), (1, 0, 100, -1), (2, 0, 400, -1))
    assert served(rm, engine_with(order="srpt", estimate="hints"), 10, told) == [1, 2, 2, 0, 0, 0, 0]


def test_srpt_counts_the_tasks_left_of_hints_also_before_they_are_asked_for() -> None:
    rm = leaf_with((2, (1, 1)), (2, (1, 1)))
    told = estimates((0, 0, 100, 50), (1, 0, 100, 3))
    assert served(rm, engine_with(order="srpt", estimate="hints"), 2, told) == [1, 1]


def test_without_a_hint_the_default_holds() -> None:
    rm = leaf_with((1, (1, 1)), (1, (1, 1)))
    slow, fast = estimates((1, 0, 40_000, -1)), estimates((1, 0, 20_000, -1))
    told = ("hints", {"default_ms": 30_000})
    assert served(rm, engine_with(order="srpt", estimate=told), 1, slow) == [0]
    rm = leaf_with((1, (1, 1)), (1, (1, 1)))
    assert served(rm, engine_with(order="srpt", estimate=told), 1, fast) == [1]


@pytest.mark.parametrize(("told", "first"), [(-1, 1), (12, 0)])
def test_srpt_counts_the_rests_of_tasks_that_run(told: int, first: int) -> None:
    """Ten tasks of 100 ms run since 95 ms: 50 ms are left of them, of one of which two more are waiting."""
    rm = leaf_with((2, (1, 1)), (2, (1, 1)))
    running = containers(STARTED, *((0, 1 + at, 0, 905, 905) for at in range(10)))
    about = estimates((0, 0, 100, told), (1, 0, 110 if told < 0 else 130, -1))
    # 0: 2 x 100 + 10 x 5 = 250; told of 12: 12 x 100 - 10 x 95 = 250. 1: 2 x 110 = 220 or 2 x 130 = 260.
    assert served(rm, engine_with(order="srpt", estimate="hints"), 1, running, about) == [first]


@pytest.mark.parametrize(("units", "first"), [(1, 0), (3, 1)])
def test_a_resized_task_counts_with_what_it_has_now(units: int, first: int) -> None:
    """A task of 100 ms has run for 50 ms and another waits: 100 + 50 x units. The other application: 190."""
    rm = leaf_with((1, (1, 1)), (1, (1, 1)))
    life = (0, 1, 0, 950, 950)
    resized = replace(containers(ContainerEvent.RESIZED, life), capability=np.full((1, 2), units))
    about = estimates((0, 0, 100, -1), (1, 0, 190, -1))
    told = containers(STARTED, life), resized, about
    assert served(rm, engine_with(order="srpt", estimate="hints"), 1, *told) == [first]


def test_a_task_that_runs_longer_than_expected_is_about_to_end() -> None:
    rm = leaf_with((1, (1, 1)), (1, (1, 1)))
    late = containers(STARTED, (0, 1, 0, 0, 0))
    about = estimates((0, 0, 100, -1), (1, 0, 101, -1))
    assert served(rm, engine_with(order="srpt", estimate="hints"), 1, late, about, now_ms=9000) == [0]


def test_observed_durations_are_means_of_the_same_application_and_priority() -> None:
    rm = leaf_with((1, (1, 1)), (1, (1, 1)))
    slow = containers(ENDED, (0, 1, 0, 0, 300), (0, 2, 0, 100, 200))  # 300 and 100: 200 in the mean
    fast = containers(ENDED, (1, 1, 0, 0, 190))
    assert served(rm, engine_with(order="srpt", estimate="observed"), 1, slow, fast) == [1]


def test_of_another_priority_the_applications_mean_is_taken_then_the_default() -> None:
    rm = leaf_with((1, (1, 1)), (1, (1, 1)))
    other = containers(ENDED, (0, 1, 7, 0, 200))
    for default, first in ((190, 1), (210, 0)):
        observed = ("observed", {"default_ms": default})
        assert served(rm, engine_with(order="srpt", estimate=observed), 1, other) == [first]
        rm = leaf_with((1, (1, 1)), (1, (1, 1)))


def test_killed_tasks_say_nothing_of_durations() -> None:
    rm = leaf_with((1, (1, 1)), (1, (1, 1)))
    preempted = containers(ENDED, (1, 1, 0, 0, 1), exit_status=-102)
    ended = containers(ENDED, (0, 1, 0, 0, 29_000))
    assert served(rm, engine_with(order="srpt", estimate="observed"), 1, preempted, ended) == [0]


def test_las_serves_whoever_had_least_resource_time() -> None:
    rm = leaf_with((60, (1, 1)), (60, (1, 1)))
    engine = engine_with(order="las")
    assert served(rm, engine, 10, now_ms=0) == [0] * 10, "nobody had anything: the first"
    rm.complete(0)
    assert served(rm, engine, 20, now_ms=1000) == [1] * 20, "0 had ten containers for a second"
    rm.complete(0)
    # By 1,400: 0 had 10 s and 9 x 0.4 s, 1 had 20 x 0.4 s.
    assert served(rm, engine, 1, now_ms=1400) == [1]
    rm.complete(0)
    # By 3,000: 0 had 10 + 3.6 + 8 x 1.6 s = 26.4 s, 1 had 8 + 21 x 1.6 = 41.6 s.
    assert served(rm, engine, 1, now_ms=3000) == [0]


LEVELS: dict[str, Any] = {"levels": 3, "first_threshold_ms": 1000, "threshold_factor": 10.0, "weight_factor": 4.0}


def test_levels_share_by_weight_and_are_fifo_inside() -> None:
    """Levels 0 (applications 1 and 3), 1 (0), 2 (2) with weights 1, 1/4, 1/16: of 21 containers 16, 4 and 1."""
    rm = leaf_with(*[(100, (1, 1))] * 4)
    told = estimates((0, 0, 1, 10_000), (1, 0, 1, 1000), (2, 0, 1, 10_001), (3, 0, 1, 1))
    made = served(rm, engine_with(order=("mlfq", LEVELS), estimate="hints"), 21, told)
    assert [made.count(app) for app in range(4)] == [4, 16, 1, 0]


def test_a_level_without_asks_leaves_its_share_to_the_others() -> None:
    rm = leaf_with((10, (1, 1)), (2, (1, 1)))
    told = estimates((0, 0, 1, 10_000), (1, 0, 1, 1000))
    made = served(rm, engine_with(order=("mlfq", LEVELS), estimate="hints"), 100, told)
    assert [made.count(app) for app in range(2)] == [10, 2]


def test_by_attained_time_everybody_begins_at_the_top_and_sinks() -> None:
    rm = leaf_with((50, (1, 1)), (50, (1, 1)))
    engine = engine_with(order=("mlfq", LEVELS | {"size": "attained_service"}))
    assert served(rm, engine, 2, now_ms=0) == [0, 0]
    rm.complete(0)
    assert served(rm, engine, 1, now_ms=400) == [0], "2 x 400 ms: still in the first level"
    rm.complete(0)
    made = served(rm, engine, 6, now_ms=1000)
    assert made[:4] == [1, 1, 1, 1], "800 + 2 x 600 ms: one level down, where one container weighs as much as four"


# An order of ours compares application priority first where the queue's own ordering-policy does: fifo.

ORDERS: list[dict[str, Any]] = [
    *({"order": each.kind} for each in BUILTIN_PARTS if each.part == "order" and each.kind != "file"),
    {"order": "srpt", "fit": "tetris"},
    {"order": "srpt", "share": "hdrf"},
]


def leaf_with_late_priority(order: str) -> FakeRM:
    """Return one leaf: a large and a small application of priority 0, then a large and a small one of priority 5."""
    rm = cluster((100, 100), order=order)
    for priority, count in ((0, 6), (0, 2), (5, 6), (5, 2)):
        rm.job(count, priority=priority)
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
    rm = cluster((100, 100), leaves=2)
    rm.job(2, queue=1, priority=0)
    rm.job(6, queue=2, priority=5)
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
