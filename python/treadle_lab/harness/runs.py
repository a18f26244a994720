"""Runs of an experiment, on several cores; their results are stored by a digest of all that they depend on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from treadle.compiled.array_types import F64
from treadle.errors import UserError
from treadle.simulator.cluster.tables import AppState
from treadle.simulator.simulation import SimulatedRun, Simulation
from treadle.sources import digest as code_digest
from treadle.sweep.runs import Done, ResultCache, Runs, raised, result_bytes, run_locally
from treadle.sweep.worker import libraries

FAILURES_SHOWN: Final = 10


class RunTask(Protocol):
    """A run of an experiment; it is pickled for other processes."""

    @property
    def key(self) -> str:
        """The digest of all that its result depends on, by `digest_of`."""

    @property
    def title(self) -> str:
        """Its name in errors."""

    def run(self) -> dict[str, Any]:
        """Return the result as JSON takes it."""


@dataclass(frozen=True, slots=True)
class KeyedRun:
    """A run that depends on its fields, on the content of files among them, and on the code of its module."""

    @property
    def key(self) -> str:
        """The digest of all that its result depends on."""
        return digest_of(type(self).__module__, type(self).__name__, asdict(self))


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of a series of runs."""

    cache: Path | None = None
    """A folder for results; None: none are kept."""
    processes: int = 0
    """Runs at a time; 0: one per core, 1: in this process."""


def digest_of(module: str, *parts: object) -> str:
    """Return the digest of what a run depends on: its parameters, and the code and the libraries that run it.

    Args:
        module: the name of the module that runs it
        parts: its parameters, as JSON takes them, and paths of data, which count by their content
    """
    text = json.dumps([*parts, _code(module)], sort_keys=True, default=content_of)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def content_of(place: Path) -> str:
    """Return the digest of a file of data, or of the files of a folder."""
    digest = hashlib.sha256()
    for file in sorted(each for each in place.iterdir() if each.is_file()) if place.is_dir() else [place]:
        digest.update(f"\n{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()


@cache
def _code(module: str) -> str:
    return f"{code_digest(module)} {libraries()}"


def run_all(
    tasks: Sequence[RunTask], settings: RunSettings, progress: Callable[[int, int], None] | None
) -> list[dict[str, Any]]:
    """Return each task's result; tasks with a stored result do not run.

    Args:
        tasks: the runs
        settings: where results are stored, and how many run at a time
        progress: called with the number of completed runs, and of all

    Raises:
        UserError: runs failed, each of which is named; the others have run, and are stored.
    """
    runs = Runs(tasks, None if settings.cache is None else ResultCache(settings.cache))
    todo, kept = runs.missing, len(tasks) - len(runs.missing)

    def reported(running: Iterator[Done]) -> Iterator[Done]:
        for done in range(len(todo) + 1):
            if progress is not None:
                progress(kept + done, len(tasks))
            yield from islice(running, 1)

    with closing(run_locally(todo, _run, settings.processes or os.cpu_count() or 1)) as running:
        runs.take(reported(running))
    results = [json.loads(result) for result in runs.results]
    failed = [(task.title, each["failure"]) for task, each in zip(tasks, results, strict=True) if each["failure"]]
    if failed:
        lines = [f"{title}: {why}" for title, why in failed[:FAILURES_SHOWN]]
        again = "the same command tries them again" if settings.cache else "--cache DIR keeps what goes well"
        raise UserError("\n".join([*lines, f"{len(failed)} of {len(tasks)} runs failed; {again}"]))
    return results


def _run(task: RunTask) -> tuple[bytes, bool]:
    """Run a task; return its result in stored form, and whether it failed."""
    try:
        document = task.run() | {"failure": None}
    except UserError as error:
        document = {"failure": str(error)}
    except Exception as error:
        document = {"failure": raised(error)}
    return result_bytes({"key": task.key} | document), document["failure"] is not None


def run_to_the_end(simulation: Simulation, title: str) -> tuple[SimulatedRun, F64]:
    """Return the run, and the completion time of each job in ms, from its arrival to its end.

    Raises:
        AssertionError: a job has not ended, or the simulation does not follow a setting.
    """
    run = simulation.run()
    apps = run.built.state.apps
    if not bool((apps["state"] == AppState.FINISHED).all()):
        raise AssertionError(f"{title} left jobs undone")
    if run.warnings:
        raise AssertionError(f"{title} is not followed as it is written: {'; '.join(run.warnings)}")
    return run, (apps["finish_ms"] - apps["arrival_ms"]).astype(np.float64)
