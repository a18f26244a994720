"""Shares under trees and asks that make no sense, or are very many."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.engine.sleepers import Sleepers, Tree, sharing

from treadle import events
from treadle.config.errors import ConfigError
from treadle.config.reader import parse_settings
from treadle.config.settings import Limits
from treadle.engine.invented_cluster import rows

TWO: Tree = {"n1": {"n1.1": None}, "n2": {"n2.1": None, "n2.2": None, "n2.3": None}}
TREES = ["hdrf", "drf", "deficit"]


def flat(leaves: int) -> Tree:
    return {f"q{at}": None for at in range(leaves)}


def given(**weights: float) -> dict[str, Any]:
    """Return a given tree of FakeRM's queues."""
    return {queue: {"weight": weight} for queue, weight in weights.items()}


def test_a_leaf_whose_task_is_larger_than_the_cluster_is_blocked() -> None:
    cluster = Sleepers(TWO, nodes=5, cpu=2, gpu=2, settings=sharing("hdrf"))
    for leaf, (cpu, gpu) in {"n2.3": (0, 100), "n1.1": (1, 0), "n2.1": (1, 0), "n2.2": (0, 1)}.items():
        cluster.join(leaf, cpu, gpu)
    cluster.tick()
    cluster.churn(60)
    assert cluster.tasks() == {"n2.3": 0, "n1.1": 5, "n2.1": 5, "n2.2": 10}


@pytest.mark.parametrize("kind", [*TREES, "none"])
def test_a_resource_that_nobody_has_blocks_who_needs_it_and_nobody_else(kind: str) -> None:
    cluster = Sleepers(flat(2), nodes=2, cpu=3, gpu=0, settings=sharing(kind))
    cluster.begin({"q0": (1, 1), "q1": (1, 0)})
    assert cluster.tasks() == {"q0": 0, "q1": 6}


@pytest.mark.parametrize("kind", [*TREES, "none"])
def test_tasks_that_need_nothing_all_run_and_take_from_nobody(kind: str) -> None:
    cluster = Sleepers(flat(3), nodes=1, cpu=6, gpu=1, settings=sharing(kind))
    cluster.join("q0", 0, 0, 50)
    cluster.rm.applications[cluster.jobs["q0"]].asks[0].capability = (0, 0, 0, 0)
    cluster.join("q1", 1, 0, 3)
    cluster.join("q2", 1, 0)
    cluster.tick()
    assert cluster.tasks() == {"q0": 50, "q1": 3, "q2": 3}


@pytest.mark.parametrize("kind", ["hdrf", "drf"])
def test_weight_0_gets_what_the_others_leave_and_two_of_them_are_equals(kind: str) -> None:
    cluster = Sleepers(flat(4), 1, cpu=12, gpu=1, settings=sharing(kind, tree=given(q1=0, q2=0, q3=3, q4=1)))
    cluster.begin({"q0": (1, 0), "q1": (1, 0)})
    assert cluster.tasks() == {"q0": 6, "q1": 6}
    cluster.join("q2", 1, 0)
    cluster.join("q3", 1, 0)
    cluster.churn(150)
    assert cluster.tasks() == {"q0": 0, "q1": 0, "q2": 9, "q3": 3}


def test_queues_that_a_given_tree_does_not_name_come_last_and_are_reported() -> None:
    settings = sharing("hdrf", tree={"a": {"children": given(q1=1.0, q2=1.0)}, "b": {"queue": "root.gone"}})
    cluster = Sleepers(flat(3), 1, cpu=9, gpu=1, settings=settings)
    for leaf in ("q2", "q1", "q0"):
        cluster.join(leaf, 1, 0, 4)
    cluster.tick()
    assert cluster.tasks() == {"q2": 1, "q1": 4, "q0": 4}
    told = " ".join(cluster.engine.warnings())
    assert "root.gone, which is no leaf queue" in told
    assert "does not name queue q3" in told


def test_ten_levels() -> None:
    """At each level a leaf and the rest of the tree: a half, a quarter, and so on."""
    tree: Tree = {"last": None}
    for level in range(10, 0, -1):
        tree = {f"leaf{level}": None, f"group{level}": tree}
    cluster = Sleepers(tree, nodes=8, cpu=128, gpu=1, settings=sharing("hdrf", weights="equal"))
    for leaf in cluster.leaves:
        cluster.join(leaf, 1, 0)
    cluster.tick()
    expected = {f"leaf{level}": 1024 >> level for level in range(1, 11)} | {"last": 1}
    assert cluster.tasks() == expected
    cluster.churn(50)
    assert cluster.tasks() == expected


@pytest.mark.parametrize("kind", ["hdrf", pytest.param("deficit", marks=pytest.mark.slow)])
def test_ten_thousand_leaves(kind: str) -> None:
    settings = replace(sharing(kind, weights="equal"), limits=Limits(proposals_max=20_000))
    cluster = Sleepers(flat(10_000), nodes=20, cpu=1000, gpu=1, settings=settings)
    for leaf in cluster.leaves:
        cluster.join(leaf, 1, 0, 5)
    assert cluster.tick(limit=20_000) == 20_000
    spread = set(cluster.tasks().values())
    # The order decides until a leaf is a tenth of the cluster behind, which no leaf of this many ever is.
    assert spread == ({0, 5} if kind == "deficit" else {2})


def test_a_leaf_that_comes_and_goes_every_tick() -> None:
    cluster = Sleepers(TWO, nodes=5, cpu=2, gpu=2, settings=sharing("hdrf"))
    cluster.begin({"n1.1": (1, 0), "n2.1": (1, 0)})
    for round_ in range(30):
        cluster.join("n2.2", 0, 1)
        cluster.churn(1, seed=round_)
        assert cluster.tasks() == {"n1.1": 5, "n2.1": 5, "n2.2": 10}
        cluster.leave("n2.2")
        cluster.churn(1, seed=round_)
        assert cluster.tasks() == {"n1.1": 5, "n2.1": 5, "n2.2": 0}


def test_deficits_outlive_another_queue() -> None:
    cluster = Sleepers(flat(2), nodes=1, cpu=20, gpu=1, settings=sharing("deficit", kappa=1.0, slots=True))
    cluster.join("q0", 1, 0)
    cluster.join("q1", 1, 0)
    cluster.tick(limit=6)  # all to the older job
    rm = cluster.rm
    rm.queue(0, (1, 1, 1, 1))
    told = [rm._queue_row(at) for at in range(len(rm.queues))]
    event = rows(events.Queues, rm._texts, told)
    cluster.engine.apply([rm._texts.drain(), event])
    share = cluster.engine._policy._parts.share
    shares = share.shares(cluster.engine._cluster)  # type: ignore[arg-type]
    by_queue = dict(zip(shares.nodes["queue"].tolist(), shares.deficits[0].tolist(), strict=True))
    assert {queue: by_queue[queue] for queue in (1, 2, 3)} == {1: -3.0, 2: 3.0, 3: 0.0}
    assert np.count_nonzero(shares.deficits) == 2


@pytest.mark.parametrize(
    ("share", "said"),
    [
        ("{kind: hdrf, tree: {a: {weight: -1}}}", "policy.share.tree.a.weight: -1"),
        ("{kind: hdrf, tree: {a: {weight: .nan}}}", "policy.share.tree.a.weight: nan"),
        ("{kind: hdrf, tree: {a: {queue: x}, b: {queue: x}}}", "the queue x is in the tree twice"),
        ("{kind: drf, tree: {a: {queue: x, children: {b: {}}}}}", "leave out one of `queue` and `children`"),
        ("{kind: drf, weights: fair}", "policy.share.weights"),
        ("{kind: deficit, kappa: 2}", "policy.share.kappa: 2"),
        ("{kind: hdrf, tree: " + "{a: {children: " * 70 + "{b: {}}" + "}}" * 70 + "}", "make the tree flatter"),
    ],
)
def test_a_wrong_tree_is_an_error_that_names_the_field(share: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        parse_settings("t.yaml", f"policy: {{share: {share}}}")
