"""Following submitted jobs until they end."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from treadle.live.door import ask_door
from treadle.live.policy_memory import state_folder
from treadle_lab.demo.jobs import DemoJob
from treadle_lab.minicluster import MiniCluster

ASK_S = 10.0
ENDED = ("FINISHED", "FAILED", "KILLED")
NOT_SUBMITTED = "NOT_SUBMITTED"


@dataclass
class RunningJob:
    """A submitted job and what was last seen of it."""

    job: DemoJob
    client: subprocess.Popen[bytes]
    log: Path
    application_id: str = ""
    state: str = "SUBMITTING"
    progress: float = 0.0
    seconds: float = 0.0
    containers: int = 0
    diagnostics: str = ""
    placed: dict[str, int] = field(default_factory=dict)
    engine: str = ""
    """Of several engines the one that served it when it was last seen."""

    @property
    def ended(self) -> bool:
        """Whether the job has ended, in success or failure."""
        return self.state in ("SUCCEEDED", "FAILED", "KILLED", NOT_SUBMITTED)

    def saw(self, application: dict[str, Any]) -> None:
        """Take over what the RM says."""
        self.application_id = application["id"]
        self.progress = float(application["progress"])
        self.seconds = application["elapsedTime"] / 1000
        self.diagnostics = application["diagnostics"].strip()
        ended = application["state"] in ENDED
        # an application that unregistered well is FINISHED, its final status says how its job ended
        self.state = (
            application["finalStatus"] if ended and application["state"] == "FINISHED" else application["state"]
        )


def submit(cluster: MiniCluster, job: DemoJob) -> RunningJob:
    """Submit a job; returns at once."""
    log = cluster.layout.logs / f"job-{job.name}.log"
    return RunningJob(job, cluster.submit(job.command(cluster), log), log)


def update(cluster: MiniCluster, jobs: list[RunningJob]) -> None:
    """Look at every job once; an RM that does not answer is asked again next time."""
    try:
        by_tag = {application["applicationTags"]: application for application in cluster.rm.applications()}
        placements = cluster.rm.placements()
    except requests.RequestException:
        return
    allocated = cluster.containers()
    for running in jobs:
        application = by_tag.get(running.job.name)
        if application is not None:
            running.saw(application)
            running.containers = len(allocated.get(running.application_id, ()))
            running.placed = placements.get(running.application_id, {})
        elif running.client.poll() is not None:
            running.state = NOT_SUBMITTED
            running.diagnostics = last_words(running.log)


def update_engines(cluster: MiniCluster, jobs: list[RunningJob]) -> None:
    """Note which engine serves each job; of one that has ended what was last seen stays."""
    owners = roster_of(cluster).get("applications", {})
    for running in jobs:
        if running.application_id in owners:
            running.engine = str(owners[running.application_id][1])


def roster_of(cluster: MiniCluster) -> dict[str, Any]:
    """Return each of several engines, and who serves which application, as their sidecar says; empty if it does not."""
    config = cluster.settings.policy
    folder = None if config is None else state_folder(config.resolve())
    try:
        found = {} if folder is None else json.loads(ask_door(folder, {"engines": True}, ASK_S))
    except (OSError, ValueError):
        return {}
    return found if "error" not in found else {}


def wait_clients(jobs: list[RunningJob], timeout_s: float = 30.0) -> None:
    """Wait for clients to notice that their jobs have ended; what does not is left to the cluster's stop."""
    deadline = time.monotonic() + timeout_s
    for running in jobs:
        try:
            running.client.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            continue


def last_words(log: Path) -> str:
    """Return the last line of a client's output that mentions an error, or its last line."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    errors = [line for line in lines if "Exception" in line or "ERROR" in line or "Error" in line]
    return (errors or lines or [""])[-1].strip()
