"""A profile: what the runs of a recurring job have in common, and what that says of the next.

The median of the means of the runs that are remembered, as 3Sigma's point estimate has it (SLearn, NSDI 2022, section
5.1.3). How far off it may be is seen by doing the same for each of those runs with the runs before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log, sqrt
from statistics import median, median_low
from typing import Final, NamedTuple

from treadle.history.run import DurationSketch, JobRun, Measured, RecurrenceKey, StageRun, application_of_run

RECENT_MAX: Final = 20
"""Runs that are remembered one by one, so that an estimator can weigh the latest more."""

STAGES_MAX: Final = 1000
"""Stages of a profile; further ones of a run are not kept."""

PARENTS_MAX: Final = 100
RESOURCES_MAX: Final = 32


class RecentRun(NamedTuple):
    """A stage in one run."""

    ended_ms: int
    run: str
    width: int
    mean_ms: int
    """Of its tasks; -1 if none was measured."""
    input_bytes: int
    """-1 if not known."""
    hint_ms: int = -1
    """Duration of a task that the engine was given from earlier runs; -1 if it got none."""
    retried: int = -1
    """Attempts that failed, or succeeded though their task had before; -1 if not known."""
    speculative: int = -1
    """Attempts that were copies of one that was slow; -1 if not known."""


@dataclass(frozen=True, slots=True, eq=False)
class StageProfile:
    """A stage in all runs."""

    name: str
    position: int
    """Its place among the stages: parents come first."""
    durations: DurationSketch
    runs: int
    """In how many runs it was seen."""
    recent: tuple[RecentRun, ...]
    """The latest `RECENT_MAX` of them, oldest first."""
    demand: Mapping[str, int] = field(default_factory=dict)
    parents: tuple[str, ...] = ()
    measured: Measured = Measured.TASKS
    one_to_one: tuple[str, ...] = ()
    """Those of the parents of which task i alone feeds task i."""

    @property
    def width(self) -> int:
        """The median of the recent widths, the lower of two."""
        return median_low([run.width for run in self.recent]) if self.recent else 0

    @property
    def input_bytes(self) -> int | None:
        """The median of the recent inputs that are known, the lower of two; None if none is."""
        known = [run.input_bytes for run in self.recent if run.input_bytes >= 0]
        return median_low(known) if known else None


@dataclass(frozen=True, slots=True, eq=False)
class JobProfile:
    """A recurring job in all its runs."""

    key: RecurrenceKey
    runs: int
    first_seen_ms: int
    last_seen_ms: int
    """When the first and the latest known run ended."""
    recent: tuple[tuple[int, str, int], ...]
    """When it ended, its id and how long it took, in milliseconds, of the latest `RECENT_MAX` runs, oldest first."""
    stages: tuple[StageProfile, ...]

    @property
    def tasks(self) -> int:
        """How many a run has: of the stages whose tasks were measured; where none was, how many containers."""
        of_tasks = [stage for stage in self.stages if stage.measured is Measured.TASKS]
        return sum(stage.width for stage in of_tasks or self.stages)


def with_run(profile: JobProfile | None, run: JobRun) -> JobProfile | None:
    """Return a profile with one more run; None if there is nothing new in it.

    A stage of a run is counted once, however often the run is reported: by the live engine, and by an importer later. A
    run that is older than the `RECENT_MAX` remembered ones could have been counted already, so it is left out. A stage
    that none of those had is forgotten.

    A DAG of Tez is a run, and so is its application of which no DAG is known: a DAG takes the place of its application.
    """
    names = {name for _, name, _ in profile.recent} if profile else set[str]()
    application = application_of_run(run.id)
    by_dags = run.id == application and any(name != run.id and application_of_run(name) == run.id for name in names)
    known = run.id in names or by_dags
    if profile and _is_older(run, [ended_ms for ended_ms, _, _ in profile.recent]) and not known:
        return None
    stages = {stage.name: stage for stage in profile.stages} if profile else {}
    changed = False
    for position, stage_run in enumerate(run.stages[:STAGES_MAX]):
        before = stages.get(stage_run.name)
        after = _with_stage(before, position, run, stage_run)
        if after is not None and (before is not None or len(stages) < STAGES_MAX):
            stages[stage_run.name] = after
            changed = True
    if not changed:
        return None
    ordered = tuple(sorted(stages.values(), key=lambda stage: (stage.position, stage.name)))
    this = (run.ended_ms, run.id, max(0, run.ended_ms - run.started_ms))
    if profile is None:
        return JobProfile(run.key, 1, run.ended_ms, run.ended_ms, (this,), ordered)
    if known:
        return replace(profile, stages=ordered)
    others = [each for each in profile.recent if each[1] != application]
    recent = tuple(sorted((*others, this)))[-RECENT_MAX:]
    seen = {name for _, name, _ in recent}
    seen |= {application_of_run(name) for name in seen}
    return JobProfile(
        run.key,
        profile.runs + 1 - (len(profile.recent) - len(others)),
        min(profile.first_seen_ms, run.ended_ms),
        max(profile.last_seen_ms, run.ended_ms),
        recent,
        tuple(stage for stage in ordered if any(one.run in seen for one in stage.recent)),
    )


def not_after(profile: JobProfile, now_ms: int) -> JobProfile:
    """Return a profile of which nothing lies in the future: a clock that was ahead must not make later runs old."""
    if profile.last_seen_ms <= now_ms:
        return profile
    stages = (
        replace(stage, recent=tuple(sorted(run._replace(ended_ms=min(run.ended_ms, now_ms)) for run in stage.recent)))
        for stage in profile.stages
    )
    return replace(
        profile,
        first_seen_ms=min(profile.first_seen_ms, now_ms),
        last_seen_ms=now_ms,
        recent=tuple(sorted((min(ended_ms, now_ms), run, took_ms) for ended_ms, run, took_ms in profile.recent)),
        stages=tuple(stages),
    )


def merged(one: JobProfile, other: JobProfile) -> JobProfile:
    """Return what two stores know of one key.

    Runs that both may have seen must not count twice and cannot be taken out of a sketch. So of two profiles that share
    a remembered run the one with more runs is returned, ``one`` if they have equally many; and the newer one if it has
    forgotten runs, of which the older one's may be some.
    """
    if {run for _, run, _ in one.recent} & {run for _, run, _ in other.recent}:
        return other if other.runs > one.runs else one
    newer, older = (one, other) if one.last_seen_ms >= other.last_seen_ms else (other, one)
    if newer.runs > len(newer.recent) and newer.recent and older.last_seen_ms < newer.recent[0][0]:
        return newer
    stages = {stage.name: stage for stage in older.stages}
    for stage in newer.stages:
        stages[stage.name] = _both(stage, stages[stage.name]) if stage.name in stages else stage
    ordered = sorted(stages.values(), key=lambda stage: (stage.position, stage.name))[:STAGES_MAX]
    return JobProfile(
        one.key,
        one.runs + other.runs,
        min(one.first_seen_ms, other.first_seen_ms),
        newer.last_seen_ms,
        tuple(sorted((*one.recent, *other.recent)))[-RECENT_MAX:],
        tuple(ordered),
    )


def _with_stage(before: StageProfile | None, position: int, run: JobRun, stage: StageRun) -> StageProfile | None:
    mean_ms = round(stage.durations.mean_ms) if stage.durations.count else -1
    unknown = (stage.input_bytes, stage.hint_ms, stage.retried, stage.speculative)
    known = (-1 if value is None else value for value in unknown)
    this = RecentRun(run.ended_ms, run.id, stage.width, mean_ms, *known)
    durations = DurationSketch()
    durations.merge(stage.durations)
    if before is None:
        return _first(stage, position, durations, 1, this)
    if any(recent.run == run.id for recent in before.recent):
        return None
    if _is_older(run, [recent.ended_ms for recent in before.recent]):
        return None
    if stage.measured is not before.measured:
        # tasks' times say more than containers': they replace them, and are not mixed with them
        if stage.measured is Measured.CONTAINERS:
            return None
        return _first(stage, position, durations, before.runs + 1, this)
    durations.merge(before.durations)
    latest = this >= before.recent[-1] if before.recent else True
    return replace(
        before,
        durations=durations,
        runs=before.runs + 1,
        recent=tuple(sorted((*before.recent, this)))[-RECENT_MAX:],
        position=position if latest else before.position,
        demand=_demand(stage) if latest and stage.demand else before.demand,
        parents=_parents(stage) if latest else before.parents,
        one_to_one=_one_to_one(stage) if latest else before.one_to_one,
    )


def _first(stage: StageRun, position: int, durations: DurationSketch, runs: int, this: RecentRun) -> StageProfile:
    """Return the profile of a stage of which one run alone counts."""
    demand, parents, single = _demand(stage), _parents(stage), _one_to_one(stage)
    return StageProfile(stage.name, position, durations, runs, (this,), demand, parents, stage.measured, single)


def _is_older(run: JobRun, recent_ended_ms: Sequence[int]) -> bool:
    """Did a run end before all that are remembered, and others had to be forgotten?"""
    return len(recent_ended_ms) == RECENT_MAX and run.ended_ms < recent_ended_ms[0]


def _demand(stage: StageRun) -> dict[str, int]:
    return dict(sorted(stage.demand.items())[:RESOURCES_MAX])


def _parents(stage: StageRun) -> tuple[str, ...]:
    return stage.parents[:PARENTS_MAX]


def _one_to_one(stage: StageRun) -> tuple[str, ...]:
    return tuple(parent for parent in _parents(stage) if parent in stage.one_to_one)


def _both(newer: StageProfile, older: StageProfile) -> StageProfile:
    if newer.measured is not older.measured:
        return newer if newer.measured is Measured.TASKS else older
    durations = DurationSketch()
    durations.merge(newer.durations)
    durations.merge(older.durations)
    return replace(
        newer,
        durations=durations,
        runs=newer.runs + older.runs,
        recent=tuple(sorted((*newer.recent, *older.recent)))[-RECENT_MAX:],
        demand=newer.demand or older.demand,
    )


SIGMA_MAX: Final = 10.0
"""Of a logarithm: no larger deviation is reported."""


class Prediction(NamedTuple):
    """What earlier runs say of a stage."""

    duration_ms: int
    deviation_ms: int
    """The standard deviation of the estimate; -1 if there was one run only, or its containers were of another size."""
    runs: int
    """How many runs it goes by."""


def predicted(stage: StageProfile, demand: Mapping[str, int]) -> Prediction | None:
    """Return how long tasks of a stage will take; None if none was measured.

    Args:
        stage: its profile
        demand: what its containers ask for now, by resource; with other containers than the latest runs had, tasks may
            take another time, so that nothing is said of the deviation
    """
    means_ms = [run.mean_ms for run in stage.recent if run.mean_ms > 0]
    if not means_ms:
        return None
    duration_ms = max(1, round(median(means_ms)))
    alike = not stage.demand or all(demand.get(name, amount) == amount for name, amount in stage.demand.items())
    deviation_ms = round(duration_ms * _sigma(means_ms)) if alike and len(means_ms) > 1 else -1
    return Prediction(duration_ms, deviation_ms, len(means_ms))


def _sigma(means_ms: Sequence[int]) -> float:
    """Return the root mean square of the logarithms of past errors, wider the fewer these are."""
    runs = len(means_ms)
    errors = (log(median(means_ms[:at]) / means_ms[at]) for at in range(1, runs))
    square = sum(error * error for error in errors) / (runs - 1)
    return min(SIGMA_MAX, sqrt(square * runs / (runs - 1)))
