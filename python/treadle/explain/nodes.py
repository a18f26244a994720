"""Which nodes an ask cannot have now, and why: each node has one reason, the first that holds."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I64
from treadle.events import NodeState
from treadle.explain.causes import Near
from treadle.explain.situation import Situation
from treadle.model.tables import TOTAL
from treadle.policy.own_tags import nodes_allowed

Mask = npt.NDArray[np.bool_]

WOULD_DO: Final = "would_do"
REASONS: Final = (
    "too_small",
    "unusable",
    "not_named",
    "blacklisted",
    "not_chosen",
    "own_tags",
    "rejected",
    "reserved",
    "full",
    "kept_free",
    WOULD_DO,
)
"""In the order in which they count: what lasts longest first."""

WORDS: Final = {
    "elsewhere": "it is in another partition",
    "too_small": "it is too small even if it were empty",
    "unusable": "the ResourceManager says that it may not be used now",
    "not_named": "the ask does not name it, its rack, nor lets its locality be relaxed",
    "blacklisted": "the application has blacklisted it or its rack",
    "not_chosen": "it does not meet what the ask requires of nodes, or the policy keeps the ask from it",
    "own_tags": (
        "the ask's placement constraint limits how many of the application's own containers it, or its rack, has; "
        "it has too many or too few"
    ),
    "rejected": "the ResourceManager turned the ask or the node down recently; it is tried again after some decisions",
    "reserved": "the policy keeps it free for another ask",
    "full": "it has no room now",
    "kept_free": "it has room, but what would be left is kept for the largest ask (hold.headroom)",
    WOULD_DO: "it would do",
}


class NodesOfAsk:
    """The nodes of a partition as one request row sees them."""

    def __init__(self, situation: Situation, row: int) -> None:
        """Look at every node once."""
        self._situation = situation
        self._row = row
        view, ask = situation.view, situation.view.rows[row]
        self._counted, self._binds = view.counted == 1, situation.binds()
        self.capability: I64 = view.capability[row]
        nodes = view.nodes
        exists = (nodes["name"] >= 0) & (nodes["state"] != NodeState.GONE)
        self.here: Mask = exists & self._in_partition(int(ask["partition"]))
        chosen, within = self._chosen(), self._within_own_tags()
        self.allowed: Mask = chosen & within
        """The nodes, of any partition, that the ask's requirements and constraints and the policy let it use."""
        self._lacking = self.capability - situation.available()
        reasons = {
            "too_small": ~self._fits(view.node_amounts[:, TOTAL]),
            "unusable": nodes["state"] != NodeState.USABLE,
            "not_named": ~self._near_enough(),
            "blacklisted": self._blacklisted(),
            "not_chosen": ~chosen,
            "own_tags": ~within,
            "rejected": self._rejected(),
            "reserved": (nodes["hold_row"] >= 0) & (nodes["hold_row"] != row),
            "full": ~self._has_room(situation.available()),
            "kept_free": ~self._keeps_headroom(situation.available()),
            WOULD_DO: np.ones(len(nodes), bool),
        }
        left, self.by_reason = self.here.copy(), dict[str, Mask]()
        for reason in REASONS:
            self.by_reason[reason] = left & reasons[reason]
            left &= ~reasons[reason]

    def counts(self) -> dict[str, int]:
        """Return how many nodes there are for each reason that holds for some."""
        counts = {reason: int(np.count_nonzero(mask)) for reason, mask in self.by_reason.items()}
        return {reason: count for reason, count in counts.items() if count}

    def near(self) -> Near | None:
        """Return the full node that lacks least, as a part of what it has; None if no node is full."""
        full = np.flatnonzero(self.by_reason["full"])
        if not len(full):
            return None
        totals = np.maximum(self._situation.view.node_amounts[full, TOTAL], 1)
        parts = (self._lacking[full] / totals)[:, self._binds]
        node = int(full[np.argmin(parts.max(axis=1))])
        lacks = np.where(self._binds, np.maximum(self._lacking[node], 0), 0)
        pairs = zip(self._situation.resources, lacks.tolist(), strict=True)
        return Near(self._situation.node_name(node), {name: value for name, value in pairs if value})

    def why_not(self, name: str) -> str:
        """Return in words why not on the node of a name."""
        texts = self._situation.texts
        index = texts.index(name) if name in texts else -1
        nodes = np.flatnonzero((self._situation.view.nodes["name"] == index) & (index >= 0))
        if not len(nodes):
            return f"{name} is no node that the engine knows of"
        said = dict.fromkeys(self._reason_of(int(node)) for node in nodes)
        return f"{name}: {'; '.join(said)}"

    def unknown_places(self) -> list[str]:
        """Return the names of nodes and racks that the ask names and of which the partition has none."""
        nodes = self._situation.view.nodes[self.here]
        known = set(nodes["name"].tolist()) | set(nodes["rack"].tolist())
        texts = self._situation.texts
        return sorted(texts[int(place["name"])] for place in self._places() if int(place["name"]) not in known)

    def largest(self) -> dict[str, int]:
        """Return the most that any node of the partition has of each resource."""
        totals = self._situation.view.node_amounts[self.here, TOTAL]
        return self._situation.amounts(totals.max(axis=0)) if len(totals) else {}

    def _reason_of(self, node: int) -> str:
        reason = next((reason for reason, mask in self.by_reason.items() if mask[node]), "elsewhere")
        if reason == "full":
            lacks = np.where(self._binds, np.maximum(self._lacking[node], 0), 0)
            return f"{WORDS[reason]}: it lacks {in_words(self._situation.amounts(lacks))}"
        if reason == "reserved":
            row = int(self._situation.view.nodes["hold_row"][node])
            whose = int(self._situation.view.rows["application"][row])
            return f"{WORDS[reason]}, of {self._situation.application_id(whose)}"
        return WORDS[reason]

    def _fits(self, amounts: I64) -> Mask:
        return np.asarray((amounts >= self.capability)[:, self._counted].all(axis=1), bool)

    def _has_room(self, amounts: I64) -> Mask:
        return np.asarray((amounts >= self.capability)[:, self._binds].all(axis=1), bool)

    def _keeps_headroom(self, amounts: I64) -> Mask:
        """As `treadle.policy.node_search.keeps_headroom`, with what the latest decision found."""
        asked = self._binds & (self.capability > 0)
        return np.asarray((amounts >= self.headroom_needed())[:, asked].all(axis=1), bool)

    def headroom_needed(self) -> I64:
        """Return what must be free on each node for the ask (node, resource), what is kept for larger ones included."""
        needed = np.tile(self.capability, (len(self._situation.view.nodes), 1))
        scratch = self._situation.scratch
        if scratch is not None:
            known = min(len(scratch.headroom), len(needed))
            kept = np.where(self.capability > 0, scratch.headroom[:known], 0)
            needed[:known] = np.maximum(needed[:known], kept)
        return needed

    def _in_partition(self, partition: int) -> Mask:
        """Say which nodes are of the partition, or of one that is lent to asks without a label."""
        view = self._situation.view
        partitions = [partition]
        awaits_master = view.apps["awaiting_am"][int(view.rows["application"][self._row])]
        if partition == 0 and not awaits_master:
            partitions += self._situation.shared_partitions
        return np.isin(view.nodes["partition"], partitions)

    def _places(self) -> list[Any]:
        found, place = [], int(self._situation.view.rows["first_locality"][self._row])
        while place >= 0:
            at = self._situation.view.places[place]
            if at["count"] > at["assumed"]:
                found.append(at)
            place = int(at["next"])
        return found

    def _near_enough(self) -> Mask:
        """As `treadle.policy.node_search.level_of`: which nodes relaxLocality does not rule out."""
        view = self._situation.view
        row = view.rows[self._row]
        if row["relax"] or row["constrained"]:
            return np.ones(len(view.nodes), bool)
        places = self._places()
        named = np.isin(view.nodes["name"], [int(place["name"]) for place in places])
        racks = np.isin(view.nodes["rack"], [int(place["name"]) for place in places])
        relaxed = np.isin(view.nodes["rack"], [int(place["name"]) for place in places if place["relax"]])
        near: Mask = racks & (named | relaxed)
        return near

    def _blacklisted(self) -> Mask:
        view = self._situation.view
        application = int(view.rows["application"][self._row])
        pairs = view.blacklist["key"]
        names = pairs[(pairs >= 0) & (pairs >> 32 == application)] & 0xFFFFFFFF
        return np.isin(view.nodes["name"], names) | np.isin(view.nodes["rack"], names)

    def _chosen(self) -> Mask:
        """Say which nodes the parts of the policy let the ask use."""
        scratch, count = self._situation.scratch, len(self._situation.view.nodes)
        if scratch is None or self._row >= len(scratch.row_nodes) or scratch.row_nodes[self._row] < 0:
            return np.ones(count, bool)
        bits = np.unpackbits(scratch.node_sets[scratch.row_nodes[self._row]], bitorder="little")[:count]
        return np.concatenate([bits, np.zeros(count - len(bits), np.uint8)]).astype(bool)

    def _within_own_tags(self) -> Mask:
        """Say which nodes the bounds on the application's own containers let the ask use."""
        scratch, count = self._situation.scratch, len(self._situation.view.nodes)
        if scratch is None:
            return np.ones(count, bool)
        return nodes_allowed(scratch.node_sets, scratch.tags, self._row, count)

    def _rejected(self) -> Mask:
        decide, view = self._situation.decide, self._situation.view
        mask: Mask = view.nodes["backoff_until"] > decide
        if view.rows["exclusions"][self._row]:
            pairs = view.excluded
            mine = pairs[(pairs["key"] >= 0) & (pairs["key"] >> 32 == self._row)]
            nodes = mine["key"][mine["value"] > (decide & 0x7FFFFFFF)] & 0xFFFFFFFF
            mask = mask.copy()
            mask[nodes] = True
        return mask


def in_words(amounts: dict[str, int]) -> str:
    """Return amounts as a text."""
    return ", ".join(f"{value} {name}" for name, value in amounts.items() if value) or "nothing"
