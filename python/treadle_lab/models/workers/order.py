"""Which probe of its queue a worker takes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treadle_lab.models.kernels import inner
from treadle_lab.models.workers.phoenix import take_by_crv
from treadle_lab.models.workers.queues import CAP, remaining_s
from treadle_lab.models.workers.state import Mode, Order

if TYPE_CHECKING:
    from treadle_lab.models.workers.state import Workers


@inner
def next_probe(run: Workers, worker: int) -> int:
    """Return the probe that a worker takes; its queue is not empty."""
    order = run.mode[Mode.ORDER]
    if order == Order.FIFO:
        return run.head[worker]
    if order == Order.SRPT:
        return _least_remaining(run, worker)
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
def _least_remaining(run: Workers, worker: int) -> int:
    """Return the probe with least remaining work that may pass those in front of it; those are passed then."""
    chosen = probe = run.head[worker]
    least_s, slack_s = np.inf, np.inf
    while probe >= 0:
        job = run.probe_job[probe]
        estimate_s, left_s = run.estimate_s[job], remaining_s(run, job)
        if left_s < least_s and estimate_s < slack_s:
            chosen = probe
            least_s = left_s
        slack_s = min(slack_s, CAP * estimate_s - run.passed_s[probe])
        probe = run.probe_next[probe]
    pass_those_before(run, worker, chosen)
    return chosen


@inner
def pass_those_before(run: Workers, worker: int, chosen: int) -> None:
    """Note for all probes in front of one how much longer they wait for it."""
    by_s = run.estimate_s[run.probe_job[chosen]]
    probe = run.head[worker]
    while probe != chosen:
        run.passed_s[probe] += by_s
        probe = run.probe_next[probe]
