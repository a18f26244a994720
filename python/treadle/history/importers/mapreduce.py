"""A MapReduce job from its history events: maps and reduces by their successful attempts.

The events are those of Hadoop's ``org.apache.hadoop.mapreduce.jobhistory`` (3.4.2); see `jhist` for where they are read
from. An attempt's time is from its start to its finish: a *task's* starts when it was scheduled, so it is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from treadle.history.importers.outcome import UnfinishedError, items, mapping, number, tags_of, text
from treadle.history.recurrence import recurrence_key
from treadle.history.run import JobRun, StageRun
from treadle.history.sketch import DurationSketch

MAP, REDUCE = "map", "reduce"
STAGES = {"MAP": MAP, "REDUCE": REDUCE}
"""Names of stages by the frameworks' types of tasks; the live engine uses them too."""

_TASK_COUNTER = "org.apache.hadoop.mapreduce.TaskCounter"
_FILE_SYSTEM = "org.apache.hadoop.mapreduce.FileSystemCounter"
_INPUT_FORMAT = "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter"


@dataclass(slots=True)
class JobHistory:
    """What the events of one job have told so far."""

    id: str = ""
    name: str = ""
    user: str = ""
    queue: str = ""
    state: str = ""
    submitted_ms: int = 0
    finished_ms: int = 0
    inputs: dict[str, int] = field(default_factory=dict)
    started_ms: dict[str, int] = field(default_factory=dict)
    """By attempt."""
    took_ms: dict[str, int] = field(default_factory=dict)
    """By attempt that succeeded."""
    tasks: dict[str, dict[str, str]] = field(default_factory=lambda: {MAP: {}, REDUCE: {}})
    """By stage: the successful attempt of each task that finished."""

    def take(self, kind: str, event: Mapping[str, Any]) -> None:
        """Take one event of a kind such as ``MAP_ATTEMPT_FINISHED``; kinds that say nothing of interest are passed."""
        if kind == "JOB_SUBMITTED":
            self.id, self.name = text(event.get("jobid")), text(event.get("jobName"))
            self.user, self.queue = text(event.get("userName")), text(event.get("jobQueueName"))
            self.submitted_ms = number(event.get("submitTime"))
        elif kind == "JOB_QUEUE_CHANGED":
            self.queue = text(event.get("jobQueueName")) or self.queue
        elif kind == "JOB_FINISHED":
            self.state, self.finished_ms = "SUCCEEDED", number(event.get("finishTime"))
            self.inputs = {
                MAP: _map_input(event.get("mapCounters")),
                REDUCE: _counter(event.get("reduceCounters"), _TASK_COUNTER, "REDUCE_SHUFFLE_BYTES"),
            }
        elif kind in {"JOB_FAILED", "JOB_KILLED", "JOB_ERROR"}:
            self.state = kind.removeprefix("JOB_")
        elif kind in {"MAP_ATTEMPT_STARTED", "REDUCE_ATTEMPT_STARTED"}:
            self.started_ms[text(event.get("attemptId"))] = number(event.get("startTime"))
        elif kind in {"MAP_ATTEMPT_FINISHED", "REDUCE_ATTEMPT_FINISHED"}:
            self._attempt_finished(event)
        elif kind == "TASK_FINISHED":
            self._task_finished(event)

    def _attempt_finished(self, event: Mapping[str, Any]) -> None:
        attempt = text(event.get("attemptId"))
        started_ms = self.started_ms.get(attempt)
        if text(event.get("taskStatus")) == "SUCCEEDED" and started_ms is not None:
            self.took_ms[attempt] = number(event.get("finishTime")) - started_ms
            stage = STAGES.get(text(event.get("taskType")))
            if stage is not None:
                self.tasks[stage][text(event.get("taskid"))] = attempt

    def _task_finished(self, event: Mapping[str, Any]) -> None:
        stage = STAGES.get(text(event.get("taskType")))
        attempt = text(event.get("successfulAttemptId"))
        # a speculative attempt that came second may have finished too: the task names the one that counts
        if stage is not None and attempt in self.took_ms:
            self.tasks[stage][text(event.get("taskid"))] = attempt

    def run(self, configuration: Mapping[str, str]) -> JobRun:
        """Return the job as a run.

        Args:
            configuration: the job's, where known: it says what tasks ask for, and the tags

        Raises:
            UnfinishedError: it has not ended well.
        """
        if self.state != "SUCCEEDED":
            raise UnfinishedError(f"{self.id or 'the job'} {self.state.lower() or 'has not ended'}")
        stages = []
        for stage, parents in ((MAP, ()), (REDUCE, (MAP,))):
            tasks = self.tasks[stage]
            if tasks:
                durations = DurationSketch(self.took_ms[attempt] for attempt in tasks.values())
                demand = demand_of(configuration, stage)
                stages.append(StageRun(stage, len(tasks), durations, demand, parents, self.inputs.get(stage)))
        tags = tags_of(configuration.get("mapreduce.job.tags"))
        key = recurrence_key(self.user, self.queue, "MAPREDUCE", self.name, tags)
        return JobRun(key, application_of(self.id), self.submitted_ms, self.finished_ms, tuple(stages))


def application_of(job: str) -> str:
    """Return the application id of a MapReduce job's id."""
    return job.replace("job_", "application_", 1)


def demand_of(configuration: Mapping[str, str], stage: str) -> dict[str, int]:
    """Return what a stage's tasks ask for by a job's configuration, where it says so."""
    demand = {}
    for resource, keys in (
        ("memory-mb", (f"mapreduce.{stage}.resource.memory-mb", f"mapreduce.{stage}.memory.mb")),
        ("vcores", (f"mapreduce.{stage}.resource.vcores", f"mapreduce.{stage}.cpu.vcores")),
    ):
        amount = next((found for key in keys if (found := number(configuration.get(key), -1)) > 0), None)
        if amount is not None:
            demand[resource] = amount
    return demand


def _map_input(counters: object) -> int:
    """Bytes that maps read: what the input format counts, else what came from file systems but the local one."""
    counted = _counter(counters, _INPUT_FORMAT, "BYTES_READ")
    if counted:
        return counted
    return sum(
        amount
        for name, amount in _group(counters, _FILE_SYSTEM).items()
        if name.endswith("_BYTES_READ") and name != "FILE_BYTES_READ"
    )


def _counter(counters: object, group: str, name: str) -> int:
    return _group(counters, group).get(name, 0)


def _group(counters: object, name: str) -> dict[str, int]:
    for group in items(mapping(counters).get("groups")):
        if text(mapping(group).get("name")) == name:
            counts = [mapping(count) for count in items(mapping(group).get("counts"))]
            return {text(count.get("name")): number(count.get("value")) for count in counts}
    return {}
