"""What history says of a job before its pilots have: whether it needs any, and how long later stages take."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, NamedTuple

from treadle.compiled.array_types import F64
from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find
from treadle.compiled.structs import tables
from treadle.model.containers import group_key, is_of_stage
from treadle.policy.slearn.pilot_estimates import joined

if TYPE_CHECKING:
    from treadle.model.tables import View


@tables
class Trust(NamedTuple):
    """When history is taken at its word; 0 for the first two: never."""

    deviation_max: float
    """A task's duration was told with a deviation of at most so large a part of it."""
    deviations: float
    """Or sizes by so many deviations smaller and larger are of one level."""
    thresholds_ms: F64
    """Between the levels."""
    sampling_level: int
    """Pilots would run at this level: history that is sure of no higher one is sure enough."""


@inner
def stage_told(view: View, app: int) -> int:
    """Return a key of the stage that is sampled whose tasks' duration was told, or -1."""
    at = view.apps[app].first_told
    while at >= 0:
        of_stage = view.told[at].priority >= 0 and is_of_stage(view.apps[app].sampled_stage, view.told[at].priority)
        if of_stage and view.told[at].duration_ms > 0:
            return at
        at = view.told[at].next
    return -1


@inner
def widest_ahead(view: View, app: int) -> int:
    """Return how many tasks the widest stage has that was told of and is not asked for yet."""
    width, at = 0, view.apps[app].first_told
    while at >= 0:
        if view.told[at].priority < 0:
            width = max(width, view.told[at].tasks)
        at = view.told[at].next
    return width


@inner
def told_size_ms(view: View, app: int, stage: int, deviations: float) -> float:
    """Return the size of a job by what was told, each stage so many deviations of it larger; -1 if one is not known.

    ``stage`` is the key of the stage that is sampled; of those after it how many tasks they have must have been told.
    """
    size_ms, at = 0.0, view.apps[app].first_told
    while at >= 0:
        tasks = view.apps[app].width if at == stage else view.told[at].tasks if view.told[at].priority < 0 else 0
        if tasks > 0:
            duration_ms = float(view.told[at].duration_ms)
            if duration_ms <= 0.0 or view.told[at].deviation_ms < 0:
                return -1.0
            size_ms += tasks * duration_ms * exp(deviations * view.told[at].deviation_ms / duration_ms)
        at = view.told[at].next
    return size_ms


@inner
def level_of(size_ms: float, thresholds_ms: F64) -> int:
    """Return the level of a size."""
    level = 0
    while level < len(thresholds_ms) and thresholds_ms[level] < size_ms:
        level += 1
    return level


@inner
def is_trusted(view: View, app: int, trust: Trust) -> bool:
    """Say whether an application needs no pilots, by what was told of its tasks."""
    stage = stage_told(view, app)
    if stage < 0 or view.told[stage].deviation_ms < 0:
        return False
    deviation_max_ms = trust.deviation_max * view.told[stage].duration_ms
    if trust.deviation_max > 0.0 and view.told[stage].deviation_ms <= deviation_max_ms:
        return True
    if trust.deviations <= 0.0:
        return False
    low_ms = told_size_ms(view, app, stage, -trust.deviations)
    high_ms = told_size_ms(view, app, stage, trust.deviations)
    if low_ms <= 0.0 or high_ms <= 0.0:
        return False
    high = level_of(high_ms, trust.thresholds_ms)
    return bool(high <= trust.sampling_level or high == level_of(low_ms, trust.thresholds_ms))


@inner
def correction(view: View, app: int, default_error: float) -> float:
    """Return by how much pilots correct what was told of their stage; 1 if either has said nothing.

    The ratio of both (SLearn-DAG), or with ``default_error`` of their joint estimate and what was told.
    """
    stage = stage_told(view, app)
    pilots_ms = view.apps[app].pilot_mean_ms
    if stage < 0 or pilots_ms < 0.0:
        return 1.0
    told_ms = float(view.told[stage].duration_ms)
    if default_error > 0.0:
        error = default_error
        if view.told[stage].deviation_ms >= 0:
            error = view.told[stage].deviation_ms / told_ms
        pilots_ms = joined(pilots_ms, view.apps[app].pilot_error, told_ms, error)
    return pilots_ms / told_ms


@kernel
def scale_told(
    view: View, size: int, keys: int, default_error: float, factors: F64, rows_ms: F64, groups_ms: F64, told_ms: F64
) -> None:
    """Set what was told of stages that are not sampled, times what pilots said of the sampled one over what was told.

    ``size`` and ``keys`` are how many applications and told keys there are, ``factors`` room for a number by
    application. With ``default_error`` above 0 pilots count with the weight of their certainty.
    """
    for app in range(size):
        factors[app] = correction(view, app, default_error)
    for at in range(keys):
        app, priority = view.told[at].application, view.told[at].priority
        if app < 0 or view.told[at].duration_ms < 0:
            continue
        if view.apps[app].pilot_mean_ms >= 0.0 and is_of_stage(view.apps[app].sampled_stage, priority):
            continue
        told_ms[at] = view.told[at].duration_ms * factors[app]
        if view.told[at].row >= 0:
            rows_ms[view.told[at].row] = told_ms[at]
        if priority >= 0:
            group = find(view.group_index, group_key(app, priority))
            if group >= 0:
                groups_ms[group] = told_ms[at]
