"""Imports histories into a store: broken ones are reported and skipped, known ones are not counted again.

A history names the user of its job. It is trusted if its files belong to that user, or if the JobHistoryServer, which
received the job from the user's own application master, provides the job instead (``/ws/v1/history``, Hadoop 3.4.2).
The server lists attempts task by task, one request each, so only some tasks of a wide stage are requested, evenly
spaced.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import requests

from treadle.config.settings import JobHistory as Retention
from treadle.errors import UserError
from treadle.history.database import MIB
from treadle.history.frameworks import JOB, MAP, REDUCE, STAGES, JobHistory
from treadle.history.outcome import (
    BrokenHistoryError,
    RefusedError,
    Source,
    UnfinishedError,
    items,
    mapping,
    number,
    text,
)
from treadle.history.profile import JobRun
from treadle.history.reader import HistoryReader, SourceContent, export_warning, ownership_warning
from treadle.history.store import ProfileStore
from treadle.yarn.pages import checked_address, open_session, refusal_of, why_failed

TASKS_MAX: Final = 100
"""Maximum number of tasks of a stage whose attempts are requested."""

ANSWER_BYTES_MAX: Final = 64 << 20
TIMEOUT_S: Final = 30.0
DEADLINE_S: Final = 300.0
"""Time limit of an answer, in seconds."""
JOB_DEADLINE_S: Final = 900.0
"""Time limit of all answers about a job, in seconds."""

_JOBS = "/ws/v1/history/mapreduce/jobs"
_INPUTS = {
    MAP: ("org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter", "BYTES_READ", "mapCounterValue"),
    REDUCE: ("org.apache.hadoop.mapreduce.TaskCounter", "REDUCE_SHUFFLE_BYTES", "reduceCounterValue"),
}


class HistoryServer:
    """The REST API of a JobHistoryServer; with Kerberos, the importing user's tickets are used."""

    def __init__(self, address: str, session: requests.Session | None = None, ca: Path | None = None) -> None:
        """Take the address of its web pages, ``http://HOST:19888``, and the certificates to trust over https.

        Raises:
            UserError: the address is invalid.
        """
        self._url = checked_address(address, "--history-server", "http://HOST:19888")
        self._session = session or open_session(ca)
        self._job_ends_s = float("inf")

    def jobs(self, since_ms: int = 0, most: int = 1000) -> list[str]:
        """Return the IDs of the latest ``most`` successful jobs that ended no earlier than ``since_ms``.

        Raises:
            UserError: the server does not answer.
        """
        query = f"?state=SUCCEEDED&finishedTimeBegin={since_ms}"
        try:
            answer = self._get(f"{_JOBS}{query}")
        except BrokenHistoryError as error:
            raise UserError(f"{self._url}{_JOBS}: {error}; is it the address of a JobHistoryServer?") from error
        rows = [mapping(job) for job in items(mapping(answer.get("jobs")).get("job"))]
        rows.sort(key=lambda job: (number(job.get("finishTime")), text(job.get("id"))))
        return [text(job.get("id")) for job in rows][-most:]

    def run(self, job: str) -> JobRun:
        """Return a job as a run.

        Raises:
            BrokenHistoryError: the server's answer is invalid.
            UserError: its certificate is not trusted.
            UnfinishedError: the job has not succeeded.
        """
        if not JOB.fullmatch(job):
            raise BrokenHistoryError(f"{job[:60]!r} is not an id of a job")
        self._job_ends_s = time.monotonic() + JOB_DEADLINE_S
        facts = mapping(self._get(f"{_JOBS}/{job}").get("job"))
        if text(facts.get("state")) != "SUCCEEDED":
            raise UnfinishedError(f"{job} is {text(facts.get('state')) or 'unknown'}")
        entries = items(mapping(self._get(f"{_JOBS}/{job}/conf").get("conf")).get("property"))
        configuration = {text(mapping(entry).get("name")): text(mapping(entry).get("value")) for entry in entries}
        counters = mapping(self._get(f"{_JOBS}/{job}/counters").get("jobCounters"))
        history = JobHistory(
            job, text(facts.get("name")), text(facts.get("user")), text(facts.get("queue")), "SUCCEEDED"
        )
        history.submitted_ms, history.finished_ms = number(facts.get("submitTime")), number(facts.get("finishTime"))
        for stage in STAGES.values():
            if (read := _counter(counters, stage)) is not None:
                history.inputs[stage] = read
        for task in map(mapping, items(mapping(self._get(f"{_JOBS}/{job}/tasks").get("tasks")).get("task"))):
            kind = STAGES.get(text(task.get("type")))
            if kind is not None and text(task.get("state")) == "SUCCEEDED":
                history.tasks[kind][text(task.get("id"))] = text(task.get("successfulAttempt"))
        for done in history.tasks.values():
            for name, attempt in spread(sorted(done.items()), TASKS_MAX):
                answer = mapping(self._get(f"{_JOBS}/{job}/tasks/{name}/attempts").get("taskAttempts"))
                for fields in map(mapping, items(answer.get("taskAttempt"))):
                    if text(fields.get("id")) == attempt:
                        history.took_ms[attempt] = number(fields.get("elapsedTime"))
        return history.run(configuration)

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
            problem = f"{reason} to {path}" + (f": {remedy}, or" if remedy else ";")
            closed = error.response is not None and error.response.status_code in {401, 403}
            raise BrokenHistoryError(
                f"{problem} import the .jhist files instead" if closed else f"{reason} to {path}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise BrokenHistoryError(f"the answer to {path} is no JSON") from error


def spread(everything: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Return at most ``most`` elements of a sequence, evenly spaced: maps are numbered by the size of their input."""
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
    for counter_group in map(mapping, items(counters.get("counterGroup"))):
        if text(counter_group.get("counterGroupName")) == group:
            for counter in map(mapping, items(counter_group.get("counter"))):
                if text(counter.get("name")) == name:
                    return number(counter.get(field))
    return None


Report = Callable[[str], None]
T = TypeVar("T")

REPORTED_MAX: Final = 100
"""Maximum number of broken or rejected sources reported at once; the summary counts the others."""

BYTES_WITHOUT_BOUNDS: Final = Retention().size_mb * MIB
"""Size limit of a store for an import without the administrator's limits: beyond it nothing is added."""

_REMEDY: Final = (
    "give --history-server too, for MapReduce; or --trust-names if no user can write where the files come from"
)


@dataclass(slots=True)
class Summary:
    """The result of an import."""

    sources: int = 0
    runs: int = 0
    """Number of new runs."""
    profiles: int = 0
    """Number of exported profiles with changes."""
    known: int = 0
    """Number of runs and profiles that the store already had."""
    left_out: list[str] = field(default_factory=list)
    """Jobs that have not succeeded."""
    broken: list[str] = field(default_factory=list)
    """Unreadable sources with the reason."""
    refused: list[str] = field(default_factory=list)
    """Skipped sources and untrusted jobs with the reason."""


@dataclass(slots=True)
class Import:
    """One import into a store. An error of a source is reported at once and in the summary."""

    store: ProfileStore
    now_ms: int
    """Upper bound of end times."""
    report: Report
    """Receives problems of sources."""
    _: KW_ONLY
    reader: HistoryReader
    server: HistoryServer | None = None
    """Provides MapReduce jobs whose files have another owner."""
    trust_names: bool = False
    """Whether files are trusted whatever their owner."""
    bytes_max: int | None = None
    """Nothing is added to a store that uses this many bytes; None: the store removes data above its limits."""
    summary: Summary = field(default_factory=Summary)

    def take(self, sources: Iterable[Source]) -> None:
        """Import files and folders.

        Raises:
            StoreError: the store cannot be used.
            UserError: a library that a source needs is missing.
        """
        for source in sources:
            content = self._read(source.name, partial(self.reader.read, source))
            if content is not None:
                self._keep(source.name, content)

    def take_server(self, server: HistoryServer, jobs: Iterable[str]) -> None:
        """Import jobs of a history server by ID. Raises as `take`."""
        for job in jobs:
            run = self._read(job, partial(server.run, job))
            if run is not None:
                self._put(run)

    def _read(self, name: str, read: Callable[[], T]) -> T | None:
        """Return the content of a source, and count it; None if it is unreadable or the store is full."""
        self.summary.sources += 1
        if self.bytes_max is not None and self.store.used_bytes() >= self.bytes_max:
            self._refuse(name, f"the store has {self.bytes_max} bytes or more; --config says how much it keeps")
            return None
        try:
            return read()
        except UnfinishedError as why:
            self.summary.left_out.append(f"{name}: {why}")
        except RefusedError as error:
            self._refuse(name, str(error))
        except (BrokenHistoryError, OSError) as error:
            why_not = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.summary.broken.append(f"{name}: {why_not}")
            self._report_reasons(self.summary.broken)
        return None

    def _keep(self, name: str, content: SourceContent) -> None:
        self.summary.left_out += [f"{name}: {why}" for why in content.left_out]
        if content.profiles and (why := export_warning(content)):
            self._refuse(name, why)
            return
        for run in content.runs:
            why = "" if self.trust_names else ownership_warning(content, run)
            believed = self._by_server(name, run, why) if why else run
            if believed is not None:
                self._put(believed)
        for profile in content.profiles:
            if self.store.merge(profile, self.now_ms):
                self.summary.profiles += 1
            else:
                self.summary.known += 1

    def _by_server(self, name: str, run: JobRun, why: str) -> JobRun | None:
        """Return the history server's run of a job whose files have another owner; None if it has none."""
        if self.server is None or run.key.type != "MAPREDUCE":
            self._refuse(name, f"{why}; {_REMEDY}")
            return None
        try:
            return self.server.run(run.id.replace("application_", "job_", 1))
        except (BrokenHistoryError, UnfinishedError) as error:
            self._refuse(name, f"{why}, and the history server does not confirm it: {error}")
        return None

    def _put(self, run: JobRun) -> None:
        if self.store.put(run, self.now_ms):
            self.summary.runs += 1
        else:
            self.summary.known += 1

    def _refuse(self, name: str, why: str) -> None:
        self.summary.refused.append(f"{name}: {why}")
        self._report_reasons(self.summary.refused)

    def _report_reasons(self, reasons: list[str]) -> None:
        if len(reasons) <= REPORTED_MAX:
            self.report(reasons[-1])
        elif len(reasons) == REPORTED_MAX + 1:
            self.report("... and more; -o json lists all")
