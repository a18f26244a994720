"""The built-in parts of policies, one line each, with the properties that programs need.

This is the only list: a program that reads a treadle.yaml calls `register_parts` and then knows all of them, whatever
else it has imported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from treadle.config.part_files import EstimateFilePart, FilePart, KeyedFilePart
from treadle.config.parts import DURATIONS, PARTS, TASK_ESTIMATES, NoParameters, Parameters, PartRegistry, Traits
from treadle.policy import fair_finish, mapreduce, node_search, orders, parts, phoenix, user_parts
from treadle.policy.shares import (
    capacity,
    deficit,
    hdrf,
    none,
    tree,
)
from treadle.policy.slearn import estimates, gate


@dataclass(frozen=True, slots=True)
class BuiltinPart:
    """A built-in part."""

    part: str
    """One of `treadle.config.parts.PART_KINDS`."""
    kind: str
    make: type[parts.PolicyPart]
    parameters: type[Parameters] = NoParameters
    traits: Traits = field(default_factory=Traits)


_BY_DURATIONS: Final = Traits(estimates=(DURATIONS,))
_BY_PILOTS: Final = Traits(by_pilots=True)
_FOLLOWS: Final = Traits(overrides=False)

BUILTIN_PARTS: Final = (
    BuiltinPart("gate", "all", parts.AllGate, traits=_FOLLOWS),
    BuiltinPart("gate", "file", user_parts.FileGate, FilePart),
    BuiltinPart("gate", "phoenix", phoenix.PhoenixGate, phoenix.PhoenixGateParameters),
    BuiltinPart("gate", "pilots", gate.PilotsGate, gate.PilotsParameters, _BY_PILOTS),
    BuiltinPart("gate", "parallelism", mapreduce.ParallelismGate, mapreduce.ParallelismParameters),
    BuiltinPart("share", "capacity", capacity.CapacityShare, traits=_FOLLOWS),
    BuiltinPart("share", "deficit", deficit.DeficitShare, deficit.DeficitParameters),
    BuiltinPart("share", "drf", hdrf.DrfShare, tree.TreeParameters),
    BuiltinPart("share", "file", user_parts.FileShare, KeyedFilePart),
    BuiltinPart("share", "hdrf", hdrf.HdrfShare, hdrf.HdrfParameters),
    BuiltinPart("share", "none", none.NoShare),
    BuiltinPart("order", "fair_finish", fair_finish.FairFinishOrder, traits=_BY_DURATIONS),
    BuiltinPart("order", "fair", orders.FairOrder, orders.FairParameters),
    BuiltinPart("order", "fifo", orders.FifoOrder, traits=Traits(compares_priorities=True)),
    BuiltinPart("order", "file", user_parts.FileOrder, KeyedFilePart),
    BuiltinPart("order", "las", orders.LasOrder),
    BuiltinPart("order", "mlfq", orders.MlfqOrder, orders.MlfqParameters, _BY_DURATIONS),
    BuiltinPart("order", "phoenix", phoenix.PhoenixOrder, phoenix.PhoenixOrderParameters, _BY_DURATIONS),
    BuiltinPart("order", "queue", orders.QueueOrder, traits=Traits(overrides=False, compares_priorities=True)),
    BuiltinPart("order", "srpt", orders.SrptOrder, traits=_BY_DURATIONS),
    BuiltinPart("fit", "file", user_parts.FileFit, KeyedFilePart),
    BuiltinPart("fit", "first_fit", node_search.FirstFit, node_search.FirstFitParameters),
    BuiltinPart("fit", "packing", node_search.Packing, node_search.PackingParameters),
    BuiltinPart("fit", "random_fit", node_search.RandomFit),
    BuiltinPart("fit", "tetris", node_search.Tetris, node_search.TetrisParameters, _BY_DURATIONS),
    BuiltinPart("estimate", "combined", estimates.CombinedEstimate, estimates.CombinedParameters, _BY_PILOTS),
    BuiltinPart("estimate", "file", user_parts.FileEstimate, EstimateFilePart),
    BuiltinPart("estimate", "none", parts.NoEstimate, traits=_FOLLOWS),
    BuiltinPart("estimate", "observed", parts.ObservedEstimate, parts.ObservedParameters),
    BuiltinPart("estimate", "pilots", estimates.PilotsEstimate, estimates.PilotsEstimateParameters, _BY_PILOTS),
    BuiltinPart("estimate", "time_on_test", fair_finish.TimeOnTestEstimate, fair_finish.TimeOnTestParameters),
    BuiltinPart("estimate", "hints", parts.HintsEstimate, parts.HintsParameters, Traits(estimates=(TASK_ESTIMATES,))),
)
"""All built-in parts."""


def register_parts(registry: PartRegistry = PARTS) -> None:
    """Register the built-in parts that the registry does not contain yet."""
    for own in BUILTIN_PARTS:
        if not registry.has(own.part, own.kind):
            registry.register(own.part, own.kind, own.parameters, own.traits)(own.make)
