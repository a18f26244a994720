"""Section 5.3.1 (SoCC 2013) in the simulator: H-DRF beside a scheduler that shares slots of 4, 5 and 6 a server.

The jobs are section 5.2's, n3 has twice the weight of n1 and n2, and a server has four GPUs. A slot scheduler
gives a slot to a task without looking at what it needs, and shares the number of slots. Where tasks on a server need
more memory than it has, all of them slow down by the cube of how many times as much (`THRASHING`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.errors import UserError
from treadle.simulate import Scenario, simulate
from treadle.simulate.comparison import Interval, interval_of, interval_of_ratio
from treadle.workload.job import Workload
from treadle_lab.harness.runs import digest_of
from treadle_lab.papers.hdrf.facebook import (
    HDRF,
    NODES,
    SchemeRun,
    content_of,
    queues_of,
    schedule,
    settings_of,
    with_demands,
)

MEMORY: Final = "memory-mb"
NODE: Final = {MEMORY: 6144, "vcores": 4, "gpu": 4}
THRASHING: Final = 3.0
"""Ours: the paper says that throughput falls dramatically, and not how. With 1 the paging itself would cost nothing."""
SLOT: Final = "slot"
SLOTS: Final = {"slots-4": 4, "slots-5": 5, "slots-6": 6}
SCHEMES: Final = (HDRF, *SLOTS)
CAPACITY: Final = {"n1": 25, "n2": 25, "n3": 50}
"""Of the groups, in percent: their weights."""
BINS: Final = {"0-20": (0, 20), "20-149": (20, 150), "150-499": (150, 500), "500 and more": (500, 10**9)}
"""Tasks of a job, the lower bound included; the paper has 20 in two bins."""
PAPER_S: Final = {HDRF: 1379, "slots-4": 1446, "slots-5": 1514, "slots-6": 1732}
"""How long the job schedule takes."""
PAPER_GAIN: Final[Mapping[str, tuple[int, ...]]] = {
    "slots-4": (0, 4, 33, 107),
    "slots-5": (166, 129, 112, 32),
    "slots-6": (351, 289, 275, 32),
}
"""Figure 12: by how many percent response times are better with H-DRF, by `BINS`."""


class SlotRun(SchemeRun):
    """A scheme of this section with a seed."""

    @property
    def key(self) -> str:
        """The digest of all that it depends on."""
        return digest_of(__name__, "slots", content_of(self.sample), self.scheme, self.seed)


def scenario_of(scheme: str) -> Scenario:
    """Return the cluster and figure 10's queues: of slots where there are some, and then memory is not counted."""
    has = {SLOT: SLOTS[scheme], MEMORY: NODE[MEMORY]} if scheme in SLOTS else NODE
    uncounted = (MEMORY,) if scheme in SLOTS else ()
    cluster = {
        "resources": [
            {"name": name} | ({"counted": False, "thrashing": THRASHING} if name in uncounted else {}) for name in has
        ],
        "nodes": [{"count": NODES, "resources": has}],
        "contention": bool(uncounted),
    }
    return Scenario.of({"cluster": cluster, "queues": queues_of(CAPACITY)})


def _jobs(sample: Path, scheme: str, seed: int) -> Workload:
    jobs = schedule(sample, seed)
    if scheme not in SLOTS:
        return jobs
    return with_demands(jobs, lambda demand: {SLOT: 1.0, MEMORY: demand[MEMORY]})


def run_slots(wanted: SlotRun) -> dict[str, Any]:
    """Run a scheme with a seed; return each job's tasks and response time, and when the last job ended.

    Raises:
        UserError: the sample is wrong, or a job did not end.
    """
    jobs = _jobs(wanted.sample, wanted.scheme, wanted.seed)
    run = simulate(scenario_of(wanted.scheme).with_jobs(jobs), settings_of(HDRF), wanted.seed, check=False)
    if not bool((run.jobs["state"] == "done").all()):
        raise UserError(f"{wanted.title}: jobs are left undone")
    tasks = [sum(stage.tasks for stage in job.dag.stages) for job in jobs.jobs]
    end_s = float(run.jobs["end_ms"].max()) / 1000
    return {"tasks": tasks, "response_s": run.completion_s.tolist(), "end_s": end_s}


class Slots:
    """Figures by scheme, with intervals over seeds."""

    def __init__(self, runs: Sequence[SlotRun], found: Sequence[dict[str, Any]]) -> None:
        """Take runs and their results."""
        self._found = {(run.scheme, run.seed): each for run, each in zip(runs, found, strict=True)}
        self.seeds = list(dict.fromkeys(run.seed for run in runs))

    def total_s(self, scheme: str) -> Interval:
        """Return how long the job schedule takes."""
        return interval_of([self._found[scheme, seed]["end_s"] for seed in self.seeds])

    def total_over_hdrf(self, scheme: str) -> Interval:
        """Return the same over that under H-DRF."""
        ours = [self._found[HDRF, seed]["end_s"] for seed in self.seeds]
        return interval_of_ratio([self._found[scheme, seed]["end_s"] for seed in self.seeds], ours)

    def gain(self, scheme: str, size: str) -> Interval:
        """Return by how many percent of those under H-DRF response times of jobs of a size are longer, in the mean."""
        theirs, ours = ([self._mean_s(name, seed, size) for seed in self.seeds] for name in (scheme, HDRF))
        return percent_longer(theirs, ours)

    def _mean_s(self, scheme: str, seed: int, size: str) -> float:
        found, (least, most) = self._found[scheme, seed], BINS[size]
        tasks = np.array(found["tasks"])
        own = np.array(found["response_s"])[(tasks >= least) & (tasks < most)]
        return float(own.mean()) if len(own) else float("nan")

    def as_json(self) -> dict[str, Any]:
        """Return everything for ``--json``."""
        return {
            "section": "5.3",
            "seeds": self.seeds,
            "schemes": {
                scheme: {
                    "total_s": self.total_s(scheme).as_json(),
                    "total_over_hdrf": self.total_over_hdrf(scheme).as_json(),
                    "gain_percent": {}
                    if scheme == HDRF
                    else {size: self.gain(scheme, size).as_json() for size in BINS},
                }
                for scheme in SCHEMES
            },
            "paper": {"total_s": PAPER_S, "gain_percent": {name: list(row) for name, row in PAPER_GAIN.items()}},
            "runs": [{"scheme": scheme, "seed": seed, **each} for (scheme, seed), each in self._found.items()],
        }


def percent_longer(theirs: Sequence[float], ours: Sequence[float]) -> Interval:
    """Return by how many percent of ours theirs are longer, in the mean."""
    return Interval(*(100.0 * (bound - 1.0) for bound in interval_of_ratio(theirs, ours)))
