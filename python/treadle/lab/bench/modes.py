"""The schedulers that are compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from treadle.lab.bench.errors import BenchError

_STOCK = "io.treadle.sls.MeasuredCapacityScheduler"
_TREADLE = "io.treadle.sls.SlsTreadleScheduler"
_FLOOR_ENGINE = "io.treadle.sls.FirstFitEngine"
_CAPACITY = "yarn.scheduler.capacity."
_ASYNC = _CAPACITY + "schedule-asynchronously."


class Kind(StrEnum):
    """What a mode stands for in the comparison."""

    STOCK = "stock"
    OBSERVER = "observer"
    TREADLE = "treadle"
    FLOOR = "floor"


@dataclass(frozen=True)
class Mode:
    """One way of scheduling: a scheduler class for SLS and its settings."""

    name: str
    kind: Kind
    scheduler_class: str
    capacity_settings: dict[str, str] = field(default_factory=dict)
    """Goes to capacity-scheduler.xml."""
    yarn_settings: dict[str, str] = field(default_factory=dict)
    """Goes to yarn-site.xml."""


def _async(threads: int) -> Mode:
    return Mode(
        name=f"async-{threads}",
        kind=Kind.STOCK,
        scheduler_class=_STOCK,
        capacity_settings={_ASYNC + "enable": "true", _ASYNC + "maximum-threads": str(threads)},
    )


_AT_HEARTBEATS: Final = {
    _CAPACITY + "per-node-heartbeat.multiple-assignments-enabled": "true",
    _CAPACITY + "per-node-heartbeat.maximum-container-assignments": "100",
    _CAPACITY + "per-node-heartbeat.maximum-offswitch-assignments": "100",
}

MODES: Final[dict[str, Mode]] = {
    mode.name: mode
    for mode in (
        Mode(
            name="sync",
            kind=Kind.STOCK,
            scheduler_class=_STOCK,
            capacity_settings=_AT_HEARTBEATS,
        ),
        Mode(
            name="observe",
            kind=Kind.OBSERVER,
            scheduler_class=_TREADLE,
            capacity_settings=_AT_HEARTBEATS,
            yarn_settings={"yarn.scheduler.treadle.mode": "observe_only"},
        ),
        _async(1),
        _async(2),
        Mode("treadle", Kind.TREADLE, _TREADLE, yarn_settings={"yarn.scheduler.treadle.mode": "enforce"}),
        Mode(
            "floor",
            Kind.FLOOR,
            _TREADLE,
            yarn_settings={
                "yarn.scheduler.treadle.mode": "enforce",
                "yarn.scheduler.treadle.engine.class": _FLOOR_ENGINE,
            },
        ),
    )
}
"""All modes by name, in the order in which they run."""


def chosen(names: Iterable[str]) -> list[Mode]:
    """Return the modes of these names, all if there are none, in the order of MODES.

    Raise BenchError on a name that there is not.
    """
    wanted = set(names)
    unknown = sorted(wanted - MODES.keys())
    if unknown:
        raise BenchError(f"--mode {unknown[0]}: there is no such mode; there are {', '.join(MODES)}")
    return [mode for mode in MODES.values() if not wanted or mode.name in wanted]
