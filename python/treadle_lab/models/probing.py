"""Where tasks go and which a worker runs next: probes, least waiting, one queue, Phoenix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from treadle_lab.models.kernels import inner, schedule
from treadle_lab.models.worker_state import (
    CAP,
    EventKind,
    Mode,
    Order,
    Placement,
    Real,
    Total,
    draw,
    draw_long_part,
    draw_of_first,
    draw_unmarked,
    long_part,
    remaining_s,
    short_part,
    size,
)

if TYPE_CHECKING:
    from treadle_lab.models.worker_state import Workers


PROBE_RATIO: Final = 2
"""Probes for each task."""


@inner
def is_placed(run: Workers, job: int) -> bool:
    """Whether a job's tasks are placed by least waiting; else it has probes."""
    return run.mode[Mode.LONG if run.is_long[job] else Mode.SHORT] != Placement.PROBES


@inner
def has_long(run: Workers, worker: int) -> bool:
    """Whether long work runs or waits at a worker."""
    return run.runs_long[worker] != 0 or run.queued_long[worker] > 0


@inner
def send(run: Workers, job: int) -> None:
    """Send what a job needs that has arrived."""
    if run.mode[Mode.ORDER] == Order.PHOENIX:
        if run.mode[Mode.NEGOTIATION] != 0 and run.is_long[job] == 0:
            negotiate(run, job)
        count_arrival(run, job)
    group = run.sent_to[job]
    first = run.totals[Total.TARGETS]
    if is_placed(run, job):
        place_least_waiting(run, job, group)
        for at in range(first, run.totals[Total.TARGETS]):
            run.work_s[run.targets[at]] += run.estimate_s[job]
        _deliver_later(run, job, first, MESSAGE_S)
    elif run.mode[Mode.AVOID] != 0:
        _send_in_rounds(run, job, group)
    else:
        for _ in range(run.probes[job]):
            _add(run, draw_long_part(run, group) if run.is_long[job] else draw(run, group))
        _deliver_later(run, job, first, MESSAGE_S)


@inner
def _send_in_rounds(run: Workers, job: int, group: int) -> None:
    """Probe in two rounds workers without long work, then those that never have any; Eagle, section 3.2."""
    run.reals[Real.NEWEST] = -1.0
    first, newest, refused = run.totals[Total.TARGETS], -1, 0
    for _ in range(run.probes[job]):
        worker = _best_draw(run, group, size(run, group))
        newest = _newer(run, worker, newest)
        if has_long(run, worker):
            refused += 1
        else:
            _add(run, worker)
    _deliver_later(run, job, first, MESSAGE_S)
    if refused == 0:
        return
    first, known, left = run.totals[Total.TARGETS], newest, 0
    for _ in range(refused):
        worker = _second_draw(run, group, known)
        if worker < 0 or has_long(run, worker):
            left += 1
        else:
            _add(run, worker)
    for _ in range(left):  # to workers that never have long work, if there are any
        _add(run, _best_draw(run, group, short_part(run, group)))
    _deliver_later(run, job, first, 2 * MESSAGE_S)


@inner
def _best_draw(run: Workers, group: int, count: int) -> int:
    """Return a random worker of some at a group's front; where workers are spared the best of several."""
    worker = draw_of_first(run, group, count)
    for _ in range(more_draws(run, group)):
        worker = better_place(run, worker, draw_of_first(run, group, count))
    return worker


@inner
def _second_draw(run: Workers, group: int, known: int) -> int:
    """Return a random worker without long work according to a map; -1 if there is none."""
    if known < 0:
        return _best_draw(run, group, size(run, group))
    worker = draw_unmarked(run, group, known)
    for _ in range(more_draws(run, group) if worker >= 0 else 0):
        worker = better_place(run, worker, draw_unmarked(run, group, known))
    return worker


@inner
def _newer(run: Workers, worker: int, newest: int) -> int:
    """Return the newer of two maps of long work: a worker's, and the newest one so far."""
    if run.met_s[worker] > run.reals[Real.NEWEST]:
        run.reals[Real.NEWEST] = run.met_s[worker]
        return run.met[worker]
    return newest


@inner
def _add(run: Workers, worker: int) -> None:
    run.targets[run.totals[Total.TARGETS]] = worker
    run.totals[Total.TARGETS] += 1


@inner
def _deliver_later(run: Workers, job: int, first: int, after_s: float) -> None:
    """Send the targets from one on."""
    count = run.totals[Total.TARGETS] - first
    if count == 0:
        return
    batch = run.totals[Total.BATCHES]
    run.totals[Total.BATCHES] += 1
    run.batch_job[batch] = job
    run.batch_start[batch] = first
    run.batch_count[batch] = count
    schedule(run, run.reals[Real.NOW] + after_s, EventKind.DELIVER, batch)


@inner
def new_map(run: Workers) -> int:
    """Return a new map of where long work is."""
    run.totals[Total.FREE_MAPS] -= 1
    at = run.free_maps[run.totals[Total.FREE_MAPS]]
    run.map_uses[at] = 0
    for byte in range(run.long_maps.shape[1]):
        run.long_maps[at, byte] = 0
    for worker in range(len(run.head)):
        if run.work_s[worker] > 0.0:
            run.long_maps[at, worker >> 3] |= 1 << (worker & 7)
    return at


@inner
def hand_map(run: Workers, worker: int, at: int) -> None:
    """Replace a worker's map."""
    old = run.met[worker]
    if old == at:  # it gets several tasks of one job
        return
    if old >= 0:
        run.map_uses[old] -= 1
        if run.map_uses[old] == 0:
            run.free_maps[run.totals[Total.FREE_MAPS]] = old
            run.totals[Total.FREE_MAPS] += 1
    run.met[worker] = at
    run.met_s[worker] = run.reals[Real.NOW]
    run.map_uses[at] += 1


MESSAGE_S: Final = 0.0005
ROUND_TRIP_S: Final = 2 * MESSAGE_S


@inner
def place_least_waiting(run: Workers, job: int, group: int) -> None:
    """Add the workers of a job's tasks to `targets`."""
    start = long_part(run, group) if run.is_long[job] else run.member_start[group]
    end = run.member_start[group + 1]
    tasks, estimate_s = run.tasks[job], run.estimate_s[job]
    first = run.totals[Total.TARGETS]
    in_part = start > run.member_start[group]
    spares = run.mode[Mode.SCARCITY] != 0
    sparing = SPARING if spares else 0.0
    all_workers = len(run.head)
    for place in range(0 if spares else start, all_workers if spares else end):
        worker = run.by_need[place] if spares else run.members[place]
        if spares and (run.may_run[group, worker] == 0 or (worker < run.mode[Mode.FIRST_LONG] and in_part)):
            continue
        if run.work_s[worker] == 0.0:
            _add(run, worker)
            if run.totals[Total.TARGETS] - first == tasks:
                return
    used = end - start
    for place in range(start, end):
        worker = run.members[place]
        waits_s = _waiting_s(run, worker, estimate_s)
        waits_s += sparing * run.need[worker] * estimate_s
        run.best_s[place - start], run.best[place - start] = waits_s, worker
    for at in range(used // 2 - 1, -1, -1):
        _settle_least(run, at, used)
    while run.totals[Total.TARGETS] - first < tasks:
        _add(run, run.best[0])
        run.best_s[0] += estimate_s
        # a worker goes on getting tasks as long as no other's wait is shorter
        least = run.best_s[0]
        if (used > 1 and run.best_s[1] < least) or (used > 2 and run.best_s[2] < least):
            _settle_least(run, 0, used)


@inner
def _waiting_s(run: Workers, worker: int, estimate_s: float) -> float:
    """Return how long a task would wait, as far as the scheduler knows."""
    waiting_s = run.work_s[worker]
    if waiting_s == 0.0:
        return estimate_s  # it has been given a task of this job
    if run.long_since_s[worker] >= 0.0:
        ran_s = run.reals[Real.NOW] - run.long_since_s[worker]
        waiting_s = max(0.0, ROUND_TRIP_S + waiting_s - min(ran_s, run.long_estimate_s[worker]))
    return waiting_s


@inner
def _settle_least(run: Workers, at: int, used: int) -> None:
    """Restore the heap below an entry: longer waits sink."""
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
def idle_worker(run: Workers, job: int, place: int) -> int:
    """Return the place in `by_need`, from ``place`` on, of an idle worker that may run a job; -1 if there is none."""
    group = run.sent_to[job]
    while place < len(run.by_need):
        worker = run.by_need[place]
        if run.is_busy[worker] == 0 and run.may_run[group, worker] != 0:
            return place
        place += 1
    return -1


@inner
def wait_for_workers(run: Workers, job: int) -> None:
    """Queue a job with tasks that have not started."""
    run.open_jobs[run.totals[Total.OPEN]] = job
    run.totals[Total.OPEN] += 1


@inner
def job_for(run: Workers, worker: int) -> int:
    """Return the waiting job with the least remaining work that a worker may run; -1 if there is none."""
    chosen, least_s, at = -1, np.inf, 0
    while at < run.totals[Total.OPEN]:
        job = run.open_jobs[at]
        if run.started[job] == run.tasks[job]:
            run.totals[Total.OPEN] -= 1
            run.open_jobs[at] = run.open_jobs[run.totals[Total.OPEN]]
            continue
        left_s = remaining_s(run, job)
        if run.may_run[run.sent_to[job], worker] != 0 and (left_s < least_s or (left_s == least_s and job < chosen)):
            chosen, least_s = job, left_s
        at += 1
    return chosen


HEARTBEAT_S: Final = 60.0
KEPT: Final = 0.98
"""Factor of a count from one heartbeat to the next: a window of 50 heartbeats."""
WINDOW_S: Final = HEARTBEAT_S / (1.0 - KEPT)
BUSY_MAX: Final = 0.99
"""Upper bound of a worker's assumed utilisation, so that its expected wait is finite."""
NEED_BEATS: Final = 10
"""Heartbeats from one look at who is needed to the next."""
NEED_LEVELS: Final = 256
WEIGHT: Final = 16.0
"""By how much demand over supply counts against remaining work."""
SPARING: Final = 32.0
"""By how much the work of others that a long task displaces counts against its waiting."""
DRAWS: Final = 2
"""Number of workers sampled for each probe of a job without constraints."""
CONSTRAINED_DRAWS: Final = 5
"""The same for a job with constraints: fewer workers can run it, and they differ more."""
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
    """Sort `by_need`: workers by level of need, then by index."""
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
    """Count the demand of a new job."""
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
    """Return how many further workers are sampled for each probe of a job that runs on a group; 0 if none is spared."""
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
    """Drop a job's soft constraints if its tasks would wait longer for them than they gain."""
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
    if run.mode[Mode.GATE] != 0 and run.wait_s[worker] <= run.reals[Real.SHORT_MEAN]:
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


@inner
def next_probe(run: Workers, worker: int) -> int:
    """Return the probe that a worker takes; its queue is not empty."""
    order = run.mode[Mode.ORDER]
    if order == Order.FIFO:
        return run.head[worker]
    chosen = eagle_probe(run, worker)
    if order != Order.PHOENIX:
        return chosen
    probe = take_by_crv(run, worker, chosen)
    job = run.probe_job[probe]
    if probe != chosen and run.started[job] < run.tasks[job]:
        run.reordered[job] += 1
    return probe


@inner
def eagle_probe(run: Workers, worker: int) -> int:
    """Return a long task at the head, else the probe with least remaining work that may pass those in front of it."""
    chosen = probe = run.head[worker]
    least_s, slack_s = np.inf, np.inf
    if run.is_long[run.probe_job[probe]]:
        return probe
    while probe >= 0:
        job = run.probe_job[probe]
        estimate_s, left_s = run.estimate_s[job], remaining_s(run, job)
        if left_s < least_s and estimate_s <= slack_s:
            chosen = probe
            least_s = left_s
            if run.is_long[job]:
                break
        if not run.is_long[job]:
            slack_s = min(slack_s, CAP * estimate_s - run.passed_s[probe])
        probe = run.probe_next[probe]
    return chosen


@inner
def pass_those_before(run: Workers, worker: int, chosen: int) -> None:
    """Note for all probes in front of one how much longer they wait for it."""
    by_s = run.estimate_s[run.probe_job[chosen]]
    probe = run.head[worker]
    while probe != chosen:
        run.passed_s[probe] += by_s
        probe = run.probe_next[probe]
