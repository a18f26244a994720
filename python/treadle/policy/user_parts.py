"""Custom parts from a Python file: the class for each role, its inputs and its result.

Such a class is plain Python and numpy. It returns numbers before the inner loop runs, and again after as many
containers as its settings say, each time from a `ClusterView` with read-only arrays; the loop compares the numbers. It
is selected by ``kind: file``; see docs/write-a-policy.md. Where a policy is measured, a failure of its part must be
reported, because another policy runs afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, ClassVar, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I64, U8, Records
from treadle.config.part_files import (
    METHODS,
    EstimateFilePart,
    FilePart,
    KeyedFilePart,
    PartStoppedError,
    interrupts,
    where,
)
from treadle.errors import UserError
from treadle.model.cluster import Cluster
from treadle.model.nodes import ANY_NODE
from treadle.model.tables import ASSUMED, FREE, GUARANTEED, MAXIMUM, PENDING, TOTAL, USED, View
from treadle.policy.parts import Estimate, Fit, Gate, Order, Share
from treadle.policy.state import Scratch
from treadle.policy.work import Durations, Jobs

A = TypeVar("A", bound=npt.NDArray[Any])

CONTAINER: Final = np.dtype([("node", "i4"), ("priority", "i4"), ("created_ms", "i8")])
"""A running container: its node, the priority of its request, and when it was allocated (ms, the RM's clock)."""

JOB: Final = np.dtype([("remaining", "f8"), ("attained", "f8"), ("size", "f8"), ("confidence", "f8")])
"""An application's work in container milliseconds, whatever the containers' sizes: remaining by the estimate, attained,
and their sum. ``confidence`` is the fraction of its requests with an estimated duration; the rest counts with the
default."""


def read_only(array: A) -> A:
    """Return a view of an array that raises ValueError when it is written to."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


class ClusterView:
    """The current cluster, with pending commits. Arrays are valid only during the call that receives them.

    Row n of an array is node, queue, application or request n, including unused rows: a node with ``state`` 0, a queue
    with ``exists`` 0, an application with ``state`` 0, a request with ``application`` -1. Amounts of resources have a
    column for each of `resources`, with memory in MB first.

    docs/policy-api.md has the columns of records. Additional internal ones change between versions: a part uses only
    those that the page describes.
    """

    def __init__(
        self, cluster: Cluster, jobs: Jobs, now_ms: int, partition: int, random: np.random.Generator, durations_ms: F64
    ) -> None:
        self._cluster = cluster
        self._jobs = jobs
        self.now_ms = now_ms
        """The RM's time, in ms since 1970."""
        self.partition = partition
        """The number of the partition being served; 0 is the default one."""
        self.random = random
        """Random generator: the same events and seed give the same numbers."""
        self.durations_ms: F64 = read_only(durations_ms)
        """Estimated run time of a container of each request in ms, NaN if unknown."""

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the resources, such as ``memory-mb`` and ``vcores``."""
        return self._cluster.types.names

    @property
    def counted(self) -> U8:
        """1 for each counted resource, 0 if the RM's ResourceCalculator ignores it."""
        return read_only(self._cluster.counted)

    @property
    def nodes(self) -> Records:
        """A record for each node."""
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
        """(resource): total capacity of the partition's nodes."""
        here = (self.nodes["state"] > 0) & (self.nodes["partition"] == self.partition)
        return read_only(self.node_total[here].sum(axis=0))

    @property
    def queues(self) -> Records:
        """A record for each queue."""
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
        """(queue, resource): the queue's maximum in the partition."""
        return self._queue_amounts(MAXIMUM)

    @property
    def queue_pending(self) -> I64:
        """(queue, resource): outstanding requests of the queue's subtree in the partition, as counted by the RM."""
        return self._queue_amounts(PENDING)

    @cached_property
    def queue_used(self) -> I64:
        """(queue, resource): the queue's usage of the partition, with pending commits."""
        return read_only(self._queue_amounts(USED) + self._queue_amounts(ASSUMED))

    @property
    def applications(self) -> Records:
        """A record for each application attempt."""
        return read_only(self._cluster.apps.at[: self._cluster.apps.size])

    @cached_property
    def application_used(self) -> I64:
        """(application, resource): the application's usage, with pending commits."""
        amounts = self._cluster.apps.amounts[: self._cluster.apps.size]
        return read_only(amounts[:, USED] + amounts[:, ASSUMED])

    @cached_property
    def jobs(self) -> Records:
        """A record of `JOB` for each application: attained, remaining and total work."""
        size, asked = self._cluster.apps.size, np.maximum(self.requests["application"], 0)
        found = np.zeros(size, JOB)
        found["attained"], found["remaining"] = self.applications["container_ms"], self._jobs.left_ms()[:size]
        found["size"] = found["attained"] + found["remaining"]
        known = np.bincount(asked, self.request_count * ~np.isnan(self.durations_ms), size)
        found["confidence"] = known / np.maximum(np.bincount(asked, self.request_count, size), 1)
        return read_only(found)

    @property
    def requests(self) -> Records:
        """A record for each request: an application's outstanding containers with one request key."""
        return read_only(self._cluster.requests.at[: self._cluster.requests.size])

    @property
    def request_capability(self) -> I64:
        """(request, resource): resources of one container of the request."""
        return read_only(self._cluster.requests.capability[: self._cluster.requests.size])

    @cached_property
    def request_count(self) -> I64:
        """Number of containers of each request that are not proposed yet."""
        requests = self.requests
        return read_only((requests["count"] - requests["assumed"]).astype(np.int64))

    def eligible(self, request: int) -> npt.NDArray[np.bool_]:
        """Return for each node whether the request's constraints allow it, as far as the engine knows.

        Free resources and the application's own containers with allocation tags are not checked. A part's value for
        other nodes has no effect: nothing is placed there.
        """
        classes, nodes = self._cluster.classes, self._cluster.nodes.size
        at = int(classes.row_class[request]) if classes.active else ANY_NODE
        if at == ANY_NODE or self.applications["awaiting_am"][self.requests["application"][request]]:
            return np.ones(nodes, bool)
        return classes.nodes[at, :nodes].copy()

    def containers(self, application: int) -> Records:
        """Return an application's running containers, by priority, then oldest first: records of `CONTAINER`.

        The AM's own container and proposed ones are not included.
        """
        table = self._cluster.groups
        tasks, groups = table.tasks.at, table.at
        containers = [
            (tasks["node"][task], groups["priority"][group], tasks["created_ms"][task])
            for group, task in table.running(application, self._cluster.apps)
        ]
        return read_only(np.sort(np.array(containers, CONTAINER), order=["priority", "created_ms", "node"]))

    def text(self, name: int) -> str:
        """Return the text at an index: ``name`` and ``rack`` of nodes, ``path`` of queues.

        For applications: ``name``, ``type`` and ``user``.
        """
        return self._cluster.names.texts[name]

    def tags(self, application: int) -> list[str]:
        """Return the tags of an application, sorted."""
        return self._cluster.tags(application)


SCORES_MAX: Final = 1 << 25
"""Maximum number of scores of a fit: 256 MB."""

T = TypeVar("T")


class PartFailure(Exception):  # noqa: N818 (it is reported, not handled)
    """A custom part raised an exception, returned an invalid value, or was stopped."""

    def __init__(self, part: str, label: str, text: str, call: int = 0, *, stopped: bool = False) -> None:
        super().__init__(f"policy.{part} ({label}): {text}")
        self.part = part
        self.text = text
        self.call = call
        """The number of the call to a custom part in its cycle, from 1; 0: the part could not be created."""
        self.stopped = stopped
        """Whether it was stopped from outside, which equal events do not repeat."""
        self.digest = ""
        """Digest of the settings that it was part of."""


class Watch(Protocol):
    """Runs a part's code, and may stop it by raising `PartStoppedError` in it."""

    def __call__(self, function: Callable[[], T]) -> T:
        """Return what ``function`` returns."""


def unwatched(function: Callable[[], T]) -> T:
    """Run a part's code without a time limit."""
    return function()


class Calls:
    """Calls the custom parts of one policy, and counts the calls of each cycle."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.number = 0
        """Number of calls in this cycle so far."""
        self._stop_at = 0

    def begin(self, stop_at: int = 0) -> None:
        """Start a cycle; call ``stop_at`` is skipped and counts as stopped (0: none)."""
        self.number = 0
        self._stop_at = stop_at

    def make(self, part: str, parameters: FilePart) -> Any:
        """Return a new part.

        Raises:
            PartFailure: its constructor failed.
        """
        return self._run(part, parameters, parameters.make, 0)

    def ask(self, part: str, parameters: FilePart, function: Callable[[ClusterView], Any], view: ClusterView) -> Any:
        """Return the result of a part's method as a new array.

        Raises:
            PartFailure: it failed, or was stopped.
        """
        self.number += 1
        if self.number == self._stop_at:
            raise PartFailure(part, parameters.label, "was stopped here before", self.number, stopped=True)
        call = partial(_array, function, view)  # a closure would outlive the call in its traceback
        return self._run(part, parameters, call, self.number)

    def _run(self, part: str, parameters: FilePart, call: Callable[[], Any], number: int) -> Any:
        try:
            return self._watch(call)
        except PartStoppedError as error:
            at = where(error, parameters.path).partition(": ")[0]
            text = f"{at}: took too long and was stopped" if number else "its constructor took too long"
            raise PartFailure(part, parameters.label, text, number, stopped=True) from error
        except BaseException as error:
            if interrupts(error):
                raise
            raise PartFailure(part, parameters.label, where(error, parameters.path), number) from error


def _array(function: Callable[[ClusterView], Any], view: ClusterView) -> Any:
    return np.array(function(view))


class FromFile:
    """Common base of the five kinds of custom parts."""

    part: ClassVar[str]

    def __init__(self, parameters: Any, calls: Calls) -> None:
        self.parameters = parameters
        self._calls = calls
        self._method, self._returns = METHODS[self.part]
        made = calls.make(self.part, parameters)
        self._function: Callable[[ClusterView], Any] = getattr(made, self._method)

    def fill(self, view: ClusterView, scratch: Scratch) -> Scratch:
        """Ask the part for its numbers; return the cycle's arrays with them.

        Raises:
            PartFailure: it failed.
        """
        return scratch

    def _wrong(self, text: str) -> PartFailure:
        text = f"{self._method} returned {text}; it must return {self._returns}"
        return PartFailure(self.part, self.parameters.label, text, self._calls.number)

    def _array(self, view: ClusterView, kinds: str, *shapes: tuple[int, ...]) -> Any:
        """Return the part's result, which must be of one of these kinds of numbers and have one of these shapes."""
        found = self._calls.ask(self.part, self.parameters, self._function, view)
        if found.dtype.kind not in kinds:
            raise self._wrong(f"an array of {found.dtype}")
        if found.shape not in shapes:
            raise self._wrong(f"shape {found.shape} instead of {' or '.join(map(str, shapes))}")
        return found

    def _numbers(self, view: ClusterView, *shapes: tuple[int, ...]) -> F64:
        numbers: F64 = self._array(view, "iuf", *shapes).astype(np.float64)
        return numbers

    def _keys(self, view: ClusterView, *shapes: tuple[int, ...]) -> F64:
        numbers = self._numbers(view, *shapes)
        nan = np.argwhere(np.isnan(numbers))
        if len(nan):
            raise self._wrong(f"NaN at index {', '.join(map(str, nan[0]))}")
        return numbers


class FileGate(FromFile, Gate, kind="file", parameters=FilePart):
    """Your own class: True or False for each request."""

    def fill(self, view: ClusterView, scratch: Scratch) -> Scratch:
        """Set which request rows may be served."""
        rows = len(view.requests)
        scratch.rows["may"][:rows] = self._array(view, "b", (rows,))
        return scratch


class FileShare(FromFile, Share, kind="file", parameters=KeyedFilePart):
    """Your own class: a number for each queue, of siblings the smallest first."""

    steps, walks_queues, keyed = "capacity", True, True

    def fill(self, view: ClusterView, scratch: Scratch) -> Scratch:
        """Set the keys of queues."""
        queues = len(view.queues)
        scratch.queues["key"][:queues] = self._keys(view, (queues,))
        return scratch


class FileOrder(FromFile, Order, kind="file", parameters=KeyedFilePart):
    """Your own class: a number for each application, of a leaf's the smallest first."""

    def fill(self, view: ClusterView, scratch: Scratch) -> Scratch:
        """Set the keys of applications."""
        applications = len(view.applications)
        scratch.apps["key"][:applications] = self._keys(view, (applications,))
        return scratch


class FileFit(FromFile, Fit, kind="file", parameters=KeyedFilePart):
    """Your own class: a number for each node, or for each request and node, the largest first."""

    steps = "keyed"
    window = 1 << 30

    def fill(self, view: ClusterView, scratch: Scratch) -> Scratch:
        """Set the scores: (1 or request, node)."""
        requests, known = len(view.requests), len(view.nodes)
        shapes: list[tuple[int, ...]] = [(known,)]
        if requests * known <= SCORES_MAX:
            shapes.append((requests, known))
        returned = np.atleast_2d(self._keys(view, *shapes))
        scores: F64 = np.zeros((len(returned), max(len(scratch.available), 1)))
        scores[:, :known] = returned
        return scratch._replace(scores=scores)


class FileEstimate(FromFile, Estimate, kind="file", parameters=EstimateFilePart):
    """Your own class: how long a container of each request will run."""

    def __init__(self, parameters: EstimateFilePart, calls: Calls) -> None:
        super().__init__(parameters, calls)
        self.default_ms = float(parameters.default_ms)
        self._rows_ms: F64 = np.zeros(0)

    def fill(self, view: ClusterView, scratch: Scratch) -> Scratch:
        """Keep the durations of request rows for the rest of the cycle."""
        numbers = self._numbers(view, (len(view.requests),))
        if bool((numbers < 0).any()):
            raise self._wrong(f"{np.nanmin(numbers)}")
        self._rows_ms = numbers
        return scratch

    def durations(self, cluster: Cluster, view: View, ended: Records, found: Durations) -> None:
        """Set the part's durations; running tasks get those of their application's requests."""
        found.rows_ms[: len(self._rows_ms)] = self._rows_ms
        own_rows, groups = view.rows[: len(self._rows_ms)], view.groups[: cluster.groups.size]
        known = {
            (application, priority): duration_ms
            for application, priority, duration_ms in zip(
                own_rows["application"].tolist(), own_rows["priority"].tolist(), self._rows_ms.tolist(), strict=True
            )
        }
        for at, key in enumerate(zip(groups["application"].tolist(), groups["priority"].tolist(), strict=True)):
            found.groups_ms[at] = known.get(key, np.nan)


class PolicyFailedError(UserError):
    """A custom part failed in a measured policy: further figures would be those of another policy."""

    def __init__(self, failure: PartFailure, when: str) -> None:
        super().__init__(f"{failure}, {when}; put the part right: what would run instead is another policy")
        self.failure = failure


def raise_if_failed(failure: PartFailure | None, when: str) -> None:
    """Raise an error if there is a failure.

    Raises:
        PolicyFailedError: there is one; ``when`` says when it happened.
    """
    if failure is not None:
        raise PolicyFailedError(failure, when) from failure
