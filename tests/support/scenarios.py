"""Simulated clusters that a test writes in a line: nodes of equal slots, jobs whose tasks take a slot each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.config.settings import Settings, default_settings
from treadle.simulator.scenario import ScenarioModel, jobs_of
from treadle.simulator.simulation import SimulatedRun, Simulation

SLOT = {"memory-mb": 1024, "vcores": 1}


def stage(tasks: int, seconds: float, *parents: int, **more: Any) -> dict[str, Any]:
    """Return a stage of a job."""
    return {"tasks": tasks, "duration_s": seconds, "demand": SLOT, "parents": parents} | more


def machines(count: int, slots: int, **more: Any) -> dict[str, Any]:
    """Return nodes that have so many slots each."""
    return {"count": count, "resources": {name: amount * slots for name, amount in SLOT.items()}} | more


def scenario(jobs: list[dict[str, Any]], *nodes: dict[str, Any], **sections: Any) -> ScenarioModel:
    """Return a cluster of some nodes, or of two with four slots, whose RM hears of everything at once."""
    document = {"cluster": {"nodes": nodes or [machines(2, 4)], "heartbeat_ms": 0}, "workload": {"jobs": jobs}}
    ideal = {"frameworks": {"heartbeat_ms": 0, "launch_ms": 0}, "decision": {"tick_ms": 1}}
    at_once = {name: values | sections.pop(name, {}) for name, values in ideal.items()}
    return ScenarioModel.model_validate(document | at_once | sections)


def simulation(
    read: ScenarioModel, settings: Settings | None = None, seed: int = 1, folder: Path = Path()
) -> Simulation:
    """Return a simulation whose engine follows the default settings, or others."""
    return Simulation(read, jobs_of(read, folder, seed), settings or default_settings(), seed)


def simulated(
    read: ScenarioModel, settings: Settings | None = None, seed: int = 1, folder: Path = Path()
) -> SimulatedRun:
    """Return a simulation's end."""
    return simulation(read, settings, seed, folder).run()
