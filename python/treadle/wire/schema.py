"""The frames' schema, one table for both directions of the wire (docs/wire-format.md).

A column's type is one of ``u8``, ``i32``, ``i64``, ``name`` (an ``i32`` into the texts sent since the last snapshot)
and ``R*i64`` (one ``i64`` column for each of the cluster's R resource types).
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final, NamedTuple

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
