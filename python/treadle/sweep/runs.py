"""Tasks of which what is kept does not run: those of `treadle sweep` and of `treadle reproduce`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from treadle.sweep.kept import Kept
from treadle.sweep.local import Done, Task

T = TypeVar("T", bound=Task)


class Runs(Generic[T]):
    """Tasks, and their results."""

    def __init__(self, tasks: Sequence[T], kept: Kept | None) -> None:
        """Look what is kept.

        Args:
            tasks: what is wanted; those with one key run once
            kept: where results are kept; None: nowhere
        """
        self._keys = [task.key for task in tasks]
        self._kept = kept
        self._results = {key: (kept.get(key) if kept is not None else None) or b"" for key in dict.fromkeys(self._keys)}
        first = dict(zip(reversed(self._keys), reversed(tasks), strict=True))
        self.missing: list[T] = [first[key] for key, result in self._results.items() if not result]
        """What is to run."""
        self.failed: list[T] = []
        """What ran and failed."""
        self.done = 0
        """How many have run."""

    @property
    def kept(self) -> int:
        """How many do not run."""
        missing = {task.key for task in self.missing}
        return sum(key not in missing for key in self._keys)

    def take(self, running: Iterable[Done]) -> None:
        """Keep the missing results, as the tasks end.

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
        """Each task's result, in their order; None for one that has not run."""
        return [self._results[key] for key in self._keys]
