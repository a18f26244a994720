"""What the loop writes down of each request is true, of any cluster and any parts, by the rules of a fake RM."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.engine.fake_rm import FakeRM
from tests.engine.parts import any_parts, engine_with
from tests.engine.test_engine_properties import clusters
from tests.support.optional import present

from treadle.events import NodeState
from treadle.policy.state import Reason, reasons

COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
DELAYS = [{"node-locality-delay": delay, "rack-locality-additional-delay": delay} for delay in ("0", "2", "40")]
ALL_AT_ONCE = 1000


def rooms(rm: FakeRM, app: int, key: int, *, empty: bool = False) -> list[int]:
    """Return the nodes of an ask's own partition with room for it, or with room were they empty."""
    ask = rm.applications[app].asks[key]
    return [
        at
        for at, node in enumerate(rm.nodes)
        if node.state == NodeState.USABLE and node.partition == ask.partition
        if all(
            a <= b
            for a, b, counts in zip(ask.capability, node.total if empty else node.free, rm.counted, strict=True)
            if counts
        )
    ]


def is_true(rm: FakeRM, app: int, key: int, why: Reason, decided: Any, of_application: set[Reason]) -> bool:
    """Say whether a reason holds of an ask that is left when all that was proposed has been committed."""
    ask = rm.applications[app].asks[key]
    own = [node for node, each in enumerate(rm.nodes) if each.partition == ask.partition]
    match why:
        case Reason.QUEUE_MAXIMUM | Reason.USER_LIMIT:
            return bool(rm._over_limit(rm.applications[app], ask))
        case Reason.GATE:
            return not decided["may"] or bool(decided["quota"] <= 0)
        case Reason.TOO_LARGE:
            return not rooms(rm, app, key, empty=True)
        case Reason.CONSTRAINT:
            return all(rm.why_not(app, key, node) for node in own)
        case Reason.FULL | Reason.SATURATED:
            return not rooms(rm, app, key)
        case Reason.NEARER_NODE:
            return bool(ask.places)  # others may have taken the node that would do since
        case Reason.AFTER_EARLIER_REQUEST:
            # a node that is lent may have served the one that waited
            return Reason.NEARER_NODE in of_application or bool(rm.settings["shared-partitions"])
    return False


@given(st.sampled_from(DELAYS).flatmap(clusters), any_parts())
@COMMON
def test_each_request_that_is_left_has_a_reason_and_that_is_true(rm: FakeRM, parts: dict[str, Any]) -> None:
    engine = engine_with(**parts)
    rm.turn(engine, 1000, ALL_AT_ONCE)
    cluster, scratch = present(engine.inside())
    view, decided = cluster.view(), present(scratch)
    said = reasons(view, decided)
    left = {
        (app, key): int(np.flatnonzero((view.rows["application"] == app) & (view.rows["key"] == key))[0])
        for app, application in enumerate(rm.applications)
        for key, ask in application.asks.items()
        if ask.count > 0 and ask.partition in rm.partitions()
    }
    for (app, key), row in left.items():
        why = Reason(int(said["why"][row]))
        beside = {Reason(int(said["why"][at])) for (other, _), at in left.items() if other == app}
        event(why.name)
        assert said["age"][row] == 0
        assert is_true(rm, app, key, why, decided.rows[row], beside), f"application {app} key {key}: {why.name}"


@given(clusters(), any_parts())
@COMMON
def test_what_a_full_answer_did_not_come_to_keeps_its_reason_and_says_how_old_it_is(
    rm: FakeRM, parts: dict[str, Any]
) -> None:
    engine = engine_with(**parts)
    engine.apply(rm.frame())
    engine.decide(1000, ALL_AT_ONCE, sequence=rm.sequence, assume=False)
    cluster, scratch = present(engine.inside())
    before = reasons(cluster.view(), present(scratch))
    for sequence in (2, 3):
        engine.decide(1000 * sequence, 0, sequence=sequence, assume=False)
    cluster, scratch = present(engine.inside())
    after = reasons(cluster.view(), present(scratch))
    assert (after["why"] == before["why"]).all()
    met = cluster.view().rows["met"] == 1
    assert (after["age"][met] == before["age"][met] + 2).all()
