"""Parts from a user's Python file: what a class must be for each role, its inputs, and its result.

Such a class is written in plain Python and numpy. It is asked for numbers before the inner loop runs, and again after
as many containers as its settings say, each time with a `ClusterView`, whose arrays cannot be written to; the loop
compares the numbers. It is chosen by ``kind: file``; see docs/write-a-policy.md. Where a policy is measured, a part of
it that fails must not go unnoticed: what runs after it is another policy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I64, U8, Records
from treadle.config.part_files import (
    METHODS,
    EstimateFilePart,
    FilePart,
    PartStoppedError,
    interrupts,
    where,
)
from treadle.errors import UserError
from treadle.model.classes import ANY_NODE
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, GUARANTEED, MAXIMUM, PENDING, TOTAL, USED, View
from treadle.policy.parts import Estimate, Fit, Gate, Order, Share
from treadle.policy.work import Durations, Jobs

A = TypeVar("A", bound=npt.NDArray[Any])

CONTAINER: Final = np.dtype([("node", "i4"), ("priority", "i4"), ("created_ms", "i8")])
"""A container that runs: where, the priority that it was asked for with, and when it was allocated, by the RM's
clock."""

JOB: Final = np.dtype([("remaining", "f8"), ("attained", "f8"), ("size", "f8"), ("confidence", "f8")])
"""An application's work in milliseconds of containers, whatever their sizes: of its remaining tasks by the estimate, of
those that it has had, and of both. ``confidence``: the part of what it asks for of which the estimate knows a duration;
the rest counts as the estimate's default."""


def read_only(array: A) -> A:
    """Return a view of an array that raises ValueError when it is written to."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


class ClusterView:
    """The cluster as it is now, with pending commits. Arrays hold only during the call that they are passed to.

    Row n of an array is node, queue, application or request n; rows without one are there too: a node with ``state``
    0, a queue with ``exists`` 0, an application with ``state`` 0, a request with ``application`` -1. Amounts of
    resources have a column for each of `resources`, memory in MB first.

    Records have further columns, which are the engine's own and change from version to version: a part uses those
    that are named here (docs/policy-api.md).
    """

    def __init__(
        self,
        cluster: Cluster,
        jobs: Jobs,
        now_ms: int,
        partition: int,
        random: np.random.Generator,
        durations_ms: F64,
    ) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self.now_ms = now_ms
        """The RM's time."""
        self.partition = partition
        """The number of the partition that is being served; 0 is the default one."""
        self.random = random
        """For whatever is drawn at random: the same events and seed give the same numbers."""
        self.durations_ms: F64 = read_only(durations_ms)
        """What the estimate says of each request: milliseconds that a container of it runs, NaN where that is not
        known."""

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the resources, such as ``memory-mb`` and ``vcores``."""
        return self._cluster.types.names

    @property
    def counted(self) -> U8:
        """For each resource 1, or 0 if the RM's ResourceCalculator ignores it."""
        return read_only(self._cluster.counted)

    @property
    def nodes(self) -> Records:
        """A record for each node.

        ``name``, ``rack``: texts (`text`). ``partition``: its number. ``state``: 0 there is no node, 1 containers may
        be placed on it, 2 not now.
        """
        return read_only(self._cluster.nodes.at[: self._cluster.nodes.size])

    @property
    def node_total(self) -> I64:
        """(node, resource): the node's capacity."""
        return read_only(self._cluster.nodes.amounts[: self._cluster.nodes.size, TOTAL])

    @cached_property
    def node_free(self) -> I64:
        """(node, resource): free resources, without pending commits."""
        amounts = self._cluster.nodes.amounts[: self._cluster.nodes.size]
        return read_only(amounts[:, FREE] - amounts[:, ASSUMED])

    @cached_property
    def cluster_total(self) -> I64:
        """(resource): the capacity of all nodes of the partition."""
        here = (self.nodes["state"] > 0) & (self.nodes["partition"] == self.partition)
        return read_only(self.node_total[here].sum(axis=0))

    @property
    def queues(self) -> Records:
        """A record for each queue.

        ``exists``: 0 there is no queue. ``parent``: its number, -1 for the root. ``path``: a text. ``leaf``: 1 if
        applications are in it. ``priority``: higher comes first. ``order``: 0 FIFO, 1 fair, as the queue is
        configured. ``sized``: 1 if that is by size-based weight.
        """
        return read_only(self._cluster.queues.at[: self._cluster.queues.size])

    @cached_property
    def queue_paths(self) -> list[str]:
        """The path of each queue, such as ``root.default``; empty where there is no queue."""
        texts = self._cluster.names.texts
        return [texts[queue["path"]] if queue["exists"] else "" for queue in self.queues]

    def _queue_amounts(self, kind: int) -> I64:
        return read_only(self._cluster.limits.amounts[: self._cluster.queues.size, self.partition, kind])

    @property
    def queue_guaranteed(self) -> I64:
        """(queue, resource): the queue's guarantee in the partition."""
        return self._queue_amounts(GUARANTEED)

    @property
    def queue_maximum(self) -> I64:
        """(queue, resource): the most that the queue may have in the partition."""
        return self._queue_amounts(MAXIMUM)

    @property
    def queue_pending(self) -> I64:
        """(queue, resource): requested in the queue and below it in the partition, as the RM counts it."""
        return self._queue_amounts(PENDING)

    @cached_property
    def queue_used(self) -> I64:
        """(queue, resource): the queue's use of the partition, with pending commits."""
        return read_only(self._queue_amounts(USED) + self._queue_amounts(ASSUMED))

    @property
    def applications(self) -> Records:
        """A record for each application attempt.

        ``state``: 0 there is none, 1 active, 2 it waits to be activated, 3 another engine serves it.
        ``cluster_timestamp``, ``id``, ``attempt``: of its id. ``name``, ``type``, ``user``: texts. ``queue``: of its
        leaf. ``partition``: the default of its requests. ``priority``: higher comes first. ``submit_time_ms``,
        ``start_time_ms``: by the RM's clock. ``awaiting_am``: 1 until its AM has a container. ``containers``: that it
        has, its AM's too. ``assumed_count``: that are proposed and not decided yet. ``pending``: that its requests ask
        for. ``input_bytes``: mean input of a task of its first stage; 0: not known.
        """
        return read_only(self._cluster.apps.at[: self._cluster.apps.size])

    @cached_property
    def application_used(self) -> I64:
        """(application, resource): the application's use, with pending commits."""
        amounts = self._cluster.apps.amounts[: self._cluster.apps.size]
        return read_only(amounts[:, USED] + amounts[:, ASSUMED])

    @cached_property
    def jobs(self) -> Records:
        """A record of `JOB` for each application: what it has had, what is left, and both together."""
        size, asked = self._cluster.apps.size, np.maximum(self.requests["application"], 0)
        found = np.zeros(size, JOB)
        found["attained"], found["remaining"] = self._jobs.container_ms()[:size], self._jobs.left_ms()[:size]
        found["size"] = found["attained"] + found["remaining"]
        known = np.bincount(asked, self.request_count * ~np.isnan(self.durations_ms), size)
        found["confidence"] = known / np.maximum(np.bincount(asked, self.request_count, size), 1)
        return read_only(found)

    @property
    def requests(self) -> Records:
        """A record for each request: an application's asks with one request key.

        ``application``: its number, -1: there is no request. ``key``: the shim's number of the request key.
        ``priority``: of the application's requests the smallest comes first. ``allocation_request_id``: as the AM
        gave it. ``partition``: where its containers go. ``count``: wanted on any node. ``assumed``: of these proposed
        and not decided yet. ``relax``: 0 if it must go to the nodes or racks that it names. ``constrained``: 1 if it
        has placement constraints.
        """
        return read_only(self._cluster.requests.at[: self._cluster.requests.size])

    @property
    def request_capability(self) -> I64:
        """(request, resource): what one container of the request is to have."""
        return read_only(self._cluster.requests.capability[: self._cluster.requests.size])

    @cached_property
    def request_count(self) -> I64:
        """How many containers of each request are wanted and not proposed yet."""
        requests = self.requests
        return read_only((requests["count"] - requests["assumed"]).astype(np.int64))

    def eligible(self, request: int) -> npt.NDArray[np.bool_]:
        """Return for each node whether the request's constraints let it go there, as far as the engine knows.

        Not whether there is room, nor whether containers of its own with allocation tags stand in the way. What a part
        says of other nodes does not matter: nothing goes there.
        """
        classes, nodes = self._cluster.classes, self._cluster.nodes.size
        at = int(classes.row_class[request]) if classes.active else ANY_NODE
        if at == ANY_NODE or self.applications["awaiting_am"][self.requests["application"][request]]:
            return np.ones(nodes, bool)
        return classes.nodes[at, :nodes].copy()

    def containers(self, application: int) -> Records:
        """Return where an application's containers run, by priority, then oldest first: records of `CONTAINER`.

        Its AM's own is not among them, nor are those that are only proposed.
        """
        tasks, groups, containers = self._cluster.tasks.tasks.at, self._cluster.tasks.at, []
        group = int(self.applications["first_group"][application])
        while group >= 0:
            task = int(groups["first"][group])
            while task >= 0:
                containers.append((tasks["node"][task], groups["priority"][group], tasks["created_ms"][task]))
                task = int(tasks["next"][task])
            group = int(groups["next"][group])
        return read_only(np.sort(np.array(containers, CONTAINER), order=["priority", "created_ms", "node"]))

    def text(self, name: int) -> str:
        """Return the text of a column that holds one: ``name`` and ``rack`` of nodes, ``path`` of queues.

        Those of applications are ``name``, ``type`` and ``user``.
        """
        return self._cluster.names.texts[name]

    def tags(self, application: int) -> list[str]:
        """Return the tags of an application, in order."""
        return self._cluster.tags(application)


SCORES_MAX: Final = 1 << 25
"""The most scores that a fit may return: 256 MB."""

T = TypeVar("T")


class PartFailure(Exception):  # noqa: N818 (it is reported, not handled)
    """A part from a file raised something, returned an invalid value, or was stopped."""

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


class FileGate(_FromFile, Gate):
    """Your own class: True or False for each request."""

    part = "gate"

    def fill(self, view: ClusterView, may: U8) -> None:
        """Set ``may[row]`` for each request row."""
        found, rows = self._ask(view), len(view.requests)
        if found.dtype != np.bool_:
            raise self._wrong(f"an array of {found.dtype}")
        if found.shape != (rows,):
            raise self._wrong(f"shape {found.shape} instead of {(rows,)}")
        may[:rows] = found


class FileShare(_FromFile, Share):
    """Your own class: a number for each queue, of siblings the smallest first."""

    part = "share"
    steps, walks_queues, keyed = "capacity", True, True

    def fill(self, view: ClusterView, key: F64) -> None:
        """Set ``key[queue]`` for each queue."""
        queues = len(view.queues)
        key[:queues] = self._keys(view, (queues,))


class FileOrder(_FromFile, Order):
    """Your own class: a number for each application, of a leaf's the smallest first."""

    part = "order"

    def fill(self, view: ClusterView, key: F64) -> None:
        """Set ``key[application]`` for each application."""
        applications = len(view.applications)
        key[:applications] = self._keys(view, (applications,))


class FileFit(_FromFile, Fit):
    """Your own class: a number for each node, or for each request and node, the largest first."""

    part, steps = "fit", "keyed"
    window = 1 << 30

    def scores(self, view: ClusterView, nodes: int) -> F64:
        """Return (1 or request, node), made wide enough for this many nodes."""
        requests, known = len(view.requests), len(view.nodes)
        shapes: list[tuple[int, ...]] = [(known,)]
        if requests * known <= SCORES_MAX:
            shapes.append((requests, known))
        returned = np.atleast_2d(self._keys(view, *shapes))
        scores: F64 = np.zeros((len(returned), max(nodes, 1)))
        scores[:, :known] = returned
        return scores


class FileEstimate(_FromFile, Estimate):
    """Your own class: how long a container of each request will run."""

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

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the part's durations; tasks that run are taken to be like those that their application still asks for."""
        found.rows_ms[: len(self._rows_ms)] = self._rows_ms
        own_rows, groups = view.rows[: len(self._rows_ms)], view.groups[: cluster.tasks.size]
        known = {
            (application, priority): duration_ms
            for application, priority, duration_ms in zip(
                own_rows["application"].tolist(), own_rows["priority"].tolist(), self._rows_ms.tolist(), strict=True
            )
        }
        for at, key in enumerate(zip(groups["application"].tolist(), groups["priority"].tolist(), strict=True)):
            found.groups_ms[at] = known.get(key, np.nan)


class PolicyFailedError(UserError):
    """A part of the policy that is measured has failed: from there on figures would be those of another policy."""

    def __init__(self, failure: PartFailure, when: str) -> None:
        super().__init__(f"{failure}, {when}; put the part right: what would run instead is another policy")
        self.failure = failure


def raise_if_failed(failure: PartFailure | None, when: str) -> None:
    """Do nothing if there is no failure.

    Raises:
        PolicyFailedError: there is one; ``when`` says when it was seen.
    """
    if failure is not None:
        raise PolicyFailedError(failure, when) from failure
