"""Dispatch to the compiled steps of the selected share; numba caches only code that is in a file."""

from __future__ import annotations

from typing import Final

from treadle.compiled.functions import inner
from treadle.model.tables import View
from treadle.policy.shares import (
    capacity,
    deficit,
    hdrf,
    none,
)
from treadle.policy.state import DecideParameters, Scratch

RULES: Final = {
    "capacity": 0,
    "deficit": 1,
    "hdrf": 2,
    "none": 3,
}
"""The number of each file with compiled steps."""


@inner
def aim(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Update the leaves' aims in the partition, if due."""
    if parameters.share == 2:
        hdrf.aim(view, scratch, parameters, partition)


@inner
def begin(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Compute the entitlement of each queue in the partition."""
    if parameters.share == 0:
        capacity.begin(view, scratch, parameters, partition)
    if parameters.share == 1:
        deficit.begin(view, scratch, parameters, partition)
    if parameters.share == 2:
        hdrf.begin(view, scratch, parameters, partition)
    if parameters.share == 3:
        none.begin(view, scratch, parameters, partition)


@inner
def pick(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> int:
    """Return the leaf queue that is served next, or -1."""
    if parameters.share == 0:
        return capacity.pick(view, scratch, parameters, partition)
    if parameters.share == 1:
        return deficit.pick(view, scratch, parameters, partition)
    if parameters.share == 2:
        return hdrf.pick(view, scratch, parameters, partition)
    if parameters.share == 3:
        return none.pick(view, scratch, parameters, partition)
    return -1


@inner
def lets_order_decide(view: View, scratch: Scratch, parameters: DecideParameters) -> bool:
    """Return whether the order alone decides which queue is next."""
    if parameters.share == 1:
        return deficit.is_bounded(scratch.shares)
    return parameters.share == 3


@inner
def note(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, row: int, partition: int) -> None:
    """Update the state after a proposal for a leaf queue."""
    if parameters.share == 0:
        capacity.note(view, scratch, parameters, leaf, row, partition)
    if parameters.share == 1:
        deficit.note(view, scratch, parameters, leaf, row, partition)


@inner
def update(view: View, scratch: Scratch, parameters: DecideParameters, at: int, partition: int) -> None:
    """Update the state after a change of usage or requests of a leaf of the tree."""
    if parameters.share == 1:
        deficit.update(view, scratch, parameters, at, partition)
    if parameters.share == 2:
        hdrf.update(view, scratch, parameters, at, partition)
    if parameters.share == 3:
        none.update(view, scratch, parameters, at, partition)


@inner
def skip(view: View, scratch: Scratch, parameters: DecideParameters, leaf: int, partition: int) -> None:
    """Exclude a leaf queue for the rest of the cycle: none of its requests can be placed."""
    if parameters.walks_queues:
        capacity.skip_queue(view, scratch, parameters, leaf)
    else:
        scratch.shares.nodes[scratch.shares.leaf_node[leaf]].asks = 0
        update(view, scratch, parameters, scratch.shares.leaf_node[leaf], partition)


@inner
def end(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Save the state that the next computation continues from."""
    if parameters.share == 1:
        deficit.end(view, scratch, parameters, partition)
