"""How long tasks take by what pilots said, alone or together with what was told."""

from __future__ import annotations

from math import exp, log
from typing import TYPE_CHECKING, Final

from treadle.compiled.functions import inner, kernel
from treadle.compiled.pair_map import find
from treadle.model.containers import group_key, is_of_stage

if TYPE_CHECKING:
    from treadle.compiled.array_types import F64
    from treadle.model.tables import View

ERROR_MIN: Final = 1e-3
"""No estimate counts for more certain than that."""


@inner
def joined(pilots_ms: float, pilot_error: float, told_ms: float, told_error: float) -> float:
    """Return two estimates of the same as one: their logarithms by inverse variance."""
    weight = 1.0 / max(pilot_error, ERROR_MIN) ** 2
    told_weight = 1.0 / max(told_error, ERROR_MIN) ** 2
    return exp((weight * log(max(pilots_ms, 1.0)) + told_weight * log(told_ms)) / (weight + told_weight))


@inner
def is_sampled(view: View, app: int, priority: int) -> bool:
    """Say whether pilots have told how long an application's tasks of this priority take; False if it is none (-1)."""
    if app < 0 or view.apps[app].pilot_mean_ms < 0.0:
        return False
    return is_of_stage(view.apps[app].sampled_stage, priority)


@kernel
def pilot_durations(view: View, rows: int, groups: int, rows_ms: F64, groups_ms: F64) -> None:
    """Set what pilots said for the asks and the tasks of the stage that they belong to."""
    for row in range(rows):
        if is_sampled(view, view.rows[row].application, view.rows[row].priority):
            rows_ms[row] = view.apps[view.rows[row].application].pilot_mean_ms
    for group in range(groups):
        if is_sampled(view, view.groups[group].application, view.groups[group].priority):
            groups_ms[group] = view.apps[view.groups[group].application].pilot_mean_ms


@kernel
def join_told(view: View, keys: int, default_error: float, rows_ms: F64, groups_ms: F64) -> None:
    """Join what pilots said with what was told of the same keys; ``default_error`` where no deviation was told."""
    for at in range(keys):
        app, priority = view.told[at].application, view.told[at].priority
        if priority < 0 or view.told[at].duration_ms <= 0 or not is_sampled(view, app, priority):
            continue
        told_ms = float(view.told[at].duration_ms)
        error = default_error
        if view.told[at].deviation_ms >= 0:
            error = view.told[at].deviation_ms / told_ms
        joint_ms = joined(view.apps[app].pilot_mean_ms, view.apps[app].pilot_error, told_ms, error)
        if view.told[at].row >= 0:
            rows_ms[view.told[at].row] = joint_ms
        group = find(view.group_index, group_key(app, priority))
        if group >= 0:
            groups_ms[group] = joint_ms
