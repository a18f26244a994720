"""Engines with other parts than the default ones, and events that the fake RM does not tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from treadle import events
from treadle.config.parts import PART_KINDS, PARTS
from treadle.config.settings import EngineReservation, Settings, default_settings, with_parts
from treadle.engine import Engine
from treadle.events import ContainerEvent
from treadle.policy.shares.tree import AIM
from treadle.policy.slearn.table import PilotKeeper, Sampled


def any_parts() -> st.SearchStrategy[dict[str, str]]:
    """Return a kind for each of the five parts: any goes with any other."""
    return st.fixed_dictionaries({part: st.sampled_from(_kinds(part)) for part in PART_KINDS})


def _kinds(part: str) -> list[str]:
    return sorted(name for name in PARTS.kinds(part) if name != "file")


def settings_with(**parts: Any) -> Settings:
    """Return settings with these kinds of parts, such as ``order="srpt"`` or ``fit=("packing", {"window": 1})``."""
    return replace(with_parts(default_settings(), parts), engine_reservation=EngineReservation(nodes_max=0))


def engine_with(**parts: Any) -> Engine:
    """Return an engine with these kinds of parts and no holds."""
    return Engine(settings_with(**parts))


def aim_of(engine: Engine, queue: int, partition: str = "") -> float:
    """Return where repaired H-DRF takes a leaf in a partition: its dominant share."""
    inside = engine.inside()
    assert inside is not None and inside[1] is not None
    names, shares = inside[0].names, inside[1].shares
    number = [names.texts[name] for name in names.partitions].index(partition)
    return float(shares.aims[number, shares.leaf_node[queue], AIM])


def pilot_table(engine: Engine) -> Sampled:
    """Return what the gate `pilots` of an engine keeps."""
    keeper = engine._policy._keepers.get(PilotKeeper)
    assert isinstance(keeper, PilotKeeper)
    assert engine._cluster is not None
    return keeper.fit(engine._cluster)


def job_row(engine: Engine, app: int) -> np.void:
    """Return what the gate `pilots` of an engine keeps of an application."""
    record: np.void = pilot_table(engine).jobs[app]
    return record


def estimates(*keys: tuple[int, int, int, int]) -> events.TaskEstimates:
    """Return estimates of (application, key, duration_ms, tasks)."""
    columns = np.array(keys).T
    app, key, tasks = (columns[at].astype(np.int32) for at in (0, 1, 3))
    return events.TaskEstimates(app, key, columns[2], np.full(len(keys), -1), tasks)


def claims(*keys: tuple[int, int, int, int]) -> events.TaskClaims:
    """Return what applications say themselves: (application, key, duration_ms, tasks)."""
    said = estimates(*keys)
    return events.TaskClaims(said.application, said.key, said.duration_ms, said.deviation_ms, said.tasks)


def ranks(*keys: tuple[int, int, float]) -> events.PlanRanks:
    """Return ranks of (application, key, score)."""
    columns = np.array(keys).T
    return events.PlanRanks(columns[0].astype(np.int32), columns[1].astype(np.int32), columns[2])


def containers(event: ContainerEvent, *lives: tuple[int, int, int, int, int], exit_status: int = 0) -> Any:
    """Return a step of containers (application, number, priority, created_ms, time_ms) of one unit of each resource."""
    count = len(lives)
    columns = np.array(lives).T

    def i32(values: Any) -> events.I32:
        return np.broadcast_to(np.asarray(values, np.int32), (count,)).copy()

    flags = np.zeros(count, np.uint8)
    return events.Containers(
        container=columns[1],
        application=i32(columns[0]),
        priority=i32(columns[2]),
        node=i32(0),
        event=flags + np.uint8(event),
        time_ms=columns[4],
        created_ms=columns[3],
        exit_status=i32(exit_status),
        by_treadle=flags,
        am=flags.copy(),
        capability=np.ones((count, 2), np.int64),
    )
