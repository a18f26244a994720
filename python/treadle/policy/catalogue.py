"""Treadle's own parts of a policy: a line each, with what a program must know of them.

They are listed here and nowhere else: a program that reads a treadle.yaml calls `register_parts`, and then knows all of
them, whatever it has imported besides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from treadle.config.part_files import EstimateFilePart, FilePart, KeyedFilePart
from treadle.config.parts import (
    DURATIONS,
    PARTS,
    TASK_ESTIMATES,
    Kept,
    NoParameters,
    Parameters,
    PartRegistry,
    Traits,
)
from treadle.policy.fair_finish import FairFinishOrder, TimeOnTestEstimate, TimeOnTestParameters
from treadle.policy.mapreduce import WorkersGate, WorkersParameters
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
class Own:
    """A part of Treadle's own."""

    part: str
    """One of `treadle.config.parts.QUESTIONS`."""
    kind: str
    make: type[PolicyPart]
    parameters: type[Parameters] = NoParameters
    traits: Traits = field(default_factory=Traits)


MEMORY: Final = Kept("your object", "nothing: it stays as it is")
ENDED: Final = Kept("groups.ended, groups.ended_ms", "application and priority")
HINTS: Final = Kept("hints", "ask, or reserved key")
STARTS: Final = Kept("master_since_ms", "application")
SAMPLES: Final = (
    Kept(", ".join(LEARNED), "application"),
    Kept("input_bytes", "application"),
    Kept("Sampled.pilot, tasks.input_bytes", "container"),
    Kept("Sampled.ended", "application and priority"),
)
RATIO: Final = Kept("AdaptiveRatio", "nothing: it is one for all")
SERVICE: Final = Kept("service_ms, share", "application")
TIME: Final = Kept("container_ms, charged", "application")
PROGRESS: Final = (
    Kept("Progress.jobs", "application attempt"),
    Kept("Progress.ghost_ms", "queue"),
    Kept("Progress.logs, counts, known", "nothing: they are of all jobs"),
)
DEFICITS: Final = Kept("Shares.deficits", "queue and partition")
CURSOR: Final = Kept("CURSOR", "node")
SCORES: Final = (CURSOR, Kept("BUNDLE", "node"), Kept("Scratch.averages, SCORED", "nothing: they are one for all"))

MOMENTS: Final = Kept("Contention.moments, Contention.usual", "node; what classes demand")
PASSED: Final = Kept("Contention.since_ms, passed_ms, given", "application attempt")
LEVELS: Final = Kept("Contention.levels", "preferences, in words")

_BY_HAND: Final = Traits(keeps=(MEMORY,))

OWN: Final = (
    Own("gate", "all", AllGate, traits=Traits(overrides=False)),
    Own("gate", "file", FileGate, FilePart, _BY_HAND),
    Own(
        "gate",
        "phoenix",
        PhoenixGate,
        PhoenixGateParameters,
        Traits(keeps=(MOMENTS, LEVELS)),
    ),
    Own(
        "gate",
        "pilots",
        PilotsGate,
        PilotsParameters,
        Traits(by_pilots=True, keeps=(*SAMPLES, RATIO, STARTS)),
    ),
    Own("gate", "workers", WorkersGate, WorkersParameters, Traits(keeps=(ENDED, HINTS))),
    Own("share", "capacity", CapacityShare, traits=Traits(overrides=False)),
    Own("share", "deficit", DeficitShare, DeficitParameters, Traits(keeps=(DEFICITS,))),
    Own("share", "drf", DrfShare, TreeParameters),
    Own("share", "file", FileShare, KeyedFilePart, _BY_HAND),
    Own("share", "hdrf", HdrfShare, HdrfParameters),
    Own("share", "none", NoShare),
    Own(
        "order",
        "fair_finish",
        FairFinishOrder,
        traits=Traits(estimates=(DURATIONS,), keeps=PROGRESS),
    ),
    Own("order", "fair", FairOrder, FairParameters),
    Own("order", "fifo", FifoOrder, traits=Traits(compares_priorities=True)),
    Own("order", "file", FileOrder, KeyedFilePart, _BY_HAND),
    Own("order", "las", LasOrder, traits=Traits(keeps=(SERVICE,))),
    Own("order", "mlfq", MlfqOrder, MlfqParameters, Traits(estimates=(DURATIONS,), keeps=(TIME,))),
    Own(
        "order",
        "phoenix",
        PhoenixOrder,
        PhoenixOrderParameters,
        Traits(estimates=(DURATIONS,), keeps=(MOMENTS, PASSED)),
    ),
    Own("order", "queue", QueueOrder, traits=Traits(overrides=False, compares_priorities=True)),
    Own("order", "srpt", SrptOrder, traits=Traits(estimates=(DURATIONS,))),
    Own("fit", "file", FileFit, KeyedFilePart, _BY_HAND),
    Own("fit", "first_fit", FirstFit, FirstFitParameters),
    Own("fit", "packing", Packing, PackingParameters, Traits(keeps=(CURSOR,))),
    Own("fit", "random_fit", RandomFit),
    Own("fit", "tetris", Tetris, TetrisParameters, Traits(estimates=(DURATIONS,), keeps=SCORES)),
    Own("estimate", "combined", CombinedEstimate, CombinedParameters, Traits(by_pilots=True, keeps=(ENDED, HINTS))),
    Own("estimate", "file", FileEstimate, EstimateFilePart, _BY_HAND),
    Own("estimate", "none", NoEstimate, traits=Traits(overrides=False)),
    Own("estimate", "observed", ObservedEstimate, ObservedParameters, Traits(keeps=(ENDED,))),
    Own("estimate", "pilots", PilotsEstimate, PilotsEstimateParameters, Traits(by_pilots=True, keeps=(ENDED, HINTS))),
    Own("estimate", "time_on_test", TimeOnTestEstimate, TimeOnTestParameters, Traits(keeps=PROGRESS)),
    Own("estimate", "hints", HintsEstimate, HintsParameters, Traits(estimates=(TASK_ESTIMATES,), keeps=(HINTS,))),
)
"""All of them."""


def register_parts(registry: PartRegistry = PARTS) -> None:
    """Register Treadle's own parts; those that the registry has already stay."""
    for own in OWN:
        if not registry.has(own.part, own.kind):
            registry.register(own.part, own.kind, own.parameters, own.traits)(own.make)
