"""Which queue goes before that of an application, and why, by the share of the policy."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.sleepers import Sleepers, sharing

from treadle.config.settings import Settings, default_settings
from treadle.engine import Engine
from treadle.explain.application import explain_application
from treadle.explain.situation import Situation

TREE = {"prod:2": None, "research:1": {"gpu": None, "nlp": None}}


def explained(settings: Settings, late: dict[str, int]) -> str:
    """Fill a cluster with prod and gpu, let nlp ask late, end some tasks by leaf, and explain nlp's job."""
    cluster = Sleepers(TREE, nodes=1, cpu=24, gpu=8, settings=settings)
    cluster.join("gpu", 0, 4, tasks=1)
    cluster.begin({"prod": (1, 0)})
    cluster.join("nlp", 1, 0)
    for leaf, ends in late.items():
        for _ in range(ends):
            jobs = [application for application, *_ in cluster.rm.containers]
            cluster.end(jobs.index(cluster.jobs[leaf]))
    cluster.tick(limit=1)
    situation = Situation.of(cluster.engine)
    assert situation is not None
    found: dict[str, Any] = explain_application(situation, cluster.jobs["nlp"]).plain()
    return str(found["facts"]["turn"])


def test_a_leaf_far_below_its_aim_goes_before_all_others() -> None:
    text = explained(sharing("hdrf"), {"prod": 1})
    assert text.startswith("q4 goes before all other queues: it has 4.2% of the ")
    assert text.endswith("% that the share aims at")


def test_who_has_less_of_its_aim_goes_first() -> None:
    settings = sharing("hdrf")
    cluster = Sleepers(TREE, nodes=1, cpu=24, gpu=8, settings=settings)
    cluster.begin({"nlp": (1, 0)})
    cluster.join("prod", 1, 0)
    cluster.tick()
    situation = Situation.of(cluster.engine)
    assert situation is not None
    text = explain_application(situation, cluster.jobs["nlp"]).plain()["facts"]["turn"]
    assert text.startswith("q1 goes first: it has 0.0% of the ")
    assert "% that the share aims at, q4 100.0% of " in text


@pytest.mark.parametrize("settings", [sharing("hdrf", **{"as": "paper"}), default_settings()])
def test_a_group_that_counts_for_what_a_sibling_holds_goes_last(settings: Settings) -> None:
    counted = explained(settings, {"prod": 12})
    assert counted.startswith("q1 goes first: it counts as ")
    assert ", q2 as 50.0% of " in counted


def test_without_queues_nothing_is_said_of_them() -> None:
    assert explained(sharing("none"), {"prod": 1}) == ""
    assert Situation.of(Engine(sharing("none"))) is None
