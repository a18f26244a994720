"""MapReduce jobs from the REST API of the JobHistoryServer (``/ws/v1/history``, Hadoop 3.4.2).

The server has attempts only task by task, one request each, so of a wide stage some tasks are asked for, spread evenly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests

from treadle.errors import UserError
from treadle.history.importers.mapreduce import JOB, MAP, REDUCE, STAGES, application_of, demand_of
from treadle.history.importers.outcome import (
    BrokenHistoryError,
    UnfinishedError,
    items,
    mapping,
    number,
    tags_of,
    text,
)
from treadle.history.run import JobRun, StageRun, recurrence_key
from treadle.history.sketch import DurationSketch
from treadle.yarn.web import open_session, refusal_of, why_failed

TASKS_MAX: Final = 100
"""Tasks of a stage whose attempts are asked for."""

ANSWER_BYTES_MAX: Final = 64 << 20
TIMEOUT_S: Final = 30.0
DEADLINE_S: Final = 300.0
"""An answer that takes longer in all is given up."""
JOB_DEADLINE_S: Final = 900.0
"""A job of which all answers together take longer is given up."""

_JOBS = "/ws/v1/history/mapreduce/jobs"
_INPUTS = {
    MAP: ("org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter", "BYTES_READ", "mapCounterValue"),
    REDUCE: ("org.apache.hadoop.mapreduce.TaskCounter", "REDUCE_SHUFFLE_BYTES", "reduceCounterValue"),
}


class HistoryServer:
    """A JobHistoryServer's REST API, asked with the tickets of the user who imports where it wants Kerberos."""

    def __init__(self, address: str, session: requests.Session | None = None, ca: Path | None = None) -> None:
        """Take the address of its web pages, ``http://HOST:19888``, and the certificates to trust over https.

        Raises:
            UserError: it is none.
        """
        try:
            parts = urlsplit(address if "://" in address else f"http://{address}")
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise UserError(f"--history-server {address}: write it as http://HOST:19888")
        self._url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._session = session or open_session(ca)
        self._job_ends_s = float("inf")

    def jobs(self, since_ms: int = 0, most: int = 1000) -> list[str]:
        """Return the ids of the latest ``most`` jobs that succeeded and ended no earlier than ``since_ms``.

        Raises:
            UserError: the server cannot be asked.
        """
        query = f"?state=SUCCEEDED&finishedTimeBegin={since_ms}"
        try:
            answer = self._get(f"{_JOBS}{query}")
        except BrokenHistoryError as error:
            raise UserError(f"{self._url}{_JOBS}: {error}; is it the address of a JobHistoryServer?") from error
        found = [mapping(job) for job in items(mapping(answer.get("jobs")).get("job"))]
        found.sort(key=lambda job: (number(job.get("finishTime")), text(job.get("id"))))
        return [text(job.get("id")) for job in found][-most:]

    def run(self, job: str) -> JobRun:
        """Return a job as a run.

        Raises:
            BrokenHistoryError: the server does not answer as it should.
            UserError: it has no certificate that can be trusted.
            UnfinishedError: the job has not ended well.
        """
        if not JOB.fullmatch(job):
            raise BrokenHistoryError(f"{job[:60]!r} is no id of a job")
        self._job_ends_s = time.monotonic() + JOB_DEADLINE_S
        facts = mapping(self._get(f"{_JOBS}/{job}").get("job"))
        if text(facts.get("state")) != "SUCCEEDED":
            raise UnfinishedError(f"{job} is {text(facts.get('state')) or 'unknown'}")
        entries = items(mapping(self._get(f"{_JOBS}/{job}/conf").get("conf")).get("property"))
        configuration = {text(mapping(entry).get("name")): text(mapping(entry).get("value")) for entry in entries}
        counters = mapping(self._get(f"{_JOBS}/{job}/counters").get("jobCounters"))
        tasks = [mapping(task) for task in items(mapping(self._get(f"{_JOBS}/{job}/tasks").get("tasks")).get("task"))]
        stages = []
        for stage, parents in ((MAP, ()), (REDUCE, (MAP,))):
            done = sorted(
                (text(task.get("id")), text(task.get("successfulAttempt")))
                for task in tasks
                if STAGES.get(text(task.get("type"))) == stage and text(task.get("state")) == "SUCCEEDED"
            )
            if done:
                durations = DurationSketch(self._durations_ms(job, spread(done, TASKS_MAX)))
                demand = demand_of(configuration, stage)
                stages.append(StageRun(stage, len(done), durations, demand, parents, _counter(counters, stage)))
        tags = tags_of(configuration.get("mapreduce.job.tags"))
        key = recurrence_key(
            text(facts.get("user")), text(facts.get("queue")), "MAPREDUCE", text(facts.get("name")), tags
        )
        started_ms, ended_ms = number(facts.get("submitTime")), number(facts.get("finishTime"))
        return JobRun(key, application_of(job), started_ms, ended_ms, tuple(stages))

    def _durations_ms(self, job: str, tasks: Sequence[tuple[str, str]]) -> Iterator[int]:
        for task, attempt in tasks:
            answer = self._get(f"{_JOBS}/{job}/tasks/{task}/attempts")
            for found in map(mapping, items(mapping(answer.get("taskAttempts")).get("taskAttempt"))):
                if text(found.get("id")) == attempt:
                    yield number(found.get("elapsedTime"))

    def _get(self, path: str) -> Mapping[str, Any]:
        if time.monotonic() > self._job_ends_s:
            raise BrokenHistoryError(f"its answers took longer than {JOB_DEADLINE_S:.0f} s")
        try:
            with self._session.get(
                f"{self._url}{path}", headers={"Accept": "application/json"}, timeout=TIMEOUT_S, stream=True
            ) as answer:
                answer.raise_for_status()
                return mapping(json.loads(_content(answer)))
        except requests.exceptions.SSLError as error:
            raise UserError(f"{self._url}: {why_failed(error)}") from error
        except requests.RequestException as error:
            reason, remedy = refusal_of(error.response)
            said = f"{reason} to {path}" + (f": {remedy}, or" if remedy else ";")
            closed = error.response is not None and error.response.status_code in {401, 403}
            raise BrokenHistoryError(
                f"{said} import the .jhist files instead" if closed else f"{reason} to {path}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise BrokenHistoryError(f"the answer to {path} is no JSON") from error


def spread(everything: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Return at most ``most`` of a sequence, evenly spread: maps are numbered by the size of their input."""
    if len(everything) <= most:
        return list(everything)
    return [everything[(2 * at + 1) * len(everything) // (2 * most)] for at in range(most)]


def _content(answer: requests.Response) -> bytes:
    content = bytearray()
    began_s = time.monotonic()
    for part in answer.iter_content(1 << 16):
        content += part
        if len(content) > ANSWER_BYTES_MAX or time.monotonic() - began_s > DEADLINE_S:
            raise BrokenHistoryError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes or {DEADLINE_S:.0f} s")
    return bytes(content)


def _counter(counters: Mapping[str, Any], stage: str) -> int | None:
    group, name, field = _INPUTS[stage]
    for found in map(mapping, items(counters.get("counterGroup"))):
        if text(found.get("counterGroupName")) == group:
            for counter in map(mapping, items(found.get("counter"))):
                if text(counter.get("name")) == name:
                    return number(counter.get(field))
    return None
