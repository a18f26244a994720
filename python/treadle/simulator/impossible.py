"""Jobs that can never run: an ask of theirs fits on no node, be it empty, or is more than their queue may have."""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle.compiled.array_types import I64
from treadle.errors import UserError
from treadle.simulator.build import Built
from treadle.simulator.cluster.state import RowKind
from treadle.simulator.loop import Run
from treadle.words import counted

SHOWN_MAX: Final = 5
WHAT: Final = {RowKind.MASTER: "its application master", RowKind.EXECUTORS: "an executor"}


def check_possible(built: Built) -> None:
    """See that each job can run on this cluster, if it gets its turn.

    Raises:
        UserError: one cannot; names the first few and why.
    """
    found = impossible_jobs(built)
    if found:
        more = len(found) - SHOWN_MAX
        lines = [*found[:SHOWN_MAX], *([f"... and {more} more"] if more > 0 else [])]
        raise UserError(
            f"{counted(len(found), 'job')} of {len(built.workload.jobs)} can never run:\n  "
            + "\n  ".join(lines)
            + "\nLet them ask for less, add larger nodes, raise maximum_capacity; or use --allow-impossible"
        )


def impossible_jobs(built: Built) -> list[str]:
    """Return why, for each job that can never run, in order of arrival."""
    state = built.state
    counts = (state.counted == 1).astype(bool)
    asks = np.flatnonzero(state.rows["kind"] != RowKind.INSIDE)
    wanted: I64 = state.capability[asks]
    shapes, shape_of = np.unique(wanted, axis=0, return_inverse=True) if len(wanted) else (wanted, np.zeros(0, int))
    nodes = np.unique(state.node_total, axis=0)
    fits = np.array([bool((shape[counts] <= nodes[:, counts]).all(axis=1).any()) for shape in shapes], bool)
    queues = state.apps["queue"][state.rows["app"][asks]]
    over_queue = (wanted[:, counts] > state.queue_maximum[queues][:, counts]).any(axis=1)
    too_large = ~fits[shape_of.reshape(-1)] if len(shapes) else np.zeros(0, bool)
    reasons: dict[int, str] = {}
    for at in np.flatnonzero(too_large | over_queue).tolist():
        app = int(state.rows["app"][asks[at]])
        if app not in reasons:
            reasons[app] = _why(built, int(asks[at]), app, too_large=bool(too_large[at]))
    return [reasons[app] for app in sorted(reasons)]


def _why(built: Built, row: int, app: int, *, too_large: bool) -> str:
    state, job = built.state, built.workload.jobs[app]
    path = built.tree.paths[int(state.apps["queue"][app])].removeprefix("root.")
    what = WHAT.get(RowKind(int(state.rows["kind"][row])), "a task")
    asked = _amounts(built, state.capability[row])
    if too_large:
        most = _amounts(built, state.node_total.max(axis=0))
        return f"{job.id} (queue {path}): {what} asks for {asked}; no node has that, the most of each are {most}"
    most = _amounts(built, state.queue_maximum[int(state.apps["queue"][app])])
    return f"{job.id} (queue {path}): {what} asks for {asked}; the queue may have at most {most}"


def _amounts(built: Built, amounts: I64) -> str:
    """Return amounts of the resources that count, in the simulation's whole units."""
    pairs = zip(built.resources, amounts.tolist(), built.state.counted.tolist(), strict=True)
    return ", ".join(f"{name} {amount}" for name, amount, counts in pairs if counts)


def unfinished_warning(run: Run) -> str:
    """Return what a user must know of the jobs that have not ended; empty if all have."""
    if not run.unfinished:
        return ""
    jobs = counted(run.unfinished, "job")
    if run.stalled:
        return (
            f"{jobs} of {len(run.built.workload.jobs)} wait for what they never get; look for a gate that never opens, "
            "a queue without capacity or an ask that fits nowhere; or use --allow-impossible"
        )
    return f"{jobs} of {len(run.built.workload.jobs)} had not ended by duration_limit_s"
