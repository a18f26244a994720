"""The built-in parts of policies, one line each, with the properties that programs need.

This is the only list: a program that reads a treadle.yaml calls `register_parts` and then knows all of them, whatever
else it has imported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from treadle.config.part_files import EstimateFilePart, FilePart, KeyedFilePart
from treadle.config.parts import (
    DURATIONS,
    PARTS,
    TASK_ESTIMATES,
    CarriedState,
    NoParameters,
    Parameters,
    PartRegistry,
    Traits,
)
from treadle.policy.fair_finish import FairFinishOrder, TimeOnTestEstimate, TimeOnTestParameters
from treadle.policy.mapreduce import ParallelismGate, ParallelismParameters
from treadle.policy.node_search import (
    FirstFit,
    FirstFitParameters,
    Packing,
    PackingParameters,
    RandomFit,
    Tetris,
    TetrisParameters,
)
from treadle.policy.orders import (
    FairOrder,
    FairParameters,
    FifoOrder,
    LasOrder,
    MlfqOrder,
    MlfqParameters,
    QueueOrder,
    SrptOrder,
)
from treadle.policy.parts import (
    AllGate,
    HintsEstimate,
    HintsParameters,
    NoEstimate,
    ObservedEstimate,
    ObservedParameters,
    PolicyPart,
)
from treadle.policy.phoenix import PhoenixGate, PhoenixGateParameters, PhoenixOrder, PhoenixOrderParameters
from treadle.policy.shares.capacity import CapacityShare
from treadle.policy.shares.deficit import DeficitParameters, DeficitShare
from treadle.policy.shares.hdrf import DrfShare, HdrfParameters, HdrfShare
from treadle.policy.shares.none import NoShare
from treadle.policy.shares.tree import TreeParameters
from treadle.policy.slearn.estimates import (
    CombinedEstimate,
    CombinedParameters,
    PilotsEstimate,
    PilotsEstimateParameters,
)
from treadle.policy.slearn.gate import PilotsGate, PilotsParameters
from treadle.policy.slearn.table import LEARNED
from treadle.policy.user_parts import FileEstimate, FileFit, FileGate, FileOrder, FileShare


@dataclass(frozen=True, slots=True)
class BuiltinPart:
    """A built-in part."""

    part: str
    """One of `treadle.config.parts.PART_KINDS`."""
    kind: str
    make: type[PolicyPart]
    parameters: type[Parameters] = NoParameters
    traits: Traits = field(default_factory=Traits)


MEMORY: Final = CarriedState("your object", "nothing: it stays as it is")
ENDED: Final = CarriedState("groups.ended, groups.ended_ms", "application and priority")
HINTS: Final = CarriedState("hints", "ask, or reserved key")
STARTS: Final = CarriedState("master_since_ms", "application")
SAMPLES: Final = (
    CarriedState(", ".join(LEARNED), "application"),
    CarriedState("input_bytes", "application"),
    CarriedState("Sampled.pilot, tasks.input_bytes", "container"),
    CarriedState("Sampled.ended", "application and priority"),
)
RATIO: Final = CarriedState("AdaptiveRatio", "nothing: it is one for all")
SERVICE: Final = CarriedState("service_ms, share", "application")
TIME: Final = CarriedState("container_ms, charged", "application")
PROGRESS: Final = (
    CarriedState("Progress.jobs", "application attempt"),
    CarriedState("Progress.ghost_ms", "queue"),
    CarriedState("Progress.logs, counts, known", "nothing: they are of all jobs"),
)
DEFICITS: Final = CarriedState("Shares.deficits", "queue and partition")
CURSOR: Final = CarriedState("CURSOR", "node")
SCORES: Final = (
    CURSOR,
    CarriedState("BUNDLE", "node"),
    CarriedState("Scratch.averages, SCORED", "nothing: they are one for all"),
)

MOMENTS: Final = CarriedState("Contention.moments, Contention.usual", "node; what classes demand")
PASSED: Final = CarriedState("Contention.since_ms, passed_ms, given", "application attempt")
LEVELS: Final = CarriedState("Contention.levels", "preferences, in words")

_BY_HAND: Final = Traits(keeps=(MEMORY,))

BUILTIN_PARTS: Final = (
    BuiltinPart("gate", "all", AllGate, traits=Traits(overrides=False)),
    BuiltinPart("gate", "file", FileGate, FilePart, _BY_HAND),
    BuiltinPart(
        "gate",
        "phoenix",
        PhoenixGate,
        PhoenixGateParameters,
        Traits(keeps=(MOMENTS, LEVELS)),
    ),
    BuiltinPart(
        "gate",
        "pilots",
        PilotsGate,
        PilotsParameters,
        Traits(by_pilots=True, keeps=(*SAMPLES, RATIO, STARTS)),
    ),
    BuiltinPart("gate", "parallelism", ParallelismGate, ParallelismParameters, Traits(keeps=(ENDED, HINTS))),
    BuiltinPart("share", "capacity", CapacityShare, traits=Traits(overrides=False)),
    BuiltinPart("share", "deficit", DeficitShare, DeficitParameters, Traits(keeps=(DEFICITS,))),
    BuiltinPart("share", "drf", DrfShare, TreeParameters),
    BuiltinPart("share", "file", FileShare, KeyedFilePart, _BY_HAND),
    BuiltinPart("share", "hdrf", HdrfShare, HdrfParameters),
    BuiltinPart("share", "none", NoShare),
    BuiltinPart(
        "order",
        "fair_finish",
        FairFinishOrder,
        traits=Traits(estimates=(DURATIONS,), keeps=PROGRESS),
    ),
    BuiltinPart("order", "fair", FairOrder, FairParameters),
    BuiltinPart("order", "fifo", FifoOrder, traits=Traits(compares_priorities=True)),
    BuiltinPart("order", "file", FileOrder, KeyedFilePart, _BY_HAND),
    BuiltinPart("order", "las", LasOrder, traits=Traits(keeps=(SERVICE,))),
    BuiltinPart("order", "mlfq", MlfqOrder, MlfqParameters, Traits(estimates=(DURATIONS,), keeps=(TIME,))),
    BuiltinPart(
        "order",
        "phoenix",
        PhoenixOrder,
        PhoenixOrderParameters,
        Traits(estimates=(DURATIONS,), keeps=(MOMENTS, PASSED)),
    ),
    BuiltinPart("order", "queue", QueueOrder, traits=Traits(overrides=False, compares_priorities=True)),
    BuiltinPart("order", "srpt", SrptOrder, traits=Traits(estimates=(DURATIONS,))),
    BuiltinPart("fit", "file", FileFit, KeyedFilePart, _BY_HAND),
    BuiltinPart("fit", "first_fit", FirstFit, FirstFitParameters),
    BuiltinPart("fit", "packing", Packing, PackingParameters, Traits(keeps=(CURSOR,))),
    BuiltinPart("fit", "random_fit", RandomFit),
    BuiltinPart("fit", "tetris", Tetris, TetrisParameters, Traits(estimates=(DURATIONS,), keeps=SCORES)),
    BuiltinPart(
        "estimate", "combined", CombinedEstimate, CombinedParameters, Traits(by_pilots=True, keeps=(ENDED, HINTS))
    ),
    BuiltinPart("estimate", "file", FileEstimate, EstimateFilePart, _BY_HAND),
    BuiltinPart("estimate", "none", NoEstimate, traits=Traits(overrides=False)),
    BuiltinPart("estimate", "observed", ObservedEstimate, ObservedParameters, Traits(keeps=(ENDED,))),
    BuiltinPart(
        "estimate", "pilots", PilotsEstimate, PilotsEstimateParameters, Traits(by_pilots=True, keeps=(ENDED, HINTS))
    ),
    BuiltinPart("estimate", "time_on_test", TimeOnTestEstimate, TimeOnTestParameters, Traits(keeps=PROGRESS)),
    BuiltinPart(
        "estimate", "hints", HintsEstimate, HintsParameters, Traits(estimates=(TASK_ESTIMATES,), keeps=(HINTS,))
    ),
)
"""All built-in parts."""


def register_parts(registry: PartRegistry = PARTS) -> None:
    """Register the built-in parts that the registry does not contain yet."""
    for own in BUILTIN_PARTS:
        if not registry.has(own.part, own.kind):
            registry.register(own.part, own.kind, own.parameters, own.traits)(own.make)
