"""Spark's event logs.

Adaptive execution submits a query as several jobs, each of which lists the previous stages again, with other IDs, and
skips them. Stages with an equal set of RDD IDs are identical; stages that never ran and equal none that did are
omitted.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from treadle.errors import UserError, install_extra
from treadle.files import Unpacker, UnpackError
from treadle.history.outcome import (
    BrokenHistoryError,
    Files,
    UnfinishedError,
    items,
    lines,
    mapping,
    number,
    tags_of,
    text,
)
from treadle.history.profile import DurationSketch, JobRun, Measured, SparkStage, StageRun, recurrence_key, stage_runs

FOLDER_PREFIX: Final = "eventlog_v2_"
PART_PREFIX: Final = "events_"
"""Prefixes of a rolled log's folder and of its files."""
CODECS: Final = ("zstd", "lz4", "lzf", "snappy")
"""Suffixes of compressed logs in Spark (``spark.eventLog.compression.codec``)."""

_PART_BYTES: Final = 1 << 10
"""Number of bytes read from a compressed file at a time."""

_PART = re.compile(rf"{PART_PREFIX}(?P<number>\d+)_.+?(?P<compact>\.compact)?(?:\.(?:{'|'.join(CODECS)}))?")


def _event_lines(path: Path, files: Files) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of an application's log in order, with their location.

    The last file may end anywhere: its application may still be running, or was killed.
    """
    parts = _parts(path) if path.is_dir() else [path]
    for part in parts:
        where = f"{part.name}, line" if path.is_dir() else "line"
        with files.open(part) as file:
            codec = codec_of(part.name.removesuffix(".inprogress").removesuffix(".compact"))
            if codec not in {"", "zstd"}:
                raise BrokenHistoryError(
                    f"compressed by {codec}; set spark.eventLog.compression.codec to zstd for new logs"
                )
            frames = _Frames(file) if codec else None
            for number, line in lines(io.BufferedReader(frames) if frames else file):
                yield f"{where} {number}", line
            if frames and frames.cut_off and part != parts[-1]:
                raise BrokenHistoryError(f"{part.name} is cut off")


def _parts(folder: Path) -> list[Path]:
    """Return the rolled files in order, from the last compacted one, which replaces the previous ones."""
    matches = ((part, _PART.fullmatch(part.name)) for part in folder.iterdir())
    parts = sorted((int(match["number"]), match["compact"] is not None, part) for part, match in matches if match)
    if not parts:
        raise BrokenHistoryError("no events_* files in the folder")
    start = max((number for number, compact, _ in parts if compact), default=0)
    chosen = [part for number, compact, part in parts if number > start or (number == start and compact)]
    numbers = [number for number, compact, _ in parts if number > start or (number == start and compact)]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))) or (start == 0 and numbers[0] != 1):
        raise BrokenHistoryError("some of the events_* files are missing")
    return chosen


def codec_of(name: str) -> str:
    """Return the codec that packed a log of this name; empty if none did."""
    codec = name.removesuffix(".inprogress").rpartition(".")[2]
    return codec if codec in CODECS else ""


class _Frames(io.RawIOBase):
    """The content of a stream of zstd frames. Spark flushes after important events, which may end a frame."""

    def __init__(self, stream: BinaryIO) -> None:
        try:
            self._unpacker = Unpacker()
        except ImportError:
            raise UserError(f"logs compressed by zstd need zstandard; {install_extra('history')}") from None
        self._stream = stream
        self._content = b""
        self._at = 0
        """Position in the content."""

    @property
    def cut_off(self) -> bool:
        """Return whether the stream ended within a frame."""
        return self._unpacker.in_frame

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._at == len(self._content):
            part = self._stream.read(_PART_BYTES)
            if not part:
                return 0
            try:
                self._content, self._at = self._unpacker.unpack(part), 0
            except UnpackError as error:
                raise BrokenHistoryError(f"{Path(self._stream.name).name}: {error}") from error
        count = min(len(buffer), len(self._content) - self._at)
        buffer[:count] = self._content[self._at : self._at + count]
        self._at += count
        return count


EXECUTORS = "executors"
"""Name of the stage of all executors, the only one that the live engine sees."""

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(b?)", re.IGNORECASE | re.ASCII)
_FRACTION = re.compile(r"\d{1,6}(?:\.\d{1,9})?", re.ASCII)
_MB = {"b": 1 / 1024 / 1024, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_OVERHEAD_LEAST_MB = 384
_OVERHEAD_SHARE = 0.1


@dataclass(slots=True, eq=False)
class _Stage(SparkStage):
    above: set[int] = field(default_factory=set)
    """IDs of the stages that provide its input."""
    done: set[int] = field(default_factory=set)
    """Tasks that have succeeded."""
    ran: bool = False


class Application:
    """State of one application after the events so far."""

    def __init__(self) -> None:
        self._facts: Mapping[str, Any] = {}
        self._properties: Mapping[str, Any] = {}
        self._stages: list[_Stage] = []
        self._by_id: dict[int, _Stage] = {}
        self._by_rdds: dict[frozenset[int], _Stage] = {}
        self._executors: dict[str, tuple[int, int]] = {}
        self._ended_ms: int | None = None
        self._exit_code = 0

    def take(self, event: Mapping[str, Any]) -> None:
        """Process one event; irrelevant kinds are ignored."""
        kind = text(event.get("Event"))
        if kind == "SparkListenerApplicationStart":
            self._facts = event
        elif kind == "SparkListenerEnvironmentUpdate":
            self._properties = mapping(event.get("Spark Properties"))
        elif kind == "SparkListenerJobStart":
            for info in items(event.get("Stage Infos")):
                self._list_stage(mapping(info))
        elif kind == "SparkListenerStageSubmitted":
            self._list_stage(mapping(event.get("Stage Info"))).ran = True
        elif kind == "SparkListenerTaskEnd":
            self._task_ended(event)
        elif kind == "SparkListenerExecutorAdded":
            self._executors[text(event.get("Executor ID"))] = (number(event.get("Timestamp")), -1)
        elif kind == "SparkListenerExecutorRemoved":
            executor = text(event.get("Executor ID"))
            if executor in self._executors:
                self._executors[executor] = (self._executors[executor][0], number(event.get("Timestamp")))
        elif kind == "SparkListenerApplicationEnd":
            self._ended_ms = number(event.get("Timestamp"))
            self._exit_code = number(event.get("ExitCode"))

    def run(self) -> JobRun:
        """Return the application as a run.

        Raises:
            BrokenHistoryError: no event names the application.
            UnfinishedError: it has not succeeded.
        """
        name = text(self._facts.get("App ID"))
        if not name:
            raise BrokenHistoryError("no event says which application it is of (SparkListenerApplicationStart)")
        if self._ended_ms is None:
            raise UnfinishedError(f"{name} has not ended")
        if self._exit_code:
            raise UnfinishedError(f"{name} ended with exit code {self._exit_code}")
        key = recurrence_key(
            text(self._facts.get("User")),
            text(self._properties.get("spark.yarn.queue")) or "default",
            "SPARK",
            text(self._facts.get("App Name")),
            tags_of(self._properties.get("spark.yarn.tags")),
        )
        ran = [stage for stage in self._stages if stage.ran]
        for stage in ran:
            parents = (self._by_id[parent].number for parent in sorted(stage.above) if parent in self._by_id)
            stage.parents = tuple(dict.fromkeys(parents))
        stages = (*self._executor_stage(self._ended_ms), *stage_runs(ran))
        return JobRun(key, name, number(self._facts.get("Timestamp")), self._ended_ms, stages)

    def _list_stage(self, info: Mapping[str, Any]) -> _Stage:
        """Return the stage of an entry in a list, a new one if none has its ID or its RDDs."""
        at = number(info.get("Stage ID"), -1)
        rdds = frozenset(number(mapping(rdd).get("RDD ID"), -1) for rdd in items(info.get("RDD Info")))
        stage = self._by_id.get(at) or (self._by_rdds.get(rdds) if rdds else None)
        if stage is None:
            stage = _Stage(len(self._stages), at, text(info.get("Stage Name")))
            self._stages.append(stage)
        stage.first_id = min(stage.first_id, at)
        self._by_id[at] = stage
        self._by_rdds.setdefault(rdds, stage)
        stage.tasks = max(stage.tasks, number(info.get("Number of Tasks")))
        stage.above.update(number(parent, -1) for parent in items(info.get("Parent IDs")))
        return stage

    def _task_ended(self, event: Mapping[str, Any]) -> None:
        stage = self._by_id.get(number(event.get("Stage ID"), -1))
        facts = mapping(event.get("Task Info"))
        at = number(facts.get("Index"), -1)
        if stage is None:
            return
        stage.speculative += facts.get("Speculative") is True
        reason = text(mapping(event.get("Task End Reason")).get("Reason"))
        # of two successful attempts (speculation, a lost executor) the first one counts
        if reason != "Success" or at in stage.done:
            stage.retried += reason != "TaskKilled"
            return
        stage.ran = True
        stage.done.add(at)
        stage.durations.add(number(facts.get("Finish Time")) - number(facts.get("Launch Time")))
        metrics = mapping(event.get("Task Metrics"))
        shuffle = mapping(metrics.get("Shuffle Read Metrics"))
        stage.input_bytes += (
            number(mapping(metrics.get("Input Metrics")).get("Bytes Read"))
            + number(shuffle.get("Remote Bytes Read"))
            + number(shuffle.get("Local Bytes Read"))
        )

    def _executor_stage(self, ended_ms: int) -> list[StageRun]:
        executors = [times for executor, times in self._executors.items() if executor != "driver"]
        if not executors:
            return []
        durations = DurationSketch((ended_ms if end_ms < 0 else end_ms) - start_ms for start_ms, end_ms in executors)
        return [StageRun(EXECUTORS, len(executors), durations, self._demand(), measured=Measured.CONTAINERS)]

    def _demand(self) -> dict[str, int]:
        """Return the resources requested from YARN: heap, overhead, off-heap and Python's, by Spark 4's defaults."""
        properties = self._properties
        heap_mb = _size_mb(properties.get("spark.executor.memory"), 1024)
        least_mb = _size_mb(properties.get("spark.executor.minMemoryOverhead"), _OVERHEAD_LEAST_MB)
        fraction = _FRACTION.fullmatch(text(properties.get("spark.executor.memoryOverheadFactor")).strip())
        share = float(fraction[0]) if fraction else _OVERHEAD_SHARE
        overhead_mb = max(least_mb, int(share * heap_mb))
        overhead_mb = _size_mb(properties.get("spark.executor.memoryOverhead"), overhead_mb)
        python_mb = _size_mb(properties.get("spark.executor.pyspark.memory"), 0)
        off_heap_mb = 0
        if text(properties.get("spark.memory.offHeap.enabled")).lower() == "true":
            off_heap_mb = _size_mb(properties.get("spark.memory.offHeap.size"), 0, unit="b")
        cores = number(properties.get("spark.executor.cores"), 1)
        return {"memory-mb": heap_mb + overhead_mb + python_mb + off_heap_mb, "vcores": cores}


def read_spark_log(path: Path, files: Files | None = None) -> JobRun:
    """Read an event log: a file, or a folder of rolled ones.

    Raises:
        BrokenHistoryError: it is invalid, or cut off.
        UnfinishedError: the application has not succeeded.
        OSError: it cannot be read.
    """
    application = Application()
    for where, line in _event_lines(path, files or Files()):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BrokenHistoryError(f"{where}: no event: {error}") from error
        application.take(mapping(event))
    return application.run()


def _size_mb(value: object, otherwise: int, unit: str = "m") -> int:
    """Return a size in MB; ``unit`` is a bare number's, ``otherwise`` the result for any other value."""
    match = _SIZE.fullmatch(text(value).strip())
    return int(int(match[1][:15]) * _MB[match[2].lower() or match[3].lower() or unit]) if match else otherwise
