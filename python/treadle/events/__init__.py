"""Events: what goes into the engine, as columns.

An event is the content of one section of a frame (docs/wire-format.md describes every column). The live sidecar
decodes events from frames; the simulator and tests build them directly. Rows of one event describe different things of
one kind; every column of an event has the same number of rows. Amounts of resources have the shape (rows, R), in the
order of `ResourceTypes`.
"""

from __future__ import annotations

from treadle.events.beside import PlanRanks, PolicySwitch, Samples, StageInputs, TaskClaims, TaskEstimates, TaskInputs
from treadle.events.codes import CONFLICTS, ApplicationState, ContainerEvent, Fate, NodeState, QueueState, Replaces
from treadle.events.columns import F64, I32, I64, INDEX_MAX, KEYS_AHEAD, KEYS_RESERVED, U8, filled
from treadle.events.sections import (
    AllocationTags,
    Applications,
    ApplicationUsage,
    AttemptKeys,
    Blacklist,
    Constraints,
    Containers,
    FateRuns,
    Fates,
    Localities,
    Names,
    NodeAttributes,
    Nodes,
    NodesFree,
    QueueLimits,
    Queues,
    Requests,
    ResourceTypes,
    Settings,
    Snapshot,
    Tags,
    Users,
)

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

__all__ = [
    "CONFLICTS",
    "F64",
    "I32",
    "I64",
    "INDEX_MAX",
    "KEYS_AHEAD",
    "KEYS_RESERVED",
    "U8",
    "AllocationTags",
    "ApplicationState",
    "ApplicationUsage",
    "Applications",
    "AttemptKeys",
    "Blacklist",
    "Constraints",
    "ContainerEvent",
    "Containers",
    "Event",
    "Fate",
    "FateRuns",
    "Fates",
    "Localities",
    "Names",
    "NodeAttributes",
    "NodeState",
    "Nodes",
    "NodesFree",
    "PlanRanks",
    "PolicySwitch",
    "QueueLimits",
    "QueueState",
    "Queues",
    "Replaces",
    "Requests",
    "ResourceTypes",
    "Samples",
    "Settings",
    "Snapshot",
    "StageInputs",
    "Tags",
    "TaskClaims",
    "TaskEstimates",
    "TaskInputs",
    "Users",
    "filled",
]
