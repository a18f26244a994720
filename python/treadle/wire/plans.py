"""How each section lies in a frame and which event it becomes, worked out once per number of resource types.

A section's columns lie one after another, so all offsets are a constant times the number of rows: a plan holds these
constants and the decoder only multiplies. Adjacent columns with the same bounds are checked as one run of values.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle import events
from treadle.wire.schema import SECTIONS, Section

NAMES: Final = -1
"""In place of a bound: the number of texts sent since the last snapshot."""

_INDICES: Final = {
    **dict.fromkeys(("application", "node", "queue"), events.INDEX_MAX),
    "key": events.INDEX_MAX - events.KEYS_RESERVED,
}
"""What indices of each kind are below."""
_MAY_BE_ABSENT: Final = frozenset({("QUEUES", "parent"), ("CONTAINERS", "application"), ("CONTAINERS", "node")})
_COUNTS: Final = frozenset({"count", "containers", "position"})
_FLAGS: Final = frozenset(
    {"counted", "leaf", "size_based_weight", "awaiting_am", "relax_locality", "constrained", "by_treadle", "am"}
)
_CODES: Final = {
    ("QUEUES", "state"): (0, 2),
    ("NODES", "state"): (0, max(events.NodeState)),
    ("APPLICATIONS", "state"): (0, max(events.ApplicationState)),
    ("APPLICATIONS", "replaces"): (0, int(events.Replaces.REQUESTS | events.Replaces.BLACKLIST | events.Replaces.TAGS)),
    ("CONTAINERS", "event"): (min(events.ContainerEvent), max(events.ContainerEvent)),
    ("FATES", "fate"): (0, max(events.Fate)),
}

_DTYPES: Final[dict[str, np.dtype[np.generic]]] = {
    "u8": np.dtype(np.uint8),
    "i32": np.dtype("<i4"),
    "name": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "R*i64": np.dtype("<i8"),
}


class ColumnPlan(NamedTuple):
    """Where a column lies: ``start`` times the number of rows is its first byte within the section's columns."""

    name: str
    start: int
    dtype: np.dtype[np.generic]
    resources: int
    """R for a column of type ``R*i64``, else 0."""


class CheckPlan(NamedTuple):
    """Adjacent columns whose values must lie within the same bounds, both included."""

    columns: tuple[str, ...]
    start: int
    dtype: np.dtype[np.generic]
    low: int
    high: int
    """The highest value allowed; `NAMES` stands for the last text's index."""

    @property
    def is_index(self) -> bool:
        """Are these indices that the shim gives out?"""
        return self.columns[0] in _INDICES


class SectionPlan(NamedTuple):
    """How a section lies in a frame with R resource types, and the event that it becomes."""

    name: str
    kind: int
    row_bytes: int
    columns: tuple[ColumnPlan, ...]
    checks: tuple[CheckPlan, ...]


EVENT_TYPES: Final[dict[str, type[events.Event]]] = {
    "QUEUES": events.Queues,
    "QUEUE_LIMITS": events.QueueLimits,
    "USERS": events.Users,
    "NODES": events.Nodes,
    "APPLICATIONS": events.Applications,
    "APPLICATION_USAGE": events.ApplicationUsage,
    "TAGS": events.Tags,
    "BLACKLIST": events.Blacklist,
    "REQUESTS": events.Requests,
    "LOCALITIES": events.Localities,
    "CONTAINERS": events.Containers,
    "FATES": events.Fates,
    "KEYS": events.AttemptKeys,
}
"""The sections that become an event column by column, in the same order; the first three need their texts looked up."""


def _bounds(section: str, column: str, type_: str) -> tuple[int, int] | None:
    """Return the least and greatest value allowed in a column; None where any value has a meaning."""
    if type_ == "name":
        return 0, NAMES
    if column in _FLAGS:
        return 0, 1
    if (section, column) in _CODES:
        return _CODES[section, column]
    if (section, column) in _MAY_BE_ABSENT:
        return -1, _INDICES.get(column, events.INDEX_MAX) - 1
    if column in _INDICES:
        return 0, _INDICES[column] - 1
    if column in _COUNTS:
        return 0, np.iinfo(np.int32).max
    return None


def _plan(name: str, section: Section, resources: int) -> SectionPlan:
    columns: list[ColumnPlan] = []
    checks: list[CheckPlan] = []
    start = 0
    end_of_last_check = -1
    for column, type_ in section.columns:
        dtype = _DTYPES[type_]
        repeat = resources if type_ == "R*i64" else 1
        columns.append(ColumnPlan(column, start, dtype, resources if type_ == "R*i64" else 0))
        bounds = _bounds(name, column, type_)
        end = start + dtype.itemsize * repeat
        if bounds is not None:
            last = checks[-1] if checks else None
            if (
                last is not None
                and end_of_last_check == start
                and last.dtype == dtype
                and (last.low, last.high) == bounds
            ):
                checks[-1] = last._replace(columns=(*last.columns, column))
            else:
                checks.append(CheckPlan((column,), start, dtype, *bounds))
            end_of_last_check = end
        start = end
    return SectionPlan(name, section.kind, start, tuple(columns), tuple(checks))


@cache
def plans(resources: int) -> dict[int, SectionPlan]:
    """Return the plan of each kind of section but ``STRINGS``, for a cluster with so many resource types."""
    return {section.kind: _plan(name, section, resources) for name, section in SECTIONS.items() if name != "STRINGS"}


def view(frame: bytes, column: ColumnPlan, offset: int, rows: int) -> npt.NDArray[np.generic]:
    """Return a column as a read-only view of the frame; ``offset`` is where the section's columns begin."""
    at = offset + column.start * rows
    if column.resources == 0:
        return np.ndarray((rows,), column.dtype, frame, at)
    # A resource type's amounts lie together: the transpose of (rows, R), without a copy.
    return np.ndarray((rows, column.resources), column.dtype, frame, at, (8, 8 * rows))


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
