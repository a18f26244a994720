"""The queue of probes of a worker: a list with links in both directions, of probes from one pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from treadle_lab.models.kernels import inner
from treadle_lab.models.workers.state import Total

if TYPE_CHECKING:
    from treadle_lab.models.workers.state import Workers

CAP: Final = 5.0
"""Nobody passes a probe beyond this multiple of its estimate in sum."""


@inner
def append(run: Workers, worker: int, job: int) -> None:
    """Let a new probe of a job stand at the end of a worker's queue."""
    probe = run.totals[Total.FREE_PROBE]
    run.totals[Total.FREE_PROBE] = run.probe_next[probe]
    run.probe_job[probe] = job
    run.passed_s[probe] = 0.0
    run.probe_next[probe] = -1
    last = run.tail[worker]
    run.probe_before[probe] = last
    if last < 0:
        run.head[worker] = probe
    else:
        run.probe_next[last] = probe
    run.tail[worker] = probe
    run.queued[worker] += 1


@inner
def remove(run: Workers, worker: int, probe: int) -> None:
    """Take a probe out of a worker's queue."""
    before, after = run.probe_before[probe], run.probe_next[probe]
    if before < 0:
        run.head[worker] = after
    else:
        run.probe_next[before] = after
    if after < 0:
        run.tail[worker] = before
    else:
        run.probe_before[after] = before
    run.queued[worker] -= 1
    run.probe_next[probe] = run.totals[Total.FREE_PROBE]
    run.totals[Total.FREE_PROBE] = probe


@inner
def remaining_s(run: Workers, job: int) -> float:
    """Return a job's estimated work that has not started."""
    return run.estimate_s[job] * (run.tasks[job] - run.started[job])
