"""Events and proposals: the engine's input and its answer, as columns.

An event is the content of a frame's section (docs/wire-format.md describes every column), or an addition by the
sidecar, a history store, a plan or a simulator's oracle. The live sidecar decodes events from frames; the simulator and
tests build them directly. Rows of one event describe different things of one kind; every column of an event has the
same number of rows. Amounts of resources have the shape (rows, R), in the order of `ResourceTypes`. A class for a kind
of section has the columns as its fields, in their order, and the annotation of a field is the column's type and bounds:
`treadle.wire.frames` derives decoder, encoder, bounds and the tables of docs/wire-format.md from them. Columns named
``*_name`` hold indices into the texts given by `Names` since the last `Snapshot`; 0 is the empty text. Types on the
wire are ``u8``, ``i32``, ``i64``, ``name`` (an ``i32`` into those texts) and ``R*i64`` (one ``i64`` column for each of
the cluster's R resource types).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from functools import cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

WIRE_VERSION: Final = 7
"""The version of the wire. A change of columns raises it."""


class QueueState(IntEnum):
    """Whether a queue accepts applications, and whether present ones are served."""

    STOPPED = 0
    RUNNING = 1
    DRAINING = 2


class NodeState(IntEnum):
    """Whether containers may be placed on a node."""

    GONE = 0
    USABLE = 1
    UNUSABLE = 2


class ApplicationState(IntEnum):
    """The state of an application attempt in its queue."""

    GONE = 0
    ACTIVE = 1
    WAITING = 2
    MOVED = 3


class Replaces(IntFlag):
    """Bits of `Applications.replaces`: state to drop before the later events of the same frame."""

    REQUESTS = 1
    BLACKLIST = 2
    TAGS = 4


class ContainerEvent(IntEnum):
    """What happened to a container."""

    ALLOCATED = 1
    LAUNCHED = 2
    COMPLETED = 3
    RESIZED = 4


class Fate(IntEnum):
    """The outcome of a proposal: committed, or the reason for its rejection."""

    COMMITTED = 0
    UNKNOWN_APPLICATION = 1
    FINISHED_ATTEMPT = 2
    STOPPED_ATTEMPT = 3
    INACTIVE_APPLICATION = 4
    UNKNOWN_REQUEST = 5
    NO_PENDING_ASK = 6
    UNKNOWN_NODE = 7
    NODE_NOT_RUNNING = 8
    NODE_STALE = 9
    NODE_RESERVED = 10
    BLACKLISTED = 11
    WRONG_PARTITION = 12
    LOCALITY = 13
    CONSTRAINT = 14
    CONTAINER_UPDATE = 15
    NODE_FULL = 16
    QUEUE_MAXIMUM = 17
    USER_LIMIT = 18
    DUPLICATE = 19
    OUT_OF_RANGE = 20
    OVER_BATCH = 21
    LEASE_LOST = 22
    NOT_READY = 23
    STALE_STATE = 24
    INTERNAL_ERROR = 25
    OBSERVED = 26
    NEGATIVE = 27
    NOT_OWNER = 28
    CHANGED = 29
    TRANSACTION = 30
    CLAIM = 31


CONFLICTS: Final = frozenset(
    {Fate.CHANGED, Fate.NODE_FULL, Fate.NODE_RESERVED, Fate.QUEUE_MAXIMUM, Fate.USER_LIMIT, Fate.STALE_STATE}
)
"""Fates caused by changes after the engine's decision."""


# not `numpy.typing.NDArray`: from numpy 2.5 on it is an alias without a readable element type
U8 = np.ndarray[Any, np.dtype[np.uint8]]
I32 = np.ndarray[Any, np.dtype[np.int32]]
I64 = np.ndarray[Any, np.dtype[np.int64]]
F64 = np.ndarray[Any, np.dtype[np.float64]]

INDEX_MAX: Final = 1 << 22
"""Indices of nodes, queues, applications, request keys and texts are below this; each snapshot starts them at 0.

The common bound of wire and model: a frame beyond it is rejected before it is processed, and the model has room for
every index below it."""

KEYS_AHEAD: Final = 128
"""Number of the highest request keys, reserved for stages without requests so far. They outlive a snapshot."""

KEYS_RESERVED: Final = 1024
"""Number of the highest request keys that are never on the wire: those for future stages, and below them those under
which an engine keeps hints for running tasks without outstanding requests."""

NAMES: Final = -1
"""As an upper bound: the index of the last text sent since the last snapshot."""


class Column(NamedTuple):
    """The type and bounds of a column on the wire. A bound of None allows every value of the type."""

    type: str
    low: int | None = None
    high: int | None = None
    is_index: bool = False
    """Whether the shim assigns these numbers, so that there may be too many of them between two snapshots."""
    name: str = ""
    """The column's name if it differs from the field (without the ending ``_name`` of a column of names)."""
    remark: str = ""
    """Remark in docs/wire-format.md on the values, in brackets."""


class Section(NamedTuple):
    """A kind of section: the number and the name of an event on the wire."""

    kind: int
    name: str
    whole: bool = False
    """Whether its rows replace all earlier ones, so that it is never split over two frames."""


def index(absent: str = "") -> Column:
    """Return the column of an index assigned by the shim; ``absent`` is the meaning of -1, if allowed."""
    return Column("i32", -1 if absent else 0, INDEX_MAX - 1, True, remark=f"-1: {absent}" if absent else "")


def code(codes: type[IntEnum], shown: bool = True) -> Column:
    """Return the column of a code."""
    remark = ", ".join(f"{each.value} {_words(each.name)}" for each in codes) if shown else ""
    return Column("u8", min(codes), max(codes), remark=remark)


def bits(flags: type[IntFlag]) -> Column:
    """Return the column of bit flags."""
    remark = ", ".join(f"{each.value} {_words(str(each.name))}" for each in flags)
    return Column("u8", 0, sum(flags), remark=f"bits: {remark}")


def _words(name: str) -> str:
    return name.lower().replace("_", " ")


Index = Annotated[I32, index()]
"""Index of a node, a queue or an application."""
KeyIndex = Annotated[I32, Column("i32", 0, INDEX_MAX - KEYS_RESERVED - 1, True)]
"""Index of a request key, within its application."""
NameIndex = Annotated[I32, Column("name", 0, NAMES)]
Flag = Annotated[U8, Column("u8", 0, 1)]
Count = Annotated[I32, Column("i32", 0, 2**31 - 1)]
Number = Annotated[I32, Column("i32")]
Long = Annotated[I64, Column("i64")]
Amounts = Annotated[I64, Column("R*i64")]
"""Amounts of resources, shape (rows, R)."""

E = TypeVar("E")


class Field(NamedTuple):
    """An array field of an event."""

    name: str
    dtype: np.dtype[Any]
    column: Column | None
    """None: not on the wire."""


@cache
def array_fields(kind: type[Any]) -> tuple[Field, ...]:
    """Return the array fields of a kind of event, in order."""
    hints = get_type_hints(kind, include_extras=True)
    fields_of_kind = []
    for field in fields(kind):
        hint = hints[field.name]
        column = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Column)), None)
        plain = get_args(hint)[0] if column is not None else hint
        if get_origin(plain) is np.ndarray:
            fields_of_kind.append(Field(field.name, np.dtype(get_args(get_args(plain)[1])[0]), column))
    return tuple(fields_of_kind)


def filled(kind: type[E], rows: int, resources: int = 0, **columns: Any) -> E:
    """Return an event of ``rows`` rows; a missing column is 0 in all of them.

    Args:
        kind: an event with array fields only
        rows: number of rows
        resources: number of resource types, required only without a column of amounts
        columns: by name; an array or one value for all rows

    Raises:
        TypeError: there is no such column.
        ValueError: a column has another number of rows.
    """
    of: Any = kind
    fields_of = array_fields(of)
    given = {field.name: np.asarray(columns[field.name], field.dtype) for field in fields_of if field.name in columns}
    if len(given) < len(columns):
        raise TypeError(f"{kind.__name__} has no column {', '.join(name for name in columns if name not in given)}")
    for field in fields_of:
        value = given.get(field.name)
        if value is not None and value.ndim > 0:
            if len(value) != rows:
                raise ValueError(f"the column {field.name} has {len(value)} rows instead of {rows}")
            continue
        wide = field.column is not None and field.column.type == "R*i64"
        width = next((each.shape[1] for each in given.values() if each.ndim == 2), resources) if wide else 0
        filling = np.zeros((rows, width) if wide else rows, field.dtype)
        if value is not None:
            filling[...] = value
        given[field.name] = filling
    return kind(**given)


@dataclass(frozen=True, slots=True)
class TaskEstimates:
    """Hints for the tasks of request keys (absolute values); -1 for an unknown number.

    Not on the wire: the sidecar, a history store or a simulator's oracle adds it to a frame's events, before or after
    the keys' `Requests`, at any time. It is valid until the next one for the same key or until the application ends. A
    `Snapshot` reassigns keys; hints for outstanding requests are carried over (`treadle.model.carry`), for other keys
    only the duration.

    ``duration_ms`` is the expected duration of a task, ``deviation_ms`` its standard deviation. ``tasks`` is the number
    of remaining tasks of the key: running ones and those without a request so far included.
    """

    application: I32
    key: I32
    duration_ms: I64
    deviation_ms: I64
    tasks: I32


@dataclass(frozen=True, slots=True)
class TaskClaims(TaskEstimates):
    """An application's own reports on the tasks of its request keys: like `TaskEstimates`, but less trusted.

    No report counts below the RM's observations (`treadle.policy.work`).
    """


@dataclass(frozen=True, slots=True)
class PlanRanks:
    """The plan's rank of the tasks of request keys (Graphene's tpriScore): 1 first, 0 last; 1 without a plan.

    -1 ends the plan for a key. Not on the wire; kept and dropped like `TaskEstimates`.
    """

    application: I32
    key: I32
    score: F64


@dataclass(frozen=True, slots=True)
class StageInputs:
    """Mean input of all tasks of the sampled stage, in bytes (absolute values).

    Not on the wire; kept and dropped like `TaskEstimates`. If the pilots' inputs are known too (`TaskInputs`), their
    durations are scaled to the mean: a MapReduce job starts with its largest splits.
    """

    application: I32
    mean_bytes: F64


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """Input of the tasks in running containers, in bytes; not on the wire."""

    application: I32
    container: I64
    bytes: F64


@dataclass(frozen=True, slots=True)
class Samples:
    """Sampling state of applications, and their pilots' measurements (SLearn, NSDI 2022).

    Not on the wire: the engine returns it (`treadle.engine.Engine.samples`), and a new engine receives it after the
    snapshot, so that no pilot runs again. It replaces the engine's own findings.

    ``sampling`` is a `treadle.policy.slearn.table.Sampling`, ``stage`` the sampled stage (``sampled_stage`` there),
    ``width`` its number of tasks, ``pilots`` the number to sample, ``ended`` the number of successful pilots,
    ``total_ms`` and ``squares`` the sum of their durations and of the squares, ``mean_ms`` and ``error`` the result
    when the gate opened (-1: none yet), ``percent`` the sampling ratio, ``since_ms`` when pilots were first required,
    ``container_ms`` the time of all containers. For pilots with known input (`TaskInputs`) ``sized_ms`` is the sum of
    durations, ``sized_bytes`` of inputs, ``sized_squares`` of the squares of inputs, ``sized_products`` of durations
    times inputs, ``sized_duration_squares`` of the squares of durations; ``sized`` is their number.
    """

    application: I32
    sampling: I32
    stage: I32
    width: I32
    pilots: I32
    ended: I32
    total_ms: F64
    squares: F64
    mean_ms: F64
    error: F64
    percent: F64
    since_ms: I64
    container_ms: F64
    sized: I32
    sized_ms: F64
    sized_bytes: F64
    sized_squares: F64
    sized_products: F64
    sized_duration_squares: F64


@dataclass(frozen=True, slots=True)
class LearnedState:
    """The state of an earlier process's policy, for an engine whose policy has decided nothing yet.

    Not on the wire: the engine returns it (`treadle.engine.Engine.learned`), and the sidecar keeps it for the next one.
    """

    content: U8
    """The bytes of a `treadle.policy.fair_finish.Kept`."""


@dataclass(frozen=True, slots=True)
class PolicySwitch:
    """A custom part failed or was stopped, and another policy took over in the middle of a cycle.

    Not on the wire: the engine returns it (`treadle.engine.Engine.switches`), and a replay repeats it before the same
    cycle. Timeouts are not caused by events, so runs could not be repeated without it.
    """

    sequence: int
    """The frame answered by the cycle."""
    call: int
    """The number of the call of a custom part in that cycle, from 1; 0: the part could not be created."""
    policy: str
    """The new policy."""
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Drop all state: the following sections describe the whole cluster."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Names:
    """Texts and their indices; the first of a snapshot is the empty text, with index 0.

    An index is the next unused one, or that of a text without references. In the event it is None if all are next ones.
    """

    SECTION: ClassVar = Section(1, "STRINGS")

    texts: Annotated[tuple[str, ...], Column("i32", name="bytes", remark="of each text; all the texts follow")]
    index: Annotated[tuple[int, ...] | None, Column("i32", name="text")] = None

    def into(self, texts: list[str]) -> None:
        """Store the texts by index in a list of all texts."""
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
    """Only in a snapshot; a change of calculator or types requires one.

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
    """Replaces all settings of the RM that the engine uses; see below."""

    SECTION: ClassVar = Section(3, "SETTINGS", whole=True)

    values: Annotated[dict[str, str], Column("name", 0, NAMES, name="key"), Column("name", 0, NAMES, name="value")]


@dataclass(frozen=True, slots=True)
class Queues:
    """Replaces the tree: missing queues are removed; parents before children."""

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
    """Limits and usage of a queue in a partition (absolute values)."""

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
    """A user in a leaf queue and partition (absolute values); only users with outstanding requests are updated."""

    SECTION: ClassVar = Section(6, "USERS")

    queue: Index
    user_name: NameIndex
    partition_name: NameIndex
    limit: Amounts
    used: Amounts


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes (absolute values); ``free`` is the RM's unallocated resource and may be negative."""

    SECTION: ClassVar = Section(7, "NODES")

    node: Index
    name_name: NameIndex
    rack_name: NameIndex
    partition_name: NameIndex
    state: Annotated[U8, code(NodeState)]
    total: Amounts
    free: Amounts


@dataclass(frozen=True, slots=True)
class NodeAttributes:
    """Attributes of nodes (absolute values); ``present`` 0 removes one. A removed node has none.

    ``attribute`` is its prefix, a slash and its name; the RM compares requests with ``value``.
    """

    SECTION: ClassVar = Section(8, "NODE_ATTRIBUTES")

    node: Index
    attribute_name: NameIndex
    value_name: NameIndex
    present: Flag


@dataclass(frozen=True, slots=True)
class Applications:
    """Application attempts (absolute values).

    State named by ``replaces`` is dropped before the later sections of this frame; all state of a removed one is
    dropped. A moved one runs on under another engine. ``partition`` is the default of its requests.
    """

    SECTION: ClassVar = Section(9, "APPLICATIONS")

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

    def ended(self) -> npt.NDArray[np.bool_]:
        """Return for each row whether its application no longer runs here: it was removed or moved."""
        return np.asarray((self.state == int(ApplicationState.GONE)) | (self.state == int(ApplicationState.MOVED)))


@dataclass(frozen=True, slots=True)
class ApplicationUsage:
    """Usage of application attempts (absolute values).

    ``headroom`` is the free allowance of its queue and all parents in the requested partitions when the row was
    written: an upper bound on its next containers, sent again within 100 ms if it grew; limits of users are in `USERS`.
    """

    SECTION: ClassVar = Section(10, "APPLICATION_USAGE")

    application: Index
    containers: Count
    used: Amounts
    headroom: Amounts


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags of applications."""

    SECTION: ClassVar = Section(11, "TAGS")

    application: Index
    tag_name: NameIndex


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Nodes and racks blacklisted by applications; ``present`` 0 removes one."""

    SECTION: ClassVar = Section(12, "BLACKLIST")

    application: Index
    name_name: NameIndex
    present: Flag


@dataclass(frozen=True, slots=True)
class Requests:
    """Request keys and their outstanding count at ANY (absolute values); 0 removes one with its localities.

    ``constrained`` 1: a SchedulingRequest, whose placement only the RM can check.
    """

    SECTION: ClassVar = Section(13, "REQUESTS")

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
    """Outstanding counts at nodes and racks (absolute values); 0 removes one.

    Sent after a change, or all of them with ``replaces`` 1.
    """

    SECTION: ClassVar = Section(14, "LOCALITIES")

    application: Index
    key: KeyIndex
    name_name: NameIndex
    count: Count
    relax_locality: Flag


@dataclass(frozen=True, slots=True)
class Constraints:
    """Placement constraints of ``constrained`` request keys (absolute values); removed with the key.

    ``text`` is the conjunction of the request's own constraint and those of its application and the cluster for its
    allocation tags, in a canonical form (see below). ``opaque`` 1: it is too long, or not of that form, and ``text`` is
    empty. Previously sent allocation tags of the key are dropped.
    """

    SECTION: ClassVar = Section(15, "CONSTRAINTS")

    application: Index
    key: KeyIndex
    text_name: NameIndex
    opaque: Flag


@dataclass(frozen=True, slots=True)
class AllocationTags:
    """Tags of future containers of constrained request keys; removed with the key."""

    SECTION: ClassVar = Section(16, "ALLOCATION_TAGS")

    application: Index
    key: KeyIndex
    tag_name: NameIndex


@dataclass(frozen=True, slots=True)
class Containers:
    """Events of guaranteed containers, in order; in a snapshot the latest of each living one.

    Opportunistic ones are omitted: a promoted one is allocated and launched at that time, a demoted one is completed
    with status -1000, and so is one whose end the shim detects only by comparison with the containers of the
    application. The number of a container is unique only within its application attempt; bits 56 to 62 have its first
    attempt if a later one keeps it.
    """

    SECTION: ClassVar = Section(17, "CONTAINERS")

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
    """The fate of each proposal: the answered frame, its position in the answer, 0 or the reason.

    ``container`` is the container if known, else 0; frames leave it to the row of the container.
    """

    sequence: I64
    position: I32
    fate: U8
    container: I64


@dataclass(frozen=True, slots=True)
class FateRuns:
    """Fates of proposals: ``count`` consecutive ones from ``position`` on, in the answer to frame ``sequence``."""

    SECTION: ClassVar = Section(18, "FATES")

    sequence: Long
    position: Count
    count: Count
    fate: Annotated[U8, code(Fate, shown=False)]


@dataclass(frozen=True, slots=True, repr=False)
class AttemptKeys:
    """Keys of attempts for the plan listener ([Plan listener](plan-listener.md)).

    Only if the engine's status requests them (``keys_for``), and only for the types TEZ and SPARK. Stored frames lack
    this section; it is never sent to an engine, displayed or recorded.
    """

    SECTION: ClassVar = Section(19, "KEYS")

    application: Index
    number: Number
    word0: Long
    word1: Long
    word2: Long
    word3: Long


Event = (
    Snapshot
    | Names
    | ResourceTypes
    | Settings
    | Queues
    | QueueLimits
    | Users
    | Nodes
    | NodeAttributes
    | Applications
    | ApplicationUsage
    | Tags
    | Blacklist
    | Requests
    | Localities
    | Constraints
    | AllocationTags
    | Containers
    | Fates
    | FateRuns
    | AttemptKeys
    | TaskEstimates
    | TaskClaims
    | PlanRanks
    | StageInputs
    | TaskInputs
    | Samples
    | LearnedState
    | PolicySwitch
)


@dataclass(frozen=True, slots=True)
class Proposals:
    """Containers to place, in order: a row is one container for a request key of an application attempt on a node.

    All three columns hold indices assigned by the shim (docs/wire-format.md) and have one row per container. The
    ResourceManager checks a proposal against its own state, and commits it or returns a reason (`Fates`).
    """

    application: I32
    key: I32
    node: I32
    transaction: I32 | None = None
    """Adjacent rows with one number are committed together or not at all; None: each for itself."""

    def __len__(self) -> int:
        return len(self.application)

    @classmethod
    def none(cls) -> Proposals:
        """No proposals."""
        empty = np.empty(0, np.int32)
        return cls(empty, empty, empty)


class Held(NamedTuple):
    """Distinct indices of applications and nodes that a policy deliberately holds back."""

    applications: I32
    """Those with a request that waits only for the policy."""
    nodes: I32
    """Those with free resources reserved for other requests than the present ones."""


NOTHING_HELD: Final = Held(np.empty(0, np.int32), np.empty(0, np.int32))
