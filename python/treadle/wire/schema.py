"""The frames' schema, one table for both directions of the wire (docs/wire-format.md).

A section's columns lie one after another, so all offsets are a constant times the number of rows: a plan holds these
constants and the decoder only multiplies. Adjacent columns with the same bounds are checked as one run of values.

A column's type is one of ``u8``, ``i32``, ``i64``, ``name`` (an ``i32`` into the texts sent since the last snapshot)
and ``R*i64`` (one ``i64`` column for each of the cluster's R resource types).
"""

from __future__ import annotations

from enum import IntFlag
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle import events


class WireError(ValueError):
    """Bytes that are not a frame as docs/wire-format.md defines it; ``field`` names the part that is wrong."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class TooManyError(WireError):
    """More of something than there may be between two snapshots. A snapshot that has too many itself is no remedy."""


VERSION: Final = 1
FRAME_MAGIC: Final = b"TRDF"
PROPOSAL_MAGIC: Final = b"TRDP"


class FrameFlag(IntFlag):
    """What a frame's header says of the whole frame."""

    SNAPSHOT = 1
    MORE = 2
    OBSERVE = 4


class ProposalFlag(IntFlag):
    """What a proposal frame's header says of the whole answer."""

    RESEND = 1


class Column(NamedTuple):
    """One column of a section: its name and its type on the wire."""

    name: str
    type: str


class Section(NamedTuple):
    """One kind of section: its number on the wire and its columns, in order."""

    kind: int
    columns: tuple[Column, ...]


def _section(kind: int, columns: str) -> Section:
    pairs = (column.split(":") for column in columns.split())
    return Section(kind, tuple(Column(name, type_) for name, type_ in pairs))


SECTIONS: Final[dict[str, Section]] = {
    "STRINGS": _section(1, "bytes:i32"),
    "RESOURCE_TYPES": _section(2, "name:name units:name counted:u8 minimum:i64 maximum:i64"),
    "SETTINGS": _section(3, "key:name value:name"),
    "QUEUES": _section(
        4,
        "queue:i32 parent:i32 path:name state:u8 leaf:u8 ordering_policy:name size_based_weight:u8 priority:i32",
    ),
    "QUEUE_LIMITS": _section(
        5,
        "queue:i32 partition:name guaranteed:R*i64 maximum:R*i64 used:R*i64 pending:R*i64 am_limit:R*i64 am_used:R*i64",
    ),
    "USERS": _section(6, "queue:i32 user:name partition:name limit:R*i64 used:R*i64"),
    "NODES": _section(7, "node:i32 name:name rack:name partition:name state:u8 total:R*i64 free:R*i64"),
    "APPLICATIONS": _section(
        8,
        "application:i32 cluster_timestamp:i64 id:i32 attempt:i32 name:name type:name user:name queue:i32"
        " partition:name priority:i32 submit_time_ms:i64 start_time_ms:i64 state:u8 awaiting_am:u8 replaces:u8",
    ),
    "APPLICATION_USAGE": _section(9, "application:i32 containers:i32 used:R*i64 headroom:R*i64"),
    "TAGS": _section(10, "application:i32 tag:name"),
    "BLACKLIST": _section(11, "application:i32 name:name"),
    "REQUESTS": _section(
        12,
        "application:i32 key:i32 priority:i32 allocation_request_id:i64 count:i32 relax_locality:u8 constrained:u8"
        " partition:name capability:R*i64",
    ),
    "LOCALITIES": _section(13, "application:i32 key:i32 name:name count:i32 relax_locality:u8"),
    "CONTAINERS": _section(
        14,
        "container:i64 application:i32 priority:i32 node:i32 event:u8 time_ms:i64 created_ms:i64 exit_status:i32"
        " by_treadle:u8 am:u8 capability:R*i64",
    ),
    "FATES": _section(15, "sequence:i64 position:i32 fate:u8 container:i64"),
    "KEYS": _section(16, "application:i32 number:i32 word0:i64 word1:i64 word2:i64 word3:i64"),
}


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
