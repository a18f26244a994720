"""Puts back what proposals have changed that nobody will commit (`observe_only`): they charge nobody."""

from __future__ import annotations

from treadle.compiled.array_types import Records
from treadle.model.tables import View
from treadle.policy.state import BUNDLE, CURSOR, OFFERS, SCORED, Scratch

_COUNTERS = [OFFERS, CURSOR, BUNDLE, SCORED]


class Uncommitted:
    """What is kept from decide to decide, as it was before one. Assumed allocations are restored elsewhere."""

    def __init__(self, view: View, scratch: Scratch) -> None:
        """Remember it."""
        self._counters = scratch.counters[_COUNTERS]
        self._averages = scratch.averages.copy()
        self._deficits = scratch.shares.deficits.copy()
        self._waiting_ms = view.rows["waiting_since_ms"].copy()
        self._waiting_offers = view.rows["waiting_since_offers"].copy()
        self._held_for = view.nodes["hold_row"].copy()
        self._holds = view.rows["hold_node"].copy()

    def put_back(self, view: View, scratch: Scratch, proposed: Records) -> None:
        """Put it back; of rows that wait for a nearer node only those that were ``proposed``: the others wait on."""
        scratch.counters[_COUNTERS] = self._counters
        scratch.averages[:] = self._averages
        if scratch.shares.deficits.shape == self._deficits.shape:  # else another policy took over meanwhile
            scratch.shares.deficits[:] = self._deficits
        rows = proposed["row"]
        view.rows["waiting_since_ms"][rows] = self._waiting_ms[rows]
        view.rows["waiting_since_offers"][rows] = self._waiting_offers[rows]
        view.nodes["hold_row"] = self._held_for
        view.rows["hold_node"] = self._holds
