"""Frames to events.

A decoder belongs to one connection: names are sent once, so it remembers the texts since the last snapshot. It is
strict. Whatever is not a frame of docs/wire-format.md raises `WireError`, after which only a snapshot is taken: the
engine asks for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.wire.errors import TooManyError, WireError
from treadle.wire.header import FRAME_HEADER, SECTION_HEADER, FrameHeader, read_frame_header, write_frame_header
from treadle.wire.plans import EVENT_TYPES, NAMES, CheckPlan, SectionPlan, out_of_bounds, plans, view
from treadle.wire.schema import SECTIONS

_STRINGS: Final = SECTIONS["STRINGS"].kind
_KEYS: Final = SECTIONS["KEYS"].kind


class Frame(NamedTuple):
    """A decoded frame: its header and its events, in the order in which they are to be applied.

    The columns of the events are read-only views of the frame's bytes, not always aligned: whoever keeps one copies it.
    """

    header: FrameHeader
    events: list[events.Event]


class FrameDecoder:
    """Decodes the frames of one connection, in their order."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._resources = 0
        """R of the current snapshot; 0 while there is none."""
        self._build: dict[int, Callable[[bytes, SectionPlan, int, int], events.Event]] = {
            SECTIONS["RESOURCE_TYPES"].kind: self._resource_types,
            SECTIONS["SETTINGS"].kind: self._settings,
        }

    def decode(self, frame: bytes) -> Frame:
        """Return what a frame says.

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
        found: list[events.Event] = []
        if header.snapshot:
            self._texts = []
            self._resources = header.resources
            found.append(events.Snapshot(header.epoch))
        elif self._resources == 0:
            raise WireError("flags", "a delta, and no snapshot came before it")
        elif header.resources != self._resources:
            raise WireError("resources", f"{header.resources} in a delta, {self._resources} in the snapshot before it")
        offset, last_kind = FRAME_HEADER.size, 0
        for position in range(sections):
            kind, rows, offset, length = _section_header(frame, offset, position, last_kind)
            if kind == _STRINGS:
                found.append(self._strings(frame, rows, offset, length))
            elif rows:
                found.append(self._section(frame, kind, rows, offset, length))
            elif length:
                raise WireError(f"section {position}.length", f"{length} bytes of no rows")
            offset += length
            last_kind = kind
        if offset != len(frame):
            raise WireError("length", f"{len(frame) - offset} bytes after the last section")
        if header.snapshot and not self._texts:
            raise WireError("STRINGS", "absent from a snapshot")
        return Frame(header, found)

    def _strings(self, frame: bytes, rows: int, offset: int, length: int) -> events.Names:
        if rows * 4 > length:
            raise WireError("STRINGS.length", f"{length} bytes are too few for {rows} texts")
        if len(self._texts) + rows > events.INDEX_MAX:
            raise TooManyError("STRINGS.rows", f"more than {events.INDEX_MAX} texts since the last snapshot")
        sizes: npt.NDArray[np.int32] = np.ndarray((rows,), np.dtype("<i4"), frame, offset)
        if rows and sizes.min() < 0:
            raise WireError("STRINGS.bytes", f"{sizes.min()} is below 0")
        at = offset + rows * 4
        ends = np.cumsum(sizes, dtype=np.int64)
        if (int(ends[-1]) if rows else 0) != length - rows * 4:
            raise WireError("STRINGS.bytes", f"the texts' lengths do not add up to the section's {length} bytes")
        texts: list[str] = []
        for end in (ends + at).tolist():
            try:
                texts.append(frame[at:end].decode("utf-8"))
            except UnicodeDecodeError as error:
                raise WireError("STRINGS", f"text {len(self._texts) + len(texts)} is not UTF-8") from error
            at = end
        if not self._texts and texts and texts[0]:
            raise WireError("STRINGS", "the first text of a snapshot is not the empty one")
        self._texts.extend(texts)
        return events.Names(tuple(texts))

    def _section(self, frame: bytes, kind: int, rows: int, offset: int, length: int) -> events.Event:
        plan = plans(self._resources).get(kind)
        if plan is None:
            raise WireError("kind", f"{kind} is no kind of section")
        if rows * plan.row_bytes != length:
            raise WireError(f"{plan.name}.length", f"{length} bytes, {rows} rows have {rows * plan.row_bytes}")
        names = len(self._texts)
        for check in plan.checks:
            wrong = out_of_bounds(frame, check, offset, rows, names)
            if wrong is not None:
                raise _wrong_value(f"{plan.name}.{wrong[0]}", wrong[1], check, names)
        build = self._build.get(kind)
        if build is not None:
            return build(frame, plan, rows, offset)
        # The fields of an event are the columns of its section, in order: a test compares them.
        columns: list[Any] = [view(frame, column, offset, rows) for column in plan.columns]
        return EVENT_TYPES[plan.name](*columns)

    def _named(self, column: npt.NDArray[np.generic]) -> tuple[str, ...]:
        return tuple(self._texts[index] for index in column.tolist())

    def _resource_types(self, frame: bytes, plan: SectionPlan, rows: int, offset: int) -> events.ResourceTypes:
        if rows != self._resources:
            raise WireError("RESOURCE_TYPES.rows", f"{rows}, the header says {self._resources}")
        columns: list[Any] = [view(frame, column, offset, rows) for column in plan.columns]
        return events.ResourceTypes(self._named(columns[0]), self._named(columns[1]), *columns[2:])

    def _settings(self, frame: bytes, plan: SectionPlan, rows: int, offset: int) -> events.Settings:
        keys, values = (self._named(view(frame, column, offset, rows)) for column in plan.columns)
        settings = dict(zip(keys, values, strict=True))
        if len(settings) != rows:
            raise WireError("SETTINGS.key", "a key is there twice")
        return events.Settings(settings)


def _wrong_value(field: str, value: int, check: CheckPlan, names: int) -> WireError:
    """Return what is wrong with a value outside its bounds."""
    if check.high == NAMES:
        return WireError(field, f"{value} is no text's index: {names} were sent since the last snapshot")
    text = f"{value} is not in {check.low} to {check.high}"
    if check.is_index and value > check.high:
        return TooManyError(field, f"{text}, the indices that there are between two snapshots")
    return WireError(field, text)


def without_keys(frame: bytes) -> bytes:
    """Return a well-formed frame without the keys of application attempts, for whoever keeps frames."""
    header, sections = read_frame_header(frame)
    offset = FRAME_HEADER.size
    for _ in range(sections):
        kind, _, _, length = SECTION_HEADER.unpack_from(frame, offset)
        if kind == _KEYS:  # the last kind there is
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
        raise WireError(f"section {position}.kind", f"{kind} is no kind of section")
    if reserved:
        raise WireError(f"section {position}.reserved", f"{reserved} instead of 0")
    offset += SECTION_HEADER.size
    if length > len(frame) - offset:
        raise WireError(f"section {position}.length", f"{length} bytes, the frame has {len(frame) - offset} left")
    return kind, rows, offset, length
