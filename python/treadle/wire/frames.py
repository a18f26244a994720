"""Frames: their sections' columns, derived from the events' annotations, and conversion to events and back.

The columns of a section are contiguous, so all offsets are a constant times the number of rows: a plan holds these
constants, and the decoder only multiplies. Adjacent columns with the same bounds are checked as one run of values.

A decoder belongs to one connection and keeps all texts since the last snapshot, because each is sent only once. It is
strict: anything that docs/wire-format.md does not define raises `WireError`. After an error it accepts only a snapshot,
which the engine requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from enum import IntFlag
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.events import INDEX_MAX, NAMES, WIRE_VERSION, Column, Fate


class WireError(ValueError):
    """Invalid bytes according to docs/wire-format.md; ``field`` names the wrong part."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class TooManyError(WireError):
    """Too many items between two snapshots. If the snapshot itself has too many, another one does not help."""


class VersionError(WireError):
    """The peer uses another version of the wire; a snapshot does not help."""


class FrameFlag(IntFlag):
    """Flags in the header of a frame."""

    SNAPSHOT = 1
    MORE = 2
    OBSERVE = 4


class ProposalFlag(IntFlag):
    """Flags in the header of a proposal frame."""

    RESEND = 1
    AGAIN = 2
    TRANSACTIONS = 4
    UNSERVED = 8
    HELD = 16


class SectionColumn(NamedTuple):
    """A column of a section: its name, the field of the event that has it, its type and its bounds.

    A field that is several columns (a mapping) is named by each of them.
    """

    name: str
    field: str
    column: Column

    @property
    def type(self) -> str:
        """The type on the wire."""
        return self.column.type


class SectionSchema(NamedTuple):
    """A kind of section: its number on the wire, its event, and its columns in order."""

    name: str
    kind: int
    event: type[events.Event]
    columns: tuple[SectionColumn, ...]
    whole: bool
    """Whether it is never split over two frames."""


def _columns(event: type[Any]) -> Iterator[SectionColumn]:
    hints = get_type_hints(event, include_extras=True)
    for field in fields(event):
        columns = getattr(hints[field.name], "__metadata__", ())
        for column in columns:
            name = field.name.removesuffix("_name") if column.type == "name" else field.name
            yield SectionColumn(column.name or name, field.name if len(columns) == 1 else column.name, column)


def _sections() -> Iterator[SectionSchema]:
    for event in get_args(events.Event):
        section = getattr(event, "SECTION", None)
        if section is not None:
            yield SectionSchema(section.name, section.kind, event, tuple(_columns(event)), section.whole)


SECTIONS: Final[dict[str, SectionSchema]] = {
    section.name: section for section in sorted(_sections(), key=lambda section: section.kind)
}
"""The sections of a frame by name, in the order of their kinds, from the annotations of the events' fields."""

_DTYPES: Final[dict[str, np.dtype[np.generic]]] = {
    "u8": np.dtype(np.uint8),
    "i32": np.dtype("<i4"),
    "name": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "R*i64": np.dtype("<i8"),
}


class ColumnPlan(NamedTuple):
    """Position of a column: ``start`` times the number of rows is the offset of its first byte within the columns."""

    name: str
    field: str
    start: int
    dtype: np.dtype[np.generic]
    resources: int
    """R for a column of type ``R*i64``, else 0."""


class CheckPlan(NamedTuple):
    """Adjacent columns whose values have the same bounds, both inclusive."""

    columns: tuple[str, ...]
    start: int
    dtype: np.dtype[np.generic]
    low: int
    high: int
    """The highest value allowed; `NAMES` stands for the index of the last text."""
    is_index: bool
    """Whether the values are indices assigned by the shim."""


class SectionPlan(NamedTuple):
    """The layout of a section in a frame with R resource types, and the event it decodes to."""

    name: str
    kind: int
    event: type[Any]
    row_bytes: int
    columns: tuple[ColumnPlan, ...]
    checks: tuple[CheckPlan, ...]


def _plan(section: SectionSchema, resources: int) -> SectionPlan:
    columns: list[ColumnPlan] = []
    checks: list[CheckPlan] = []
    start = 0
    end_of_last_check = -1
    for name, field, column in section.columns:
        dtype = _DTYPES[column.type]
        width = resources if column.type == "R*i64" else 0
        columns.append(ColumnPlan(name, field, start, dtype, width))
        end = start + dtype.itemsize * max(width, 1)
        if column.low is not None and column.high is not None:
            check = CheckPlan((name,), start, dtype, column.low, column.high, column.is_index)
            last = checks[-1] if checks else None
            if last is not None and end_of_last_check == start and last[2:] == check[2:]:
                checks[-1] = last._replace(columns=(*last.columns, name))
            else:
                checks.append(check)
            end_of_last_check = end
        start = end
    return SectionPlan(section.name, section.kind, section.event, start, tuple(columns), tuple(checks))


@cache
def plans(resources: int) -> dict[int, SectionPlan]:
    """Return the plan of each kind of section except ``STRINGS``, for a number of resource types."""
    return {section.kind: _plan(section, resources) for name, section in SECTIONS.items() if name != "STRINGS"}


def views(frame: bytes, plan: SectionPlan, offset: int, rows: int) -> dict[str, Any]:
    """Return the columns of a section at ``offset`` by the fields of its event, as views of the frame."""
    columns: dict[str, Any] = {}
    shape = (rows,)
    for _, field, start, dtype, resources in plan.columns:
        at = offset + start * rows
        if resources == 0:
            columns[field] = np.ndarray(shape, dtype, frame, at)
        else:
            # The amounts of a resource type are contiguous: transpose (rows, R) without a copy.
            columns[field] = np.ndarray((rows, resources), dtype, frame, at, (8, 8 * rows))
    return columns


def out_of_bounds(frame: bytes, check: CheckPlan, offset: int, rows: int, names: int) -> tuple[str, int] | None:
    """Return the first column of a check with a value outside its bounds, and such a value; None if all are within."""
    at = offset + check.start * rows
    values: npt.NDArray[np.integer] = np.ndarray((rows * len(check.columns),), check.dtype, frame, at)
    high = names - 1 if check.high == NAMES else check.high
    least, greatest = int(np.minimum.reduce(values)), int(np.maximum.reduce(values))
    if check.low <= least and greatest <= high:
        return None
    position = int(np.argmax((values < check.low) | (values > high)))
    return check.columns[position // rows], int(values[position])


def document() -> dict[str, Any]:
    """Return the schema as a JSON document, for Java's frame reader and for comparison with recordings."""
    return {
        "wire": WIRE_VERSION,
        "flags": {str(flag.name): int(flag) for flag in ProposalFlag},
        "fates": [fate.name for fate in Fate],
        "sections": [
            {
                "name": section.name,
                "kind": section.kind,
                "whole": section.whole,
                "columns": [[each.name, each.type] for each in section.columns],
            }
            for section in SECTIONS.values()
        ],
    }


FATES_MAX: Final = INDEX_MAX
"""Maximum number of fates in a frame: more than any answer has rows."""


def fates_of(runs: events.FateRuns) -> events.Fates:
    """Return one row for each fate.

    Raises:
        WireError: there are more than `FATES_MAX`, or a position is beyond the bound of an answer.
    """
    counts = runs.count.astype(np.int64)
    rows = int(counts.sum())
    if rows > FATES_MAX:
        raise WireError("FATES.count", f"{rows} fates, more than {FATES_MAX}")
    if int((runs.position + counts).max()) > np.iinfo(np.int32).max:
        raise WireError("FATES.position", "a run goes beyond the last position that an answer can have")
    ends = np.cumsum(counts)
    within = np.arange(rows) - np.repeat(ends - counts, counts)
    return events.Fates(
        sequence=np.repeat(runs.sequence, counts),
        position=(np.repeat(runs.position, counts) + within).astype(np.int32),
        fate=np.repeat(runs.fate, counts),
        container=np.zeros(rows, np.int64),
    )


def runs_of(fates: events.Fates) -> events.FateRuns:
    """Return fates with equal fates of adjacent positions merged into one row."""
    sequence, position = np.asarray(fates.sequence, np.int64), np.asarray(fates.position, np.int32)
    fate = np.asarray(fates.fate, np.uint8)
    rows = len(sequence)
    goes_on = np.zeros(rows, bool)
    goes_on[1:] = (sequence[1:] == sequence[:-1]) & (fate[1:] == fate[:-1]) & (position[1:] == position[:-1] + 1)
    first: npt.NDArray[np.int64] = np.flatnonzero(~goes_on)
    count = np.diff(np.append(first, rows)).astype(np.int32)
    return events.FateRuns(sequence=sequence[first], position=position[first], count=count, fate=fate[first])


FRAME_MAGIC: Final = b"TRDF"
FRAME_HEADER: Final = Struct("<4sHHqqqiiHHI")
SECTION_HEADER: Final = Struct("<HHII")

RESOURCES_MAX: Final = 64
"""Maximum number of resource types; a header with more is malformed."""

_ALL_FLAGS: Final = int(FrameFlag.SNAPSHOT | FrameFlag.MORE | FrameFlag.OBSERVE)


class FrameHeader(NamedTuple):
    """The header of a frame, without magic, version, section count and length."""

    flags: int
    """Bits of `FrameFlag`."""
    epoch: int
    sequence: int
    rm_time_ms: int
    """The RM's clock, milliseconds since 1970."""
    configuration: int
    limit: int
    """The most proposals that the answer may hold."""
    resources: int
    """R, the number of resource types."""

    @property
    def snapshot(self) -> bool:
        """Whether the frame starts a snapshot."""
        return bool(self.flags & FrameFlag.SNAPSHOT)

    @property
    def more(self) -> bool:
        """Whether another part follows, so that no answer is expected yet."""
        return bool(self.flags & FrameFlag.MORE)

    @property
    def observe(self) -> bool:
        """Whether the proposals are only observed, never committed."""
        return bool(self.flags & FrameFlag.OBSERVE)


def read_frame_header(frame: bytes) -> tuple[FrameHeader, int]:
    """Return the header of a frame and the number of its sections.

    Raises:
        WireError: the header is invalid; the error names the field.
    """
    if len(frame) < FRAME_HEADER.size:
        raise WireError("header", f"{len(frame)} bytes, a header has {FRAME_HEADER.size}")
    magic, version, flags, epoch, sequence, time_ms, configuration, limit, resources, sections, length = (
        FRAME_HEADER.unpack_from(frame)
    )
    if magic != FRAME_MAGIC:
        raise WireError("magic", f"{magic!r} instead of {FRAME_MAGIC!r}")
    if version != WIRE_VERSION:
        remedy = "use the jar and the wheel of one release"
        raise VersionError("version", f"{version}, this engine speaks {WIRE_VERSION}: {remedy}")
    if flags & ~_ALL_FLAGS:
        raise WireError("flags", f"{flags:#x} has bits of no meaning")
    if length != len(frame):
        raise WireError("length", f"{length} in the header, {len(frame)} bytes in the frame")
    if sequence < 1:
        raise WireError("sequence", f"{sequence} is below 1")
    if limit < 0:
        raise WireError("limit", f"{limit} is below 0")
    if not 1 <= resources <= RESOURCES_MAX:
        raise WireError("resources", f"{resources} is not in 1 to {RESOURCES_MAX}")
    return FrameHeader(flags, epoch, sequence, time_ms, configuration, limit, resources), sections


def write_frame_header(header: FrameHeader, sections: int, length: int) -> bytes:
    """Return the bytes of a header; ``length`` counts the whole frame, header included."""
    return FRAME_HEADER.pack(FRAME_MAGIC, WIRE_VERSION, *header, sections, length)


_SECTION_OF: Final = {section.event: section for section in SECTIONS.values()}


class FrameEncoder:
    """Encodes the frames of one connection in order; keeps the texts since the last snapshot."""

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}
        self._texts: list[str] = []

    def encode(self, header: FrameHeader, events_given: Iterable[events.Event]) -> bytes:
        """Return a frame with these events, at most one of a type; `Snapshot` is written as the header's flag.

        Raises:
            ValueError: two events of one type, one that is not on the wire, a text that no `Names` gave, or columns of
                different lengths.
        """
        if header.snapshot:
            self._indices, self._texts = {}, []
        by_kind: dict[int, events.Event] = {}
        for given in events_given:
            event = runs_of(given) if isinstance(given, events.Fates) else given
            if isinstance(event, events.Snapshot):
                if not header.snapshot or event.epoch != header.epoch:
                    raise ValueError("the header says nothing of the Snapshot among the events")
                continue
            section = _SECTION_OF.get(type(event))
            if section is None:
                raise ValueError(f"{type(event).__name__} is not on the wire")
            if by_kind.setdefault(section.kind, event) is not event:
                raise ValueError(f"two events of type {type(event).__name__} in one frame")
        sections = [self._section(kind, by_kind[kind], header.resources) for kind in sorted(by_kind)]
        length = FRAME_HEADER.size + sum(map(len, sections))
        return write_frame_header(header, len(sections), length) + b"".join(sections)

    def _section(self, kind: int, event: events.Event, resources: int) -> bytes:
        if isinstance(event, events.Names):
            rows, columns = len(event.texts), self._strings(event)
        else:
            values, plan = self._values(event), plans(resources)[kind]
            rows = len(values[plan.columns[0].name])
            columns = b"".join(_column(column, values[column.name], rows) for column in plan.columns)
        return SECTION_HEADER.pack(kind, 0, rows, len(columns)) + columns

    def _strings(self, names: events.Names) -> bytes:
        known = len(self._texts)
        indices = range(known, known + len(names.texts)) if names.index is None else names.index
        for at, text in zip(indices, names.texts, strict=True):
            if at < known and self._indices.get(self._texts[at]) == at:
                del self._indices[self._texts[at]]
            self._indices.setdefault(text, at)
        names.into(self._texts)
        encoded = [text.encode("utf-8") for text in names.texts]
        columns = np.array([[len(text) for text in encoded], indices], "<i4")
        return columns.tobytes() + b"".join(encoded)

    def _values(self, event: events.Event) -> dict[str, npt.NDArray[Any] | list[int]]:
        """Return the columns of an event by their names on the wire."""
        if isinstance(event, events.Settings):
            return {"key": self._named(event.values), "value": self._named(event.values.values())}
        values = {}
        for column in _SECTION_OF[type(event)].columns:
            value = getattr(event, column.field)
            texts = column.type == "name" and isinstance(event, events.ResourceTypes)
            values[column.name] = self._named(value) if texts else value
        return values

    def _named(self, texts: Iterable[str]) -> list[int]:
        try:
            return [self._indices[text] for text in texts]
        except KeyError as error:
            raise ValueError(f"no Names gave the text {error}") from error


def _column(column: ColumnPlan, value: npt.NDArray[Any] | list[int], rows: int) -> bytes:
    array = np.asarray(value, column.dtype)
    shape = (rows, column.resources) if column.resources else (rows,)
    if array.shape != shape:
        raise ValueError(f"the column {column.name} has the shape {array.shape} instead of {shape}")
    return array.tobytes("F")


_STRINGS: Final = SECTIONS["STRINGS"].kind
_KEYS: Final = SECTIONS["KEYS"].kind


class Frame(NamedTuple):
    """A decoded frame: its header and its events, in the order in which they are to be applied.

    The columns of the events are read-only views of the frame's bytes, possibly unaligned: copy one to keep it.
    """

    header: FrameHeader
    events: list[events.Event]


class FrameDecoder:
    """Decodes the frames of one connection, in their order."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        """The texts since the last snapshot, which name columns index; read-only."""
        self._resources = 0
        """R of the current snapshot; 0 before the first."""
        self._build: dict[int, Callable[[bytes, SectionPlan, int, int], events.Event]] = {
            SECTIONS["RESOURCE_TYPES"].kind: self._resource_types,
            SECTIONS["SETTINGS"].kind: self._settings,
        }

    def decode(self, frame: bytes) -> Frame:
        """Return the content of a frame.

        Raises:
            WireError: it is malformed, or a delta without a snapshot before it; the next frame must be a snapshot.
        """
        try:
            return self._decode(frame)
        except WireError:
            self._resources = 0
            raise

    def _decode(self, frame: bytes) -> Frame:
        header, sections = read_frame_header(frame)
        decoded: list[events.Event] = []
        if header.snapshot:
            self.texts = []
            self._resources = header.resources
            decoded.append(events.Snapshot(header.epoch))
        elif self._resources == 0:
            raise WireError("flags", "a delta, and no snapshot came before it")
        elif header.resources != self._resources:
            raise WireError("resources", f"{header.resources} in a delta, {self._resources} in the snapshot before it")
        offset, last_kind = FRAME_HEADER.size, 0
        for position in range(sections):
            kind, rows, offset, length = _section_header(frame, offset, position, last_kind)
            if kind == _STRINGS:
                decoded.append(self._strings(frame, rows, offset, length))
            elif rows:
                event = self._section(frame, kind, rows, offset, length)
                decoded.append(fates_of(event) if isinstance(event, events.FateRuns) else event)
            elif length:
                raise WireError(f"section {position}.length", f"{length} bytes of no rows")
            offset += length
            last_kind = kind
        if offset != len(frame):
            raise WireError("length", f"{len(frame) - offset} bytes after the last section")
        if header.snapshot and not self.texts:
            raise WireError("STRINGS", "absent from a snapshot")
        return Frame(header, decoded)

    def _strings(self, frame: bytes, rows: int, offset: int, length: int) -> events.Names:
        if rows * 8 > length:
            raise WireError("STRINGS.length", f"{length} bytes are too few for {rows} texts")
        sizes: npt.NDArray[np.int32] = np.ndarray((rows,), np.dtype("<i4"), frame, offset)
        index = self._text_indices(np.ndarray((rows,), np.dtype("<i4"), frame, offset + rows * 4))
        if rows and sizes.min() < 0:
            raise WireError("STRINGS.bytes", f"{sizes.min()} is below 0")
        at = offset + rows * 8
        ends = np.cumsum(sizes, dtype=np.int64)
        if (int(ends[-1]) if rows else 0) != length - rows * 8:
            raise WireError("STRINGS.bytes", f"the texts' lengths do not add up to the section's {length} bytes")
        texts: list[str] = []
        for end in (ends + at).tolist():
            try:
                texts.append(frame[at:end].decode("utf-8"))
            except UnicodeDecodeError as error:
                raise WireError("STRINGS", f"text {len(self.texts) + len(texts)} is not UTF-8") from error
            at = end
        if not self.texts and texts and texts[0]:
            raise WireError("STRINGS", "the first text of a snapshot is not the empty one")
        names = events.Names(tuple(texts), index)
        names.into(self.texts)
        return names

    def _text_indices(self, given: npt.NDArray[np.int32]) -> tuple[int, ...] | None:
        """Return the indices of texts; None if all are the next ones."""
        known, index = len(self.texts), None
        if np.array_equal(given, np.arange(known, known + len(given))):
            known += len(given)
        else:
            index = tuple(given.tolist())
            for at in index:
                if not 0 < at <= known:
                    raise WireError("STRINGS.text", f"{at} is neither the index of a text nor the next one, {known}")
                known += at == known
        if known > events.INDEX_MAX:
            raise TooManyError("STRINGS.rows", f"more than {events.INDEX_MAX} texts since the last snapshot")
        return index

    def _section(self, frame: bytes, kind: int, rows: int, offset: int, length: int) -> events.Event:
        plan = plans(self._resources).get(kind)
        if plan is None:
            raise WireError("kind", f"{kind} is not a kind of section")
        if rows * plan.row_bytes != length:
            raise WireError(f"{plan.name}.length", f"{length} bytes, {rows} rows have {rows * plan.row_bytes}")
        names = len(self.texts)
        for check in plan.checks:
            wrong = out_of_bounds(frame, check, offset, rows, names)
            if wrong is not None:
                raise _wrong_value(f"{plan.name}.{wrong[0]}", wrong[1], check, names)
        build = self._build.get(kind)
        if build is not None:
            return build(frame, plan, rows, offset)
        event: events.Event = plan.event(**views(frame, plan, offset, rows))
        return event

    def _named(self, column: npt.NDArray[np.generic]) -> tuple[str, ...]:
        return tuple(self.texts[index] for index in column.tolist())

    def _resource_types(self, frame: bytes, plan: SectionPlan, rows: int, offset: int) -> events.ResourceTypes:
        if rows != self._resources:
            raise WireError("RESOURCE_TYPES.rows", f"{rows}, the header says {self._resources}")
        columns = views(frame, plan, offset, rows)
        named = {field: self._named(columns[field]) for field in ("names", "units")}
        return events.ResourceTypes(**columns | named)

    def _settings(self, frame: bytes, plan: SectionPlan, rows: int, offset: int) -> events.Settings:
        columns = views(frame, plan, offset, rows)
        settings = dict(zip(self._named(columns["key"]), self._named(columns["value"]), strict=True))
        if len(settings) != rows:
            raise WireError("SETTINGS.key", "a key is there twice")
        return events.Settings(settings)


def _wrong_value(field: str, value: int, check: CheckPlan, names: int) -> WireError:
    """Return the error for a value outside its bounds."""
    if check.high == NAMES:
        return WireError(field, f"{value} is not a text's index: {names} were sent since the last snapshot")
    text = f"{value} is not in {check.low} to {check.high}"
    if check.is_index and value > check.high:
        return TooManyError(field, f"{text}, the indices that there are between two snapshots")
    return WireError(field, text)


def without_keys(frame: bytes) -> bytes:
    """Return a well-formed frame without the keys of application attempts, for recordings."""
    header, sections = read_frame_header(frame)
    offset = FRAME_HEADER.size
    for _ in range(sections):
        kind, _, _, length = SECTION_HEADER.unpack_from(frame, offset)
        if kind == _KEYS:  # the last known kind
            return write_frame_header(header, sections - 1, offset) + frame[FRAME_HEADER.size : offset]
        offset += SECTION_HEADER.size + length
    return frame


def _section_header(frame: bytes, offset: int, position: int, last_kind: int) -> tuple[int, int, int, int]:
    """Return kind, rows, the offset of the columns and their length."""
    if len(frame) - offset < SECTION_HEADER.size:
        raise WireError(f"section {position}", "its header is cut off")
    kind, reserved, rows, length = SECTION_HEADER.unpack_from(frame, offset)
    if kind <= last_kind:
        raise WireError(f"section {position}.kind", f"{kind} after {last_kind}: each kind once, in order")
    if kind > len(SECTIONS):
        raise WireError(f"section {position}.kind", f"{kind} is not a kind of section")
    if reserved:
        raise WireError(f"section {position}.reserved", f"{reserved} instead of 0")
    offset += SECTION_HEADER.size
    if length > len(frame) - offset:
        raise WireError(f"section {position}.length", f"{length} bytes, the frame has {len(frame) - offset} left")
    return kind, rows, offset, length
