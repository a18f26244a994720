"""Runs of a sweep or of a reproduction: cached results, and local processes that compute the others.

A run is a function of its line and the code only. A line holds texts; its files are in folders named by the digest of
their content. The result has the same bytes on every machine.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.config.trust import trusted_owners, user_name
from treadle.errors import UserError
from treadle.files import read_regular, write_whole
from treadle.policy.catalogue import register_parts
from treadle.simulate import batch
from treadle.simulate.batch import DIED, Run, Scenario, processes, submitted
from treadle.simulate.comparison import FIGURES
from treadle.simulator.engines_simulation import with_engines
from treadle.simulator.results import FailedRun, statistic_of
from treadle.simulator.scenario import parse_scenario
from treadle.sources import digest
from treadle.sweep.worker import RUNS as RUN_MODULE
from treadle.sweep.worker import libraries

RUNS: Final = "runs"
FAILED: Final = "failed"
FILES: Final = "files"


class ResultCache:
    """A folder with successful runs, failed runs, and the input files of runs.

    Files are written atomically, so a folder that another sweep uses, or that was interrupted, is valid. Results of
    failed runs are for people: the next sweep repeats these runs.
    """

    def __init__(self, folder: Path) -> None:
        """Create the folder unless it exists.

        Raises:
            UserError: it cannot be created or written, it or a subfolder is a link, or other users may change it.
        """
        self.folder = folder
        try:
            folder.parent.mkdir(0o755, parents=True, exist_ok=True)
            for each in (folder, *(folder / name for name in (RUNS, FAILED, FILES))):
                make_folder(each)
                if reason := _reason_against(each):
                    raise UserError(f"{each}: {reason}; name another folder for the runs with --cache")
            if not os.access(folder / RUNS, os.W_OK):
                raise PermissionError(13, "may not be written")
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror}; name another folder for the runs with --cache") from error

    @property
    def files(self) -> Path:
        """The folder of the runs' input files."""
        return self.folder / FILES

    def get(self, key: str) -> bytes | None:
        """Return a successful run's result; None if there is none, or its file is damaged."""
        place = self._place(RUNS, key)
        try:
            for folder in _folders(self.folder, place):
                _refuse_link(folder)
            if place.is_symlink():
                return None
            text = read_regular(place, place.stat().st_size)
            document = json.loads(text)
        except (OSError, ValueError):
            return None
        return text if isinstance(document, dict) and document.get("key") == key else None

    def has(self, key: str) -> bool:
        """Return whether there is a successful run's result, as far as its file's name says."""
        return self._place(RUNS, key).is_file()

    def put(self, key: str, result: bytes, *, failed: bool) -> None:
        """Store a run's result.

        Raises:
            UserError: it cannot be written.
        """
        place = self._place(FAILED if failed else RUNS, key)
        try:
            write_at_once(place, result, self.folder)
            if not failed:
                self._place(FAILED, key).unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{place}: {error.strerror}; make room, and run the same again to go on") from error

    def _place(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"


def write_at_once(place: Path, content: bytes, root: Path) -> None:
    """Write a file atomically.

    Args:
        place: its path; parent folders are created, and a link in its place is replaced
        content: all of it
        root: a parent folder; neither it nor a folder between may be a link, which could lead to other files

    Raises:
        OSError: it cannot be written, or there is a link on the path.
    """
    for folder in _folders(root, place):
        make_folder(folder)
    write_whole(place, content)


def make_folder(folder: Path) -> None:
    """Create a folder in an existing one, unless it exists; not writable by a group, since code in it is executed.

    Raises:
        OSError: it cannot be created, or a link or a file is in its place.
    """
    try:
        folder.mkdir(0o755)
    except FileExistsError:
        _refuse_link(folder)


def has_content(place: Path, content: bytes, root: Path) -> bool:
    """Return whether a file already has a content; see `write_at_once` for arguments.

    Raises:
        OSError: it cannot be read, or there is a link on the path.
    """
    for folder in _folders(root, place):
        if folder.is_symlink():
            _refuse_link(folder)
    if place.is_symlink() or not place.is_file() or place.stat().st_size != len(content):
        return False
    return read_regular(place, len(content)) == content


def _folders(root: Path, place: Path) -> list[Path]:
    """Return the folders from a root to that of a file."""
    between = list(place.relative_to(root).parents)[-2::-1]  # the last is the root
    return [root, *(root / each for each in between)]


def _refuse_link(folder: Path) -> None:
    if not stat.S_ISDIR(folder.lstat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a link or a file, not a folder", str(folder))


def _reason_against(folder: Path) -> str:
    status = folder.lstat()
    if status.st_uid not in trusted_owners():
        return f"belongs to {user_name(status.st_uid)}, who could change what runs read"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to it; take that right away with chmod go-w {folder}"
    return ""


def result_bytes(document: dict[str, Any]) -> bytes:
    """Return the stored form of a result: the same bytes for the same content."""
    return (json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n").encode()


DIED_TWICE: Final = f"its process ended without an answer, twice; {DIED}"


class Task(Protocol):
    """A function whose result is stored under a digest of its input."""

    @property
    def key(self) -> str:
        """The digest of all inputs."""


T = TypeVar("T", bound=Task)
Call = Callable[[T], tuple[bytes, bool]]
"""Returns a task's result, and whether it failed. It must be importable from a module."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that has ended."""

    number: int
    """Its index."""
    result: bytes
    failed: bool


def run_locally(tasks: Sequence[T], call: Call[T], jobs: int) -> Generator[Done, None, None]:
    """Yield tasks as they end.

    Args:
        tasks: the tasks
        call: runs one
        jobs: number of processes; 1: this one
    """
    if jobs <= 1 or len(tasks) <= 1:
        for number, task in enumerate(tasks):
            yield Done(number, *call(task))
        return
    left = deque(range(len(tasks)))
    while left:
        suspects = yield from _until_broken(tasks, call, left, min(jobs, len(left)))
        for number in suspects:  # one of these killed its process: now each has its own
            if (yield from _until_broken(tasks, call, deque([number]), 1)):
                yield died(number, tasks[number], DIED_TWICE)


def died(number: int, task: Task, why: str) -> Done:
    """Return the result of a task that failed."""
    return Done(number, result_bytes({"key": task.key, "failure": why}), failed=True)


def _until_broken(tasks: Sequence[T], call: Call[T], left: deque[int], jobs: int) -> Generator[Done, None, list[int]]:
    """Run tasks until none is left or a process dies; return the tasks in progress at that time, in order."""
    running: dict[Future[tuple[bytes, bool]], int] = {}
    try:
        with processes(jobs) as pool:
            while left or running:
                while left and len(running) < jobs:
                    number = left[0]  # it is still left if a process has died meanwhile
                    running[submitted(pool, call, tasks[number])] = number
                    left.popleft()
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for each in sorted(ended, key=running.__getitem__):
                    result = each.result()
                    yield Done(running.pop(each), *result)
    except BrokenProcessPool:
        return sorted(running.values())
    return []


class Runs(Generic[T]):
    """Tasks, and their results."""

    def __init__(self, tasks: Sequence[T], kept: ResultCache | None) -> None:
        """Look up the stored results.

        Args:
            tasks: the tasks; those with one key run once
            kept: where results are stored; None: nowhere
        """
        self._keys = [task.key for task in tasks]
        self._kept = kept
        self._results = {key: (kept.get(key) if kept is not None else None) or b"" for key in dict.fromkeys(self._keys)}
        first = dict(zip(reversed(self._keys), reversed(tasks), strict=True))
        self.missing: list[T] = [first[key] for key, result in self._results.items() if not result]
        """Tasks to run."""
        self.failed: list[T] = []
        """Failed tasks."""
        self.done = 0
        """Number of tasks run."""

    @property
    def kept(self) -> int:
        """Number of tasks with a stored result."""
        missing = {task.key for task in self.missing}
        return sum(key not in missing for key in self._keys)

    @property
    def stored(self) -> int:
        """Number of tasks that succeeded and are stored; an interrupted `take` may not have counted the last one."""
        return 0 if self._kept is None else sum(self._kept.has(task.key) for task in self.missing)

    def take(self, running: Iterable[Done]) -> None:
        """Store the missing results as the tasks end.

        Raises:
            UserError: a result cannot be written.
        """
        for each in running:
            task = self.missing[each.number]
            if self._kept is not None:
                self._kept.put(task.key, each.result, failed=each.failed)
            self._results[task.key] = each.result
            self.done += 1
            if each.failed:
                self.failed.append(task)

    @property
    def results(self) -> list[bytes]:
        """Each task's result, in order; None for one that has not run."""
        return [self._results[key] for key in self._keys]


@dataclass(frozen=True, slots=True)
class Line:
    """All inputs of a run, except the code."""

    scenario: str
    """The scenario's text; its relative paths start at the folder of the sweep's files."""
    policy: str
    """The text of the treadle.yaml, with the same folder."""
    seed: int
    check: bool = True
    allow_impossible: bool = False
    code: str = ""
    """A digest of the scenario's entry points."""

    @property
    def key(self) -> str:
        """The digest of the line, the code and the libraries."""
        text = json.dumps([asdict(self), engine_digest()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def text(self) -> str:
        """Return the line in its text form."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Line:
        """Return the line of a text."""
        return cls(**json.loads(text))


@cache
def engine_digest() -> str:
    """Return a digest of the code of runs and of library versions."""
    return hashlib.sha256(f"{digest(RUN_MODULE)} {libraries()}".encode()).hexdigest()


def run_line(line: Line, files: Path) -> tuple[bytes, bool]:
    """Run a line; return its result, and whether it failed. Python files in it are executed: its plan trusted them.

    Args:
        line: what to run
        files: the parent of the folders with its files
    """
    files = files.absolute()  # the form used in errors
    try:
        scenario = Scenario(_scenario(line.scenario), files, "scenario", line.scenario, trust_code=True)
        settings = _settings(line.policy, files)
        file = str(files / "scenario.yaml")
        settings = with_engines(scenario.model, settings, file, scenario.text, trust_code=True)
        spec = batch.RunSpec(scenario, "policy", settings, line.seed, line.check, line.allow_impossible, tasks=False)
        document = _of_outcome(batch.run_line(spec))
    except UserError as error:
        document = {"failure": str(error).replace(f"{files}/", "")}
    except Exception as error:
        document = {"failure": raised(error)}
    failed = document["failure"] is not None
    return result_bytes({"key": line.key, **document}), failed


def raised(error: Exception) -> str:
    """Return type, text and location of an exception in one line of a stored result."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


@lru_cache(maxsize=8)
def _scenario(text: str) -> Any:
    return parse_scenario("scenario", text, trust_code=True)


@lru_cache(maxsize=256)
def _settings(text: str, files: Path) -> Settings:
    register_parts()
    return parse_settings(str(files / "treadle.yaml"), text, trust_code=True)


def _of_outcome(outcome: batch.Outcome) -> dict[str, Any]:
    run = outcome.result
    if isinstance(run, FailedRun):
        return {"failure": run.failure}
    if outcome.stuck:
        return {"failure": "\n".join(outcome.notes).partition(": ")[2]}
    return {"failure": None, "figures": figures_of(run), "warnings": run.warnings}


def figures_of(run: Run) -> dict[str, float | None]:
    """Return the figures of a run by name; None for a missing one."""
    figures = {name: float(getattr(run.summary, name)) for name in FIGURES if name != "ended"}
    figures |= {"slowdown_mean": statistic_of(run.slowdown), "slowdown_p99": statistic_of(run.slowdown, 99)}
    figures |= {f"used {name}": float(value) for name, value in run.summary.utilisation.items()}
    return {name: value if np.isfinite(value) else None for name, value in figures.items()}
