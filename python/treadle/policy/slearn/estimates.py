"""Task durations from pilots and from history, and the weight of each (SLearn)."""

from __future__ import annotations

from math import exp, log
from typing import Final, NamedTuple

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64, Records
from treadle.compiled.functions import inner, kernel, tables
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.parts import BY_PILOTS, Estimate, Keepers, ObservedParameters
from treadle.policy.slearn.table import NONE, PilotKeeper, Sampled, is_of_stage
from treadle.policy.state import UNBOUNDED
from treadle.policy.work import Durations, hinted_durations, observed_durations, set_duration

ERROR_MIN: Final = 1e-3
"""Lower bound of the relative error of an estimate."""


@inner
def joined(view: View, sampled: Sampled, app: int, hint: int, default_error: float) -> float:
    """Return the combination of pilots and a hint: the mean of their logarithms, weighted by inverse variance.

    ``default_error`` is that of a hint without a deviation.
    """
    hint_ms = float(view.hints[hint].duration_ms)
    hint_error = view.hints[hint].deviation_ms / hint_ms if view.hints[hint].deviation_ms >= 0 else default_error
    weight = 1.0 / max(sampled.jobs[app].pilot_error, ERROR_MIN) ** 2
    hint_weight = 1.0 / max(hint_error, ERROR_MIN) ** 2
    logs = weight * log(max(sampled.jobs[app].pilot_mean_ms, 1.0)) + hint_weight * log(hint_ms)
    return exp(logs / (weight + hint_weight))


@inner
def is_sampled(sampled: Sampled, app: int, priority: int) -> bool:
    """Return whether pilots have measured an application's tasks of this priority; False for no priority (-1)."""
    if app < 0 or app >= len(sampled.jobs) or sampled.jobs[app].pilot_mean_ms < 0.0:
        return False
    return is_of_stage(sampled.jobs[app].sampled_stage, priority)


@kernel
def pilot_durations(view: View, sampled: Sampled, found: Durations) -> None:
    """Set the pilots' mean for requests and running tasks of their stage."""
    for row in range(found.rows):
        if is_sampled(sampled, view.rows[row].application, view.rows[row].priority):
            found.rows_ms[row] = sampled.jobs[view.rows[row].application].pilot_mean_ms
    for group in range(found.groups):
        if is_sampled(sampled, view.groups[group].application, view.groups[group].priority):
            found.groups_ms[group] = sampled.jobs[view.groups[group].application].pilot_mean_ms


@kernel
def join_hints(view: View, sampled: Sampled, default_error: float, found: Durations) -> None:
    """Combine pilots' means with hints for the same keys; ``default_error`` applies to hints without a deviation."""
    for at in range(found.hints):
        app, priority = view.hints[at].application, view.hints[at].priority
        if priority >= 0 and view.hints[at].duration_ms > 0 and is_sampled(sampled, app, priority):
            set_duration(view, found, at, joined(view, sampled, app, at, default_error))


Z90: Final = 1.6449
"""Number of deviations on either side of the mean that contain 90 % of a normal distribution."""


@tables
class History(NamedTuple):
    """When history makes pilots unnecessary, and how much a job may use by it before its pilots have ended."""

    deviation_max: float
    """It does up to this relative deviation of the hint for a task's duration; 0: never."""
    deviations: float
    """Also if sizes this many deviations smaller and larger are in one level, or below that of pilots; 0: never."""
    part: float
    """Maximum fraction of the cluster for a job, by a size `Z90` deviations larger; 0: its pilots alone."""
    thresholds_ms: F64
    """Thresholds between the levels, in ms."""
    sampling_level: int
    """Level of pilots; history may raise it."""
    totals: F64
    """The cluster's resources."""


@inner
def stage_hint(view: View, sampled: Sampled, app: int) -> int:
    """Return a hint for the duration of the sampled stage's tasks, or -1."""
    at = view.apps[app].first_hint
    while at >= 0:
        of_stage = view.hints[at].priority >= 0 and is_of_stage(
            sampled.jobs[app].sampled_stage, view.hints[at].priority
        )
        if of_stage and view.hints[at].duration_ms > 0:
            return at
        at = view.hints[at].next
    return -1


@inner
def widest_ahead(view: View, app: int) -> int:
    """Return the number of tasks of the widest hinted stage without requests so far."""
    width, at = 0, view.apps[app].first_hint
    while at >= 0:
        if view.hints[at].priority < 0:
            width = max(width, view.hints[at].tasks)
        at = view.hints[at].next
    return width


@inner
def hinted_size_ms(view: View, sampled: Sampled, app: int, stage: int, deviations: float) -> float:
    """Return the hinted size of a job in ms, with each stage some deviations larger; -1 if a value is missing.

    ``stage`` is the key of the sampled stage; hints for later stages must include numbers of tasks.
    """
    size_ms, at = 0.0, view.apps[app].first_hint
    while at >= 0:
        tasks = sampled.jobs[app].width if at == stage else view.hints[at].tasks if view.hints[at].priority < 0 else 0
        if tasks > 0:
            duration_ms = float(view.hints[at].duration_ms)
            if duration_ms <= 0.0 or view.hints[at].deviation_ms < 0:
                return -1.0
            size_ms += tasks * duration_ms * exp(deviations * view.hints[at].deviation_ms / duration_ms)
        at = view.hints[at].next
    return size_ms


@inner
def level_of(size_ms: float, thresholds_ms: F64) -> int:
    """Return the level of a size."""
    level = 0
    while level < len(thresholds_ms) and thresholds_ms[level] < size_ms:
        level += 1
    return level


@inner
def is_confident(view: View, sampled: Sampled, app: int, history: History) -> bool:
    """Return whether hints make an application's pilots unnecessary."""
    stage = stage_hint(view, sampled, app)
    if stage < 0 or view.hints[stage].deviation_ms < 0:
        return False
    deviation_max_ms = history.deviation_max * view.hints[stage].duration_ms
    if history.deviation_max > 0.0 and view.hints[stage].deviation_ms <= deviation_max_ms:
        return True
    if history.deviations <= 0.0:
        return False
    low_ms = hinted_size_ms(view, sampled, app, stage, -history.deviations)
    high_ms = hinted_size_ms(view, sampled, app, stage, history.deviations)
    if low_ms <= 0.0 or high_ms <= 0.0:
        return False
    high = level_of(high_ms, history.thresholds_ms)
    return bool(high <= history.sampling_level or high == level_of(low_ms, history.thresholds_ms))


@inner
def correction(view: View, sampled: Sampled, app: int, default_error: float) -> float:
    """Return the factor by which pilots correct the hint for their stage; 1 if either is missing.

    The ratio of both (SLearn-DAG), or with ``default_error`` that of their combination and the hint.
    """
    if app >= len(sampled.jobs) or sampled.jobs[app].pilot_mean_ms < 0.0:
        return 1.0
    stage, pilots_ms = stage_hint(view, sampled, app), sampled.jobs[app].pilot_mean_ms
    if stage < 0:
        return 1.0
    if default_error > 0.0:
        pilots_ms = joined(view, sampled, app, stage, default_error)
    return pilots_ms / float(view.hints[stage].duration_ms)


@kernel
def scale_hints(view: View, sampled: Sampled, default_error: float, factors: F64, found: Durations) -> None:
    """Set hinted durations of stages that are not sampled, times the ratio of pilots to hint of the sampled one.

    ``factors`` is scratch space by application. With ``default_error`` above 0 pilots are weighted by their certainty.
    """
    hint_ms = found.hint_ms
    for app in range(len(factors)):
        factors[app] = correction(view, sampled, app, default_error)
    for at in range(found.hints):
        app, priority = view.hints[at].application, view.hints[at].priority
        if app >= 0 and view.hints[at].duration_ms >= 0 and not is_sampled(sampled, app, priority):
            hint_ms[at] = view.hints[at].duration_ms * factors[app]
            set_duration(view, found, at, hint_ms[at])


@inner
def level_by_history(view: View, sampled: Sampled, app: int, history: History) -> int:
    """Return the level of a job `Z90` deviations larger than hinted, -1 without hints."""
    stage = stage_hint(view, sampled, app)
    if history.part <= 0.0 or stage < 0:
        return -1
    size_ms = hinted_size_ms(view, sampled, app, stage, Z90)
    return level_of(size_ms, history.thresholds_ms) if size_ms > 0.0 else -1


@inner
def level_by_now(view: View, sampled: Sampled, app: int, pilots_ms: float, history: History) -> int:
    """Return the level if the pilots ended now; ``pilots_ms`` is their total run time."""
    stage = stage_hint(view, sampled, app)
    mean_ms = pilots_ms / max(sampled.jobs[app].pilots + sampled.jobs[app].replacements, 1)
    size_ms = hinted_size_ms(view, sampled, app, stage, 0.0) * mean_ms / view.hints[stage].duration_ms
    return level_of(size_ms, history.thresholds_ms)


@inner
def tasks_within_quota(view: View, row: int, history: History) -> int:
    """Return how many containers of a request make up the fraction of the cluster that a job may use."""
    share = 0.0
    for r in range(len(history.totals)):
        if view.counted[r] and history.totals[r] > 0.0:
            share = max(share, view.capability[row, r] / history.totals[r])
    return int(history.part / share + 1e-9) if share > 0.0 else UNBOUNDED


class PilotsEstimateParameters(ObservedParameters):
    """Parameters of the estimate `pilots`."""

    scale_history: bool = Field(
        default=False,
        description="Stages that are not sampled take the hints for them, times the pilots' duration over "
        "its hint (SLearn-DAG).",
    )

    def needs(self) -> tuple[str, ...]:
        """Return the required event sources: the history store, if hints are scaled."""
        return ("history.store",) if self.scale_history else ()


class CombinedParameters(Parameters):
    """Parameters of the estimate `combined`."""

    default_ms: int = Field(
        default=30_000,
        ge=1,
        le=2**40,
        description="How long a task is taken to run for which there is no hint and no observation.",
    )
    hint_error: float = Field(
        default=1.0,
        gt=0.0,
        le=10.0,
        description="How far off a hint without a deviation is taken to be: the deviation of its logarithm.",
    )
    scale_history: bool = Field(
        default=True,
        description="Hints for stages that are not sampled are corrected by as much as the pilots correct the hint "
        "for theirs.",
    )


class PilotsEstimate(Estimate, kind="pilots", parameters=PilotsEstimateParameters, traits=BY_PILOTS):
    """The mean of a stage's pilots, once they have ended (gate: pilots); for other stages as `observed`."""

    _hint_error = 0.0
    """The error of a hint without a deviation; 0: hints are no estimates of their own, pilots only scale them."""

    def __init__(self, parameters: PilotsEstimateParameters | CombinedParameters) -> None:
        self.default_ms = float(parameters.default_ms)
        self._scale_history = parameters.scale_history

    def use(self, keepers: Keepers) -> None:
        """Use the pilots of the policy's gate, if the gate samples."""
        self.kept = keepers.get(PilotKeeper)

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the durations."""
        sampled = NONE if self.kept is None else self.kept.fit(cluster)
        observed_durations(view, ended, found)
        if self._hint_error > 0.0:
            hinted_durations(view, found)
        if self._scale_history:
            factors = np.empty(cluster.apps.size)
            scale_hints(view, sampled, self._hint_error, factors, found)
        pilot_durations(view, sampled, found)
        if self._hint_error > 0.0:
            join_hints(view, sampled, self._hint_error, found)


class CombinedEstimate(PilotsEstimate, kind="combined", parameters=CombinedParameters, traits=BY_PILOTS):
    """Pilots and hints (`TaskEstimates`), their logarithms averaged by inverse variance; else whichever there is."""

    def __init__(self, parameters: CombinedParameters) -> None:
        super().__init__(parameters)
        self._hint_error = parameters.hint_error
