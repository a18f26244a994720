"""`treadle bench claims`: the hostile masters that it measures are heard, and without any it measures nothing."""

from __future__ import annotations

import pytest
from tests.unit.test_plan_listener import KEY, ONE, Served

from treadle.am.protocol import Kind, Status
from treadle.errors import UserError
from treadle.lab.bench.claims_run import check_answered
from treadle.lab.bench.hostile import SMALL, ask, dag, report
from treadle.planner.graphene import warm_up


def test_what_a_hostile_master_says_is_taken() -> None:
    warm_up()
    served = Served()
    try:
        served.keys.give(ONE, 1, KEY)
        at = "127.0.0.2", served.listener.port
        assert ask(at, Kind.PLAN, ONE, KEY, dag(SMALL)) is Status.OK
        assert ask(at, Kind.REPORT, ONE, KEY, report(1)) is Status.OK
        assert ask(at, Kind.REPORT, ONE, bytes(32), report(1)) is None
    finally:
        served.listener.close()


def test_without_answers_nothing_was_measured() -> None:
    check_answered({"no answer": 7, "busy": 1})
    for requests in ({}, {"no answer": 7}, {"ok": 0}):
        with pytest.raises(UserError, match="nothing was measured"):
            check_answered(requests)
