"""What a policy holds back on purpose though the ResourceManager would serve it; explanations go by the same rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from treadle.model.cluster import Cluster
from treadle.model.tables import BESIDE, View
from treadle.policy.state import Scratch
from treadle.proposals import Held

Mask = npt.NDArray[np.bool_]


def gate_holds(decided: Any) -> Any:
    """Say of request rows (`treadle.policy.state.ROW`, one or an array) whether the gate lets no more of them run."""
    return (decided["may"] == 0) | (decided["quota"] <= 0)


def held_back(cluster: Cluster, view: View, scratch: Scratch) -> Held:
    """Return what is held back as of the latest decide, whose arrays ``scratch`` has."""
    size = min(len(view.rows), len(scratch.rows))
    rows = view.rows[:size]
    asks = (rows["application"] >= 0) & (rows["count"] > rows["assumed"])
    waits = gate_holds(scratch.rows[:size])
    if len(scratch.row_nodes):
        of_constraints = len(cluster.classes.packed) if cluster.classes.active else 0
        known = min(size, len(scratch.row_nodes))
        waits[:known] |= scratch.row_nodes[:known] >= of_constraints
    applications = rows["application"][asks & waits]
    left: Mask = np.asarray(view.limit_amounts[:, :, BESIDE].any(axis=(1, 2)), np.bool_)
    if left.any():
        others = rows["application"][asks]
        applications = np.concatenate([applications, others[_is_below(view, left)[view.apps["queue"][others]]]])
    largest = view.capability[:size][asks].max(axis=0, initial=0)
    return Held(np.unique(applications).astype(np.int32), _nodes(view, scratch, largest))


def _is_below(view: View, marked: Mask) -> Mask:
    """Say which queues are marked or below one that is, and at the end that no queue is."""
    found = np.append(marked, False)
    queue = np.arange(len(marked))
    while (queue >= 0).any():
        found[:-1] |= found[queue]
        queue = np.where(queue >= 0, view.queues["parent"][queue], -1)
    return found


def _nodes(view: View, scratch: Scratch, largest: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return nodes that are held for an ask, keep room for a larger one, or are full by what is overbooked."""
    held = view.nodes["hold_row"] >= 0
    size = min(len(held), len(scratch.available))
    left, bound = scratch.available[:size], scratch.bound == 1
    if len(scratch.headroom):
        held[: len(scratch.headroom)] |= (left < scratch.headroom[:size])[:, bound].any(axis=1)
    overbooked = bound & (view.counted == 0)
    if overbooked.any():
        held[:size] |= (left < largest)[:, overbooked].any(axis=1)
    return np.flatnonzero(held & (view.nodes["name"] >= 0)).astype(np.int32)
