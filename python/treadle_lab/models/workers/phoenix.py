"""Phoenix on top of Eagle-C: what it counts at each heartbeat, and how that changes who goes where, and when.

The paper's text ends before its algorithm. What it says is kept: demand over supply of constrained resources (CRV), an
M/G/1 estimate of waits by worker, queues in order of CRV where waits are long and of SRPT elsewhere, and negotiation of
soft constraints. How these are counted, and the thresholds, are this project's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from treadle_lab.models.kernels import inner
from treadle_lab.models.workers.draws import draw, size
from treadle_lab.models.workers.queues import CAP, remaining_s
from treadle_lab.models.workers.state import Mode, Real, Total

if TYPE_CHECKING:
    from treadle_lab.models.workers.state import Workers

HEARTBEAT_S: Final = 60.0
KEPT: Final = 0.98
"""Of what was counted, from one heartbeat to the next: a window of 50 heartbeats."""
WINDOW_S: Final = HEARTBEAT_S / (1.0 - KEPT)
BUSY_MAX: Final = 0.99
"""A worker is taken to be no busier than that, so that its expected wait is finite."""
NEED_BEATS: Final = 10
"""Heartbeats from one look at who is needed to the next."""
NEED_LEVELS: Final = 256
WEIGHT: Final = 16.0
"""By how much demand over supply counts against remaining work."""
DRAWS: Final = 2
"""Workers that are asked for each probe of a job without constraints."""
CONSTRAINED_DRAWS: Final = 5
"""Workers that are asked for each probe of a job with constraints: fewer can run it, and they differ more."""
SAMPLE: Final = 20
"""Workers at which a job looks before it gives up a soft constraint."""


@inner
def look(run: Workers) -> None:
    """Take stock at a heartbeat: expected waits, demand over supply, and who is needed by jobs that have few places."""
    for group in range(len(run.crv)):
        run.crv[group] = run.waiting[group] / size(run, group) if group > 0 else 0.0
        run.asked_s[group] *= KEPT
    for worker in range(len(run.head)):
        run.rate[worker] *= KEPT
        run.sum_s[worker] *= KEPT
        run.square_s[worker] *= KEPT
        run.wait_s[worker] = _expected_wait(run.rate[worker], run.sum_s[worker], run.square_s[worker])
    if run.totals[Total.BEATS] % NEED_BEATS == 0:
        _look_at_need(run)
    run.totals[Total.BEATS] += 1


@inner
def _look_at_need(run: Workers) -> None:
    run.need[:] = 0.0
    for group in range(1, len(run.crv)):
        if run.asked_s[group] > 0.0:
            each = run.asked_s[group] / (WINDOW_S * size(run, group))
            for place in range(run.member_start[group], run.member_start[group + 1]):
                run.need[run.members[place]] += each
    _sort_by_need(run)


@inner
def _expected_wait(started: float, sum_s: float, square_s: float) -> float:
    """Return the mean wait by Pollaczek and Khinchine: rate x E[S^2] / 2 (1 - busy)."""
    busy = min(BUSY_MAX, sum_s / WINDOW_S)
    return square_s / WINDOW_S / (2.0 * (1.0 - busy)) if started > 0.0 else 0.0


@inner
def _sort_by_need(run: Workers) -> None:
    """Let `by_need` be the workers by level of need, then by index."""
    most = 0.0
    for worker in range(len(run.head)):
        most = max(most, run.need[worker])
    run.needed[:] = 0
    for worker in range(len(run.head)):
        run.needed[_level(run.need[worker], most) + 1] += 1
    for level in range(NEED_LEVELS):
        run.needed[level + 1] += run.needed[level]
    for worker in range(len(run.head)):
        level = _level(run.need[worker], most)
        run.by_need[run.needed[level]] = worker
        run.needed[level] += 1


@inner
def _level(need: float, most: float) -> int:
    return int(need / most * (NEED_LEVELS - 1)) if most > 0.0 else 0


@inner
def count_arrival(run: Workers, job: int) -> None:
    """Note what a job asks for that has come."""
    group = run.sent_to[job]
    run.asked_s[group] += run.estimate_s[job] * run.tasks[job]
    if run.is_long[job] == 0:
        run.waiting[group] += run.tasks[job]


@inner
def count_start(run: Workers, worker: int, job: int, took_s: float) -> None:
    """Note that a task has started."""
    if run.is_long[job] == 0:
        run.waiting[run.sent_to[job]] -= 1
    run.rate[worker] += 1.0
    run.sum_s[worker] += took_s
    run.square_s[worker] += took_s * took_s


@inner
def more_draws(run: Workers, group: int) -> int:
    """Return how many further workers are asked for each probe of a job that runs on a group; 0 if none is spared."""
    if run.mode[Mode.SCARCITY] == 0:
        return 0
    return CONSTRAINED_DRAWS - 1 if group > 0 else DRAWS - 1


@inner
def better_place(run: Workers, worker: int, other: int) -> int:
    """Return the one of two workers with fewer tasks and probes; of equals the one that others need less."""
    own = run.queued[worker] + run.is_busy[worker]
    its = run.queued[other] + run.is_busy[other]
    if own != its:
        return other if its < own else worker
    return other if run.need[other] < run.need[worker] else worker


@inner
def negotiate(run: Workers, job: int) -> None:
    """Let a job give up its soft constraints if its tasks would wait longer for them than they gain."""
    full, hard = run.group[job], run.hard_group[job]
    if full == hard or _idle(run, full) >= run.tasks[job]:
        return
    costs_s = (run.reals[Real.RELAXED_SLOWDOWN] - 1.0) * run.estimate_s[job]
    if _mean_wait(run, full) - _mean_wait(run, hard) > costs_s or _idle(run, hard) >= 2 * run.tasks[job]:
        run.sent_to[job] = hard


@inner
def _idle(run: Workers, group: int) -> float:
    """Return about how many workers of a group are idle, from a sample."""
    idle = 0
    for _ in range(SAMPLE):
        idle += 0 if run.is_busy[draw(run, group)] else 1
    return idle * size(run, group) / SAMPLE


@inner
def _mean_wait(run: Workers, group: int) -> float:
    """Return the expected wait at a random worker of a group, from a sample."""
    sum_s = 0.0
    for _ in range(SAMPLE):
        sum_s += run.wait_s[draw(run, group)]
    return sum_s / SAMPLE


@inner
def take_by_crv(run: Workers, worker: int, chosen: int) -> int:
    """Return the probe to take where demand over supply counts; `chosen` is SRPT's."""
    if run.mode[Mode.BY_CRV] == 0 or run.is_long[run.probe_job[chosen]] != 0:
        return chosen
    if run.mode[Mode.GATE] != 0 and run.wait_s[worker] <= run.reals[Real.GATE] * run.reals[Real.SHORT_MEAN]:
        return chosen
    probe, best = run.head[worker], chosen
    least, slack_s = np.inf, np.inf
    while probe >= 0:
        job = run.probe_job[probe]
        if run.is_long[job] == 0:
            if run.estimate_s[job] <= slack_s:
                weighed = remaining_s(run, job) / (1.0 + WEIGHT * run.crv[run.sent_to[job]])
                if weighed < least:
                    best, least = probe, weighed
            slack_s = min(slack_s, CAP * run.estimate_s[job] - run.passed_s[probe])
        probe = run.probe_next[probe]
    return best
