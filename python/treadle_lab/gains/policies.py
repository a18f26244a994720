"""The policies that `gains` compares: ready-made ones, YARN's orderings, and references that know what none can."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from treadle.admin.install import find_policy
from treadle.config.settings import Settings
from treadle.simulate import Scenario
from treadle.simulate.batch import settings_of
from treadle_lab.gains.workloads import Point

BASELINE: Final = "fair"
READY_MADE: Final = (
    "capacity",
    "drf",
    "fair",
    "fifo",
    "graphene",
    "hdrf",
    "hdrf-srpt",
    "mapreduce-workers",
    "phoenix",
    "slearn",
    "slearn-history",
    "srpt",
    "tetris",
)
STOCK: Final = {"fifo": "YARN's fifo", "fair": "YARN's fair", "fair-by-size": "YARN's fair by size"}
REFERENCES: Final = {
    "srpt-true": "reference: SRPT, true durations",
    "fair-finish-true": "reference: fair sharing's finish order, true durations",
}
ONE_QUEUE: Final = {"drf": "capacity", "hdrf": "capacity", "hdrf-srpt": "srpt"}
"""With one queue a share decides nothing: these are the policies on the right."""
PLACES: Final = {"mapreduce-workers": "-", "phoenix": "Unlike nodes", "slearn-history": "-"}
"""The only workloads of some policies. Elsewhere they decide as another: `phoenix` as `srpt` where nothing is
constrained, `slearn-history` as `slearn` without a store. `mapreduce-workers` holds each job to ten tasks beside other
engines, and alone measures that bound."""
FOLDER: Final = Path(__file__).parent / "policies"
QUICK: Final = ("fifo", "fair", "fair-by-size", "srpt", "slearn")


def names_at(point: Point) -> tuple[str, ...]:
    """Return the policies that run at a point: those that are another one there do not."""
    if point.only:
        return point.only
    own = (*READY_MADE, *(name for name in STOCK if name not in READY_MADE), *REFERENCES)
    left_out = set() if point.several_queues else set(ONE_QUEUE)
    left_out |= {name for name, workload in PLACES.items() if not point.workload.startswith(workload)}
    return tuple(name for name in own if name not in left_out)


def file_of(name: str) -> Path:
    """Return a policy's file."""
    own = FOLDER / f"{name}.yaml"
    return own if own.is_file() else find_policy(name)


def chosen(name: str, scenario: Scenario) -> Settings:
    """Return a policy's settings on a scenario."""
    return settings_of(file_of(name), scenario)[1]
