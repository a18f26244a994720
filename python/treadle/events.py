"""Events: what goes into the engine, as columns.

An event is the content of one section of a frame (docs/wire-format.md describes every column), or what the sidecar, a
profile store, a plan or a simulator's oracle adds to them. The live sidecar decodes events from frames; the simulator
and tests build them directly. Rows of one event describe different things of one kind; every column of an event has the
same number of rows. Amounts of resources have the shape (rows, R), in the order of `ResourceTypes`. A class that is a
kind of section has the columns as its fields, in their order, and the annotation of a field is the column's type and
bounds: `treadle.wire.schema` reads decoder, encoder, bounds and the tables of docs/wire-format.md from them. Columns
named ``*_name`` hold indices into the texts given by `Names` since the last `Snapshot`; 0 is the empty text. Types on
the wire are ``u8``, ``i32``, ``i64``, ``name`` (an ``i32`` into those texts) and ``R*i64`` (one ``i64`` column for each
of the cluster's R resource types).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from functools import cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt


class QueueState(IntEnum):
    """May applications be submitted to a queue, and those that are there be served?"""

    STOPPED = 0
    RUNNING = 1
    DRAINING = 2


class NodeState(IntEnum):
    """May containers be placed on a node?"""

    GONE = 0
    USABLE = 1
    UNUSABLE = 2


class ApplicationState(IntEnum):
    """Where an application attempt stands in its queue."""

    GONE = 0
    ACTIVE = 1
    WAITING = 2
    MOVED = 3


class Replaces(IntFlag):
    """Bits of `Applications.replaces`: what is dropped before the later events of the same frame."""

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
    """The fate of a proposal: committed, or the reason why not."""

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
"""Fates of what could have been committed when the engine looked, and cannot any more."""


# not `numpy.typing.NDArray`: from numpy 2.5 on it is an alias whose type of elements cannot be read
U8 = np.ndarray[Any, np.dtype[np.uint8]]
I32 = np.ndarray[Any, np.dtype[np.int32]]
I64 = np.ndarray[Any, np.dtype[np.int64]]
F64 = np.ndarray[Any, np.dtype[np.float64]]

INDEX_MAX: Final = 1 << 22
"""Indices of nodes, queues, applications, request keys and texts are below this; they begin at 0 with each snapshot.

The one bound of wire and model: a frame beyond it is refused before anything is made of it, and the model has room for
whatever is below.
"""

KEYS_AHEAD: Final = 128
"""Number of the highest request keys, reserved for stages without asks so far. They outlive a snapshot."""

KEYS_RESERVED: Final = 1024
"""How many of the highest request keys are never on the wire: those for stages ahead, and below them those under which
an engine keeps hints for tasks that run while nothing of their kind is asked for any more.
"""

NAMES: Final = -1
"""In place of an upper bound: the index of the last text sent since the last snapshot."""


class Column(NamedTuple):
    """How a column is on the wire. A bound that is None allows every value of the type."""

    type: str
    low: int | None = None
    high: int | None = None
    is_index: bool = False
    """Does the shim give out these numbers? Then there may be too many of them between two snapshots."""
    name: str = ""
    """The column's name where it is not that of the field (without the ending ``_name`` of a column of names)."""
    remark: str = ""
    """What docs/wire-format.md says of the values, in brackets."""


class Section(NamedTuple):
    """A kind of section: the number and the name of an event on the wire."""

    kind: int
    name: str
    whole: bool = False
    """Do its rows replace all earlier ones, so that it is never split over two frames?"""


def index(absent: str = "") -> Column:
    """Return the column of an index that the shim gives out; ``absent`` says what -1 means, if it may be."""
    return Column("i32", -1 if absent else 0, INDEX_MAX - 1, True, remark=f"-1: {absent}" if absent else "")


def code(codes: type[IntEnum], shown: bool = True) -> Column:
    """Return the column of one of some codes."""
    remark = ", ".join(f"{each.value} {_words(each.name)}" for each in codes) if shown else ""
    return Column("u8", min(codes), max(codes), remark=remark)


def bits(flags: type[IntFlag]) -> Column:
    """Return the column of some bits."""
    remark = ", ".join(f"{each.value} {_words(str(each.name))}" for each in flags)
    return Column("u8", 0, sum(flags), remark=f"bits: {remark}")


def _words(name: str) -> str:
    return name.lower().replace("_", " ")


Index = Annotated[I32, index()]
"""Of a node, a queue or an application."""
KeyIndex = Annotated[I32, Column("i32", 0, INDEX_MAX - KEYS_RESERVED - 1, True)]
"""Of a request key, within its application."""
NameIndex = Annotated[I32, Column("name", 0, NAMES)]
Flag = Annotated[U8, Column("u8", 0, 1)]
Count = Annotated[I32, Column("i32", 0, 2**31 - 1)]
Number = Annotated[I32, Column("i32")]
Long = Annotated[I64, Column("i64")]
Amounts = Annotated[I64, Column("R*i64")]
"""Of resources: a row a thing, a column a resource type."""

E = TypeVar("E")


class Field(NamedTuple):
    """A field of an event that is an array."""

    name: str
    dtype: np.dtype[Any]
    column: Column | None
    """None: not on the wire."""


@cache
def array_fields(kind: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a kind of event that are arrays, in order."""
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
    """Return an event of ``rows`` rows; a column that is not given is 0 in all of them.

    Args:
        kind: an event of which every field is an array
        rows: how many
        resources: resource types, wanted only where no column of amounts is given
        columns: by name; an array or one value for all rows

    Raises:
        TypeError: there is no such column.
        ValueError: a column has another number of rows.
    """
    of: Any = kind
    fields_of = array_fields(of)
    here = (field for field in fields_of if field.name in columns)
    given = {field.name: np.asarray(columns.pop(field.name), field.dtype) for field in here}
    if columns:
        raise TypeError(f"{kind.__name__} has no column {', '.join(columns)}")
    width = next((value.shape[1] for value in given.values() if value.ndim == 2), resources)
    values: dict[str, np.ndarray[Any, Any]] = {}
    for field in fields_of:
        value = given.get(field.name)
        if value is None or value.ndim == 0:
            wide = field.column is not None and field.column.type == "R*i64"
            filling = np.zeros((rows, width) if wide else rows, field.dtype)
            if value is not None:
                filling[...] = value
            value = filling
        elif len(value) != rows:
            raise ValueError(f"the column {field.name} has {len(value)} rows instead of {rows}")
        values[field.name] = value
    return kind(**values)


@dataclass(frozen=True, slots=True)
class TaskEstimates:
    """What somebody knows of the tasks behind request keys, absolute; -1 where a number is not known.

    Not on the wire: the sidecar, a profile store or a simulator's oracle adds it to a frame's events, before or after
    the keys' `Requests`, at any time. It holds until the next one for the same key or until the application is gone. A
    `Snapshot` gives out other keys; hints for asks are found again (`treadle.model.carry`), of those that there
    are no more only the duration.

    ``duration_ms`` is how long a task of the key is expected to run, ``deviation_ms`` the standard deviation of that.
    ``tasks`` is the width left: how many tasks of the key have not ended, those that run and those not asked for yet
    included.
    """

    application: I32
    key: I32
    duration_ms: I64
    deviation_ms: I64
    tasks: I32


@dataclass(frozen=True, slots=True)
class TaskClaims(TaskEstimates):
    """What an application itself says of the tasks behind its request keys: like `TaskEstimates`, and less believed.

    No claim counts below what the RM sees (`treadle.policy.work`).
    """


@dataclass(frozen=True, slots=True)
class PlanRanks:
    """How early a plan wants the tasks behind request keys (Graphene's tpriScore): 1 first, 0 last; 1 without one.

    -1 says that there is no plan for the key any more. Not on the wire; kept and forgotten like `TaskEstimates`.
    """

    application: I32
    key: I32
    score: F64


@dataclass(frozen=True, slots=True)
class StageInputs:
    """How much a task of the stage that is sampled reads in the mean of all tasks of the stage, absolute.

    Not on the wire; kept and forgotten like `TaskEstimates`. Where pilots' own inputs are known too (`TaskInputs`) what
    they say is scaled to the mean: a MapReduce job hands out its largest splits first.
    """

    application: I32
    mean_bytes: F64


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """Bytes that the tasks of running containers read; not on the wire."""

    application: I32
    container: I64
    bytes: F64


@dataclass(frozen=True, slots=True)
class Samples:
    """Where applications stand with the gate that samples tasks, and their pilots' measurements (SLearn, NSDI 2022).

    Not on the wire: the engine returns it (`treadle.engine.Engine.samples`), and a new engine gets it
    back after the snapshot, so that no pilot runs again. It replaces what the engine found out itself.

    ``sampling`` is a `treadle.policy.slearn.table.Sampling`, ``stage`` the stage that is sampled (``sampled_stage``
    there), ``width`` how many tasks that has, ``pilots`` how many of them are to be sampled, ``ended`` how many pilots
    have ended well, ``total_ms`` and ``squares`` the sum of their durations and of their squares, ``mean_ms`` and
    ``error`` what they said when the gate opened (-1: nothing yet), ``percent`` the sampling ratio, ``since_ms`` when
    they began to be wanted, ``container_ms`` the time that all containers have had. Of those pilots whose input is
    known (`TaskInputs`) ``sized_ms`` is the sum of durations, ``sized_bytes`` of inputs, ``sized_squares`` of the
    squares of inputs, ``sized_products`` of durations times inputs, ``sized_duration_squares`` of the squares of
    durations; ``sized`` is how many they are.
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
class PolicySwitch:
    """A part from a user's file failed or was stopped, and another policy took over in the middle of a decide.

    Not on the wire: the engine returns it (`treadle.engine.Engine.switches`), and a replay gives it back
    before the same decide. What makes a part take too long is no event, so without this a run could not be repeated.
    """

    sequence: int
    """The frame that the decide answered."""
    call: int
    """Which call to such a part in that decide it was, from 1; 0: the part could not be made."""
    policy: str
    """The policy that took over."""
    reason: str


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
    """Free resources of nodes, absolute, where nothing else has changed. The RM sends `NODES` instead."""

    SECTION: ClassVar = Section(8, "NODES_FREE")

    node: Index
    free: Amounts


@dataclass(frozen=True, slots=True)
class NodeAttributes:
    """Attributes of nodes, each absolute; ``present`` 0: the node has it no more. A node that is gone has none.

    ``attribute`` is its prefix, a slash and its name; the RM compares requests with ``value``.
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

    def ended(self) -> npt.NDArray[np.bool_]:
        """Return for each row whether its application runs here no more: it is gone, or was moved."""
        return np.isin(self.state, (int(ApplicationState.GONE), int(ApplicationState.MOVED)))


@dataclass(frozen=True, slots=True)
class ApplicationUsage:
    """What application attempts use, absolute.

    ``headroom`` is what its queue and all above it left free in the partitions that it asks for, when the row was
    written: an upper bound on its next containers, sent again within 100 ms if it grew; limits of users are in
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
    """Keys of attempts for the plan listener ([Plan listener](plan-listener.md)).

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


Event = (
    Snapshot
    | Names
    | ResourceTypes
    | Settings
    | Queues
    | QueueLimits
    | Users
    | Nodes
    | NodesFree
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
    | PolicySwitch
)
