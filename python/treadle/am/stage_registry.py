"""What drivers of Spark applications have reported of their stages, until the application is remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from treadle.am.keeping import Bounds, Keeping
from treadle.am.keys import Attempt
from treadle.am.protocol import Status
from treadle.am.stage_report import read_stage, read_stage_report
from treadle.history.run import StageRun
from treadle.history.spark import stage_runs

BYTES: Final = Bounds(256 << 10, 8 << 20, 64 << 20)
"""Of an application's reports, of a user's, of all. Beyond, those of whoever has most are forgotten first."""

_STAGE_BYTES: Final = 200
"""What a stage takes beside its bytes."""


@dataclass(eq=False)
class _Reported:
    attempt: int
    ended: bool = False
    stages: dict[int, bytes] = field(default_factory=dict)
    """As they came: this is how little space they take."""

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.stages.values())) + _STAGE_BYTES * len(self.stages)


class StageDesk:
    """Takes reports of stages, gives them to whoever remembers the application. For several threads."""

    def __init__(self, bounds: Bounds = BYTES) -> None:
        self._attempts: dict[Attempt, str] = {}
        """Attempts that run, and their users."""
        self._reported: Keeping[str, _Reported] = Keeping(bounds)
        self._lock = Lock()

    def meet(self, attempt: Attempt, user: str) -> None:
        """Take that an attempt of a user's Spark application runs."""
        with self._lock:
            self._attempts[attempt] = user

    def part(self, attempt: Attempt) -> None:
        """Take that an attempt has ended; what it reported is kept until somebody asks for it."""
        with self._lock:
            self._attempts.pop(attempt, None)

    def serve(self, attempt: Attempt, body: bytes) -> Status:
        """Take an authenticated report; `REFUSED` if the application has reported too much.

        Raises:
            MessageError: it is damaged.
        """
        report = read_stage_report(body)
        name = application_of(attempt)
        with self._lock:
            user = self._attempts.get(attempt)
            if user is None:
                return Status.BUSY  # the ResourceManager has not told of it yet
            before = self._reported.get(name)
            if not report.from_the_start and (before is None or before.attempt != attempt.attempt):
                return Status.UNKNOWN
            kept = _Reported(attempt.attempt) if report.from_the_start or before is None else before
            kept.stages |= report.stages
            kept.ended = kept.ended or report.ended
            return Status.OK if self._reported.put(name, user, kept, kept.size_bytes) else Status.REFUSED

    def take(self, application: str) -> list[bytes]:
        """Return an application's stages as they came, by YARN's id, and forget them; none without its last report."""
        with self._lock:
            reported = self._reported.pop(application)
        return [] if reported is None or not reported.ended else list(reported.stages.values())


def application_of(attempt: Attempt) -> str:
    """Return YARN's id of an attempt's application."""
    return f"application_{attempt.cluster_timestamp}_{attempt.application:04d}"


def runs_of(stages: list[bytes]) -> tuple[StageRun, ...]:
    """Return stages, as they came, as those of a run.

    Raises:
        MessageError: one is damaged.
    """
    return stage_runs(read_stage(content) for content in stages)
