"""Why an ask waits: causes, and what stands in its way.

Nodes that it cannot have now, each with one reason, the first that holds; and what queues and users may have, as
`treadle.policy.asks` decides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I64
from treadle.events import NodeState
from treadle.explain.situation import Situation
from treadle.model.tables import ASSUMED, BESIDE, GUARANTEED, HEADROOM, LIMIT, MAXIMUM, TOTAL, USED
from treadle.policy.own_tags import nodes_allowed


class Verdict(StrEnum):
    """The fate of an ask if nothing is done."""

    NEVER = "never"
    """No node, or no queue, could ever give it."""
    MISCONFIGURED = "misconfigured"
    """Somebody has to change a setting, of the cluster or of the application."""
    WAITING = "waiting"
    """It is served when something ends, or when its turn comes."""


class Why(StrEnum):
    """A cause."""

    LARGER_THAN_ANY_NODE = "larger_than_any_node"
    """The ask is larger than any node of its partition, were it empty."""
    LARGER_THAN_QUEUE = "larger_than_queue"
    """The ask is larger than a queue above it may ever have."""
    NO_SUCH_LABEL = "no_such_label"
    """No node has the label."""
    LABEL_WITHOUT_ACCESS = "label_without_access"
    """The queue has no access to the label."""
    NO_SUCH_PLACE = "no_such_place"
    """The ask names nodes or racks alone, and the cluster has none of them."""
    ALL_BLACKLISTED = "all_blacklisted"
    """The application has blacklisted all nodes that are large enough."""
    NO_NODE_MEETS = "no_node_meets"
    """No node meets what the application requires of nodes, or that cannot be read."""
    NOT_ACTIVE = "not_active"
    """The ResourceManager has not activated the application: the queue's limit of masters is reached."""
    PROPOSED = "proposed"
    """All of it is proposed; the ResourceManager has not answered yet."""
    REJECTED = "rejected"
    """The ResourceManager turned it down recently; it is proposed again after some decisions."""
    GATE = "gate"
    """The policy's gate holds it back, or lets no more of it run now."""
    QUEUE_MAXIMUM = "queue_maximum"
    """A queue is at its maximum."""
    GUARANTEED_TO_OTHERS = "guaranteed_to_others"
    """What is left of a queue is guaranteed to queues beside its own, which other engines serve."""
    USER_LIMIT = "user_limit"
    """The user is at the limit of the queue, or the application at that of its user."""
    NODES_UNUSABLE = "nodes_unusable"
    """Nodes may not be used now: no recent heartbeat, reserved by the ResourceManager, decommissioning."""
    NODES_FULL = "nodes_full"
    """Nodes have no room now."""
    NODES_RESERVED = "nodes_reserved"
    """The policy keeps nodes free for another ask."""
    NODES_KEPT_FREE = "nodes_kept_free"
    """Nodes have room, but what would be left there is kept for the largest ask."""
    NODES_REJECTED = "nodes_rejected"
    """The ResourceManager turned the ask, or the node, down recently."""
    NODES_NOT_NAMED = "nodes_not_named"
    """The ask names other nodes and racks, and does not relax its locality."""
    NODES_BLACKLISTED = "nodes_blacklisted"
    """The application has blacklisted nodes or their racks."""
    NODES_NOT_CHOSEN = "nodes_not_chosen"
    """Nodes do not meet what the ask requires of them, or the policy keeps the ask from them."""
    NODES_OWN_TAGS = "nodes_own_tags"
    """The ask's placement constraint limits how many of the application's own containers nodes or racks have."""
    NEARER_NODE = "nearer_node"
    """It waits for a node nearer to its data; others would do."""
    TURN = "turn"
    """Nodes would do; others of its queue are served before it."""


_NEVER: Final = {Why.LARGER_THAN_ANY_NODE, Why.LARGER_THAN_QUEUE}
_MISCONFIGURED: Final = {
    Why.NO_SUCH_LABEL,
    Why.LABEL_WITHOUT_ACCESS,
    Why.NO_SUCH_PLACE,
    Why.ALL_BLACKLISTED,
    Why.NO_NODE_MEETS,
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why an ask is not served now."""

    why: Why
    text: str
    """In words."""
    needed: Mapping[str, int] = field(default_factory=dict)
    """What the ask needs, by resource; empty where that says nothing."""
    there_is: Mapping[str, int] = field(default_factory=dict)
    """What there is of it."""
    of: str = ""
    """The path of the queue whose maximum it is, or that has no access."""

    @property
    def verdict(self) -> Verdict:
        """What it means."""
        if self.why in _NEVER:
            return Verdict.NEVER
        return Verdict.MISCONFIGURED if self.why in _MISCONFIGURED else Verdict.WAITING


ORDER: Final = {verdict: place for place, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True)
class Near:
    """The node that an ask nearly fits."""

    node: str
    lacks: Mapping[str, int]
    """What is missing there, by resource."""


@dataclass(frozen=True, slots=True)
class Way:
    """What would let an ask start."""

    kind: str
    """``queue`` or ``label``: of what ``name`` is the name."""
    name: str
    text: str
    """In words."""


@dataclass(frozen=True, slots=True)
class AskExplained:
    """What keeps one request key from a container."""

    key: int
    priority: int
    count: int
    """Containers that are asked for and not proposed yet."""
    partition: str
    capability: Mapping[str, int]
    causes: tuple[Cause, ...]
    """The one that decides the verdict first."""
    nodes: Mapping[str, int]
    """Nodes of the partition by why the ask cannot have them now; ``would_do``: those that it can."""
    near: Near | None
    """Of the nodes that are full, that which lacks least."""
    node: str
    """Why not on the node that was asked about; empty if none was."""
    ways: tuple[Way, ...]
    """Queues first, those with the most containers before others; then labels."""

    @property
    def verdict(self) -> Verdict:
        """The fate of the ask."""
        return self.causes[0].verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an application waits."""

    application: str
    name: str
    user: str
    queue: str
    state: str
    policy: str
    facts: Mapping[str, Any]
    """Where it stands: its place in its queue, shares, limits."""
    turned_down: Mapping[str, int]
    """How often the ResourceManager turned down a proposal for it, by reason; counted since the application came."""
    asks: tuple[AskExplained, ...]
    left_out: int
    """Asks beyond those that are explained."""

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found = asdict(self)
        for shown, ask in zip(found["asks"], self.asks, strict=True):
            shown["verdict"] = ask.verdict.value
            for cause, of in zip(shown["causes"], ask.causes, strict=True):
                cause["verdict"] = of.verdict.value
        return found


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


def queues_up(situation: Situation, leaf: int) -> Iterator[int]:
    """Yield a leaf and the queues above it, up to the root."""
    queue = leaf
    while queue >= 0:
        yield queue
        queue = int(situation.view.queues["parent"][queue])


def queue_causes(situation: Situation, row: int, *, has_nodes: bool) -> Iterator[Cause]:
    """Yield what queues from the leaf to the root have against an ask: no access, too small, or used up.

    Args:
        situation: the model
        row: of the ask
        has_nodes: whether there is a node in its partition, or in one that is lent to it
    """
    view, counted = situation.view, situation.view.counted == 1
    ask, partition = view.capability[row], int(view.rows["partition"][row])
    leaf = int(view.apps["queue"][view.rows["application"][row]])
    upwards = list(queues_up(situation, leaf))
    for child, queue in zip([-1, *upwards], upwards, strict=False):
        amounts = view.limit_amounts[queue, partition]
        # no queue may have anything where there is no node, whatever its settings say
        if not view.limit_known[queue, partition] or not (has_nodes or amounts[MAXIMUM][counted].any()):
            continue
        maximum, path = amounts[MAXIMUM], situation.queue_path(queue)
        left = maximum - amounts[USED] - amounts[ASSUMED]
        needed = situation.amounts(ask)
        if partition and not maximum[counted].any():
            label = situation.partition_name(partition)
            text = f"queue {path} has no access to label {label}: give it a capacity there, or ask without the label"
            yield Cause(Why.LABEL_WITHOUT_ACCESS, text, of=path)
        elif (ask > maximum)[counted].any():
            text = f"the ask is larger than queue {path} may ever be: {in_words(situation.counted_amounts(maximum))}"
            yield Cause(Why.LARGER_THAN_QUEUE, text, needed, situation.amounts(maximum), path)
        elif (ask > left)[counted].any():
            used, most = (situation.counted_amounts(each) for each in (maximum - left, maximum))
            text = f"queue {path} uses {in_words(used)} of its maximum of {in_words(most)}"
            yield Cause(Why.QUEUE_MAXIMUM, text, needed, situation.amounts(np.maximum(left, 0)), path)
        elif (ask > _beside_others(situation, left, child, partition))[counted].any():
            text = f"what is left of queue {path} is guaranteed to queues beside {situation.queue_path(child)}"
            yield Cause(Why.GUARANTEED_TO_OTHERS, f"{text}, which other engines serve", needed, of=path)


def _beside_others(situation: Situation, left: I64, child: int, partition: int) -> I64:
    """Return how much of what is left of a queue a child may take, as `treadle.policy.asks.headroom_under_maxima`."""
    if child < 0:
        return left
    amounts = situation.view.limit_amounts[child, partition]
    own = amounts[GUARANTEED] - amounts[USED] - amounts[ASSUMED]
    return np.where(amounts[BESIDE] > 0, np.minimum(left, np.maximum(left - amounts[BESIDE], own)), left)


def queues_of_all(situation: Situation, row: int) -> set[str]:
    """Return the paths of the queues of an ask that may have as much of its partition as the root has."""
    view, counted = situation.view, situation.view.counted == 1
    partition = int(view.rows["partition"][row])
    queues = list(queues_up(situation, int(view.apps["queue"][view.rows["application"][row]])))
    most = view.limit_amounts[queues[-1], partition, MAXIMUM]
    found = [queue for queue in queues if (view.limit_amounts[queue, partition, MAXIMUM] >= most)[counted].all()]
    return {situation.queue_path(queue) for queue in found}


def user_causes(situation: Situation, row: int) -> Iterator[Cause]:
    """Yield what the user's limit in the leaf has against an ask."""
    view = situation.view
    application, partition = int(view.rows["application"][row]), int(view.rows["partition"][row])
    leaf, name = int(view.apps["queue"][application]), int(view.apps["user"][application])
    user = situation.user(leaf, partition, name)
    whose = situation.texts[name]
    if user < 0:
        yield from _headroom_cause(situation, row, application, whose)
        return
    used = view.user_amounts[user, USED] + view.user_amounts[user, ASSUMED]
    limit = view.user_amounts[user, LIMIT]
    if _grows(situation, user, leaf, partition):
        limit = limit + view.limit_amounts[leaf, partition, ASSUMED]
    counted = situation.view.counted == 1
    if (used > limit)[counted].any() and _dominant(situation, used) >= _dominant(situation, limit):
        text = (
            f"user {whose} has {in_words(situation.counted_amounts(used))} in queue {situation.queue_path(leaf)}, "
            f"whose limit for a user is {in_words(situation.counted_amounts(limit))}"
        )
        left = np.maximum(limit - used, 0)
        yield Cause(Why.USER_LIMIT, text, situation.amounts(view.capability[row]), situation.amounts(left))


def share_of(situation: Situation, leaf: int, partition: int) -> dict[str, float]:
    """Return the dominant shares of a partition that a leaf uses, and that it is guaranteed."""
    view = situation.view
    mine = view.nodes["partition"] == partition
    totals = view.node_amounts[mine & (view.nodes["state"] != 0), TOTAL].sum(axis=0)
    amounts = view.limit_amounts[leaf, partition]
    return {
        "used_share": _share(situation, amounts[USED] + amounts[ASSUMED], totals),
        "guaranteed_share": _share(situation, amounts[GUARANTEED], totals),
    }


def _headroom_cause(situation: Situation, row: int, application: int, whose: str) -> Iterator[Cause]:
    view, counted = situation.view, situation.view.counted == 1
    if not view.apps["has_headroom"][application]:
        return
    left = view.app_amounts[application, HEADROOM] - view.app_amounts[application, ASSUMED]
    if (view.capability[row] > left)[counted].any():
        text = (
            f"the ResourceManager grants user {whose} {in_words(situation.counted_amounts(np.maximum(left, 0)))} more"
        )
        needed = situation.amounts(view.capability[row])
        yield Cause(Why.USER_LIMIT, text, needed, situation.amounts(np.maximum(left, 0)))


def _grows(situation: Situation, user: int, leaf: int, partition: int) -> bool:
    """As `treadle.policy.asks.grows_with_leaf`."""
    view, counted = situation.view, situation.view.counted == 1
    used = view.limit_amounts[leaf, partition, USED][counted]
    if (view.user_amounts[user, LIMIT][counted] < used).any():
        return False
    return bool((used >= view.limit_amounts[leaf, partition, GUARANTEED][counted]).any())


def _dominant(situation: Situation, amounts: I64) -> float:
    view = situation.view
    totals = view.node_amounts[view.nodes["state"] != 0, TOTAL].sum(axis=0)
    return _share(situation, amounts, totals)


def _share(situation: Situation, amounts: I64, totals: I64) -> float:
    counts = (situation.view.counted == 1) & (totals > 0)
    return float((amounts[counts] / totals[counts]).max()) if counts.any() else 0.0
