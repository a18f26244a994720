"""What a part from a file may look at: the cluster as one decide sees it, in arrays that cannot be written to."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I64, U8, Records
from treadle.model.classes import ANY_NODE
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, GUARANTEED, MAXIMUM, PENDING, TOTAL, USED
from treadle.policy.work import Jobs

A = TypeVar("A", bound=npt.NDArray[Any])


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
        """`treadle.model.nodes.NODE` for each node."""
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
        """`treadle.model.queues.QUEUE` for each queue."""
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
        """`treadle.model.applications.APPLICATION` for each application."""
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
        return read_only(self._jobs.service_ms()[: self._cluster.apps.size])

    @property
    def requests(self) -> Records:
        """`treadle.model.requests.REQUEST` for each request: one row for each application and request key."""
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

    def text(self, name: int) -> str:
        """Return the text of a field that holds a name: ``name`` and ``rack`` of nodes, ``user`` of applications."""
        return self._cluster.names.texts[name]

    def tags(self, application: int) -> list[str]:
        """Return the tags of an application, in order."""
        return self._cluster.tags(application)


Moment = ClusterView
"""Its name of before, for the annotations in users' parts."""
