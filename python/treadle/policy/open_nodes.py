"""The nodes that are open in a partition: the smallest ask fits on them; and what they keep free for large asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compiled.functions import inner
from treadle.model.tables import TOTAL
from treadle.policy.asks import asks_here
from treadle.policy.state import INFEASIBLE_COUNT, LARGEST, LEAST, OPEN_NODES, PARTITION

if TYPE_CHECKING:
    from treadle.model.tables import View
    from treadle.policy.state import DecideParameters, Scratch


@inner
def fits_empty(view: View, row: int, node: int) -> bool:
    """Could the node hold the ask if it were empty, in every resource that the RM counts?"""
    for r in range(len(view.counted)):
        if view.counted[r] and view.node_amounts[node, TOTAL, r] < view.capability[row, r]:
            return False
    return True


@inner
def find_largest_asks(view: View, scratch: Scratch, parameters: DecideParameters, partition: int, node: int) -> None:
    """Set a node's headroom to the most of each resource that any ask needs that it could hold when empty."""
    for r in range(len(view.counted)):
        scratch.headroom[node, r] = 0
    for at in range(len(scratch.list)):
        app = scratch.list[at].application
        row = view.apps[app].first_row if scratch.apps[app].done == 0 else -1
        while row >= 0:
            if asks_here(view, scratch, parameters, row, partition) and fits_empty(view, row, node):
                for r in range(len(view.counted)):
                    scratch.headroom[node, r] = max(scratch.headroom[node, r], view.capability[row, r])
            row = view.rows[row].next


@inner
def survey_headroom(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """Find the headroom of each node of the partition; a node like the one before has the same."""
    before = -1
    for node in range(len(scratch.headroom)):
        if view.nodes[node].state == 0 or view.nodes[node].partition != partition:
            continue
        alike = before >= 0
        for r in range(len(view.counted)):
            alike = alike and view.node_amounts[node, TOTAL, r] == view.node_amounts[before, TOTAL, r]
        if not alike:
            find_largest_asks(view, scratch, parameters, partition, node)
        for r in range(len(view.counted)):
            scratch.headroom[node, r] = scratch.headroom[node if not alike else before, r]
        before = node


@inner
def survey_nodes(view: View, scratch: Scratch, parameters: DecideParameters, partition: int) -> None:
    """List the nodes of the partition on which the smallest ask fits; add up what the partition has."""
    resources = len(view.counted)
    for r in range(resources):
        scratch.rates[PARTITION, r] = scratch.rates[LARGEST, r] = 0.0
    count = 0
    for node in range(len(view.nodes)):
        scratch.open_nodes[node].open = 0
        if view.nodes[node].state == 0 or view.nodes[node].partition != partition:
            continue
        fits = view.nodes[node].state == 1 and view.nodes[node].hold_row < 0
        fits = fits and view.nodes[node].backoff_until <= parameters.decide
        for r in range(resources):
            if view.counted[r]:
                scratch.rates[PARTITION, r] += view.node_amounts[node, TOTAL, r]
            if scratch.bound[r]:
                scratch.rates[LARGEST, r] = max(scratch.rates[LARGEST, r], float(view.node_amounts[node, TOTAL, r]))
                fits = fits and scratch.available[node, r] >= scratch.asks[LEAST, r]
        scratch.open_nodes[node].open = fits
        if fits:
            scratch.open_nodes[count].node = node
            scratch.open_nodes[count].next = count
            count += 1
    scratch.open_nodes[count].next = count
    scratch.counters[OPEN_NODES] = count
    scratch.counters[INFEASIBLE_COUNT] = 0
    scratch.nowhere[:] = -1
    scratch.witness[:] = 0
    for r in range(resources):
        if scratch.rates[PARTITION, r] > 0.0:
            scratch.rates[PARTITION, r] = 1.0 / scratch.rates[PARTITION, r]
        if scratch.rates[LARGEST, r] > 0.0:
            scratch.rates[LARGEST, r] = 1.0 / scratch.rates[LARGEST, r]
