"""Runs lines in processes of this machine. A process that dies fails the run that it was at, and no other."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from treadle.sweep.kept import result_bytes
from treadle.sweep.line import Line, run_line

DIED: Final = (
    "its process ended without an answer, twice; look whether the machine ran out of memory, and use a smaller --jobs"
)


@dataclass(frozen=True, slots=True)
class Done:
    """A run that has ended."""

    number: int
    """Its place in what was given."""
    result: bytes
    failed: bool


def run_locally(lines: Sequence[Line], files: Path, jobs: int) -> Generator[Done, None, None]:
    """Yield runs as they end.

    Args:
        lines: what to run
        files: where the folders with their files are
        jobs: processes; 1: this one
    """
    if jobs <= 1 or len(lines) <= 1:
        for number, line in enumerate(lines):
            yield Done(number, *run_line(line, files))
        return
    left = deque(range(len(lines)))
    while left:
        suspects = yield from _until_broken(lines, left, files, min(jobs, len(left)))
        for number in suspects:  # one of these ended its process: each has one to itself now
            alone = deque([number])
            if (yield from _until_broken(lines, alone, files, 1)):
                yield died(number, lines[number], DIED)


def died(number: int, line: Line, why: str) -> Done:
    """Return that a run came to nothing."""
    return Done(number, result_bytes({"key": line.key, "failure": why}), failed=True)


def _until_broken(lines: Sequence[Line], left: deque[int], files: Path, jobs: int) -> Generator[Done, None, list[int]]:
    """Run what is left until there is nothing, or until a process ends; return what was running then, in order."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin_worker)
    running: dict[Future[tuple[bytes, bool]], int] = {}
    whole = False
    try:
        while left or running:
            while left and len(running) < jobs:
                number = left.popleft()
                running[pool.submit(run_line, lines[number], files)] = number
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for each in sorted(ended, key=running.__getitem__):
                result = each.result()
                yield Done(running.pop(each), *result)
        whole = True
        return []
    except BrokenProcessPool:
        return sorted(running.values())
    finally:
        pool.shutdown(wait=whole, cancel_futures=True)
        if not whole:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gave the work, which ends this one
