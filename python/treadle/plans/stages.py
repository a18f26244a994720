"""What drivers of Spark applications have reported of their stages, until the application is remembered."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from treadle.plans.keys import Attempt
from treadle.plans.protocol import Status
from treadle.plans.stage_report import read_stage, read_stage_report
from treadle.profiles.run import StageRun
from treadle.profiles.spark import stage_runs

BYTES_MAX: Final = 64 << 20
"""Of all reports that are kept; the application that was heard least recently is forgotten first."""

APPLICATIONS_MAX: Final = 10_000

_APPLICATION_BYTES: Final = 256
"""What an application takes beside its stages."""


@dataclass(eq=False)
class _Reported:
    attempt: int
    ended: bool = False
    stages: dict[int, bytes] = field(default_factory=dict)
    """As they came: this is how little space they take."""

    @property
    def size_bytes(self) -> int:
        return _APPLICATION_BYTES + sum(map(len, self.stages.values()))


class StageDesk:
    """Takes reports of stages, gives them to whoever remembers the application. For several threads."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._attempts: set[Attempt] = set()
        self._reported: OrderedDict[str, _Reported] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def meet(self, attempt: Attempt) -> None:
        """Take that an attempt of a Spark application runs."""
        with self._lock:
            self._attempts.add(attempt)

    def part(self, attempt: Attempt) -> None:
        """Take that an attempt has ended; what it reported is kept until somebody asks for it."""
        with self._lock:
            self._attempts.discard(attempt)

    def serve(self, attempt: Attempt, body: bytes) -> Status:
        """Take an authenticated report.

        Raises:
            MessageError: it is damaged.
        """
        report = read_stage_report(body)
        name = f"application_{attempt.cluster_timestamp}_{attempt.application:04d}"
        with self._lock:
            if attempt not in self._attempts:
                return Status.BUSY  # the ResourceManager has not told of it yet
            before = self._reported.get(name)
            if not report.from_the_start and (before is None or before.attempt != attempt.attempt):
                return Status.UNKNOWN
            self._forget(name)
            kept = _Reported(attempt.attempt) if report.from_the_start or before is None else before
            kept.stages |= report.stages
            kept.ended = kept.ended or report.ended
            self._reported[name] = kept
            self._bytes += kept.size_bytes
            while self._bytes > self._bytes_max or len(self._reported) > APPLICATIONS_MAX:
                self._forget(next(iter(self._reported)))
        return Status.OK

    def take(self, application: str) -> tuple[StageRun, ...]:
        """Return the stages of an application, by YARN's id, and forget them; none if it has not reported its end."""
        with self._lock:
            reported = self._reported.get(application)
            self._forget(application)
        if reported is None or not reported.ended:
            return ()
        return stage_runs(read_stage(content) for content in reported.stages.values())

    def _forget(self, application: str) -> None:
        gone = self._reported.pop(application, None)
        if gone is not None:
            self._bytes -= gone.size_bytes
