"""Decides of which nothing is committed (`observe_only`): proposals charge nobody, and change no later ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.fake_rm import LEAF, FakeRM, cluster, listed, none_assumed
from tests.engine.parts import any_parts, containers, settings_with
from tests.engine.test_engine_properties import NARROW, clusters

from treadle.config.settings import EngineReservation
from treadle.engine import Engine
from treadle.events import ContainerEvent

COMMON = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def crowded() -> FakeRM:
    """Return a cluster with room for 6 of the 30 containers that three queues ask for."""
    rm = cluster(*[(2, 2)] * 3, leaves=3)
    for leaf in (1, 2, 3):
        rm.job(10, queue=leaf)
    return rm


SHARES = [
    {"share": ("deficit", {"kappa": 0.05, "slots": True})},
    {"share": ("deficit", {"kappa": 0.0})},
    {"share": "none", "order": "las"},
    {"share": "drf", "order": "las", "fit": "packing"},
    {"fit": "random_fit"},
    {"fit": ("tetris", {"candidates": 4})},
]


@pytest.mark.parametrize("parts", SHARES)
def test_on_an_unchanged_cluster_the_same_is_proposed_over_and_over(parts: dict[str, Any]) -> None:
    rm = crowded()
    engine = Engine(settings_with(**parts))
    engine.apply(rm.frame())
    seen = [listed(engine.decide(1000 + at, 4, sequence=1 + at, assume=False)) for at in range(12)]
    assert len(seen[0]) == 4
    assert all(each == seen[0] for each in seen)


def test_service_is_what_was_used_and_not_what_was_proposed() -> None:
    """One application uses a node; the other has nothing but proposals that nobody commits."""
    rm = cluster((4, 4))
    uses, waits = rm.application(LEAF), rm.application(LEAF)
    rm.ask(uses, 0, 1, (2, 2))
    engine = Engine(settings_with(order="las"))
    engine.apply(rm.frame())
    rm.commit(engine.decide(1000, 1, sequence=1))
    rm.ask(waits, 0, 10, (1, 1))
    for at in range(2, 8):
        engine.apply(rm.frame())
        made = engine.decide(1000 * at, 10, sequence=at, assume=False)
        assert set(made.application.tolist()) == {waits}
    assert engine._cluster is not None
    assert engine._cluster.apps.at["service_ms"][[uses, waits]].tolist() == [3000.0, 0.0]


def test_no_node_is_held_where_nothing_is_placed() -> None:
    """Small asks are proposed where a big one has no room: as long as that is all, no node is kept for the big one."""
    rm = cluster(*[(4, 4)] * 2)
    big, small = rm.application(LEAF), rm.application(LEAF)
    rm.ask(small, 0, 2, (1, 1))
    engine = Engine(replace(settings_with(fit="first_fit"), engine_reservation=EngineReservation()))
    engine.apply(rm.frame())
    rm.commit(engine.decide(1000, 2, sequence=1))
    for node in range(2):
        rm.nodes[node].free = (3, 3)
    rm.ask(big, 0, 1, (4, 4))
    rm.ask(small, 0, 10, (1, 1))
    engine.apply(rm.frame())
    seen = [listed(engine.decide(2000, 6, sequence=2 + at, assume=False)) for at in range(4)]
    assert [len(each) for each in seen] == [6, 6, 6, 6]
    assert len(engine._policy.holds) == 0


@given(clusters(), st.one_of(any_parts(), any_parts(), st.sampled_from(NARROW)), st.integers(1, 4), st.integers(1, 20))
@COMMON
def test_after_any_number_of_decides_without_commits_the_first_with_one_is_as_without_them(
    rm: FakeRM, parts: dict[str, Any], observed: int, limit: int
) -> None:
    frame = rm.frame()
    step = containers(ContainerEvent.ALLOCATED, (0, 1, 0, 500, 500))
    watched, fresh = Engine(settings_with(**parts)), Engine(settings_with(**parts))
    for engine in (watched, fresh):
        engine.apply([*frame, step])
    for at in range(observed):
        watched.decide(1000, limit, sequence=at + 1, assume=False)
        assert none_assumed(watched)
    made = watched.decide(1000, limit, sequence=99)
    assert listed(made) == listed(fresh.decide(1000, limit, sequence=99))
    assert watched._cluster is not None
    assert np.all(watched._cluster.apps.at["service_ms"] == 0)
