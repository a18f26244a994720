"""Each fit puts containers where its definition says, and rows compete for nodes by Graphene's score."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.engine.fake_rm import FakeRM, cluster, flat, nodes_of, placed
from tests.engine.parts import engine_with, estimates, ranks, settings_with

from treadle.config.reader import parse_settings
from treadle.engine import Engine
from treadle.errors import ConfigError
from treadle.policy.loop import MAX_CANDIDATES_DEGRADED, SCAN_LIMIT
from treadle.policy.state import SCANNED


def asks(rm: FakeRM, *wanted: tuple[int, tuple[int, int]], **more: Any) -> FakeRM:
    """Add an application for each (count, capability)."""
    for count, capability in wanted:
        rm.ask(rm.application(1), 0, count, capability, **more)
    return rm


def applications(made: list[Any]) -> list[int]:
    return [app for app, _, _ in made]


def test_random_fit_draws_all_nodes_alike_and_the_same_for_the_same_seed() -> None:
    def once(seed: int) -> list[int]:
        settings = replace(settings_with(fit="random_fit"), seed=seed)
        return nodes_of(placed(asks(cluster(*[(1000, 1000)] * 4), (400, (1, 1))), 400, Engine(settings)))

    first = once(1)
    assert first == once(1)
    assert first != once(2)
    assert sorted(Counter(first)) == [0, 1, 2, 3]
    assert min(Counter(first).values()) > 70, "100 each on average, standard deviation 9"


def test_random_fit_finds_the_only_node_with_room() -> None:
    rm = asks(cluster(*[(1, 1)] * 50, (2, 2), *[(1, 1)] * 50), (1, (2, 2)))
    assert nodes_of(placed(rm, 10, engine_with(fit="random_fit"))) == [50]


def test_tetris_puts_on_a_node_what_is_most_like_its_free_space() -> None:
    rm = asks(cluster((16, 4)), (9, (1, 1)), (9, (4, 1)))
    made = applications(placed(rm, 9, engine_with(fit=("tetris", {"srpt_weight": 0.0}))))
    assert made == [1, 1, 1, 1], "4 x 16 + 1 x 4 against 1 x 16 + 1 x 4, then no core is left"


def test_tetris_bundles_tasks_on_a_node_until_none_of_the_candidates_fits() -> None:
    rm = asks(cluster((4, 4), (4, 4)), (2, (3, 3)), (2, (1, 1)))
    made = placed(rm, 10, engine_with(fit=("tetris", {"srpt_weight": 0.0})))
    assert nodes_of(made) in ([0, 0, 1, 1], [1, 1, 0, 0])
    assert applications(made) == [0, 1, 0, 1]


def test_candidates_are_bounded() -> None:
    rm = asks(cluster((16, 4)), (2, (1, 1)), (9, (4, 1)))
    made = applications(placed(rm, 9, engine_with(fit=("tetris", {"srpt_weight": 0.0, "candidates": 1}))))
    assert made == [0, 0, 1, 1], "with one candidate the order decides"


def test_with_no_bound_all_rows_of_the_leaf_compete() -> None:
    small = [(2, (1, 1))] * 20
    for candidates, first in ((16, 0), (0, 20)):
        rm = asks(cluster((1000, 1000)), *small, (3, (4, 4)))
        made = applications(placed(rm, 1, engine_with(fit=("tetris", {"srpt_weight": 0.0, "candidates": candidates}))))
        assert made == [first]


def two_leaves() -> FakeRM:
    """Return a node, and two leaves that have an application each: of small tasks, then of large ones."""
    rm = cluster((100, 100), leaves=2)
    rm.job(200)
    rm.job(200, (4, 4), queue=2)
    return rm


@pytest.mark.parametrize(
    ("share", "across", "made"),
    [
        (("deficit", {"kappa": 1.0}), True, [1, 1, 1, 1, 1]),
        (("deficit", {"kappa": 1.0}), False, [0, 0, 0, 0, 0]),
        ("none", True, [1, 1, 1, 1, 1]),
        ("none", False, [0, 0, 0, 0, 0]),
    ],
)
def test_rows_of_all_queues_compete_where_the_order_decides(share: Any, across: bool, made: list[int]) -> None:
    fit = ("tetris", {"srpt_weight": 0.0, "across_queues": across})
    assert applications(placed(two_leaves(), 5, engine_with(share=share, fit=fit))) == made


def test_across_queues_a_leaf_that_is_too_far_behind_is_served_alone() -> None:
    """A task counts 0.01 or 0.04 of the cluster, and kappa allows 0.05: both are served by turns of some tasks."""
    fit = ("tetris", {"srpt_weight": 0.0, "across_queues": True})
    rm = two_leaves()
    made = applications(placed(rm, 200, engine_with(share=("deficit", {"kappa": 0.05}), fit=fit)))
    used = made.count(0) * 1, made.count(1) * 4
    assert sum(used) == 100, "nothing is left idle"
    assert made[0] == 1
    assert abs(used[0] - used[1]) <= 2 * (5 + 4)


def test_the_work_left_weighs_against_packing() -> None:
    """Once the averages are known, the small job goes first though the large one's tasks pack better."""

    def after_one(weight: float) -> list[int]:
        rm = asks(cluster((1000, 1000)), (100, (2, 2)), (3, (1, 1)))
        engine = engine_with(fit=("tetris", {"srpt_weight": weight}), order="fifo", estimate="hints")
        return applications(placed(rm, 5, engine, more=[estimates((0, 0, 1000, -1), (1, 0, 10, -1))]))

    assert after_one(0.0) == [0, 0, 0, 0, 0]
    assert after_one(1.0) == [0, 1, 1, 1, 0]


def test_a_plans_rank_multiplies_the_packing_score_across_request_priorities() -> None:
    rm = cluster((100, 100))
    app = rm.application(1)
    rm.ask(app, 0, 3, (1, 1), priority=1)
    rm.ask(app, 1, 3, (1, 1), priority=2)
    engine = engine_with(fit="tetris")
    made = placed(rm, 4, engine, more=[ranks((app, 0, 0.2), (app, 1, 0.9))])
    assert [key for _, key, _ in made] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("parameters", "keys"), [({}, [0, 0, 1, 1]), ({"all_priorities": True}, [1, 1, 0, 0])], ids=["hold", "do not"]
)
def test_without_a_plan_request_priorities_hold_unless_all_are_to_compete(
    parameters: dict[str, Any], keys: list[int]
) -> None:
    rm = cluster((100, 100))
    app = rm.application(1)
    rm.ask(app, 0, 2, (1, 1), priority=1)
    rm.ask(app, 1, 2, (4, 4), priority=2)
    assert [key for _, key, _ in placed(rm, 4, engine_with(fit=("tetris", parameters)))] == keys


@pytest.mark.parametrize(("penalty", "node"), [(0.0, 1), (0.4, 1), (0.6, 0)])
def test_a_remote_node_must_be_better_by_more_than_the_penalty(penalty: float, node: int) -> None:
    rm = cluster((4, 4), (8, 8))
    asks(rm, (1, (1, 1)), places={"n0": (1, True), "/r": (1, True)})
    assert nodes_of(placed(rm, 1, engine_with(fit=("tetris", {"remote_penalty": penalty})))) == [node]


def overbooking(counted: tuple[int, int], factor: float = 2.0) -> tuple[Engine, FakeRM]:
    rm = FakeRM(counted=counted)
    rm.node("n0", (8, 4))
    flat(rm, 1, (1000, 1000))
    asks(rm, (100, (1, 1)))
    return engine_with(fit=("tetris", {"overbook": {"vcores": factor}})), rm


@pytest.mark.parametrize(("factor", "count"), [(0.5, 2), (1.0, 4), (1.5, 6), (100.0, 8)])
def test_what_the_rm_does_not_count_is_given_out_so_many_times(factor: float, count: int) -> None:
    engine, rm = overbooking((1, 0), factor)
    assert len(placed(rm, 100, engine)) == count
    assert len(placed(rm, 100, engine)) == 0
    assert engine.warnings() == ()


def test_a_single_ask_may_take_what_is_overbooked() -> None:
    rm = FakeRM(counted=(1, 0))
    rm.node("n0", (8, 8))
    flat(rm, 1, (1000, 1000))
    asks(rm, (1, (1, 17)), (1, (1, 12)))
    engine = engine_with(fit=("tetris", {"overbook": {"vcores": 2.0}}))
    assert applications(placed(rm, 10, engine)) == [1], "of 8 cores 16 may be given out"
    assert [app for app, _ in engine.diagnostics()] == [0]


def test_what_the_rm_counts_is_not_overbooked_and_a_warning_reports_it() -> None:
    engine, rm = overbooking((1, 1))
    assert len(placed(rm, 100, engine)) == 4
    assert engine.warnings() == ("vcores cannot be overbooked: the ResourceCalculator counts it",)


def test_a_resource_nobody_has_is_not_overbooked() -> None:
    engine = engine_with(fit=("tetris", {"overbook": {"disk": 2.0}}))
    assert len(placed(asks(cluster((4, 4)), (9, (1, 1))), 100, engine)) == 4
    assert engine.warnings() == ("disk cannot be overbooked: the cluster has no such resource",)


@pytest.mark.parametrize("overbook", ["{memory-mb: 2.0}", "{disk: 0.0}", "{disk: much}"])
def test_memory_and_impossible_factors_are_refused(overbook: str) -> None:
    text = f"policy:\n  fit:\n    kind: tetris\n    overbook: {overbook}\n"
    with pytest.raises(ConfigError, match=r":4: policy\.fit\.overbook"):
        parse_settings("treadle.yaml", text)


@pytest.mark.parametrize(("factor", "first"), [(1.0, 1), (100.0, 0)])
def test_the_work_left_counts_what_is_overbooked_as_a_share_of_what_may_be_given_out(factor: float, first: int) -> None:
    """Application 0 wants little memory and many cores, which the RM does not count; 1 the other way round."""
    rm = FakeRM(counted=(1, 0))
    rm.node("n0", (64, 64))
    flat(rm, 1, (1000, 1000))
    asks(rm, (4, (1, 8)), (4, (3, 1)))
    engine = engine_with(order="srpt", fit=("tetris", {"candidates": 1, "overbook": {"vcores": factor}}))
    assert applications(placed(rm, 1, engine)) == [first], "9 and 4 of 64 together, or 1.08 and 3.01"


def test_across_queues_as_many_rows_of_each_queue_compete() -> None:
    """One queue alone has as many requests as may compete: those of the other one do all the same."""
    rm = cluster((100, 100), leaves=2)
    for _ in range(3):
        rm.job(200)
    rm.job(200, (4, 4), queue=2)
    fit = ("tetris", {"srpt_weight": 0.0, "candidates": 2, "across_queues": True})
    assert applications(placed(rm, 3, engine_with(share="none", fit=fit))) == [3, 3, 3]


def test_a_decide_that_has_looked_at_much_goes_on_with_few_rows() -> None:
    """A large ask packs better than all others, but its queue comes last: in the end only the first queue competes."""
    rm = cluster((1 << 20, 1 << 20), leaves=2)
    for _ in range(3000):
        rm.job(1)
    rm.job(5000, (4, 4), queue=2)
    fit = ("tetris", {"srpt_weight": 0.0, "candidates": 0, "across_queues": True})
    engine = engine_with(share="none", fit=fit)
    made = applications(placed(rm, 4000, engine))
    assert made[0] == 3000
    assert 3000 not in made[1000:2000], "a thousand times 6,000 looks are more than there may be"
    assert engine._policy.latest is not None
    assert engine._policy.latest.counters[SCANNED] < SCAN_LIMIT + 4000 * 2 * (3000 + MAX_CANDIDATES_DEGRADED + 32)
