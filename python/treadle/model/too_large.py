"""Asks that no node of their partition could take even if it were empty, for their applications' diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.compiled.array_types import I64, Records
from treadle.events import ApplicationState, NodeState
from treadle.model.tables import TOTAL

if TYPE_CHECKING:
    from treadle.model.cluster import Cluster

NOTHING: Final = -1
"""Of each resource: the partition has no node."""


def asks_still(apps: Records, application: int, id_: int) -> bool:
    """Say whether an application of an index is still the one of an id, and asks for something."""
    row = apps[application]
    return bool(row["id"] == id_ and row["state"] == ApplicationState.ACTIVE and row["pending"] > 0)


def too_large(cluster: Cluster, most: int) -> dict[tuple[int, int], str]:
    """Return applications with asks that are larger than any node of their partition, by index and id, each with why.

    Nothing is said while the cluster has no node. Nodes that may not be used now count: they may come back.

    Args:
        cluster: the model
        most: the maximum number of applications
    """
    largest = _largest(cluster)
    if (largest == NOTHING).all():
        return {}
    rows, apps = cluster.requests.at[: cluster.requests.size], cluster.apps.at
    capability = cluster.requests.capability[: cluster.requests.size]
    counted = cluster.counted == 1
    wanted = (rows["application"] >= 0) & (rows["count"] > 0)
    over = wanted & (capability > largest[rows["partition"]])[:, counted].any(axis=1)
    found: dict[tuple[int, int], str] = {}
    if not over.any():
        return found
    lent = cluster.shared_partitions()
    for row in np.flatnonzero(over).tolist():
        application, partition = int(rows["application"][row]), int(rows["partition"][row])
        places = [partition, *(lent if partition == 0 and not apps["awaiting_am"][application] else ())]
        fits = (capability[row] <= largest[places])[:, counted].all(axis=1).any()
        which = application, int(apps["id"][application])
        if not fits and apps["state"][application] == ApplicationState.ACTIVE and which not in found:
            found[which] = _why(cluster, row, largest[partition])
            if len(found) == most:
                break
    return found


def _largest(cluster: Cluster) -> I64:
    """Return the most that any node has of each resource (partition, resource)."""
    nodes, totals = cluster.nodes.at, cluster.nodes.amounts[:, TOTAL]
    here = nodes["state"] != NodeState.GONE
    found: I64 = np.full((len(cluster.names.partitions), totals.shape[1]), NOTHING, np.int64)
    for partition in range(len(found)):
        mine = totals[here & (nodes["partition"] == partition)]
        if len(mine):
            found[partition] = mine.max(axis=0)
    return found


def _why(cluster: Cluster, row: int, largest: I64) -> str:
    label = cluster.names.texts[cluster.names.partitions[int(cluster.requests.at["partition"][row])]]
    where = f"label {label}" if label else "the cluster"
    if (largest == NOTHING).all():
        return f"no node has {where}; ask without the label, or label a node" if label else "no node is without a label"
    pairs = zip(cluster.types.names, cluster.requests.capability[row].tolist(), largest.tolist(), strict=True)
    counted = [pair for pair, counts in zip(pairs, cluster.counted.tolist(), strict=True) if counts]
    over = ", ".join(f"{ask} {name}, where the largest has {most}" for name, ask, most in counted if ask > most)
    return f"no node of {where} is as large as it asks: {over}; ask for less"
