"""Asks that only some nodes can serve: the schedulers that get the same jobs in turns, and what is known of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from treadle.admin.install import ready_made
from treadle_lab.minicluster import Scheduler

ALLOCATOR: Final = {
    "yarn.scheduler.app-placement-allocator.class": "io.treadle.shim.constraints.TreadlePlacementAllocator"
}
POLICY: Final = """\
policy:
  share: {kind: capacity}
  order: {kind: srpt}
  fit: {kind: packing}
  estimate: {kind: observed}
"""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheduler; ``policy`` is a treadle.yaml, empty under the stock one."""

    name: str
    scheduler: Scheduler
    policy: str = ""


SCHEMES: Final = ("stock", "blind", "srpt", "phoenix")


def schemes() -> list[Scheme]:
    """Return the schemes; phoenix only if this version has that policy."""
    found = [
        Scheme("stock", Scheduler.CAPACITY),
        Scheme("blind", Scheduler.TREADLE, POLICY),
        Scheme("srpt", Scheduler.TREADLE, POLICY),
    ]
    file = ready_made().get("phoenix")
    return found if file is None else [*found, Scheme("phoenix", Scheduler.TREADLE, file.read_text("utf-8"))]


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a job."""

    name: str
    short: bool
    status: str
    completion_ms: int
    """From its submission to its end, by the ResourceManager's clock."""
    misplaced: int
    """Containers beside its master's on nodes that it does not allow."""


@dataclass(frozen=True, slots=True)
class Round:
    """The jobs of a seed under one scheduler."""

    seed: int
    scheme: str
    jobs: tuple[Ended, ...]
    proposals: int
    """Of the engine; 0 under the stock scheduler."""
    constraint_rejections: int
