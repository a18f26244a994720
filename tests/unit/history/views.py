"""What a tracker's jobs and stages are at one moment: read from its state, which that leaves as it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass

from treadle.history.profile import DurationSketch, Measured
from treadle.history.stages import Attempt, Outcome, StageId, StageState, StageTracker


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A stage at one moment."""

    id: StageId
    width: int
    pending: int
    outcomes: Mapping[Outcome, int]
    """How many attempts are or ended so."""
    durations: DurationSketch
    """Of attempts that ended well, and `SETTLE_MS` ago."""
    measured: Measured
    demand: Mapping[str, int]
    attempts: tuple[Attempt, ...]
    """Those that run, and the latest that ended."""


def stages_of(tracker: StageTracker, application: int) -> tuple[Stage, ...]:
    """Return the stages of an application, by the shim's index, in order; none if it is not known."""
    job = tracker.job(application)
    if job is None:
        return ()
    found = [_view(state, job.stage(first), tracker._now_ms) for first, state in job._states.items()]
    return tuple(sorted(found, key=lambda stage: stage.id))


def _view(real: StageState, at: StageId, now_ms: int) -> Stage:
    state = copy(real)
    state._unsettled, state._durations = deque(real._unsettled), deepcopy(real._durations)
    state._count_settled(now_ms)
    outcomes = {outcome: state._outcomes[outcome] for outcome in Outcome if state._outcomes[outcome]}
    if state._running:
        outcomes[Outcome.RUNNING] = len(state._running)
    return Stage(
        at,
        state.width,
        state.pending,
        outcomes,
        state._durations,
        state._framework.measured,
        state.demand,
        (*state._running.values(), *state._recent),
    )
