"""The schema of frames, derived from the events' annotations, for both directions (docs/wire-format.md).

The columns of a section are contiguous, so all offsets are a constant times the number of rows: a plan holds these
constants, and the decoder only multiplies. Adjacent columns with the same bounds are checked as one run of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import IntFlag
from functools import cache
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.events import NAMES, WIRE_VERSION, Column, Fate


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


FRAME_MAGIC: Final = b"TRDF"
PROPOSAL_MAGIC: Final = b"TRDP"


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
