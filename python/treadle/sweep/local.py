"""Runs tasks in processes of this machine. A process that dies fails the task that it was at, and no other."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from treadle.simulate.processes import DIED, processes, submitted
from treadle.sweep.kept import result_bytes

DIED_TWICE: Final = f"its process ended without an answer, twice; {DIED}"
MOMENT_S: Final = 0.5
"""How often progress is reported."""


class Task(Protocol):
    """What is run: a function of what its key is the digest of."""

    @property
    def key(self) -> str:
        """The digest of all that its result depends on."""


T = TypeVar("T", bound=Task)
Call = Callable[[T], tuple[bytes, bool]]
"""Returns a task's result, and whether it failed. It must be importable from a module."""
OnProgress = Callable[[float], None]
"""Called with the number of tasks that are done, fractions of running ones included."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that has ended."""

    number: int
    """Its place in what was given."""
    result: bytes
    failed: bool


def run_locally(
    tasks: Sequence[T], call: Call[T], jobs: int, on_progress: OnProgress | None = None
) -> Generator[Done, None, None]:
    """Yield tasks as they end.

    Args:
        tasks: what to run
        call: runs one
        jobs: processes; 1: this one
        on_progress: called now and then with the progress
    """
    if jobs <= 1 or len(tasks) <= 1:
        for number, task in enumerate(tasks):
            _progress[:] = [_Here(number, on_progress)]
            yield Done(number, *call(task))
        return
    left = deque(range(len(tasks)))
    parts = multiprocessing.get_context("spawn").RawArray("d", len(tasks))  # without a lock, which the dead would hold
    while left:
        suspects = yield from _until_broken(tasks, call, left, min(jobs, len(left)), parts, on_progress)
        for number in suspects:  # one of these ended its process: each has one to itself now
            alone = deque([number])
            if (yield from _until_broken(tasks, call, alone, 1, parts, on_progress)):
                yield died(number, tasks[number], DIED_TWICE)


def died(number: int, task: Task, why: str) -> Done:
    """Return the result of a task that failed."""
    return Done(number, result_bytes({"key": task.key, "failure": why}), failed=True)


def tell(part: float) -> None:
    """Say, from within a task, which part of it is done: 0 to 1."""
    if _progress:
        _progress[0].tell(part)


class _Here:
    """Takes the progress of a task of this process."""

    def __init__(self, done: int, on_progress: OnProgress | None) -> None:
        self._done, self._on_progress = done, on_progress

    def tell(self, part: float) -> None:
        if self._on_progress is not None:
            self._on_progress(self._done + part)


class _There:
    """Takes the progress of a task from another process than the one that reports it."""

    def __init__(self, parts: Any) -> None:
        self._parts = parts
        self.number = 0

    def tell(self, part: float) -> None:
        self._parts[self.number] = part


_progress: list[_Here | _There] = []


def _until_broken(
    tasks: Sequence[T], call: Call[T], left: deque[int], jobs: int, parts: Any, on_progress: OnProgress | None
) -> Generator[Done, None, list[int]]:
    """Run what is left until there is nothing, or until a process ends; return what was running then, in order."""
    running: dict[Future[tuple[bytes, bool]], int] = {}
    try:
        with processes(jobs, _begin_worker, parts) as pool:
            while left or running:
                while left and len(running) < jobs:
                    number = left[0]  # it is still left if a process has died meanwhile
                    running[submitted(pool, _in_worker, call, number, tasks[number])] = number
                    left.popleft()
                ended, _ = wait(running, None if on_progress is None else MOMENT_S, FIRST_COMPLETED)
                for each in sorted(ended, key=running.__getitem__):
                    result = each.result()
                    number = running.pop(each)
                    parts[number] = 1.0
                    yield Done(number, *result)
                if on_progress is not None:
                    on_progress(sum(parts))
    except BrokenProcessPool:
        return sorted(running.values())
    return []


def _begin_worker(parts: Any) -> None:
    _progress[:] = [_There(parts)]


def _in_worker(call: Call[T], number: int, task: T) -> tuple[bytes, bool]:
    (there,) = _progress
    if isinstance(there, _There):
        there.number = number
    return call(task)
