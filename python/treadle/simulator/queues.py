"""The queue tree of a scenario as numbers: guarantees and maxima in amounts, parents before children."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.compiled.array_types import I64
from treadle.errors import UserError
from treadle.simulator.scenario import Queue, Scenario


@dataclass(frozen=True, slots=True)
class QueueTree:
    """All queues; index 0 is root. Amounts have the shape (queues, R)."""

    paths: tuple[str, ...]
    parents: tuple[int, ...]
    leaves: tuple[int, ...]
    configured: tuple[Queue, ...]
    shares: tuple[float, ...]
    """Of the cluster, guaranteed."""
    guaranteed: I64
    maximum: I64
    am_limit: I64

    def leaf(self, name: str) -> int:
        """Return the leaf with this path, with or without ``root.``, or with this last name if only one has it.

        Raises:
            UserError: there is none.
        """
        for path in (name, f"root.{name}"):
            if path in self.paths and self.paths.index(path) in self.leaves:
                return self.paths.index(path)
        same = [leaf for leaf in self.leaves if self.paths[leaf].rpartition(".")[2] == name]
        if len(same) == 1:
            return same[0]
        if not name and len(self.leaves) == 1:
            return self.leaves[0]
        known = ", ".join(self.paths[leaf].removeprefix("root.") for leaf in self.leaves[:20])
        raise UserError(f"workload: a job is for queue {name!r}, which is no leaf of queues: ({known}); see `queues`")


def queue_tree(scenario: Scenario, total: I64) -> QueueTree:
    """Return the tree for a cluster that has ``total``, shape (R,).

    Raises:
        UserError: capacities of siblings are more than 100.
    """
    root = Queue(capacity=100, children=scenario.queues)
    paths, parents, configured, shares, ceilings = ["root"], [-1], [root], [1.0], [1.0]
    at = 0
    while at < len(paths):
        children = configured[at].children
        capacities = _capacities(paths[at], children)
        for name, child in children.items():
            if not name or "." in name:
                raise UserError(f"queues: {name!r} is no name of a queue; write one without dots")
            paths.append(f"{paths[at]}.{name}")
            parents.append(at)
            configured.append(child)
            shares.append(shares[at] * capacities[name] / 100.0)
            ceilings.append(ceilings[at] * child.maximum_capacity / 100.0)
        at += 1
    inner = set(parents)
    leaves = tuple(at for at in range(len(paths)) if at not in inner)
    share = np.array(shares)[:, None]
    am = np.array([queue.maximum_am_resource_percent for queue in configured])[:, None] / 100.0
    maximum = np.floor(np.array(ceilings)[:, None] * total + 1e-6).astype(np.int64)
    return QueueTree(
        tuple(paths),
        tuple(parents),
        leaves,
        tuple(configured),
        tuple(shares),
        np.floor(share * total + 1e-6).astype(np.int64),
        maximum,
        np.floor(am * maximum + 1e-6).astype(np.int64),
    )


def _capacities(path: str, children: dict[str, Queue]) -> dict[str, float]:
    given = {name: queue.capacity for name, queue in children.items() if queue.capacity is not None}
    left = 100.0 - sum(given.values())
    if left < -1e-6:
        raise UserError(f"queues: the capacities below {path} are {100 - left:g} together; lower them to 100")
    silent = len(children) - len(given)
    return {name: given.get(name, max(left, 0.0) / max(silent, 1)) for name in children}
