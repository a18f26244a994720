"""Events: what the engine is told, as columns.

An event is what one section of a frame says (docs/wire-format.md has the meaning of every column). The live sidecar
decodes events from frames; the simulator and tests build them directly. Rows of one event describe different things of
one kind; every column of an event has the same number of rows. Amounts of resources have the shape (rows, R), in the
order of `ResourceTypes`.

Columns named ``*_name`` hold indices into the texts given by `Names` since the last `Snapshot`; 0 is the empty text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

INDEX_MAX: Final = 1 << 22
"""Indices of nodes, queues, applications, request keys and texts are below this; they begin at 0 with each snapshot.

The one bound of wire and model: a frame beyond it is refused before anything is made of it, and the model has room for
whatever is below.
"""

KEYS_AHEAD: Final = 128
"""So many of the highest request keys stand for stages that are not asked for yet. They outlive a snapshot."""

KEYS_RESERVED: Final = 1024
"""So many of the highest request keys are never on the wire: those for stages ahead, and below them those under which
an engine keeps what it was told of tasks that run while nothing of their kind is asked for any more.
"""


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


class Replaces(IntEnum):
    """Bits of `Applications.replaces`: what is dropped before the later events of the same frame."""

    REQUESTS = 1
    BLACKLIST = 2
    TAGS = 4


class ContainerEvent(IntEnum):
    """A step in a container's life."""

    ALLOCATED = 1
    LAUNCHED = 2
    COMPLETED = 3
    RESIZED = 4


class Fate(IntEnum):
    """What became of a proposal: committed, or the reason why not."""

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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Forget everything: what follows describes the whole cluster."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Names:
    """Texts that get the next free indices, in order. After a `Snapshot` the first is the empty text, index 0."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceTypes:
    """The cluster's resource types, memory (MB) first; ``counted`` is 0 where the ResourceCalculator ignores one."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    counted: U8
    minimum: I64
    maximum: I64


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the RM that the engine follows; replaces earlier ones."""

    values: dict[str, str]


@dataclass(frozen=True, slots=True)
class Queues:
    """The whole queue tree, parents before children; a queue not in it is gone."""

    queue: I32
    parent: I32
    path_name: I32
    state: U8
    leaf: U8
    ordering_policy_name: I32
    size_based_weight: U8
    priority: I32


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What a queue may and does use in a partition, absolute."""

    queue: I32
    partition_name: I32
    guaranteed: I64
    maximum: I64
    used: I64
    pending: I64
    am_limit: I64
    am_used: I64


@dataclass(frozen=True, slots=True)
class Users:
    """What a user may and does use in a leaf queue and partition, absolute."""

    queue: I32
    user_name: I32
    partition_name: I32
    limit: I64
    used: I64


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes as they are now; ``state`` is a `NodeState`, ``free`` may be negative."""

    node: I32
    name_name: I32
    rack_name: I32
    partition_name: I32
    state: U8
    total: I64
    free: I64


@dataclass(frozen=True, slots=True)
class Applications:
    """Application attempts as they are now; ``state`` is an `ApplicationState`, ``replaces`` bits of `Replaces`."""

    application: I32
    cluster_timestamp: I64
    id: I32
    attempt: I32
    name_name: I32
    type_name: I32
    user_name: I32
    queue: I32
    partition_name: I32
    priority: I32
    submit_time_ms: I64
    start_time_ms: I64
    state: U8
    awaiting_am: U8
    replaces: U8


@dataclass(frozen=True, slots=True)
class ApplicationUsage:
    """What application attempts use, and an upper bound on what they may get next, absolute."""

    application: I32
    containers: I32
    used: I64
    headroom: I64


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags of applications."""

    application: I32
    tag_name: I32


@dataclass(frozen=True, slots=True)
class Blacklist:
    """Nodes and racks that applications do not want."""

    application: I32
    name_name: I32


@dataclass(frozen=True, slots=True)
class Requests:
    """Request keys and their outstanding count at ANY, absolute; a count of 0 removes one."""

    application: I32
    key: I32
    priority: I32
    allocation_request_id: I64
    count: I32
    relax_locality: U8
    constrained: U8
    partition_name: I32
    capability: I64


@dataclass(frozen=True, slots=True)
class Localities:
    """Outstanding counts of request keys at nodes and racks."""

    application: I32
    key: I32
    name_name: I32
    count: I32
    relax_locality: U8


@dataclass(frozen=True, slots=True)
class Containers:
    """Steps in the lives of containers, in order; ``event`` is a `ContainerEvent`, -1 says that an index is gone."""

    container: I64
    application: I32
    priority: I32
    node: I32
    event: U8
    time_ms: I64
    created_ms: I64
    exit_status: I32
    by_treadle: U8
    am: U8
    capability: I64


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of proposals: the frame answered, the position in the answer, a `Fate`, the container or 0."""

    sequence: I64
    position: I32
    fate: U8
    container: I64


@dataclass(frozen=True, slots=True, repr=False)
class AttemptKeys:
    """Keys of application attempts, in four words each, and their numbers (`treadle.am.keys`).

    On the wire, and for the plan listener alone: an engine is never told, nothing shows or records them.
    """

    application: I32
    number: I32
    word0: I64
    word1: I64
    word2: I64
    word3: I64


@dataclass(frozen=True, slots=True)
class TaskEstimates:
    """What somebody knows of the tasks behind request keys, absolute; -1 where a number is not known.

    Not on the wire: the sidecar, a profile store or a simulator's oracle adds it to a frame's events, before or after
    the keys' `Requests`, at any time. It holds until the next one for the same key or until the application is gone. A
    `Snapshot` gives out other keys; what was told of asks is found again (`treadle.model.carry`), of those that there
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

    No claim counts below what the RM sees (`treadle.policy.claims`).
    """


@dataclass(frozen=True, slots=True)
class PlanRanks:
    """How early a plan wants the tasks behind request keys (Graphene's tpriScore): 1 first, 0 last; 1 if never told.

    -1 says that there is no plan for the key any more. Not on the wire; told and forgotten like `TaskEstimates`.
    """

    application: I32
    key: I32
    score: F64


@dataclass(frozen=True, slots=True)
class StageInputs:
    """How much a task of the stage that is sampled reads in the mean of all tasks of the stage, absolute.

    Not on the wire; told and forgotten like `TaskEstimates`. Where pilots' own inputs are known too (`TaskInputs`) what
    they say is scaled to the mean: a MapReduce job hands out its largest splits first.
    """

    application: I32
    mean_bytes: F64


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """How much the tasks in containers read. Told of containers that run; not on the wire."""

    application: I32
    container: I64
    bytes: F64


@dataclass(frozen=True, slots=True)
class Samples:
    """Where applications stand with the gate that samples tasks, and what their pilots have said (SLearn, NSDI 2022).

    Not on the wire: the engine tells it (`treadle.engine.Engine.samples`), and whoever starts an engine anew gives it
    back after the snapshot, so that pilots need not run again. What is told replaces what the engine found out itself.

    ``sampling`` is a `treadle.model.applications.Sampling`, ``stage`` the stage that is sampled (``sampled_stage``
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

    Not on the wire: the engine tells it (`treadle.engine.Engine.switches`), and whoever repeats a run gives it back
    before the same decide. What makes a part take too long is no event, so without this a run could not be repeated.
    """

    sequence: int
    """The frame that the decide answered."""
    call: int
    """Which call to such a part in that decide it was, from 1; 0: the part could not be made."""
    policy: str
    """The policy that took over."""
    reason: str


Event = (
    Snapshot
    | Names
    | ResourceTypes
    | Settings
    | Queues
    | QueueLimits
    | Users
    | Nodes
    | Applications
    | ApplicationUsage
    | Tags
    | Blacklist
    | Requests
    | Localities
    | Containers
    | Fates
    | AttemptKeys
    | TaskEstimates
    | TaskClaims
    | PlanRanks
    | StageInputs
    | TaskInputs
    | Samples
    | PolicySwitch
)
