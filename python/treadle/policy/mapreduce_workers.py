"""How many workers a MapReduce job should have: Omega's (EuroSys 2013) specialised scheduler, section 6.

Users ask for a number of workers, on which the job's map and reduce activities run; there are usually more activities
than workers. Where resources are idle, a job can have more workers than were asked for and end sooner. The functions
are pure, and kernels can call them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, TypeVar, cast

from numba.extending import register_jitable

F = TypeVar("F", bound=Callable[..., Any])

_jitable = cast(Callable[[F], F], register_jitable)

RELATIVE_SIZE_MAX: Final = 4
"""Times the requested workers, the most with `WorkerPolicy.RELATIVE_JOB_SIZE`."""
GLOBAL_CAP_PERCENT: Final = 60
"""Of the cell's CPU; beyond it `WorkerPolicy.GLOBAL_CAP` gives no more workers than were asked for."""


class WorkerPolicy(IntEnum):
    """Who gets idle resources, and how much of them (section 6.1)."""

    AS_REQUESTED = 0
    """Nobody."""
    MAX_PARALLELISM = 1
    """A job, as long as it gains."""
    RELATIVE_JOB_SIZE = 2
    """A job, as long as it gains, up to four times the workers that were asked for."""
    GLOBAL_CAP = 3
    """A job, as long as it gains and less than 60 % of the cell is used."""


@_jitable
def finish_s(workers: int, maps: int, map_s: float, reduces: int, reduce_s: float) -> float:
    """Predict how long a job lasts: all maps, then all reduces, each faster by each worker while there are as many.

    Args:
        workers: at least 1
        maps: map activities, at least 1
        map_s: mean duration of one
        reduces: reduce activities, or 0
        reduce_s: mean duration of one
    """
    return map_s * max(1.0, maps / workers) + (reduce_s * max(1.0, reduces / workers) if reduces > 0 else 0.0)


@_jitable
def useful_workers(maps: int, reduces: int) -> int:
    """Return the fewest workers with which a job ends soonest: no wave of it has more activities."""
    return max(maps, reduces)


@_jitable
def workers_for(policy: int, requested: int, useful: int, idle: int, below_cap: int) -> int:
    """Return how many workers a job should have: the fewest that end it soonest of all numbers that the policy allows.

    More workers than `useful_workers` gain nothing, and up to there each one does, so that no number has to be tried.

    Args:
        policy: of `WorkerPolicy`
        requested: by the user; the job gets no fewer, even if it has to wait for them
        useful: of `useful_workers`
        idle: workers for which there is room now, those that were asked for among them
        below_cap: the same up to the cap of the cell's use; only `GLOBAL_CAP` looks at it
    """
    if policy == WorkerPolicy.AS_REQUESTED:
        return requested
    allowed = min(useful, idle)
    if policy == WorkerPolicy.RELATIVE_JOB_SIZE:
        allowed = min(allowed, RELATIVE_SIZE_MAX * requested)
    elif policy == WorkerPolicy.GLOBAL_CAP:
        allowed = min(allowed, below_cap)
    return max(requested, allowed)
