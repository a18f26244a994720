"""What drivers of Spark applications report of their stages, until the application is remembered."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from threading import Lock
from typing import Final, NamedTuple

from treadle.am.bodies import MessageError, Reader, read_whole
from treadle.am.keeping import Bounds, Keeping
from treadle.am.keys import Attempt
from treadle.am.protocol import TASKS_MAX, Status
from treadle.history.profile import STAGES_MAX
from treadle.history.run import SparkStage, StageRun, stage_runs
from treadle.history.sketch import DurationSketch

PARENTS_MAX: Final = 1_000
BUCKETS_MAX: Final = 2_000

_HEAD: Final = Struct(">BB")
_COUNTS: Final = Struct(">qiiii")
_SUMS: Final = Struct(">qqqqQ")
_BUCKET: Final = Struct(">Hi")


class StageReport(NamedTuple):
    """The whole of what is known of each stage that has changed since the last report."""

    from_the_start: bool
    """Earlier reports are void."""
    ended: bool
    """The application has ended; nothing follows."""
    stages: dict[int, bytes]
    """By number, each as `read_stage` takes it."""


def read_stage_report(body: bytes) -> StageReport:
    """Return what the body of a report says.

    Raises:
        MessageError: it is none, or of a stage that cannot be.
    """
    return read_whole(body, _report)


def read_stage(content: bytes) -> SparkStage:
    """Return a stage of a report.

    Raises:
        MessageError: it is none.
    """
    return read_whole(content, _stage)


def _report(reader: Reader) -> StageReport:
    from_the_start, ended = reader.take(_HEAD)
    stages = {}
    for _ in range(reader.count(STAGES_MAX)):
        start = reader.at
        stage = _stage(reader)
        stages[stage.number] = reader.body[start : reader.at]
    return StageReport(bool(from_the_start), bool(ended), stages)


def _stage(reader: Reader) -> SparkStage:
    number, first_id, name, tasks = reader.number(), reader.number(), reader.text(), reader.number()
    if not 0 <= number < STAGES_MAX or not 0 <= tasks <= TASKS_MAX:
        raise MessageError(f"stage {number} of {tasks} tasks")
    parents = tuple(reader.number() for _ in range(reader.count(PARENTS_MAX)))
    input_bytes, *attempts = reader.take(_COUNTS)
    if min(input_bytes, *attempts) < 0:
        raise MessageError("a count below 0")
    failed, _killed, repeated, speculative = attempts
    durations = _durations(reader)
    return SparkStage(number, first_id, name, tasks, parents, durations, input_bytes, failed + repeated, speculative)


def _durations(reader: Reader) -> DurationSketch:
    buckets = reader.count(BUCKETS_MAX)
    if not buckets:
        return DurationSketch()
    low, high, total, above, below = reader.take(_SUMS)
    counts = (reader.take(_BUCKET) for _ in range(buckets))
    document = {
        "buckets": {str(bucket): count for bucket, count in counts},
        "min": low,
        "max": high,
        "sum": total,
        "squares": above << 64 | below,
    }
    return DurationSketch.from_json(document)


BYTES: Final = Bounds(256 << 10, 8 << 20, 64 << 20)
"""Of an application's reports, of a user's, of all. Beyond, those of the user that has most are dropped first."""

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


class StageRegistry:
    """Takes reports of stages, gives them to the recorder of the application. For several threads."""

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
                return Status.BUSY  # no frame has reported it yet
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
