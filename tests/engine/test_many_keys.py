"""What one application asks for costs time in proportion to it, never to its square.

The bounds on CPU time are many times what it takes, and a fraction of what it would take if it grew with the square.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest
from tests.engine.constrained_rm import LEAF, ConstrainedRM, attribute, cluster, own
from tests.engine.parts import containers, engine_with

from treadle import events
from treadle.engine import Engine
from treadle.engine.testing import StringTable, request, rows, small_cluster
from treadle.events import ContainerEvent, array_fields
from treadle.model.containers import GROUPS_MAX
from treadle.model.nodes import ROWS_AT_ONCE

KEYS = 150_000
LARGE = [16384, 8]


def keys(**columns: Any) -> events.Requests:
    """Return asks of application 0 with all keys; a column is a value or a list."""
    one = rows(events.Requests, StringTable(), [request(0, 0, 1, LARGE)])
    asked = {field.name: np.repeat(getattr(one, field.name), KEYS, axis=0) for field in array_fields(events.Requests)}
    for name, column in {"key": np.arange(1, KEYS + 1), **columns}.items():
        asked[name][:] = column
    return events.Requests(**asked)


def cpu_s(engine: Engine, *told: Any, sequence: int) -> float:
    """Return the CPU time that events and a decide take."""
    before = process_time()
    engine.apply(list(told))
    engine.decide(1_000 * sequence, 100, sequence=sequence)
    return process_time() - before


def small_engine() -> Engine:
    """Return an engine with a small cluster and all its kernels compiled."""
    engine = engine_with()
    engine.apply(small_cluster())
    engine.decide(1_000, 100, sequence=1)
    few = [request(0, key, 1, LARGE, priority=key) for key in (1, 2)]
    cpu_s(engine, rows(events.Requests, StringTable(), few), sequence=2)
    return engine


@pytest.mark.parametrize("step", [1, -1])
def test_request_keys_are_linked_moved_and_dropped_in_time_by_their_number(step: int) -> None:
    engine = small_engine()
    order = step * np.arange(KEYS)
    assert cpu_s(engine, keys(allocation_request_id=order), sequence=3) < 5
    assert cpu_s(engine, keys(allocation_request_id=-order), sequence=4) < 5
    assert cpu_s(engine, keys(count=0), sequence=5) < 5


def test_a_snapshot_finds_equal_asks_again_in_time_by_their_number() -> None:
    engine = small_engine()
    cpu_s(engine, keys(), sequence=3)
    other = keys(key=np.arange(KEYS) + 2 * KEYS)
    assert cpu_s(engine, *small_cluster(), other, sequence=4) < 5


def counting(many: int) -> ConstrainedRM:
    """Return an application with as many asks that count its containers, four times as many of which run."""
    rm = cluster(8)
    application = rm.application(LEAF)
    for key in range(many):
        rm.ask(application, key, 1, (5, 5))
        rm.constrain(application, key, own("w", most=1), "w")
        rm.lives += [(application, 0, node) for node in range(4)]
    return rm


def test_asks_that_count_their_containers_cost_time_by_their_number() -> None:
    cpu_s(engine_with(), *counting(2).frame(), sequence=1)
    assert cpu_s(engine_with(), *counting(4_000).frame(), sequence=1) < 5


def test_asks_whose_constraints_change_all_the_time_keep_no_other_waiting_for_good() -> None:
    rm: ConstrainedRM = cluster(4, (1_000_000, 1_000_000))
    busy, other = rm.application(LEAF), rm.application(LEAF)
    for key in range(2 * ROWS_AT_ONCE):
        rm.ask(busy, key, 1, (2_000_000, 1))
        rm.constrain(busy, key, attribute("a", "x", "NE"))
    engine = engine_with()
    engine.apply(rm.frame())
    engine.decide(1_000, 10, sequence=rm.sequence)
    rm.ask(other, 0, 1, (1, 1))
    rm.constrain(other, 0, attribute("a", "x", "NE"))
    placed = 0
    for round_ in range(4):
        rm.change(busy)
        placed += rm.turn(engine, 2_000 + 1_000 * round_, 10).application.tolist().count(other)
    assert placed == 1


def test_containers_that_each_have_a_priority_of_their_own_make_no_list_without_a_bound() -> None:
    engine = small_engine()
    count = 3 * GROUPS_MAX
    lives = [(0, 10 + at, at, 0, 1_000) for at in range(count)]
    engine.apply([containers(ContainerEvent.ALLOCATED, *lives)])
    engine.apply([containers(ContainerEvent.COMPLETED, *lives[: count // 2])])
    engine.decide(3_000, 100, sequence=3)
    assert engine._cluster is not None
    groups = engine._cluster.groups.at[: engine._cluster.groups.size]
    groups = groups[groups["application"] == 0]
    assert len(groups) == engine._cluster.apps.at["groups"][0] == GROUPS_MAX
    assert (groups["running"].sum(), groups["ended"].sum()) == (count // 2, count // 2)
