"""Events that are sections of a frame: the schema of the wire.

A class is a kind of section, its fields are the columns in their order, and the annotation of a field is the column's
type and bounds (`treadle.events.columns`). Columns named ``*_name`` hold indices into the texts given by `Names` since
the last `Snapshot`; 0 is the empty text. The first paragraphs of docs/wire-format.md's tables are these docstrings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from treadle.events.codes import (
    ApplicationState,
    ContainerEvent,
    Fate,
    NodeState,
    QueueState,
    Replaces,
)
from treadle.events.columns import (
    I32,
    I64,
    NAMES,
    U8,
    Amounts,
    Column,
    Count,
    Flag,
    Index,
    KeyIndex,
    Long,
    NameIndex,
    Number,
    Section,
    bits,
    code,
    index,
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Forget everything: what follows describes the whole cluster."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Names:
    """Texts and their indices; the first of a snapshot is the empty text, with index 0.

    An index is the next that no text had, or that of a text which nothing refers to any more. In the event it is None
    if all are next ones.
    """

    SECTION: ClassVar = Section(1, "STRINGS")

    texts: Annotated[tuple[str, ...], Column("i32", name="bytes", remark="of each text; all the texts follow")]
    index: Annotated[tuple[int, ...] | None, Column("i32", name="text")] = None

    def into(self, texts: list[str]) -> None:
        """Take the texts into a list of all that were sent, by index."""
        if self.index is None:
            texts.extend(self.texts)
            return
        for at, text in zip(self.index, self.texts, strict=True):
            if at == len(texts):
                texts.append(text)
            else:
                texts[at] = text


@dataclass(frozen=True, slots=True)
class ResourceTypes:
    """Only in a snapshot, which another calculator or another list of types forces.

    ``counted`` 0: the cluster's ResourceCalculator ignores it. Memory (MB) comes first; ``minimum`` and ``maximum`` are
    those of an allocation.
    """

    SECTION: ClassVar = Section(2, "RESOURCE_TYPES", whole=True)

    names: Annotated[tuple[str, ...], Column("name", 0, NAMES, name="name")]
    units: Annotated[tuple[str, ...], Column("name", 0, NAMES, name="units")]
    counted: Flag
    minimum: Long
    maximum: Long


@dataclass(frozen=True, slots=True)
class Settings:
    """Replaces all settings of the RM that the engine follows; see below."""

    SECTION: ClassVar = Section(3, "SETTINGS", whole=True)

    values: Annotated[dict[str, str], Column("name", 0, NAMES, name="key"), Column("name", 0, NAMES, name="value")]


@dataclass(frozen=True, slots=True)
class Queues:
    """Replaces the tree: a queue not in it is gone; parents before children."""

    SECTION: ClassVar = Section(4, "QUEUES", whole=True)

    queue: Index
    parent: Annotated[I32, index(absent="the root")]
    path_name: NameIndex
    state: Annotated[U8, code(QueueState)]
    leaf: Flag
    ordering_policy_name: NameIndex
    size_based_weight: Flag
    priority: Number


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """A queue in a partition, absolute."""

    SECTION: ClassVar = Section(5, "QUEUE_LIMITS")

    queue: Index
    partition_name: NameIndex
    guaranteed: Amounts
    maximum: Amounts
    used: Amounts
    pending: Amounts
    am_limit: Amounts
    am_used: Amounts


@dataclass(frozen=True, slots=True)
class Users:
    """A user in a leaf queue and partition, absolute; only users with outstanding requests are kept up to date."""

    SECTION: ClassVar = Section(6, "USERS")

    queue: Index
    user_name: NameIndex
    partition_name: NameIndex
    limit: Amounts
    used: Amounts


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes, absolute; ``free`` is the RM's unallocated resource and may be negative."""

    SECTION: ClassVar = Section(7, "NODES")

    node: Index
    name_name: NameIndex
    rack_name: NameIndex
    partition_name: NameIndex
    state: Annotated[U8, code(NodeState)]
    total: Amounts
    free: Amounts


@dataclass(frozen=True, slots=True)
class NodesFree:
    """What is free on nodes, absolute, where nothing else has changed. The RM sends `NODES` instead."""

    SECTION: ClassVar = Section(8, "NODES_FREE")

    node: Index
    free: Amounts


@dataclass(frozen=True, slots=True)
class NodeAttributes:
    """Attributes of nodes, each absolute; ``present`` 0: the node has it no more. A node that is gone has none.

    ``attribute`` is its prefix, a slash and its name; ``value`` is what the RM compares requests with.
    """

    SECTION: ClassVar = Section(9, "NODE_ATTRIBUTES")

    node: Index
    attribute_name: NameIndex
    value_name: NameIndex
    present: Flag


@dataclass(frozen=True, slots=True)
class Applications:
    """Application attempts, absolute.

    What ``replaces`` names is dropped before the later sections of this frame are taken; of one that is gone everything
    is dropped. One that was moved runs on under another engine.
    ``partition`` is the default of its asks.
    """

    SECTION: ClassVar = Section(10, "APPLICATIONS")

    application: Index
    cluster_timestamp: Long
    id: Number
    attempt: Number
    name_name: NameIndex
    type_name: NameIndex
    user_name: NameIndex
    queue: Index
    partition_name: NameIndex
    priority: Number
    submit_time_ms: Long
    start_time_ms: Long
    state: Annotated[U8, code(ApplicationState)]
    awaiting_am: Flag
    replaces: Annotated[U8, bits(Replaces)]


@dataclass(frozen=True, slots=True)
class ApplicationUsage:
    """What application attempts use, absolute.

    ``headroom`` is what its queue and all above it left free in the partitions that it asks for, when the row was
    written: an upper bound on what it may get next, sent again within 100 ms if it grew; limits of users are in
    `USERS`.
    """

    SECTION: ClassVar = Section(11, "APPLICATION_USAGE")

    application: Index
    containers: Count
    used: Amounts
    headroom: Amounts


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags of applications."""

    SECTION: ClassVar = Section(12, "TAGS")

    application: Index
    tag_name: NameIndex


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Nodes and racks that applications do not want; ``present`` 0: one is wanted again."""

    SECTION: ClassVar = Section(13, "BLACKLIST")

    application: Index
    name_name: NameIndex
    present: Flag


@dataclass(frozen=True, slots=True)
class Requests:
    """Request keys and their outstanding count at ANY, absolute; 0 removes one with its localities.

    ``constrained`` 1: a SchedulingRequest, whose node only the RM can judge.
    """

    SECTION: ClassVar = Section(14, "REQUESTS")

    application: Index
    key: KeyIndex
    priority: Number
    allocation_request_id: Long
    count: Count
    relax_locality: Flag
    constrained: Flag
    partition_name: NameIndex
    capability: Amounts


@dataclass(frozen=True, slots=True)
class Localities:
    """Outstanding counts at nodes and racks, absolute; 0 removes one.

    Sent when it changed, or all of them with ``replaces`` 1.
    """

    SECTION: ClassVar = Section(15, "LOCALITIES")

    application: Index
    key: KeyIndex
    name_name: NameIndex
    count: Count
    relax_locality: Flag


@dataclass(frozen=True, slots=True)
class Constraints:
    """Placement constraints of request keys that are ``constrained``, absolute; gone with the key.

    ``text`` is the conjunction of the request's own constraint and those of its application and the cluster for its
    allocation tags, in a canonical form (see below). ``opaque`` 1: it is longer than a text may be, or not of that
    form, and ``text`` is empty. The allocation tags that were sent of the key are dropped.
    """

    SECTION: ClassVar = Section(16, "CONSTRAINTS")

    application: Index
    key: KeyIndex
    text_name: NameIndex
    opaque: Flag


@dataclass(frozen=True, slots=True)
class AllocationTags:
    """Tags that the containers of constrained request keys will have; gone with the key."""

    SECTION: ClassVar = Section(17, "ALLOCATION_TAGS")

    application: Index
    key: KeyIndex
    tag_name: NameIndex


@dataclass(frozen=True, slots=True)
class Containers:
    """Events of guaranteed containers, in order; in a snapshot the latest of each that is alive.

    Opportunistic ones are left out: one that is promoted is allocated and launched then, one that is demoted is
    completed with status -1000, and so is one whose end the shim did not hear of, found when it compares with the
    containers of the application. The number of a container is unique only within its application attempt; bits 56 to
    62 have the attempt that it began in if a later one keeps it.
    """

    SECTION: ClassVar = Section(18, "CONTAINERS")

    container: Long
    application: Annotated[I32, index(absent="gone")]
    priority: Number
    node: Annotated[I32, index(absent="gone")]
    event: Annotated[U8, code(ContainerEvent)]
    time_ms: Long
    created_ms: Long
    exit_status: Number
    by_treadle: Flag
    am: Flag
    capability: Amounts


@dataclass(frozen=True, slots=True)
class Fates:
    """The fate of each proposal: the frame that it was decided on, its position in the answer, 0 or the reason.

    ``container`` is the container if that is known, else 0; frames leave it to the row of the container.
    """

    sequence: I64
    position: I32
    fate: U8
    container: I64


@dataclass(frozen=True, slots=True)
class FateRuns:
    """Fates of proposals: ``count`` in a row from ``position`` on, decided on frame ``sequence``."""

    SECTION: ClassVar = Section(19, "FATES")

    sequence: Long
    position: Count
    count: Count
    fate: Annotated[U8, code(Fate, shown=False)]


@dataclass(frozen=True, slots=True, repr=False)
class AttemptKeys:
    """Keys of attempts for the plan listener ([tez-plugin.md](tez-plugin.md)).

    Only if the engine's status asks for them (``keys_for``), and of the types TEZ and SPARK alone. What keeps frames
    leaves this section out; an engine is never sent, nothing shows or records them.
    """

    SECTION: ClassVar = Section(20, "KEYS")

    application: Index
    number: Number
    word0: Long
    word1: Long
    word2: Long
    word3: Long
