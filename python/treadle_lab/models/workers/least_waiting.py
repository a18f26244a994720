"""Central placement: each task of a job where the least estimated work waits, empty workers first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle_lab.models.kernels import inner
from treadle_lab.models.workers.draws import below, long_part
from treadle_lab.models.workers.state import Mode, Placement, Real, Total

if TYPE_CHECKING:
    from treadle_lab.models.workers.state import Workers

MESSAGE_S: Final = 0.0005
ROUND_TRIP_S: Final = 2 * MESSAGE_S
VIEW_S: Final = 9
"""A view of the queues is up to so old, and each wait in it is up to so much too long."""


@inner
def place_least_waiting(run: Workers, job: int, placement: int, group: int) -> None:
    """Add the workers of a job's tasks to `targets`."""
    start = long_part(run, group) if run.is_long[job] else run.member_start[group]
    end = run.member_start[group + 1]
    tasks, estimate_s = run.tasks[job], run.estimate_s[job]
    first = run.totals[Total.TARGETS]
    in_part = start > run.member_start[group]
    if placement == Placement.LEAST_WAITING:
        spares = run.mode[Mode.SCARCITY] != 0
        all_workers = len(run.head)
        for place in range(0 if spares else start, all_workers if spares else end):
            worker = run.by_need[place] if spares else run.members[place]
            if spares and (run.may_run[group, worker] == 0 or (worker < run.mode[Mode.FIRST_LONG] and in_part)):
                continue
            if run.work_s[worker] == 0.0:
                run.targets[run.totals[Total.TARGETS]] = worker
                run.totals[Total.TARGETS] += 1
                if run.totals[Total.TARGETS] - first == tasks:
                    return
    # a task goes to one of at most as many workers as there are tasks, and one more shows that the last is full
    most = min(tasks + 1, end - start)
    used = 0
    for place in range(start, end):
        worker = run.members[place]
        waits_s = _waiting_s(run, worker, placement, estimate_s)
        waits_s += run.reals[Real.SPARING] * run.need[worker] * estimate_s
        used = _offer(run, used, most, waits_s, worker)
    for at in range(used // 2 - 1, -1, -1):
        _settle_least(run, at, used)
    while run.totals[Total.TARGETS] - first < tasks:
        run.targets[run.totals[Total.TARGETS]] = run.best[0]
        run.totals[Total.TARGETS] += 1
        run.best_s[0] += estimate_s
        # a worker goes on getting tasks as long as no other's wait is shorter
        least = run.best_s[0]
        if (used > 1 and run.best_s[1] < least) or (used > 2 and run.best_s[2] < least):
            _settle_least(run, 0, used)


@inner
def _waiting_s(run: Workers, worker: int, placement: int, estimate_s: float) -> float:
    """Return how long a task would wait, as far as the scheduler knows."""
    seen = placement == Placement.LEAST_WAITING_SEEN
    waiting_s = run.seen_s[worker] if seen else run.work_s[worker]
    if not seen and waiting_s == 0.0:
        return estimate_s  # it has been given a task of this job
    if run.long_since_s[worker] >= 0.0:
        ran_s = run.reals[Real.NOW] - run.long_since_s[worker]
        waiting_s = max(0.0, ROUND_TRIP_S + waiting_s - min(ran_s, run.long_estimate_s[worker]))
    return waiting_s + below(run, VIEW_S + 1) if seen else waiting_s


@inner
def _offer(run: Workers, used: int, most: int, waiting_s: float, worker: int) -> int:
    """Keep a worker if it is among those with the shortest waits; the longest of them is at the top."""
    if used < most:
        at = used
        while at > 0:
            above = (at - 1) >> 1
            if _before(run.best_s[above], run.best[above], waiting_s, worker):
                run.best_s[at], run.best[at] = run.best_s[above], run.best[above]
                at = above
            else:
                break
        run.best_s[at], run.best[at] = waiting_s, worker
        return used + 1
    if not _before(waiting_s, worker, run.best_s[0], run.best[0]):
        return used
    at = 0
    while True:
        child = 2 * at + 1
        if child >= used:
            break
        if child + 1 < used and _before(run.best_s[child], run.best[child], run.best_s[child + 1], run.best[child + 1]):
            child += 1
        if not _before(waiting_s, worker, run.best_s[child], run.best[child]):
            break
        run.best_s[at], run.best[at] = run.best_s[child], run.best[child]
        at = child
    run.best_s[at], run.best[at] = waiting_s, worker
    return used


@inner
def _settle_least(run: Workers, at: int, used: int) -> None:
    """Let an entry sink until those below it wait longer."""
    waiting_s, worker = run.best_s[at], run.best[at]
    while True:
        child = 2 * at + 1
        if child >= used:
            break
        if child + 1 < used and _before(run.best_s[child + 1], run.best[child + 1], run.best_s[child], run.best[child]):
            child += 1
        if not _before(run.best_s[child], run.best[child], waiting_s, worker):
            break
        run.best_s[at], run.best[at] = run.best_s[child], run.best[child]
        at = child
    run.best_s[at], run.best[at] = waiting_s, worker


@inner
def _before(a_s: float, a: int, b_s: float, b: int) -> bool:
    return a_s < b_s or (a_s == b_s and a < b)


@inner
def see_queues(run: Workers) -> None:
    """Let the view be the queues as they are."""
    if run.mode[Mode.LONG] == Placement.LEAST_WAITING_SEEN:
        for worker in range(len(run.head)):
            run.seen_s[worker] = run.work_s[worker]
