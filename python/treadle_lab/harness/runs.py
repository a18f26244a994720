"""Runs of an experiment by the runner of `treadle sweep`: on several cores, kept by content, failures apart."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from treadle.errors import UserError
from treadle.sources import digest
from treadle.sweep.kept import Kept, result_bytes
from treadle.sweep.line import raised
from treadle.sweep.local import OnProgress, run_locally, tell
from treadle.sweep.runs import Runs
from treadle.sweep.worker import libraries

__all__ = ["Asked", "RunTask", "digest_of", "run_all", "tell"]

FAILURES_SHOWN: Final = 10


class RunTask(Protocol):
    """A run of an experiment; it travels to other processes."""

    @property
    def key(self) -> str:
        """The digest of all that its result depends on, by `digest_of`."""

    @property
    def title(self) -> str:
        """What it is called when it fails."""


T = TypeVar("T", bound=RunTask)


@dataclass(frozen=True, slots=True)
class Asked:
    """How runs are to be run."""

    cache: Path | None = None
    """A folder for results; None: none are kept."""
    processes: int = 0
    """Runs at a time; 0: one per core, 1: in this process."""


def digest_of(module: str, *parts: object) -> str:
    """Return the digest of what a run depends on: its own parts, and the code and the libraries that run it.

    Args:
        module: the name of the module that runs it
        parts: what JSON takes
    """
    return hashlib.sha256(json.dumps([*parts, _code(module)], sort_keys=True).encode()).hexdigest()


@cache
def _code(module: str) -> str:
    return f"{digest(module)} {libraries()}"


def run_all(
    tasks: Sequence[T], call: Callable[[T], dict[str, Any]], asked: Asked, progress: Callable[[float, int], None] | None
) -> list[dict[str, Any]]:
    """Return each task's result; tasks with a kept result do not run.

    Args:
        tasks: what to run
        call: runs one and returns what JSON takes; it must be importable from a module
        asked: where results are kept, and how many run at a time
        progress: called with the runs that are done, fractions included, and their number

    Raises:
        UserError: runs failed, each of which is named; the others have run, and are kept.
    """
    runs = Runs(tasks, None if asked.cache is None else Kept(asked.cache))
    todo, kept = runs.missing, len(tasks) - len(runs.missing)

    def tell_all(done: float) -> None:
        if progress is not None:
            progress(kept + done, len(tasks))

    tell_all(0)
    report: OnProgress = tell_all
    with closing(run_locally(todo, partial(_called, call), asked.processes or os.cpu_count() or 1, report)) as running:
        runs.take(running)
    tell_all(len(todo))
    found = [json.loads(result) for result in runs.results]
    failed = [(task.title, each["failure"]) for task, each in zip(tasks, found, strict=True) if each["failure"]]
    if failed:
        lines = [f"{title}: {why}" for title, why in failed[:FAILURES_SHOWN]]
        again = "the same command tries them again" if asked.cache else "--cache DIR keeps what goes well"
        raise UserError("\n".join([*lines, f"{len(failed)} of {len(tasks)} runs failed; {again}"]))
    return found


def _called(call: Callable[[T], dict[str, Any]], task: T) -> tuple[bytes, bool]:
    """Run a task; return its result as it is kept, and whether it failed."""
    try:
        document = call(task) | {"failure": None}
    except UserError as error:
        document = {"failure": str(error)}
    except Exception as error:
        document = {"failure": raised(error)}
    return result_bytes({"key": task.key} | document), document["failure"] is not None
