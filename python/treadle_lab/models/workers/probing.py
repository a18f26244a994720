"""Where a job's probes go: at random, or in Eagle's rounds around workers with long work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle.simulator.event_queue import schedule
from treadle_lab.models.kernels import inner
from treadle_lab.models.workers.draws import draw, draw_long_part, draw_of_first, draw_unmarked, short_part, size
from treadle_lab.models.workers.least_waiting import MESSAGE_S, place_least_waiting
from treadle_lab.models.workers.phoenix import better_place, count_arrival, more_draws, negotiate
from treadle_lab.models.workers.state import EventKind, Mode, Order, Placement, Real, Total

if TYPE_CHECKING:
    from treadle_lab.models.workers.state import Workers


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
    placement = run.mode[Mode.LONG if run.is_long[job] else Mode.SHORT]
    ratio = run.mode[Mode.CONSTRAINED_RATIO] if run.group[job] > 0 else PROBE_RATIO
    probes = max(ratio * run.tasks[job], run.mode[Mode.PROBES_MIN])
    if placement != Placement.PROBES:
        place_least_waiting(run, job, placement, group)
        for at in range(first, run.totals[Total.TARGETS]):
            run.work_s[run.targets[at]] += run.estimate_s[job]
        _deliver_later(run, job, first, MESSAGE_S)
    elif run.mode[Mode.AVOID] != 0:
        _send_in_rounds(run, job, group, probes)
    else:
        for _ in range(probes):
            _add(run, draw_long_part(run, group) if run.is_long[job] else draw(run, group))
        _deliver_later(run, job, first, MESSAGE_S)


@inner
def _send_in_rounds(run: Workers, job: int, group: int, probes: int) -> None:
    """Probe in two rounds workers without long work, then those that never have any; Eagle, section 3.2."""
    run.reals[Real.NEWEST] = -1.0
    first, newest, refused = run.totals[Total.TARGETS], -1, 0
    for _ in range(probes):
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
    """Return a random worker without long work as far as a map says; -1 if there is none."""
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
    """Let a worker have a map instead of the one that it has."""
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
