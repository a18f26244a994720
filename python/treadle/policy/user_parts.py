"""Parts from a user's Python file: what a class must be for each role, and how what it returns gets into the columns.

Such a class is written in plain Python and numpy. It is asked for numbers before the inner loop runs, and again after
as many containers as its settings say, each time with a `ClusterView`; the loop compares the numbers. It is chosen by
``kind: file``; see docs/write-a-policy.md.

Where a policy is measured, a part of it that fails must not go unnoticed: what runs after it is another policy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from treadle.compiled.array_types import F64, U8, Records
from treadle.config.part_files import (
    METHODS,
    EstimateFilePart,
    FilePart,
    PartStoppedError,
    interrupts,
    where,
)
from treadle.errors import UserError
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.cluster_view import ClusterView
from treadle.policy.parts import PlainFit, PlainOrder, PlainShare
from treadle.policy.work import Jobs

SCORES_MAX: Final = 1 << 25
"""The most scores that a fit may return: 256 MB."""

T = TypeVar("T")


class PartFailure(Exception):  # noqa: N818 (it is reported, not handled)
    """A part from a file raised something, returned what it may not return, or was stopped."""

    def __init__(self, part: str, label: str, text: str, call: int = 0, *, stopped: bool = False) -> None:
        super().__init__(f"policy.{part} ({label}): {text}")
        self.part = part
        self.text = text
        self.call = call
        """Which call of such a part in its decide it was, from 1; 0: the part could not be made."""
        self.stopped = stopped
        """Was it stopped from outside? That is not repeated by the same events alone."""
        self.digest = ""
        """Of the settings that it was a part of."""


class Watch(Protocol):
    """Runs a part's code, and may stop it by raising `PartStoppedError` in it."""

    def __call__(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns."""


def unwatched(function: Callable[[], T]) -> T:
    """Run a part's code for as long as it takes."""
    return function()


class Calls:
    """Calls the parts of one policy, and counts the calls of each decide."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.number = 0
        """Calls in this decide so far."""
        self._stop_at = 0

    def begin(self, stop_at: int = 0) -> None:
        """Begin a decide; call ``stop_at`` of it is not made but counts as stopped (0: none)."""
        self.number = 0
        self._stop_at = stop_at

    def make(self, part: str, parameters: FilePart) -> Any:
        """Return a new part.

        Raises:
            PartFailure: its constructor failed.
        """
        try:
            return self._watch(parameters.make)
        except PartStoppedError as error:
            raise PartFailure(part, parameters.label, "its constructor took too long", stopped=True) from error
        except BaseException as error:
            if interrupts(error):
                raise
            raise PartFailure(part, parameters.label, where(error, parameters.path)) from error

    def ask(self, part: str, parameters: FilePart, function: Callable[[ClusterView], Any], view: ClusterView) -> Any:
        """Return what a part's method returns, as an array of its own.

        Raises:
            PartFailure: it failed, or was stopped.
        """
        self.number += 1
        label, number = parameters.label, self.number
        if number == self._stop_at:
            raise PartFailure(part, label, "was stopped here before", number, stopped=True)
        try:
            return self._watch(partial(_array, function, view))  # a closure would outlive the call, in its traceback
        except PartStoppedError as error:
            text = f"{where(error, parameters.path).partition(': ')[0]}: took too long and was stopped"
            raise PartFailure(part, label, text, number, stopped=True) from error
        except BaseException as error:
            if interrupts(error):
                raise
            raise PartFailure(part, label, where(error, parameters.path), number) from error


def _array(function: Callable[[ClusterView], Any], view: ClusterView) -> Any:
    return np.array(function(view))


class _FromFile:
    """What the five kinds of parts from files have in common."""

    part: str

    def __init__(self, parameters: FilePart, calls: Calls) -> None:
        self._parameters = parameters
        self._calls = calls
        self._method, self._returns = METHODS[self.part]
        made = calls.make(self.part, parameters)
        self._function: Callable[[ClusterView], Any] = getattr(made, self._method)

    def _ask(self, view: ClusterView) -> Any:
        return self._calls.ask(self.part, self._parameters, self._function, view)

    def _wrong(self, text: str) -> PartFailure:
        text = f"{self._method} returned {text}; it must return {self._returns}"
        return PartFailure(self.part, self._parameters.label, text, self._calls.number)

    def _numbers(self, view: ClusterView, *shapes: tuple[int, ...]) -> F64:
        """Return what the part says, one of these shapes."""
        found = self._ask(view)
        if found.dtype.kind not in "iuf":
            raise self._wrong(f"an array of {found.dtype}")
        if found.shape not in shapes:
            raise self._wrong(f"shape {found.shape} instead of {' or '.join(map(str, shapes))}")
        numbers: F64 = found.astype(np.float64)
        return numbers

    def _keys(self, view: ClusterView, *shapes: tuple[int, ...]) -> F64:
        numbers = self._numbers(view, *shapes)
        nan = np.argwhere(np.isnan(numbers))
        if len(nan):
            raise self._wrong(f"NaN at index {', '.join(map(str, nan[0]))}")
        return numbers


class FileGate(_FromFile):
    """A class of yours: True or False for each request."""

    part = "gate"

    def fill(self, view: ClusterView, may: U8) -> None:
        """Set ``may[row]`` for each request row."""
        found, rows = self._ask(view), len(view.requests)
        if found.dtype != np.bool_:
            raise self._wrong(f"an array of {found.dtype}")
        if found.shape != (rows,):
            raise self._wrong(f"shape {found.shape} instead of {(rows,)}")
        may[:rows] = found


class FileShare(PlainShare, _FromFile):
    """A class of yours: a number for each queue, of siblings the smallest first."""

    part = "share"
    keyed = True

    def fill(self, view: ClusterView, key: F64) -> None:
        """Set ``key[queue]`` for each queue."""
        queues = len(view.queues)
        key[:queues] = self._keys(view, (queues,))


class FileOrder(PlainOrder, _FromFile):
    """A class of yours: a number for each application, of a leaf's the smallest first."""

    part = "order"

    def keys(self, jobs: Jobs, key: F64) -> None:
        """Leave the keys to `fill`."""

    def fill(self, view: ClusterView, key: F64) -> None:
        """Set ``key[application]`` for each application."""
        applications = len(view.applications)
        key[:applications] = self._keys(view, (applications,))


class FileFit(PlainFit, _FromFile):
    """A class of yours: a number for each node, or for each request and node, the largest first."""

    part = "fit"
    window = 1 << 30

    def scores(self, view: ClusterView, nodes: int) -> F64:
        """Return (1 or request, node), made wide enough for this many nodes."""
        requests, known = len(view.requests), len(view.nodes)
        shapes: list[tuple[int, ...]] = [(known,)]
        if requests * known <= SCORES_MAX:
            shapes.append((requests, known))
        found = np.atleast_2d(self._keys(view, *shapes))
        scores: F64 = np.zeros((len(found), max(nodes, 1)))
        scores[:, :known] = found
        return scores


class FileEstimate(_FromFile):
    """A class of yours: how long a container of each request will run."""

    part = "estimate"

    def __init__(self, parameters: EstimateFilePart, calls: Calls) -> None:
        super().__init__(parameters, calls)
        self.default_ms = float(parameters.default_ms)
        self._rows_ms: F64 = np.zeros(0)

    def ask(self, view: ClusterView) -> None:
        """Let the part say how long a task of each request row takes, for the rest of the decide."""
        numbers = self._numbers(view, (len(view.requests),))
        if bool((numbers < 0).any()):
            raise self._wrong(f"{np.nanmin(numbers)}")
        self._rows_ms = numbers

    def durations(
        self, cluster: Cluster, view: View, ended: Records, rows_ms: F64, groups_ms: F64, hint_ms: F64
    ) -> None:
        """Set what the part said; tasks that run are taken to be like those that their application still asks for."""
        rows_ms[: len(self._rows_ms)] = self._rows_ms
        asked, groups = view.rows[: len(self._rows_ms)], view.groups[: cluster.tasks.size]
        found = {
            (application, priority): duration_ms
            for application, priority, duration_ms in zip(
                asked["application"].tolist(), asked["priority"].tolist(), self._rows_ms.tolist(), strict=True
            )
        }
        for at, key in enumerate(zip(groups["application"].tolist(), groups["priority"].tolist(), strict=True)):
            groups_ms[at] = found.get(key, np.nan)


class PolicyFailedError(UserError):
    """A part of the policy that is measured has failed: from there on figures would be those of another policy."""

    def __init__(self, failure: PartFailure, when: str) -> None:
        super().__init__(f"{failure}, {when}; put the part right: what would run instead is another policy")
        self.failure = failure


def insist(failure: PartFailure | None, when: str) -> None:
    """Do nothing if there is no failure.

    Raises:
        PolicyFailedError: there is one; ``when`` says when it was seen.
    """
    if failure is not None:
        raise PolicyFailedError(failure, when) from failure
