"""What is in a recording: segments, and in them ticks, each as a record and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from treadle import events
from treadle.config.settings import Settings, Source
from treadle.events import Event, PolicySwitch
from treadle.record.files import Record, RecordingError

BESIDE: Final[Mapping[str, type[Any]]] = {
    each.__name__: each
    for each in (
        events.TaskEstimates,
        events.TaskClaims,
        events.PlanRanks,
        events.StageInputs,
        events.TaskInputs,
        events.Samples,
    )
}
"""Events that come beside frames."""

Body = list[bytes | memoryview]

Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Micros = Annotated[int, Field(ge=0, lt=1 << 31)]


class _Source(BaseModel):
    file: str
    text: str
    part_files: list[tuple[str, Whole]]


class _Settings(BaseModel):
    source: _Source | None = None
    name: str = ""


class _Reading(_Settings):
    refusal: str
    bytes: Whole


class _Event(BaseModel):
    kind: str = Field(alias="is")
    columns: list[tuple[str, str, Whole]]


class _Tick(BaseModel):
    """The head of a tick's record: a file may have anything there."""

    frame: Whole
    answer: Whole
    us: Micros
    max: Whole | None
    asks: bool = False
    refused: bool = False
    known: str | None = None
    warnings: tuple[str, ...] | None = None
    switches: list[tuple[Whole, Whole, str, str]] = []
    reading: _Reading | None = None
    beside: list[_Event] = []


@dataclass(slots=True)
class Reading:
    """The outcome of reading treadle.yaml again, in the tick in which it was taken over or refused."""

    source: Source | None = None
    """None: the defaults are followed, or it was refused."""
    refusal: str = ""
    """Why it was refused."""
    name: str = ""
    """The policy's name; empty where it was refused, and in recordings of earlier releases."""


@dataclass(slots=True)
class Tick:
    """A frame, what entered beside it, and its answer."""

    frame: bytes
    """Without keys of attempts."""
    reply_max_bytes: int | None
    """No answer is longer, from this one on; None: as before."""
    answer: bytes = b""
    decide_us: int = 0
    asks_snapshot: bool = False
    """The answer asks for a snapshot, with which another segment begins."""
    refused: bool = False
    """Somebody else wants a snapshot, for which the frame was refused."""
    reading: Reading | None = None
    beside: list[Event] = field(default_factory=list)
    known: str | None = None
    """What is known beside frames, as the status says it; None: as in the tick before."""
    warnings: tuple[str, ...] | None = None
    """What others than the engine warn of, in the status; None: as in the tick before."""
    switches: list[PolicySwitch] = field(default_factory=list)
    """Parts from files that were stopped in this decision, or failed."""


@dataclass(slots=True)
class Segment:
    """How a segment begins."""

    number: int
    """Of this process, from 1."""
    engine: str
    """One of several engines; empty: the first or only one."""
    began: str
    """UTC, ISO 8601."""
    follows: bool
    """Does its first frame follow the last one of the segment before?"""
    dropped: int
    """Frames since the segment before that were answered and are in no recording."""
    why: str
    """Why it begins."""
    engine_hash: str
    schema_hash: str
    versions: Mapping[str, str]
    process: int = 0
    fresh: bool = False
    """Is its first frame the first one that the sidecar took, so that the engine had learned nothing before it?"""
    keys_for: Sequence[str] = ()
    """Types of the applications whose keys the frames should bring; the keys are in no recording."""


_SEGMENT: Final = TypeAdapter(Segment)


class Cost(NamedTuple):
    """CPU time, microseconds, since a process began to record; kept where a segment ends."""

    beside_us: int = 0
    """On the thread that decides."""
    writing_us: int = 0
    """On the writer's thread."""
    process_us: int = 0
    """Of the whole process."""

    @property
    def share(self) -> float | None:
        """What part of the process's CPU time recording was; None if that is not known."""
        return (self.beside_us + self.writing_us) / self.process_us if self.process_us else None


def end_head(why: str, cost: Cost) -> dict[str, Any]:
    """Return the head of the record with which a segment ends."""
    return {"kind": "end", "why": why, "cost_us": list(cost)}


def read_cost(record: Record) -> Cost:
    """Return what recording had cost when a segment ended; zeros if it does not say so."""
    costs = record.head.get("cost_us", ())
    return Cost(*costs) if len(costs) == len(Cost()) and all(isinstance(each, int) for each in costs) else Cost()


@dataclass(slots=True)
class SettingsText:
    """What settings a segment begins with were read from."""

    source: Source | None
    name: str
    """The policy's name."""


def segment_record(segment: Segment) -> dict[str, Any]:
    """Return the head of a segment's record."""
    return {"kind": "segment"} | {each.name: getattr(segment, each.name) for each in fields(Segment)}


def read_segment(record: Record) -> Segment:
    """Return how a segment begins; keys that this release does not know are left out.

    Raises:
        RecordingError: it does not say so.
    """
    known = {each.name for each in fields(Segment)}
    try:
        return _SEGMENT.validate_python({key: value for key, value in record.head.items() if key in known})
    except ValueError as error:
        raise RecordingError(f"a segment that does not say what it is: {_said(error)}") from error


def _said(error: Exception) -> str:
    """Return what is wrong with a record, in one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}"


def text_of(settings: Settings) -> SettingsText:
    """Return what settings were read from."""
    return SettingsText(settings.source, settings.policy.name())


def settings_record(settings: SettingsText) -> tuple[dict[str, Any], Body]:
    """Return a record of what settings were read from."""
    source, body = _written_source(settings.source)
    return {"kind": "settings", "name": settings.name, "source": source}, body


def read_settings_text(record: Record) -> SettingsText:
    """Return what settings were read from.

    Raises:
        RecordingError: it does not say so.
    """
    try:
        head = _Settings.model_validate(record.head)
    except ValueError as error:
        raise RecordingError(f"settings that cannot be read: {_said(error)}") from error
    return SettingsText(_read_source(head.source, record.body), head.name)


def _written_source(source: Source | None) -> tuple[Any, Body]:
    if source is None:
        return None, []
    contents = list(source.part_files.values())
    return {
        "file": source.file,
        "text": source.text,
        "part_files": [[path, len(content)] for path, content in source.part_files.items()],
    }, list(contents)


def _read_source(written: _Source | None, body: bytes) -> Source | None:
    if written is None:
        return None
    files, at = {}, 0
    for path, length in written.part_files:
        files[path] = body[at : at + length]
        at += length
    return Source(written.file, written.text, files)


def tick_record(tick: Tick) -> tuple[dict[str, Any], Body]:
    """Return the record of a tick; what is empty is left out of its head."""
    body: Body = [tick.frame, tick.answer]
    head: dict[str, Any] = {
        "kind": "tick",
        "frame": len(tick.frame),
        "answer": len(tick.answer),
        "us": tick.decide_us,
        "max": tick.reply_max_bytes,
    }
    if tick.asks_snapshot:
        head["asks"] = True
    if tick.refused:
        head["refused"] = True
    if tick.known is not None:
        head["known"] = tick.known
    if tick.warnings is not None:
        head["warnings"] = list(tick.warnings)
    if tick.switches:
        head["switches"] = [[each.sequence, each.call, each.policy, each.reason] for each in tick.switches]
    if tick.reading is not None:
        source, contents = _written_source(tick.reading.source)
        read = {"source": source, "refusal": tick.reading.refusal, "bytes": sum(map(len, contents))}
        head["reading"] = read | ({"name": tick.reading.name} if tick.reading.name else {})
        body += contents
    if tick.beside:
        head["beside"] = [_written_event(event, body) for event in tick.beside]
    return head, body


def read_tick(record: Record) -> Tick:
    """Return a tick.

    Raises:
        RecordingError: it is none.
    """
    body = record.body
    try:
        head = _Tick.model_validate(record.head)
        at = head.frame + head.answer
        tick = Tick(
            frame=body[: head.frame],
            reply_max_bytes=head.max,
            answer=body[head.frame : at],
            decide_us=head.us,
            asks_snapshot=head.asks,
            refused=head.refused,
            known=head.known,
            warnings=head.warnings,
            switches=[PolicySwitch(*each) for each in head.switches],
        )
        if head.reading is not None:
            reading, end = head.reading, at + head.reading.bytes
            tick.reading = Reading(_read_source(reading.source, body[at:end]), reading.refusal, reading.name)
            at = end
        for written in head.beside:
            event, at = _read_event(written, body, at)
            tick.beside.append(event)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RecordingError(f"a tick that cannot be read: {_said(error)}") from error
    return tick


def _written_event(event: Event, body: Body) -> dict[str, Any]:
    """Return the head of an event beside frames; its columns go to the end of the body."""
    name = type(event).__name__
    if name not in BESIDE:
        raise RecordingError(f"{name} is no event beside frames")
    columns = []
    for each in fields(event):
        column = np.ascontiguousarray(getattr(event, each.name))
        columns.append([each.name, column.dtype.str, len(column)])
        body.append(column.tobytes())
    return {"is": name, "columns": columns}


def _read_event(written: _Event, body: bytes, at: int) -> tuple[Event, int]:
    """Return an event and where its columns end; a column that this release does not know is left out."""
    kind = BESIDE[written.kind]
    known = {each.name for each in fields(kind)}
    columns: dict[str, Any] = {}
    rows = 0
    for name, dtype, rows in written.columns:
        column = np.frombuffer(body, dtype, rows, at)
        at += column.nbytes
        if name in known:
            columns[name] = column
    event: Event = events.filled(kind, rows, **columns)
    return event, at
