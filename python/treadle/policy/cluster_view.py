"""What a part from a file may look at: the cluster as one decide sees it, in arrays that cannot be written to."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I64, U8, Records
from treadle.model.classes import ANY_NODE
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, GUARANTEED, MAXIMUM, PENDING, TOTAL, USED
from treadle.policy.work import Jobs

A = TypeVar("A", bound=npt.NDArray[Any])

CONTAINER: Final = np.dtype([("node", "i4"), ("priority", "i4"), ("created_ms", "i8")])
"""A container that runs: where, the priority that it was asked for with, and when it was allocated, by the RM's
clock."""


def read_only(array: A) -> A:
    """Return a view of an array that raises ValueError when it is written to."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


class ClusterView:
    """The cluster as it is now, what is assumed included. Arrays hold only during the call that they are passed to.

    Row n of an array is node, queue, application or request n; rows without one are there too: a node with ``state``
    0, a queue with ``exists`` 0, an application with ``state`` 0, a request with ``application`` -1. Amounts of
    resources have a column for each of `resources`, memory in MB first.

    Records have further columns, which are the engine's own and change from version to version: a part goes by those
    that are named here (docs/view.md).
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
        """(node, resource): what the node has."""
        return read_only(self._cluster.nodes.amounts[: self._cluster.nodes.size, TOTAL])

    @cached_property
    def node_free(self) -> I64:
        """(node, resource): what is free, and promised to nobody."""
        amounts = self._cluster.nodes.amounts[: self._cluster.nodes.size]
        return read_only(amounts[:, FREE] - amounts[:, ASSUMED])

    @cached_property
    def cluster_total(self) -> I64:
        """(resource): what the nodes of the partition have together."""
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
        """(queue, resource): what is guaranteed to the queue in the partition."""
        return self._queue_amounts(GUARANTEED)

    @property
    def queue_maximum(self) -> I64:
        """(queue, resource): the most that the queue may have in the partition."""
        return self._queue_amounts(MAXIMUM)

    @property
    def queue_pending(self) -> I64:
        """(queue, resource): what the RM says is asked for in the queue and below it, in the partition."""
        return self._queue_amounts(PENDING)

    @cached_property
    def queue_used(self) -> I64:
        """(queue, resource): what the queue has in the partition, what is assumed included."""
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
        """(application, resource): what the application has, what is assumed included."""
        amounts = self._cluster.apps.amounts[: self._cluster.apps.size]
        return read_only(amounts[:, USED] + amounts[:, ASSUMED])

    @cached_property
    def application_work(self) -> F64:
        """The work left in each application: over its remaining tasks the sum of duration x demands.

        Durations are what the estimate says, demands shares of the cluster; 0 for those that are not active.
        """
        return read_only(self._jobs.work()[: self._cluster.apps.size])

    @cached_property
    def application_service_ms(self) -> F64:
        """The service that each application has had: its dominant share of the cluster x milliseconds."""
        return read_only(np.ascontiguousarray(self._jobs.service_ms()[: self._cluster.apps.size]))

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
        tasks, groups, found = self._cluster.tasks.tasks.at, self._cluster.tasks.at, []
        group = int(self.applications["first_group"][application])
        while group >= 0:
            task = int(groups["first"][group])
            while task >= 0:
                found.append((tasks["node"][task], groups["priority"][group], tasks["created_ms"][task]))
                task = int(tasks["next"][task])
            group = int(groups["next"][group])
        return read_only(np.sort(np.array(found, CONTAINER), order=["priority", "created_ms", "node"]))

    def text(self, name: int) -> str:
        """Return the text of a column that holds one: ``name`` and ``rack`` of nodes, ``path`` of queues.

        Of applications ``name``, ``type`` and ``user``.
        """
        return self._cluster.names.texts[name]

    def tags(self, application: int) -> list[str]:
        """Return the tags of an application, in order."""
        return self._cluster.tags(application)


Moment = ClusterView
"""Its name of before, for the annotations in users' parts."""
