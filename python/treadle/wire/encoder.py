"""Events to frames, for tests, the simulator and warming up: the RM's shim writes the frames of a live cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.wire.header import FRAME_HEADER, SECTION_HEADER, FrameHeader, write_frame_header
from treadle.wire.plans import EVENT_TYPES, ColumnPlan, plans
from treadle.wire.schema import SECTIONS

_KIND_OF: Final = {
    **{type_: SECTIONS[name].kind for name, type_ in EVENT_TYPES.items()},
    events.Names: SECTIONS["STRINGS"].kind,
    events.ResourceTypes: SECTIONS["RESOURCE_TYPES"].kind,
    events.Settings: SECTIONS["SETTINGS"].kind,
}


class FrameEncoder:
    """Encodes the frames of one connection, in their order; it remembers the texts since the last snapshot."""

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}
        self._texts = 0

    def encode(self, header: FrameHeader, found: Iterable[events.Event]) -> bytes:
        """Return a frame with these events, at most one of a type; `Snapshot` is written as the header's flag.

        Raises:
            ValueError: two events of one type, one that is not on the wire, a text that no `Names` gave, or columns of
                different lengths.
        """
        if header.snapshot:
            self._indices, self._texts = {}, 0
        by_kind: dict[int, events.Event] = {}
        for event in found:
            if isinstance(event, events.Snapshot):
                if not header.snapshot or event.epoch != header.epoch:
                    raise ValueError("the header says nothing of the Snapshot among the events")
                continue
            if type(event) not in _KIND_OF:
                raise ValueError(f"{type(event).__name__} is not on the wire")
            if by_kind.setdefault(_KIND_OF[type(event)], event) is not event:
                raise ValueError(f"two events of type {type(event).__name__} in one frame")
        sections = [self._section(kind, by_kind[kind], header.resources) for kind in sorted(by_kind)]
        length = FRAME_HEADER.size + sum(map(len, sections))
        return write_frame_header(header, len(sections), length) + b"".join(sections)

    def _section(self, kind: int, event: events.Event, resources: int) -> bytes:
        if isinstance(event, events.Names):
            rows, columns = len(event.texts), self._strings(event)
        else:
            rows, columns = self._columns(kind, event, resources)
        return SECTION_HEADER.pack(kind, 0, rows, len(columns)) + columns

    def _strings(self, names: events.Names) -> bytes:
        for text in names.texts:
            self._indices.setdefault(text, self._texts)
            self._texts += 1
        encoded = [text.encode("utf-8") for text in names.texts]
        return np.array([len(text) for text in encoded], "<i4").tobytes() + b"".join(encoded)

    def _columns(self, kind: int, event: events.Event, resources: int) -> tuple[int, bytes]:
        values = self._values(event)
        rows = len(values[0])
        plan = plans(resources)[kind]
        parts = [_column(column, value, rows) for column, value in zip(plan.columns, values, strict=True)]
        return rows, b"".join(parts)

    def _values(self, event: events.Event) -> list[npt.NDArray[Any] | list[int]]:
        match event:
            case events.ResourceTypes():
                named = [self._named(event.names), self._named(event.units)]
                return [*named, event.counted, event.minimum, event.maximum]
            case events.Settings():
                return [self._named(event.values), self._named(event.values.values())]
            case _:
                return [getattr(event, field.name) for field in fields(event)]

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
