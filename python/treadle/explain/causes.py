"""Why an ask waits: causes, and what is said of an ask and of an application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final


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
