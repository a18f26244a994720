"""Explains why an application waits: the policy loop's recorded reasons for its requests, as text with amounts.

It makes no decisions: the reasons are those of `treadle.policy.state`, for requests and, for a request, of each node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import I32, I64, U8
from treadle.compiled.pair_map import find
from treadle.engine import Engine
from treadle.errors import counted
from treadle.events import ApplicationState, Fate, NodeState
from treadle.model.queues import FIFO
from treadle.model.tables import ASSUMED, FREE, GUARANTEED, HEADROOM, LIMIT, MAX_PARTITIONS, MAXIMUM, TOTAL, USED, chain
from treadle.policy.state import KEYED, NodeReason, Reason, reasons
from treadle.yarn.codes import application_id, is_named

ASKS_MAX: Final = 32
"""Maximum number of explained requests of an application, unless one is named."""
QUEUES_MAX: Final = 3
"""Maximum number of named queues."""


class Verdict(StrEnum):
    """What will happen to a request without intervention."""

    NEVER = "never"
    """No node, or no queue, could ever serve it."""
    MISCONFIGURED = "misconfigured"
    """It waits until a setting of the cluster or of the application is changed."""
    WAITING = "waiting"
    """It is served when containers end, or when its turn comes."""


class Why(StrEnum):
    """A cause."""

    LARGER_THAN_ANY_NODE = "larger_than_any_node"
    """The request is larger than any empty node of its partition."""
    LARGER_THAN_QUEUE = "larger_than_queue"
    """The request is larger than the maximum of its queue or a parent."""
    NO_SUCH_LABEL = "no_such_label"
    """No node has the label."""
    LABEL_WITHOUT_ACCESS = "label_without_access"
    """The queue has no access to the label."""
    UNKNOWN_NODES_OR_RACKS = "unknown_nodes_or_racks"
    """The request names only nodes or racks that the cluster lacks."""
    ALL_BLACKLISTED = "all_blacklisted"
    """The application has blacklisted all nodes that are large enough."""
    REQUIREMENTS_UNMET = "requirements_unmet"
    """No node satisfies the application's requirements, or these are invalid."""
    NOT_ACTIVE = "not_active"
    """The ResourceManager has not activated the application: the queue's limit for application masters is reached."""
    PROPOSED = "proposed"
    """All of it is proposed; the ResourceManager has not answered yet."""
    REJECTED = "rejected"
    """The ResourceManager recently rejected it; it is proposed again after some cycles."""
    GATE = "gate"
    """The policy's gate holds it back, or admits no more of it now."""
    QUEUE_MAXIMUM = "queue_maximum"
    """A queue is at its maximum."""
    RESERVED_GUARANTEE = "reserved_guarantee"
    """The free resources are guaranteed to sibling queues, which other engines serve."""
    USER_LIMIT = "user_limit"
    """The user is at the limit in the queue, or the application at the limit of its user."""
    NODES_UNUSABLE = "nodes_unusable"
    """Nodes are not usable now: no recent heartbeat, reserved by the ResourceManager, decommissioning."""
    NODES_FULL = "nodes_full"
    """Nodes have no room now."""
    NODES_RESERVED = "nodes_reserved"
    """The policy reserves nodes for another request."""
    NODES_HEADROOM = "nodes_headroom"
    """Nodes have room, but the rest is reserved for the largest request."""
    NODES_REJECTED = "nodes_rejected"
    """The ResourceManager recently rejected the request, or the node."""
    NODES_NOT_NAMED = "nodes_not_named"
    """The request names other nodes and racks, and does not relax its locality."""
    NODES_BLACKLISTED = "nodes_blacklisted"
    """The application has blacklisted nodes or their racks."""
    NODES_NOT_CHOSEN = "nodes_not_chosen"
    """Nodes do not satisfy the request's requirements, or the policy excludes them."""
    NODES_OWN_TAGS = "nodes_own_tags"
    """The request's placement constraint limits the number of the application's own containers on nodes or racks."""
    NEARER_NODE = "nearer_node"
    """It, or an earlier request of its application, waits for a node nearer to its data; others would fit."""
    NOT_REACHED = "not_reached"
    """Others were served first, and the answer was full; or no cycle has reached it yet."""


VERDICTS: Final = dict.fromkeys((Why.LARGER_THAN_ANY_NODE, Why.LARGER_THAN_QUEUE), Verdict.NEVER) | dict.fromkeys(
    (
        Why.NO_SUCH_LABEL,
        Why.LABEL_WITHOUT_ACCESS,
        Why.UNKNOWN_NODES_OR_RACKS,
        Why.ALL_BLACKLISTED,
        Why.REQUIREMENTS_UNMET,
    ),
    Verdict.MISCONFIGURED,
)
"""Verdicts of causes other than waiting."""

NODE_TEXTS: Final = {
    NodeReason.OTHER_PARTITION: "it is in another partition",
    NodeReason.TOO_SMALL: "it is too small even if it were empty",
    NodeReason.UNUSABLE: "the ResourceManager says that it may not be used now",
    NodeReason.NOT_NAMED: "the ask does not name it, its rack, nor lets its locality be relaxed",
    NodeReason.NOT_CHOSEN: "it does not meet the ask's requirements, or the policy keeps the ask from it",
    NodeReason.OWN_TAGS: "the ask's placement constraint limits how many of the application's own containers it, or "
    "its rack, has; it has too many or too few",
    NodeReason.BLACKLISTED: "the application has blacklisted it or its rack",
    NodeReason.REJECTED: "the ResourceManager turned the ask or the node down recently; it is tried again after some "
    "decisions",
    NodeReason.RESERVED: "the policy keeps it free for another ask",
    NodeReason.FULL: "it has no room now",
    NodeReason.HEADROOM: "it has room, but what would be left is kept for larger asks (engine_reservation.headroom)",
    NodeReason.FITS: "it fits",
}
_LACKS_ROOM: Final = (NodeReason.RESERVED, NodeReason.FULL, NodeReason.HEADROOM)
_MAY_SERVE: Final = (NodeReason.REJECTED, *_LACKS_ROOM, NodeReason.FITS)
_QUEUE_CAUSES: Final = (Why.QUEUE_MAXIMUM, Why.LARGER_THAN_QUEUE)
_STATES: Final = {
    ApplicationState.ACTIVE: "active",
    ApplicationState.WAITING: "not active yet",
    ApplicationState.MOVED: "served by another engine",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a request is not served now."""

    why: Why
    text: str
    of: str = ""
    """Path of the queue that is at its maximum, or has no access."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of the cause."""
        return VERDICTS.get(self.why, Verdict.WAITING)


@dataclass(frozen=True, slots=True)
class Near:
    """The node that a request nearly fits on."""

    node: str
    lacks: Mapping[str, int]
    """Missing resources there."""


@dataclass(frozen=True, slots=True)
class Way:
    """A change that would let a request start."""

    kind: str
    """``queue`` or ``label``: the kind of ``name``."""
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class AskExplained:
    """Why one request key gets no container."""

    key: int
    priority: int
    count: int
    """Requested containers that are not proposed yet."""
    partition: str
    capability: Mapping[str, int]
    reason: str
    """Result of the last cycle that reached it (`Reason`)."""
    decisions_ago: int
    """Number of cycles since then."""
    causes: tuple[Cause, ...]
    """The first one decides the verdict."""
    nodes: Mapping[str, int]
    """Number of nodes of the partition by reason against them; ``fits``: usable ones."""
    near: Near | None
    """The full node with the least missing."""
    node: str
    """Why the given node is not used; empty without one."""
    ways: tuple[Way, ...]
    """Queues first, those with the most containers before others; then labels."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of the first cause."""
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
    """Position in its queue, shares, and the queues served by the latest cycle."""
    rejected: Mapping[str, int]
    """Rejected proposals by reason, since the application started."""
    asks: tuple[AskExplained, ...]
    left_out: int
    """Number of requests beyond the explained ones."""

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        document = asdict(self)
        for shown, ask in zip(document["asks"], self.asks, strict=True):
            shown["verdict"] = ask.verdict.value
            for cause, of in zip(shown["causes"], ask.causes, strict=True):
                cause["verdict"] = of.verdict.value
        return document


class Explainer:
    """Explains applications from an engine's state between two events."""

    def __init__(self, engine: Engine) -> None:
        """Take the engine's current state.

        Raises:
            LookupError: the engine has had no snapshot yet.
        """
        inside = engine.inside()
        if inside is None:
            raise LookupError("the engine has not heard of the cluster yet; is a ResourceManager connected?")
        self.engine = engine
        self.cluster, self.scratch = inside
        self.view = self.cluster.view()
        self.texts = self.cluster.names.texts
        self._counted = self.view.counted == 1
        self._reasons = None if self.scratch is None else reasons(self.view, self.scratch)

    def find(self, given: str) -> list[int]:
        """Return the indices of the running applications with an ID, or the end of one (`0042`).

        There may be several: after a restart of the ResourceManager numbers start again at 1.
        """
        running = np.flatnonzero(self.view.apps["state"] != 0).tolist()
        return [application for application in running if is_named(self.id_of(application), given)]

    def id_of(self, application: int) -> str:
        """Return YARN's id of an application."""
        row = self.view.apps[application]
        return application_id(int(row["cluster_timestamp"]), int(row["id"]))

    def explain(self, application: int, ask: int | None = None, node: str = "") -> Explanation:
        """Return why an application waits.

        Args:
            application: its index
            ask: explain only this request key
            node: also explain for each request why it is not on the node of this name
        """
        row = self.view.apps[application]
        rows_asked = [at for at in self._rows(application) if ask is None or int(self.view.rows["key"][at]) == ask]
        rejected: Mapping[int, int] = self.cluster.rejection_counts.counts.get(application, {})
        return Explanation(
            application=self.id_of(application),
            name=self.texts[int(row["name"])],
            user=self.texts[int(row["user"])],
            queue=self._path(int(row["queue"])),
            state=_STATES.get(ApplicationState(int(row["state"])), "gone"),
            policy=self.engine.running.policy.name(),
            facts=self._facts(application),
            rejected={Fate(fate).name.lower(): count for fate, count in sorted(rejected.items())},
            asks=tuple(self._ask(at, node) for at in rows_asked[:ASKS_MAX]),
            left_out=max(len(rows_asked) - ASKS_MAX, 0),
        )

    def _rows(self, application: int) -> Iterator[int]:
        """Return the request rows of an application with outstanding containers, in its own order."""
        rows = chain(self.view.rows, self.view.apps["first_row"][application])
        return (row for row in rows if self.view.rows["count"][row] > 0)

    def _ask(self, row: int, node: str) -> AskExplained:
        at, nodes, latest = self.view.rows[row], _Nodes(self, row), self._reasons
        why, age = (Reason.NEW, 0) if latest is None else (Reason(int(latest["why"][row])), int(latest["age"][row]))
        causes, partition = list(self._causes(row, why, age, nodes)), int(at["partition"])
        unlimited = {self._path(up) for up in self._to_root(self._leaf(row)) if self._is_unlimited(up, partition)}
        # An unlimited queue is full when nodes are, and too small when all of them are; the nodes' reasons are more
        # precise.
        causes.sort(
            key=lambda cause: (list(Verdict).index(cause.verdict), cause.why in _QUEUE_CAUSES and cause.of in unlimited)
        )
        return AskExplained(
            key=int(at["key"]),
            priority=int(at["priority"]),
            count=int(at["count"] - at["assumed"]),
            partition=self.partition_name(partition),
            capability=self.amounts(self.view.capability[row]),
            reason=why.name.lower(),
            decisions_ago=age,
            causes=tuple(causes),
            nodes=nodes.counts,
            near=nodes.near(),
            node=nodes.why_not(node) if node else "",
            ways=tuple(self._ways(row, nodes, causes, unlimited)),
        )

    def _causes(self, row: int, why: Reason, age: int, nodes: _Nodes) -> Iterator[Cause]:
        """Yield the causes of a request: the loop's reason, and the nodes' reasons if none is usable."""
        against = list(nodes.causes())
        at = self.view.rows[row]
        app = self.view.apps[at["application"]]
        if app["state"] != ApplicationState.ACTIVE:
            queue = self._path(int(app["queue"])) or "none"
            text = f"the ResourceManager has not activated it: queue {queue} has as many application masters as it may"
            yield Cause(Why.NOT_ACTIVE, f"{text} have")
        elif at["assumed"] >= at["count"] or (app["awaiting_am"] and app["assumed_count"] > 0):
            yield Cause(Why.PROPOSED, "all of it is proposed; the ResourceManager has not answered yet")
        elif why in (Reason.NEW, Reason.PLACED) or (why >= Reason.SATURATED and not against):
            if not against:
                yield Cause(Why.NOT_REACHED, self._turn(why, age))
        else:
            ago = f" (as of {counted(age, 'decision')} ago; since then others were served first)" if age else ""
            for cause in self._cause_of_reason(row, why):
                yield Cause(cause.why, cause.text + ago, cause.of)
        yield from against

    def _turn(self, why: Reason, age: int) -> str:
        if not self.engine.commits:
            return "nodes have room; Treadle only observes, and the CapacityScheduler has not placed it"
        if why == Reason.NEW:
            return "nodes have room; no decision has come to it yet"
        since = f"the latest {counted(age, 'decision')} served others first" if age else "the latest answer was full"
        return f"nodes have room; {since}"

    def _cause_of_reason(self, row: int, why: Reason) -> Iterator[Cause]:
        """Yield the cause for a reason, with amounts."""
        at = self.view.rows[row]
        if why == Reason.BACKOFF:
            times, left = int(at["backoff_level"]), int(at["backoff_until"]) - self.cluster.cycle
            text = f"the ResourceManager turned it down {counted(times, 'time')} in a row; it is proposed again after "
            text += counted(left, "decision")
            if left <= 0:
                text = (
                    "the ResourceManager turned a proposal for its application down, or the engine leaves the "
                    "application alone after a conflict with another engine; it is tried again later"
                )
            yield Cause(Why.REJECTED, text)
        elif why == Reason.GATE:
            yield Cause(Why.GATE, self._gate(row))
        elif why in (Reason.QUEUE_MAXIMUM, Reason.RESERVED_GUARANTEE):
            yield from self._queues(row, why)
        elif why == Reason.USER_LIMIT:
            yield Cause(Why.USER_LIMIT, self._user(row))
        elif why == Reason.NEARER_NODE:
            yield Cause(Why.NEARER_NODE, "it waits for a node nearer to its data; others have room")
        elif why == Reason.AFTER_EARLIER_REQUEST:
            yield Cause(Why.NEARER_NODE, "another ask of its application, before it, waits for a nearer node")

    def _gate(self, row: int) -> str:
        gate = self.engine.running.policy.gate.label
        if self.view.apps["awaiting_am"][self.view.rows["application"][row]]:
            return f"the gate {gate} lets no more application masters start now"
        some = self.scratch is not None and self.scratch.rows["may"][row]
        waits_for = self.engine.gate_waits_for()
        says = f": it waits for {waits_for}" if waits_for else ""
        return f"the gate {gate} {'lets no more of it run now' if some else 'holds it back'}{says}"

    def _queues(self, row: int, why: Reason) -> Iterator[Cause]:
        """Yield the queues from the leaf to the root with less room than the request, with their usage."""
        ask, partition = self.view.capability[row], int(self.view.rows["partition"][row])
        named = False
        for queue in self._to_root(self._leaf(row)):
            amounts, path = self.view.limit_amounts[queue, partition], self._path(queue)
            used, maximum = amounts[USED] + amounts[ASSUMED], amounts[MAXIMUM]
            if not self.view.limit_known[queue, partition] or not self._exceeds(ask, maximum - used):
                continue
            named = True
            if partition and not maximum[self._counted].any():
                label = self.partition_name(partition)
                text = (
                    f"queue {path} has no access to label {label}: give it a capacity there, or ask without the label"
                )
                yield Cause(Why.LABEL_WITHOUT_ACCESS, text, path)
            elif self._exceeds(ask, maximum):
                text = f"the ask is larger than queue {path} may ever be: {self.in_words(maximum)}"
                yield Cause(Why.LARGER_THAN_QUEUE, text, path)
            else:
                text = f"queue {path} uses {self.in_words(used)} of its maximum of {self.in_words(maximum)}"
                yield Cause(Why.QUEUE_MAXIMUM, text, path)
        if not named and why == Reason.RESERVED_GUARANTEE:
            leaf = self._path(self._leaf(row))
            text = f"the free resources above queue {leaf} are guaranteed to its siblings, which other engines serve"
            yield Cause(Why.RESERVED_GUARANTEE, text)
        elif not named:
            yield Cause(Why.QUEUE_MAXIMUM, "a queue was at its maximum when the loop came to it")

    def _user(self, row: int) -> str:
        application, partition = int(self.view.rows["application"][row]), int(self.view.rows["partition"][row])
        leaf, name = self._leaf(row), int(self.view.apps["user"][application])
        user = int(find(self.view.user_index, ((leaf * MAX_PARTITIONS + partition) << 32) | name))
        if user < 0:
            left = self.view.app_amounts[application, HEADROOM] - self.view.app_amounts[application, ASSUMED]
            return f"the ResourceManager grants user {self.texts[name]} {self.in_words(np.maximum(left, 0))} more"
        amounts = self.view.user_amounts[user]
        return (
            f"user {self.texts[name]} has {self.in_words(amounts[USED] + amounts[ASSUMED])} in queue "
            f"{self._path(leaf)}, whose limit for a user is {self.in_words(amounts[LIMIT])}"
        )

    def _ways(self, row: int, nodes: _Nodes, causes: Collection[Cause], unlimited: Collection[str]) -> Iterator[Way]:
        """Yield changes that would let a request start, without estimates of container durations."""
        if all(cause.verdict == Verdict.WAITING for cause in causes):
            yield from self._containers_to_end(row, nodes, causes, unlimited)
        for partition in range(len(self.cluster.names.partitions)):
            count = nodes.with_room(partition)
            if count and partition != self.view.rows["partition"][row] and self._may_use(row, partition):
                name = self.partition_name(partition)
                what = f"label {name}" if name else "no label"
                yield Way("label", name, f"with {what} it would have room on {counted(count, 'node')} now")

    def _containers_to_end(
        self, row: int, nodes: _Nodes, causes: Collection[Cause], unlimited: Collection[str]
    ) -> Iterator[Way]:
        """Yield the queues with containers that must end, those with the most containers first."""
        view, (node, application, queue) = self.view, self._running
        leaf, user = self._leaf(row), int(view.apps["user"][view.rows["application"][row]])
        full = {cause.of for cause in causes if cause.why == Why.QUEUE_MAXIMUM} - set(unlimited)
        whose, where = "", ""
        if any(cause.why == Why.USER_LIMIT for cause in causes):
            chosen = (queue == leaf) & (view.apps["user"][application] == user)
            whose = f"user {self.texts[user]} in "
        elif full:
            below = [at for at in np.unique(queue[queue >= 0]) if full & set(map(self._path, self._to_root(int(at))))]
            chosen = np.isin(queue, below)
        elif any(nodes.counts.get(reason.name.lower()) for reason in _LACKS_ROOM):
            chosen = np.isin(nodes.reasons, _MAY_SERVE)[node]
            where = " on nodes that may serve it"
        else:
            return
        queues, counts = np.unique(queue[chosen & (queue >= 0)], return_counts=True)
        for one in np.argsort(-counts, kind="stable")[:QUEUES_MAX].tolist():
            path, count = self._path(int(queues[one])), int(counts[one])
            runs = "runs" if count == 1 else "run"
            yield Way("queue", path, f"containers of {whose}{path} end: {count} {runs}{where}")

    @cached_property
    def _running(self) -> tuple[I32, I32, I32]:
        """The nodes, applications and queues of the running task containers, without AMs."""
        view, tasks = self.view, self.cluster.groups.tasks.index.pairs
        live = tasks["value"][tasks["key"] >= 0]
        node, application = view.tasks["node"][live], view.groups["application"][view.tasks["group"][live]]
        here = (application >= 0) & (view.nodes["state"][node] != NodeState.GONE)
        application = application[here]
        return node[here], application, view.apps["queue"][application]

    def _may_use(self, row: int, partition: int) -> bool:
        """Return whether a request is within its queues' maxima in a partition."""
        for queue in self._to_root(self._leaf(row)):
            amounts = self.view.limit_amounts[queue, partition]
            if not self.view.limit_known[queue, partition] or self._exceeds(
                amounts[USED] + amounts[ASSUMED] + self.view.capability[row], amounts[MAXIMUM]
            ):
                return False
        return True

    def _facts(self, application: int) -> dict[str, Any]:
        """Return the state of an application."""
        row, policy = self.view.apps[application], self.engine.running.policy
        leaf = int(row["queue"])
        facts: dict[str, Any] = {
            "containers": int(row["containers"]),
            "asked_for": int(row["pending"]),
            "proposed": int(row["assumed_count"]),
            "order": policy.order.label,
            "share": policy.share.label,
            "served": self._served(),
        }
        return facts | self._rank(application, leaf) | (self._shares(leaf, int(row["partition"])) if leaf >= 0 else {})

    def _rank(self, application: int, leaf: int) -> dict[str, Any]:
        """Return how many applications of a leaf have requests, and how many come before this one by the loop's keys.

        ``ahead_in_queue`` is None if the order changes with each placed container.
        """
        apps, first = self.view.apps, self.cluster.apps.leaf_first
        known = 0 <= leaf < len(first) - 1
        listed = self.cluster.apps.leaf_applications[first[leaf] : first[leaf + 1]].tolist() if known else []
        asking = [app for app in listed if apps["pending"][app] > apps["assumed_count"][app]]
        order, kept = FIFO, None
        if self.scratch is not None and leaf < len(self.scratch.queues):
            order, kept = int(self.scratch.queues["order"][leaf]), self.scratch.apps
        ahead, higher = (asking.index(application) if application in asking else 0), 0
        if kept is not None and len(kept) == len(apps):
            higher = int(np.count_nonzero(kept["band"][asking] < kept["band"][application]))
            if order == KEYED and application in asking:
                asking.sort(key=lambda app: (*kept[app][["band", "key"]].item(), int(apps["start_time_ms"][app])))
                ahead = asking.index(application)
        fixed = order in (FIFO, KEYED) or len(asking) < 2
        return {
            "ahead_in_queue": ahead if fixed else None,
            "asking_in_queue": len(asking),
            "with_higher_priority": higher,
        }

    def _served(self) -> dict[str, int]:
        """Return the number of containers from the latest cycle by queue, the largest first."""
        if self.scratch is None:
            return {}
        placed = self.scratch.queues["placed"][: len(self.view.queues)]
        most = np.argsort(-placed, kind="stable")[:QUEUES_MAX].tolist()
        return {self._path(queue): int(placed[queue]) for queue in most if placed[queue]}

    def _shares(self, leaf: int, partition: int) -> dict[str, float]:
        """Return a leaf's usage and guarantee as dominant shares of a partition."""
        mine = (self.view.nodes["partition"] == partition) & (self.view.nodes["state"] != NodeState.GONE)
        totals = self.view.node_amounts[mine, TOTAL].sum(axis=0)
        counts, amounts = self._counted & (totals > 0), self.view.limit_amounts[leaf, partition]
        used = (amounts[USED] + amounts[ASSUMED])[counts] / totals[counts]
        guaranteed = amounts[GUARANTEED][counts] / totals[counts]
        return {"used_share": float(used.max(initial=0.0)), "guaranteed_share": float(guaranteed.max(initial=0.0))}

    def _leaf(self, row: int) -> int:
        return int(self.view.apps["queue"][self.view.rows["application"][row]])

    def _to_root(self, queue: int) -> Iterator[int]:
        return chain(self.view.queues, queue, "parent")

    def _is_unlimited(self, queue: int, partition: int) -> bool:
        """Return whether a queue's maximum in a partition is at least the root's."""
        *_, root = self._to_root(queue)
        most = self.view.limit_amounts[:, partition, MAXIMUM]
        return not self._exceeds(most[root], most[queue])

    def _exceeds(self, amounts: I64, bounds: I64) -> bool:
        return bool((amounts > bounds)[self._counted].any())

    def _path(self, queue: int) -> str:
        return self.texts[int(self.view.queues["path"][queue])] if queue >= 0 else ""

    def partition_name(self, partition: int) -> str:
        """Return the name of a partition; empty: the default one."""
        return self.texts[self.cluster.names.partitions[partition]]

    def amounts(self, values: I64) -> dict[str, int]:
        """Return amounts by resource name; uncounted zeros are omitted."""
        pairs = zip(self.cluster.types.names, values.tolist(), self._counted.tolist(), strict=True)
        return {name: value for name, value, counts in pairs if value or counts}

    def in_words(self, values: I64) -> str:
        """Return amounts of the counted resources as text."""
        pairs = zip(self.cluster.types.names, values.tolist(), self._counted.tolist(), strict=True)
        return ", ".join(f"{value} {name}" for name, value, counts in pairs if value and counts) or "nothing"


class _Nodes:
    """The nodes that may serve a request row, with the reasons against each, after the latest cycle."""

    def __init__(self, explainer: Explainer, row: int) -> None:
        self._explainer, self._row = explainer, row
        view, at, scratch = explainer.view, explainer.view.rows[row], explainer.scratch
        self.reasons: U8 = explainer.engine.node_reasons(row)
        partitions = [int(at["partition"])]
        if partitions == [0] and not view.apps["awaiting_am"][at["application"]]:
            partitions += explainer.cluster.shared_partitions()
        self._exists = (view.nodes["name"] >= 0) & (view.nodes["state"] != NodeState.GONE)
        self.here: npt.NDArray[np.bool_] = self._exists & np.isin(view.nodes["partition"], partitions)
        found = {reason: int(np.count_nonzero(self.here & (self.reasons == reason))) for reason in NODE_TEXTS}
        self.counts = {reason.name.lower(): count for reason, count in found.items() if count and reason}
        self._count_by_reason = found
        free = view.node_amounts[:, FREE] - view.node_amounts[:, ASSUMED]
        bound = view.counted == 1
        if scratch is not None:
            free, bound = scratch.available, scratch.bound == 1
        self._lacking = np.where(bound, np.maximum(view.capability[row] - free, 0), 0)

    def with_room(self, partition: int) -> int:
        """Return the number of nodes of a partition on which the request would fit, whatever its own partition."""
        there = self._exists & (self._explainer.view.nodes["partition"] == partition)
        return int(np.count_nonzero(there & (self.reasons == NodeReason.FITS)))

    def near(self) -> Near | None:
        """Return the full node with the smallest missing fraction of its capacity; None if no node is full."""
        full = np.flatnonzero(self.here & (self.reasons == NodeReason.FULL))
        if not len(full):
            return None
        totals = np.maximum(self._explainer.view.node_amounts[full, TOTAL], 1)
        node = int(full[np.argmin((self._lacking[full] / totals).max(axis=1))])
        lacks = {name: value for name, value in self._explainer.amounts(self._lacking[node]).items() if value}
        return Near(self._explainer.texts[int(self._explainer.view.nodes["name"][node])], lacks)

    def why_not(self, name: str) -> str:
        """Return why the node of a name is not used, as text."""
        texts, nodes = self._explainer.texts, self._explainer.view.nodes
        index = texts.index(name) if name in texts else -1
        matches = np.flatnonzero((nodes["name"] == index) & (index >= 0))
        if not len(matches):
            return f"{name} is not a node that the engine knows of"
        return f"{name}: {'; '.join(dict.fromkeys(self._reason_of(int(node)) for node in matches))}"

    def _reason_of(self, node: int) -> str:
        reason = NodeReason(int(self.reasons[node])) if self.here[node] else NodeReason.OTHER_PARTITION
        if self.here[node] and reason == NodeReason.OTHER_PARTITION:
            return "no decision has come to it yet"
        if reason == NodeReason.FULL:
            return f"{NODE_TEXTS[reason]}: it lacks {self._explainer.in_words(self._lacking[node])}"
        if reason == NodeReason.RESERVED:
            view = self._explainer.view
            whose = int(view.rows["application"][view.nodes["hold_row"][node]])
            return f"{NODE_TEXTS[reason]}, of {self._explainer.id_of(whose)}"
        return NODE_TEXTS[reason]

    def causes(self) -> Iterator[Cause]:
        """Yield the nodes' reasons if none is usable."""
        explainer, here = self._explainer, int(np.count_nonzero(self.here))
        at, found = explainer.view.rows[self._row], self._count_by_reason
        label = explainer.partition_name(int(at["partition"]))
        where = f"label {label}" if label else "the cluster"
        if not here and label:
            yield Cause(Why.NO_SUCH_LABEL, f"no node has {where}: label one, or ask without the label")
        elif not here:
            yield Cause(Why.NODES_UNUSABLE, "there is no node without a label")
        if not here or not self.counts or found[NodeReason.FITS]:
            return
        large = here - found[NodeReason.TOO_SMALL]
        if not large:
            most = explainer.view.node_amounts[self.here, TOTAL].max(axis=0)
            text = f"no node of {where} is that large; the most that any has is {explainer.in_words(most)}"
            yield Cause(Why.LARGER_THAN_ANY_NODE, text)
            return
        unmet = explainer.engine.unmet().get(int(at["application"]), "")
        if unmet and found[NodeReason.NOT_CHOSEN] == large:
            yield Cause(Why.REQUIREMENTS_UNMET, unmet)
            return
        usable, unknown = large - found[NodeReason.UNUSABLE], self._unknown_places()
        if usable and found[NodeReason.NOT_NAMED] == usable and unknown:
            text = f"it asks for {', '.join(unknown[:8])} alone, and {where} has no such node or rack"
            yield Cause(Why.UNKNOWN_NODES_OR_RACKS, text)
        elif usable and found[NodeReason.BLACKLISTED] == usable:
            yield Cause(
                Why.ALL_BLACKLISTED, f"the application has blacklisted all {usable} nodes that are large enough"
            )
        for reason, count in sorted(found.items(), key=lambda pair: -pair[1]):
            if count and reason not in (NodeReason.OTHER_PARTITION, NodeReason.TOO_SMALL):
                near = self.near() if reason == NodeReason.FULL else None
                text = f"{count} of {here} nodes of {where}: {NODE_TEXTS[reason]}"
                lacks = ", ".join(f"{value} {name}" for name, value in near.lacks.items()) if near else ""
                says = f"; {near.node} lacks least: {lacks}" if near else ""
                says += f": {unmet}" if unmet and reason == NodeReason.NOT_CHOSEN else ""
                yield Cause(Why(f"nodes_{reason.name.lower()}"), text + says)

    def _unknown_places(self) -> list[str]:
        """Return the names of nodes and racks in the request that the partition lacks."""
        view, texts = self._explainer.view, self._explainer.texts
        known = {*view.nodes["name"][self.here].tolist(), *view.nodes["rack"][self.here].tolist()}
        asked = (view.places[at] for at in chain(view.places, view.rows["first_locality"][self._row]))
        names = [int(at["name"]) for at in asked if at["count"] > at["assumed"]]
        return sorted(texts[name] for name in names if name not in known)
