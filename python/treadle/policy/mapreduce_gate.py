"""The gate of an engine that serves MapReduce: how many containers of a job run at a time (Omega, section 6)."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from treadle.compiled.array_types import Records
from treadle.config.parts import Parameters
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.mapreduce_jobs import WORKERS_MAX, MapReduceJob, give_workers, jobs_of
from treadle.policy.mapreduce_workers import WorkerPolicy
from treadle.policy.parts import PlainGate

POLICIES: Final = {policy.name.lower(): policy for policy in WorkerPolicy}


class WorkersParameters(Parameters):
    """What can be set."""

    policy: Literal["as_requested", "max_parallelism", "relative_job_size", "global_cap"] = Field(
        default="max_parallelism",
        description="Who gets room that nobody asks for: nobody; a job as long as it ends sooner; up to four times its "
        "base width; a job as long as it ends sooner and less than 60 % of the cluster is used.",
    )
    workers: int = Field(
        default=10,
        ge=1,
        le=WORKERS_MAX,
        description="The base width of a job without the tag treadle:workers=N: this many of its tasks run at a time "
        "whatever the policy says.",
    )
    default_ms: int = Field(
        default=30_000, ge=1, le=2**40, description="How long a task is taken to run of which nothing is known."
    )


class WorkersGate(PlainGate):
    """As many tasks of a MapReduce job at a time as the policy says; all else is served at once."""

    def __init__(self, parameters: WorkersParameters) -> None:
        self._parameters = parameters
        self.jobs: list[MapReduceJob] = []
        """What was said of each job when the gate was asked last."""

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Hold back what is beyond the workers that each job may have."""
        chosen = self._parameters
        rows["may"] = 1
        self.jobs = jobs_of(cluster, view, chosen.workers, chosen.default_ms / 1000)
        give_workers(cluster, view, self.jobs, POLICIES[chosen.policy])
        left = {job.application: max(job.workers - job.running, 0) for job in self.jobs}
        held = False
        for at in _asks_of(view, left):
            app = int(view.rows[at]["application"])
            wanted = max(int(view.rows[at]["count"]) - int(view.rows[at]["assumed"]), 0)
            quota = min(wanted, left[app])
            left[app] -= quota
            rows[at]["quota"] = quota
            rows[at]["may"] = quota > 0
            held |= quota < wanted
        self.waits_for = "workers of MapReduce jobs" if held else ""


def _asks_of(view: View, jobs: dict[int, int]) -> list[int]:
    """Return the asks of jobs, each job's in the order in which they are served."""
    found = []
    for app in jobs:
        at = int(view.apps[app]["first_row"])
        while at >= 0:
            found.append(at)
            at = int(view.rows[at]["next"])
    return found
