"""What the driver of a Spark application reports of its stages, as bytes (docs/spark-plugin.md)."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from treadle.am.bodies import MessageError, Reader, read_whole
from treadle.am.protocol import TASKS_MAX
from treadle.history.profile import STAGES_MAX
from treadle.history.sketch import DurationSketch
from treadle.history.spark import SparkStage

PARENTS_MAX: Final = 1_000
BUCKETS_MAX: Final = 2_000

_HEAD: Final = Struct(">BB")
_COUNTS: Final = Struct(">qiiii")
_SUMS: Final = Struct(">qqqqQ")
_BUCKET: Final = Struct(">Hi")


class StageReport(NamedTuple):
    """The whole of what is known of each stage that has changed since the last report."""

    from_the_start: bool
    """What was reported before is to be forgotten."""
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
