"""Section 5.3.1 (SoCC 2013) in the simulator: H-DRF compared with a scheduler of 4, 5 and 6 slots per server.

The jobs are section 5.2's, n3 has twice the weight of n1 and n2, and a server has four GPUs. A slot scheduler gives a
slot to a task regardless of its demands, and shares the number of slots. If tasks on a server need more memory than it
has, all of them slow down by the cube of the ratio (`THRASHING`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.errors import UserError
from treadle.simulate import Scenario, simulate
from treadle.workload.job import Job, Workload, arranged
from treadle_lab.papers.hdrf import facebook
from treadle_lab.rows import Layout, Results, Row

MEMORY: Final = "memory-mb"
NODE: Final = {MEMORY: 6144, "vcores": 4, "gpu": 4}
THRASHING: Final = 3.0
"""Ours: the paper says that throughput falls dramatically, and not how. With 1 the paging itself would cost nothing."""
SLOT: Final = "slot"
SLOTS: Final = {"slots-4": 4, "slots-5": 5, "slots-6": 6}
SCHEMES: Final = (facebook.HDRF, *SLOTS)
CAPACITY: Final = {"n1": 25, "n2": 25, "n3": 50}
"""Weights of the groups, in percent."""
BINS: Final = {"0-20": (0, 20), "20-149": (20, 150), "150-499": (150, 500), "500 and more": (500, 10**9)}
"""Tasks of a job, the lower bound included; the paper has 20 in two bins."""
PAPER_S: Final = {facebook.HDRF: 1379, "slots-4": 1446, "slots-5": 1514, "slots-6": 1732}
"""Duration of the job schedule in seconds."""
PAPER_GAIN: Final[Mapping[str, tuple[int, ...]]] = {
    "slots-4": (0, 4, 33, 107),
    "slots-5": (166, 129, 112, 32),
    "slots-6": (351, 289, 275, 32),
}
"""Figure 12: by how many percent response times are better with H-DRF, by `BINS`."""


class SlotRun(facebook.SchemeRun):
    """A scheme of this section with a seed."""

    def run(self) -> dict[str, Any]:
        """Return each job's tasks and response time, and when the last job ended.

        Raises:
            UserError: a job did not end.
        """
        jobs, settings = _jobs(self.sample, self.scheme, self.seed), facebook.settings_of(facebook.HDRF)
        run = simulate(scenario_of(self.scheme).with_jobs(jobs), settings, self.seed, check=False)
        if not bool((run.jobs["state"] == "done").all()):
            raise UserError(f"{self.title}: jobs are left undone")
        tasks = [sum(stage.tasks for stage in job.dag.stages) for job in jobs.jobs]
        end_s = float(run.jobs["end_ms"].max()) / 1000
        return {"tasks": tasks, "response_s": run.completion_s.tolist(), "end_s": end_s}


def scenario_of(scheme: str) -> Scenario:
    """Return the cluster and figure 10's queues: of slots where there are some, and then memory is not counted."""
    has = {SLOT: SLOTS[scheme], MEMORY: NODE[MEMORY]} if scheme in SLOTS else NODE
    uncounted = (MEMORY,) if scheme in SLOTS else ()
    cluster = {
        "resources": [
            {"name": name} | ({"counted": False, "thrashing": THRASHING} if name in uncounted else {}) for name in has
        ],
        "nodes": [{"count": facebook.NODES, "resources": has}],
        "contention": bool(uncounted),
    }
    return Scenario.of({"cluster": cluster, "queues": facebook.queues_of(CAPACITY)})


def _jobs(sample: Path, scheme: str, seed: int) -> Workload:
    jobs = facebook.schedule(sample, seed)
    if scheme not in SLOTS:
        return jobs

    def asking(job: Job) -> Job:
        (stage,) = job.dag.stages
        stage = replace(stage, demand={SLOT: 1.0, MEMORY: stage.demand[MEMORY]})
        return replace(job, dag=replace(job.dag, stages=(stage,)))

    return arranged(map(asking, jobs.jobs))


LAYOUTS: Final = {"hdrf-slots": Layout("H-DRF next to schedulers of slots")}


def results_of(found: facebook.Found) -> Results:
    """Return figures by scheme: how long all jobs take, and by how many percent response times are longer."""
    rows = []
    for (scheme, seed), each in found.items():
        ours, name = found[facebook.HDRF, seed], facebook.TITLES.get(scheme, scheme.replace("slots-", "slots, "))
        rows.append(Row("all jobs (s)", name, "", seed, each["end_s"], "s", PAPER_S[scheme]))
        if scheme == facebook.HDRF:
            continue
        over = PAPER_S[scheme] / PAPER_S[facebook.HDRF]
        rows.append(Row("over H-DRF's", name, "", seed, each["end_s"], "1", round(over, 2), ours["end_s"]))
        for size, papers in zip(BINS, PAPER_GAIN[scheme], strict=True):
            theirs_s, ours_s = (_mean_s(run, size) for run in (each, ours))
            figure = f"gain of H-DRF, jobs of {size} tasks (%)"
            rows.append(Row(figure, name, "", seed, 100.0 * (theirs_s - ours_s), "%", papers, ours_s))
    return Results(LAYOUTS, {"hdrf-slots": rows}, {"section": "5.3", **facebook.facts_of(found)})


def _mean_s(run: Mapping[str, Any], size: str) -> float:
    """Return the mean response time of a run's jobs of a size."""
    (least, most), tasks = BINS[size], np.array(run["tasks"])
    own = np.array(run["response_s"])[(tasks >= least) & (tasks < most)]
    return float(own.mean()) if len(own) else float("nan")
