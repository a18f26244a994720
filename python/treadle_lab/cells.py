"""Runs the cells of an experiment: those that the cache has do not run, and the CPU hours are printed before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from treadle import __version__
from treadle.sweep.kept import Kept
from treadle_lab.harness.runs import Asked, run_all

MODEL: Final = 1
"""Raise it when a change of the engine or the simulator changes results: kept cells then run again."""


class Cell(Protocol):
    """A run of an experiment: a function of its fields; it travels to other processes."""

    @property
    def key(self) -> str:
        """The digest of all that its result depends on, by `digest`."""

    @property
    def title(self) -> str:
        """The name of the cell where it fails."""

    @property
    def cpu_s(self) -> float:
        """About how long it takes."""


C = TypeVar("C", bound=Cell)


def digest(*parts: object) -> str:
    """Return the digest of what a cell depends on: what JSON takes, Treadle's version and `MODEL`."""
    return hashlib.sha256(json.dumps([*parts, __version__, MODEL], sort_keys=True).encode()).hexdigest()


def kept_only(cells: Sequence[C], cache: Path) -> list[dict[str, Any] | None]:
    """Return the result of each cell that the cache has, else None; nothing runs."""
    kept = Kept(cache)
    found = (kept.get(cell.key) for cell in cells)
    return [None if each is None else json.loads(each) for each in found]


def run_cells(
    cells: Sequence[C],
    call: Callable[[C], dict[str, Any]],
    cache: Path,
    processes: int,
    say: Callable[[str], None],
    progress: Callable[[float, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Return the results of cells, in their order; each is kept in a file as it ends.

    Args:
        cells: the cells
        call: runs one; importable from a module
        cache: a folder; the same cells with the same folder go on where they stopped
        processes: cells that run at a time; 0: one a core
        say: is given the CPU hours before anything runs
        progress: is called with the cells that are done and their number

    Raises:
        UserError: cells failed; the others have run and are kept.
    """
    kept = Kept(cache)
    missing = [cell for cell in cells if kept.get(cell.key) is None]
    hours = sum(cell.cpu_s for cell in missing) / 3600
    say(f"{len(missing)} of {len(cells)} cells to run, about {hours:.1f} CPU hours; {cache} has the others")
    return run_all(cells, call, Asked(cache, processes), progress)
