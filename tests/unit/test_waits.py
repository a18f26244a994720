"""How long applications of one of several engines wait for a first attempt."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from treadle.events import Applications, ApplicationState, Event, Requests
from treadle.live.session import Waits
from treadle.sidecar.merge import REPORT_INTERVAL_MS
from treadle.wire.frames import Frame, FrameHeader


def event(kind: Any, **columns: int) -> Event:
    made: Event = kind(**{field.name: np.array([columns.get(field.name, 0)]) for field in fields(kind)})
    return made


def frame(at_ms: int, *events: Event) -> Frame:
    return Frame(FrameHeader(0, 1, 1, at_ms, 0, 10, 2), list(events))


def test_from_an_ask_to_the_decision_that_takes_it_up() -> None:
    waits = Waits()
    waits.take(frame(1000, event(Requests, application=3, key=1, count=2)))
    waits.take(frame(1500, event(Requests, application=3, key=2, count=1), event(Requests, application=4, count=1)))
    waits.take(frame(1600, event(Applications, application=4, state=int(ApplicationState.MOVED))))
    waits.attempted(3000)
    waits.attempted(9000)
    figures = waits.figures(9000, {"Retries": 7})
    assert figures == {"attempts": 1, "wait_mean_ms": 2000, "wait_p50_ms": 2000, "wait_p99_ms": 2000, "Retries": 7}
    assert waits.figures(9000 + REPORT_INTERVAL_MS - 1, {"Retries": 8}) is figures
    assert waits.figures(9000 + REPORT_INTERVAL_MS, {"Retries": 8})["Retries"] == 8


def test_who_asks_anew_waits_anew() -> None:
    waits = Waits()
    for at_ms, count in ((1000, 1), (1100, 0), (5000, 1)):
        waits.take(frame(at_ms, event(Requests, application=3, count=count)))
    waits.attempted(5001)
    assert waits.figures(6000, {})["wait_p99_ms"] == 1
