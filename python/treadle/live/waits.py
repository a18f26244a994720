"""How long applications wait from an ask to the first attempt to place it, where there are several engines."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import numpy as np

from treadle.events import Applications, ApplicationState, Requests
from treadle.sidecar.reports import REPORT_INTERVAL_MS
from treadle.wire.frames import Frame

LATEST: Final = 10_000
"""Number of waits that are remembered."""


class Waits:
    """The waits of one engine's applications, by the ResourceManager's clock: as exact as frames come."""

    def __init__(self) -> None:
        self._asks: dict[int, dict[int, int]] = {}
        """Outstanding containers by application and request key."""
        self._since_ms: dict[int, int] = {}
        """Of applications that ask and were not tried since: when they began to."""
        self._waits_ms: deque[int] = deque(maxlen=LATEST)
        self._tried = 0
        self._told: Mapping[str, int] = {}
        self._told_ms = 0

    def take(self, frame: Frame) -> None:
        """Take notice of who asks for something, and asked for nothing before."""
        if frame.header.snapshot:
            # indices mean others now; who waits is found anew, so that a wait may be reported too short
            self._asks, self._since_ms = {}, {}
        now_ms = frame.header.rm_time_ms
        for event in frame.events:
            if isinstance(event, Applications):
                ended = (event.state == ApplicationState.GONE) | (event.state == ApplicationState.MOVED)
                for app in event.application[ended].tolist():
                    self._asks.pop(app, None)
                    self._since_ms.pop(app, None)
            elif isinstance(event, Requests):
                rows = zip(event.application.tolist(), event.key.tolist(), event.count.tolist(), strict=True)
                for app, key, count in rows:
                    self._ask(app, key, count, now_ms)

    def _ask(self, app: int, key: int, count: int, now_ms: int) -> None:
        asks = self._asks.setdefault(app, {})
        if count > 0:
            if not asks:
                self._since_ms[app] = now_ms
            asks[key] = count
        elif asks.pop(key, 0) and not asks:
            self._since_ms.pop(app, None)

    def attempted(self, now_ms: int) -> None:
        """Take notice of a decision about all that is asked for."""
        self._tried += len(self._since_ms)
        self._waits_ms.extend(max(now_ms - since_ms, 0) for since_ms in self._since_ms.values())
        self._since_ms = {}

    def figures(self, now_ms: int, more: Mapping[str, int]) -> Mapping[str, int]:
        """Return what is measured, with ``more``; the same again for a while."""
        if self._told and 0 <= now_ms - self._told_ms < REPORT_INTERVAL_MS:
            return self._told
        waits = np.array(self._waits_ms or [0])
        self._told_ms = now_ms
        self._told = {
            "attempts": self._tried,
            "wait_mean_ms": round(float(waits.mean())),
            "wait_p50_ms": round(float(np.percentile(waits, 50))),
            "wait_p99_ms": round(float(np.percentile(waits, 99))),
            **more,
        }
        return self._told
