"""Treadle's own parts of a policy, and how they get into a registry.

They are listed here and nowhere else: a program that reads a treadle.yaml calls `register_parts`, and then knows all of
them, whatever it has imported besides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from treadle.config.part_files import EstimateFilePart, FilePart, KeyedFilePart
from treadle.config.parts import PARTS, NoParameters, Parameters, PartRegistry
from treadle.policy.estimates import NoEstimate, ObservedEstimate, ObservedParameters, ToldEstimate, ToldParameters
from treadle.policy.fits import FirstFit, Packing, PackingParameters, RandomFit, Tetris, TetrisParameters
from treadle.policy.gates import AllGate
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
from treadle.policy.user_parts import FileEstimate, FileFit, FileGate, FileOrder, FileShare

OWN: Final[dict[str, dict[str, tuple[type[Parameters], Callable[..., Any]]]]] = {
    "gate": {
        "all": (NoParameters, AllGate),
        "file": (FilePart, FileGate),
        "pilots": (PilotsParameters, PilotsGate),
    },
    "share": {
        "capacity": (NoParameters, CapacityShare),
        "deficit": (DeficitParameters, DeficitShare),
        "drf": (TreeParameters, DrfShare),
        "file": (KeyedFilePart, FileShare),
        "hdrf": (HdrfParameters, HdrfShare),
        "none": (NoParameters, NoShare),
    },
    "order": {
        "fair": (FairParameters, FairOrder),
        "fifo": (NoParameters, FifoOrder),
        "file": (KeyedFilePart, FileOrder),
        "las": (NoParameters, LasOrder),
        "mlfq": (MlfqParameters, MlfqOrder),
        "queue": (NoParameters, QueueOrder),
        "srpt": (NoParameters, SrptOrder),
    },
    "fit": {
        "file": (KeyedFilePart, FileFit),
        "first_fit": (NoParameters, FirstFit),
        "packing": (PackingParameters, Packing),
        "random_fit": (NoParameters, RandomFit),
        "tetris": (TetrisParameters, Tetris),
    },
    "estimate": {
        "combined": (CombinedParameters, CombinedEstimate),
        "file": (EstimateFilePart, FileEstimate),
        "none": (NoParameters, NoEstimate),
        "observed": (ObservedParameters, ObservedEstimate),
        "pilots": (PilotsEstimateParameters, PilotsEstimate),
        "told": (ToldParameters, ToldEstimate),
    },
}
"""For each of the kinds of parts what there is by name: the model of the parameters, and what is made from them."""


def register_parts(registry: PartRegistry = PARTS) -> None:
    """Register Treadle's own parts; those that the registry has already stay."""
    for part, kinds in OWN.items():
        for kind, (parameters, make) in kinds.items():
            if not registry.has(part, kind):
                registry.register(part, kind, parameters)(make)
