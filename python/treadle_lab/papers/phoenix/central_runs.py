"""Runs the engine several times by the runner of sweeps, each in a process: it is Python for the most part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treadle_lab.harness.runs import Asked, digest_of, run_all, tell
from treadle_lab.models.cores import Progress
from treadle_lab.models.workers.eligible import Eligible
from treadle_lab.models.workers.trace import Trace
from treadle_lab.models.workers.workers import Outcome
from treadle_lab.papers.phoenix.central import CENTRAL, simulate_central, warm_up_central
from treadle_lab.papers.phoenix.files import Wanted

CPU_S_PER_HOUR: Final = 5.0
CPU_S_PER_TASK: Final = 0.001
"""About what a run takes: an hour of the trace has 3,600 decisions, of which many find nothing to do."""


@dataclass(frozen=True, slots=True)
class CentralRun:
    """All that a run depends on."""

    name: str
    trace: Trace
    slots: int
    wanted: Wanted
    eligible: Eligible
    """Which follows from the others."""
    seed: int
    relaxed_slowdown: float

    @property
    def title(self) -> str:
        """What it is called when it fails."""
        return f"{self.name}, seed {self.seed}"

    @property
    def key(self) -> str:
        """The digest of all that it depends on."""
        trace, wanted = self.trace, self.wanted
        arrays = (trace.arrival_s, trace.tasks, trace.duration_s, trace.mean_s)
        jobs = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
        asked = [[place, each.hard.text(), each.soft.text()] for place, each in sorted(wanted.asked.items())]
        own = [self.name, jobs, trace.cutoff_s, trace.long_percent, self.slots, self.seed, self.relaxed_slowdown]
        own.append(repr(CENTRAL[self.name].settings()))  # a ready-made policy's, which is a file
        return digest_of(__name__, own, asked, wanted.machines.as_lists())


def about_cpu_s(trace: Trace) -> float:
    """Return about how much processor time a run takes."""
    return CPU_S_PER_HOUR * float(trace.arrival_s[-1]) / 3600 + CPU_S_PER_TASK * len(trace.duration_s)


def run_central(
    runs: Sequence[CentralRun], progress: Progress | None = None, asked: Asked | None = None
) -> list[Outcome]:
    """Run all; results do not depend on how many run at a time.

    Raises:
        UserError: a run ended with jobs that nothing would ever serve.
    """
    if not runs:
        return []
    # once, so that the processes find compiled code
    warm_up_central(dict.fromkeys(run.name for run in runs))
    jobs = len(runs[0].trace)

    def count_jobs(done: float, total: int) -> None:
        if progress is not None:
            progress(round(done * jobs), total * jobs)

    return [_outcome(each) for each in run_all(runs, _run, Asked() if asked is None else asked, count_jobs)]


def _run(run: CentralRun) -> dict[str, Any]:
    outcome = simulate_central(
        CENTRAL[run.name],
        run.trace,
        run.slots,
        run.wanted,
        run.eligible,
        seed=run.seed,
        relaxed_slowdown=run.relaxed_slowdown,
        progress=lambda ended, jobs: tell(ended / max(jobs, 1)),
    )
    return {
        "response_s": outcome.response_s.tolist(),
        "queued_s": outcome.queued_s.tolist(),
        "relaxed": outcome.relaxed.tolist(),
        "cpu_s": outcome.cpu_s,
    }


def _outcome(found: dict[str, Any]) -> Outcome:
    return Outcome(
        np.asarray(found["response_s"], np.float64),
        np.asarray(found["queued_s"], np.float64),
        np.asarray(found["relaxed"], np.int32),
        None,
        found["cpu_s"],
    )
