"""Why an application waits: every cause that holds for each of its asks, the one that decides first.

Which queue goes before a leaf is said by the aims of leaves, or by the shares of queues, level by level.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64
from treadle.errors import counted
from treadle.events import ApplicationState, Fate, NodeState
from treadle.explain.obstacles import (
    ORDER,
    WORDS,
    AskExplained,
    Cause,
    Explanation,
    NodesOfAsk,
    Verdict,
    Way,
    Why,
    in_words,
    queue_causes,
    queues_of_all,
    queues_up,
    share_of,
    user_causes,
)
from treadle.explain.situation import Decided, Situation
from treadle.model.tables import ASSUMED, GUARANTEED, MAXIMUM, TOTAL, USED
from treadle.policy.reserve import gate_holds
from treadle.policy.shares.aims import turn
from treadle.policy.shares.tree import AIM, AIMS, STEP
from treadle.policy.state import FIFO, KEYED

AIMING: Final = (
    "goes first: it has {has:.1%} of the {goal:.1%} that the share aims at, {own} {own_has:.1%} of {own_goal:.1%}"
)

_turn: Any = getattr(turn, "py_func")  # noqa: B009
"""The compiled rule, as Python calls it."""


def turn_of(situation: Situation, leaf: int, partition: int) -> str:
    """Return which queue goes before a leaf in a partition and why, or that none does; empty if that is not known."""
    scratch = situation.scratch
    if scratch is None or leaf < 0:
        return ""
    if partition < len(scratch.aims):
        return _by_aims(situation, scratch, leaf, partition)
    if len(scratch.share_nodes) == 0 or (scratch.share_nodes["leaf"][1:] == 0).any():
        return _by_levels(situation, leaf, partition)
    return ""


def _waiting(situation: Situation) -> I32:
    """Return the leaves with applications that wait for containers."""
    apps = situation.view.apps
    waits = (apps["state"] == 1) & (apps["pending"] > apps["assumed_count"]) & (apps["queue"] >= 0)
    return np.unique(apps["queue"][waits]).astype(np.int32)


def _rates(situation: Situation, partition: int) -> F64:
    """Return 1 / what a partition has, by resource; 0 for those that are not counted."""
    view = situation.view
    mine = (view.nodes["partition"] == partition) & (view.nodes["state"] != 0)
    total = np.where(view.counted == 1, view.node_amounts[mine, TOTAL].sum(axis=0), 0).astype(np.float64)
    return np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)


def _by_aims(situation: Situation, scratch: Decided, leaf: int, partition: int) -> str:
    """As `treadle.policy.shares.aims`: who has the least part of its aim goes first."""
    rates, nodes = _rates(situation, partition), scratch.share_nodes
    queues = nodes["queue"][nodes["leaf"] == 1]
    places = dict(zip(queues.tolist(), np.flatnonzero(nodes["leaf"] == 1).tolist(), strict=True))
    if leaf not in places:
        return ""

    def standing(queue: int) -> tuple[float, float, float]:
        """Return the queue's turn, what it has and its aim."""
        aims = scratch.aims[partition, places[queue]]
        entitled = float(nodes["entitled"][places[queue]])
        goal = max(float(aims[AIM]), entitled, 1e-12)
        amounts = situation.view.limit_amounts[queue, partition]
        used = (amounts[USED] + amounts[ASSUMED]) * rates
        needed = (aims[AIMS:] > 0) | (aims[STEP] == 0)
        has = float(used[needed].max(initial=0.0))
        return float(_turn(has, float(aims[STEP]), entitled, goal)), has, goal

    own, path = standing(leaf), situation.queue_path(leaf)
    ahead = [(standing(queue), queue) for queue in _waiting(situation).tolist() if queue != leaf and queue in places]
    first = min(ahead, default=None)
    if first is None or own[0] <= first[0][0]:
        return f"{path} goes before all other queues: it has {own[1]:.1%} of the {own[2]:.1%} that the share aims at"
    text = AIMING.format(has=first[0][1], goal=first[0][2], own=path, own_has=own[1], own_goal=own[2])
    return f"{situation.queue_path(first[1])} {text}"


def _by_levels(situation: Situation, leaf: int, partition: int) -> str:
    """Name the topmost queue above the leaf, or the leaf itself, before which a sibling goes by its share."""
    view, waiting = situation.view, _waiting(situation).tolist()
    below = {queue for each in waiting for queue in queues_up(situation, each)}
    for queue in [*queues_up(situation, leaf)][-2::-1]:
        siblings = np.flatnonzero(
            (view.queues["exists"] == 1) & (view.queues["parent"] == view.queues["parent"][queue])
        )
        ahead = [
            (*_share_of(situation, each, partition), each)
            for each in siblings.tolist()
            if each in below and each != queue
        ]
        own = _share_of(situation, queue, partition)
        if ahead and (first := min(ahead))[0] < own[0]:
            text = f"{situation.queue_path(first[3])} goes first: it counts as {first[1]:.1%} of {first[2]:.1%}"
            return f"{text}, {situation.queue_path(queue)} as {own[1]:.1%} of {own[2]:.1%}"
    return f"{situation.queue_path(leaf)} goes before all other queues"


def _share_of(situation: Situation, queue: int, partition: int) -> tuple[float, float, float]:
    """Return by what a queue is compared, its share, and what that is a part of."""
    scratch = situation.scratch
    if scratch is not None and len(scratch.share_nodes):
        found = scratch.share_nodes[scratch.share_nodes["queue"] == queue]
        if len(found):
            return float(found["key"][0]), float(found["share"][0]), abs(float(found["weight"][0]))
    rates, amounts = _rates(situation, partition), situation.view.limit_amounts[queue, partition]
    used = float(((amounts[USED] + amounts[ASSUMED]) * rates).max())
    guaranteed = float((amounts[GUARANTEED] * rates).max())
    return used / max(guaranteed, 1e-12), used, guaranteed


QUEUES_MAX: Final = 3
"""Queues that are named."""
_OF_ROOM: Final = {Why.NODES_FULL, Why.NODES_KEPT_FREE, Why.NODES_RESERVED}
_MAY_SERVE: Final = ("rejected", "reserved", "full", "kept_free", "would_do")


class Running(NamedTuple):
    """The containers that run as tasks, in no order; masters are none."""

    node: I32
    application: I32
    queue: I32

    @classmethod
    def of(cls, situation: Situation) -> Running:
        """Return those of a model."""
        view = situation.view
        live = view.task_index["value"][view.task_index["key"] >= 0]
        node, group = view.tasks["node"][live], view.tasks["group"][live]
        here = (view.groups["application"][group] >= 0) & (view.nodes["state"][node] != NodeState.GONE)
        application = view.groups["application"][group[here]]
        return cls(node[here], application, view.apps["queue"][application])


def ways_of(
    situation: Situation, running: Running, row: int, nodes: NodesOfAsk, causes: Collection[Cause]
) -> tuple[Way, ...]:
    """Return what would let an ask start, of what can be known without a guess how long containers run."""
    return (*_containers_to_end(situation, running, row, nodes, causes), *_labels_with_room(situation, row, nodes))


def _containers_to_end(
    situation: Situation, running: Running, row: int, nodes: NodesOfAsk, causes: Collection[Cause]
) -> Iterator[Way]:
    """Yield the queues some of whose containers must end, those with the most containers first."""
    if any(cause.verdict != Verdict.WAITING for cause in causes):
        return
    view, reasons = situation.view, {cause.why for cause in causes}
    application = int(view.rows["application"][row])
    leaf, user = int(view.apps["queue"][application]), int(view.apps["user"][application])
    # a queue that may have everything is full when nodes are
    full = {cause.of for cause in causes if cause.why == Why.QUEUE_MAXIMUM} - queues_of_all(situation, row)
    whose, where = "", ""
    if Why.USER_LIMIT in reasons:
        here = (running.queue == leaf) & (view.apps["user"][running.application] == user)
        whose = f"user {situation.texts[user]} in "
    elif full:
        here = _below(situation, running.queue, full)
    elif reasons & _OF_ROOM:
        here = np.logical_or.reduce([nodes.by_reason[reason] for reason in _MAY_SERVE])[running.node]
        where = " on nodes that may serve it"
    else:
        return
    queues, counts = np.unique(running.queue[here & (running.queue >= 0)], return_counts=True)
    for one in np.argsort(-counts, kind="stable")[:QUEUES_MAX].tolist():
        path, count = situation.queue_path(int(queues[one])), int(counts[one])
        runs = "runs" if count == 1 else "run"
        yield Way("queue", path, f"containers of {whose}{path} end: {count} {runs}{where}")


def _below(situation: Situation, leaves: I32, paths: Collection[str]) -> npt.NDArray[np.bool_]:
    """Say which of these leaves are, or are below, a queue with one of these paths."""
    known = np.unique(leaves[leaves >= 0]).tolist()
    chosen = [leaf for leaf in known if any(situation.queue_path(up) in paths for up in queues_up(situation, leaf))]
    return np.isin(leaves, chosen)


def _labels_with_room(situation: Situation, row: int, nodes: NodesOfAsk) -> Iterator[Way]:
    """Yield other partitions in which nodes have room for the ask now, and the queue may use them."""
    view = situation.view
    leaf = int(view.apps["queue"][view.rows["application"][row]])
    own = int(view.rows["partition"][row])
    fits = (situation.available() >= nodes.capability)[:, situation.binds()].all(axis=1)
    fits &= (view.nodes["state"] == NodeState.USABLE) & nodes.allowed
    for partition in range(len(situation.partitions)):
        count = int(np.count_nonzero(fits & (view.nodes["partition"] == partition)))
        if partition != own and count and _may_use(situation, leaf, partition, nodes.capability):
            name = situation.partition_name(partition)
            what = f"label {name}" if name else "no label"
            yield Way("label", name, f"with {what} it would have room on {counted(count, 'node')} now")


def _may_use(situation: Situation, leaf: int, partition: int, capability: I64) -> bool:
    view, counts = situation.view, situation.view.counted == 1
    for queue in queues_up(situation, leaf):
        if view.limit_known[queue, partition]:
            amounts = view.limit_amounts[queue, partition]
            if (amounts[USED] + amounts[ASSUMED] + capability > amounts[MAXIMUM])[counts].any():
                return False
    return bool(view.limit_known[leaf, partition])


ASKS_MAX: Final = 32
"""Asks of an application that are explained unless one is named."""

_BY_REASON: Final = (
    ("unusable", Why.NODES_UNUSABLE),
    ("not_named", Why.NODES_NOT_NAMED),
    ("blacklisted", Why.NODES_BLACKLISTED),
    ("not_chosen", Why.NODES_NOT_CHOSEN),
    ("own_tags", Why.NODES_OWN_TAGS),
    ("rejected", Why.NODES_REJECTED),
    ("reserved", Why.NODES_RESERVED),
    ("full", Why.NODES_FULL),
    ("kept_free", Why.NODES_KEPT_FREE),
)
_OF_QUEUES: Final = (Why.QUEUE_MAXIMUM, Why.LARGER_THAN_QUEUE)
_STATES: Final = {
    ApplicationState.ACTIVE: "active",
    ApplicationState.WAITING: "not active yet",
    ApplicationState.MOVED: "served by another engine",
}


def explain_application(situation: Situation, application: int, ask: int | None = None, node: str = "") -> Explanation:
    """Return why an application waits.

    Args:
        situation: the model, which is only read
        application: its index
        ask: explain this request key alone
        node: say of each ask why it is not on the node of this name
    """
    view, texts = situation.view, situation.texts
    row = view.apps[application]
    asked = [at for at in _rows(situation, application) if ask is None or int(view.rows["key"][at]) == ask]
    state = ApplicationState(int(row["state"]))
    running = Running.of(situation)
    turned_down = situation.turned_down.get(application, {})
    return Explanation(
        application=situation.application_id(application),
        name=texts[int(row["name"])],
        user=texts[int(row["user"])],
        queue=situation.queue_path(int(row["queue"])) if row["queue"] >= 0 else "",
        state=_STATES.get(state, "gone"),
        policy=situation.followed.policy,
        facts=_facts(situation, application),
        turned_down={Fate(fate).name.lower(): count for fate, count in sorted(turned_down.items())},
        asks=tuple(_explain_ask(situation, running, at, node) for at in asked[:ASKS_MAX]),
        left_out=max(len(asked) - ASKS_MAX, 0),
    )


def _rows(situation: Situation, application: int) -> Iterator[int]:
    """Yield the request rows of an application that ask for something, in its own order."""
    row = int(situation.view.apps["first_row"][application])
    while row >= 0:
        if situation.view.rows["count"][row] > 0:
            yield row
        row = int(situation.view.rows["next"][row])


def _explain_ask(situation: Situation, running: Running, row: int, node: str) -> AskExplained:
    view, at = situation.view, situation.view.rows[row]
    nodes = NodesOfAsk(situation, row)
    found = [
        *queue_causes(situation, row, has_nodes=bool(nodes.here.any())),
        *_own_causes(situation, row),
        *user_causes(situation, row),
        *_node_causes(situation, row, nodes),
    ]
    # Who is not active asks nobody yet. A queue that may have everything is full when nodes are, and too small when all
    # of them are; these say more.
    whole = queues_of_all(situation, row)
    found.sort(key=lambda cause: (cause.why != Why.NOT_ACTIVE, cause.why in _OF_QUEUES and cause.of in whole))
    causes = sorted(found or [_others_turn(situation, row)], key=lambda cause: ORDER[cause.verdict])
    return AskExplained(
        key=int(at["key"]),
        priority=int(at["priority"]),
        count=int(at["count"] - at["assumed"]),
        partition=situation.partition_name(int(at["partition"])),
        capability=situation.amounts(view.capability[row]),
        causes=tuple(causes),
        nodes=nodes.counts(),
        near=nodes.near(),
        node=nodes.why_not(node) if node else "",
        ways=ways_of(situation, running, row, nodes, causes),
    )


def _own_causes(situation: Situation, row: int) -> Iterator[Cause]:
    """Yield what stands in the way of an ask though nodes and queues do not: its application, fates, the gate."""
    view, at = situation.view, situation.view.rows[row]
    app = view.apps[at["application"]]
    queue = situation.queue_path(int(app["queue"])) if app["queue"] >= 0 else "none"
    if app["state"] != ApplicationState.ACTIVE:
        text = f"the ResourceManager has not activated it: queue {queue} has as many application masters as it may have"
        yield Cause(Why.NOT_ACTIVE, text)
        return
    if at["assumed"] >= at["count"] or (app["awaiting_am"] and app["assumed_count"] > 0):
        yield Cause(Why.PROPOSED, "all of it is proposed; the ResourceManager has not answered yet")
        return
    yield from _rejection(at["backoff_until"] - situation.decide, int(at["backoff_level"]))
    if app["backoff_until"] > situation.decide:
        text = "the ResourceManager turned a proposal for its application down, or the engine leaves the application"
        yield Cause(Why.REJECTED, f"{text} alone after a conflict with another engine; it is tried again later")
    yield from _gate_causes(situation, row)


def _rejection(decisions: int, times: int) -> Iterator[Cause]:
    if decisions > 0:
        text = f"the ResourceManager turned it down {counted(times, 'time')} in a row"
        yield Cause(Why.REJECTED, f"{text}; it is proposed again after {counted(int(decisions), 'decision')}")


def _gate_causes(situation: Situation, row: int) -> Iterator[Cause]:
    scratch = situation.scratch
    if scratch is None or not situation.knows_row(row):
        return
    seen, gate = scratch.rows[row], situation.followed.gate
    if not gate_holds(seen):
        return
    if situation.view.apps["awaiting_am"][situation.view.rows["application"][row]]:
        yield Cause(Why.GATE, f"the gate {gate} lets no more application masters start now")
        return
    verb = "lets no more of it run now" if seen["may"] else "holds it back"
    says = f": it waits for {situation.gate_waits_for}" if situation.gate_waits_for else ""
    yield Cause(Why.GATE, f"the gate {gate} {verb}{says}")


def _node_causes(situation: Situation, row: int, nodes: NodesOfAsk) -> Iterator[Cause]:
    """Yield why no node would do, if none would."""
    at, here = situation.view.rows[row], int(np.count_nonzero(nodes.here))
    counts = nodes.counts()
    where = f"label {situation.partition_name(int(at['partition']))}" if at["partition"] else "the cluster"
    if not here:
        if at["partition"]:
            yield Cause(Why.NO_SUCH_LABEL, f"no node has {where}: label one, or ask without the label")
        else:
            yield Cause(Why.NODES_UNUSABLE, "there is no node without a label")
        return
    if counts.get("too_small", 0) == here:
        needed, largest = situation.amounts(nodes.capability), nodes.largest()
        text = f"no node of {where} is that large; the most that any has is {in_words(largest)}"
        yield Cause(Why.LARGER_THAN_ANY_NODE, text, needed, largest)
        return
    if counts.get("would_do"):
        return
    unmet = situation.unmet.get(int(at["application"]), "")
    if unmet and counts.get("not_chosen", 0) == here - counts.get("too_small", 0):
        yield Cause(Why.NO_NODE_MEETS, unmet)
        return
    usable = here - counts.get("too_small", 0) - counts.get("unusable", 0)
    unknown = nodes.unknown_places()
    if usable and counts.get("not_named", 0) == usable and unknown:
        text = f"it asks for {', '.join(unknown[:8])} alone, and {where} has no such node or rack"
        yield Cause(Why.NO_SUCH_PLACE, text)
    elif usable and counts.get("blacklisted", 0) == usable:
        yield Cause(Why.ALL_BLACKLISTED, f"the application has blacklisted all {usable} nodes that are large enough")
    found = sorted(
        ((reason, why) for reason, why in _BY_REASON if counts.get(reason)), key=lambda pair: -counts[pair[0]]
    )
    for reason, why in found:
        near = nodes.near() if reason == "full" else None
        text = f"{counts[reason]} of {here} nodes of {where}: {WORDS[reason]}"
        lacks = f"; {near.node} lacks least: {in_words(dict(near.lacks))}" if near else ""
        says = f": {unmet}" if unmet and reason == "not_chosen" else ""
        yield Cause(why, text + lacks + says, situation.amounts(nodes.capability))


def _others_turn(situation: Situation, row: int) -> Cause:
    """Return that nothing is against an ask but that others are served before it."""
    at = situation.view.rows[row]
    if at["waiting_since_ms"] >= 0:
        return Cause(Why.NEARER_NODE, "it waits for a node nearer to its data; others would do")
    if _waits_before(situation, row):
        return Cause(Why.TURN, "nodes would do; another ask of its application, before it, waits for a nearer node")
    ahead, among = _place(situation, int(at["application"]))
    if not situation.commits:
        text = "Treadle only observes, and the stock scheduler has not placed it"
    elif ahead is None:
        text = f"the order {situation.followed.order} serves others of the {among} applications of its queue first"
    elif ahead:
        text = f"{ahead} of {among} applications of its queue that ask are served before it"
    else:
        text = "it is the next of its queue; other queues are served first, or the latest answer was full"
    return Cause(Why.TURN, f"nodes would do; {text}")


def _waits_before(situation: Situation, row: int) -> bool:
    """Say whether an ask of the same application that is served before this one waits for a nearer node."""
    rows = situation.view.rows
    for at in _rows(situation, int(rows["application"][row])):
        if at == row:
            return False
        if rows["waiting_since_ms"][at] >= 0:
            return True
    return False


def _place(situation: Situation, application: int) -> tuple[int | None, int]:
    """Return how many applications of a queue that ask come before one, None if that is not fixed, and how many ask.

    It is not fixed where each container that is placed changes the order.
    """
    view = situation.view
    leaf = int(view.apps["queue"][application])
    asking = _asking(situation, leaf)
    if not asking:
        return 0, 0
    scratch = situation.scratch
    order = FIFO if scratch is None or leaf >= len(scratch.queues) else int(scratch.queues["order"][leaf])
    if order not in (FIFO, KEYED) and len(asking) > 1:
        return None, len(asking)
    if order == KEYED and scratch is not None:
        kept, since = scratch.apps, view.apps["start_time_ms"]
        asking.sort(
            key=lambda app: (*(kept[app][["band", "key"]].item() if app < len(kept) else (0, np.inf)), int(since[app]))
        )
    return (asking.index(application) if application in asking else 0), len(asking)


def _asking(situation: Situation, leaf: int) -> list[int]:
    """Return the applications of a leaf that ask for something not proposed yet, as the leaf lists them."""
    view = situation.view
    if leaf < 0 or leaf + 1 >= len(view.leaf_first):
        return []
    listed = view.leaf_applications[view.leaf_first[leaf] : view.leaf_first[leaf + 1]]
    return [int(app) for app in listed if view.apps["pending"][app] > view.apps["assumed_count"][app]]


def _with_higher_priority(situation: Situation, application: int) -> int:
    """Return how many applications of a queue that ask come first for their priority, whatever the order says."""
    view, scratch = situation.view, situation.scratch
    if scratch is None or len(scratch.apps) < len(view.apps):
        return 0
    bands = scratch.apps["band"]
    asking = _asking(situation, int(view.apps["queue"][application]))
    return int(np.count_nonzero(bands[asking] < bands[application]))


def _facts(situation: Situation, application: int) -> dict[str, Any]:
    """Return where an application stands."""
    view, scratch = situation.view, situation.scratch
    row = view.apps[application]
    ahead, among = _place(situation, application)
    facts: dict[str, Any] = {
        "containers": int(row["containers"]),
        "asked_for": int(row["pending"]),
        "proposed": int(row["assumed_count"]),
        "ahead_in_queue": ahead,
        "asking_in_queue": among,
        "with_higher_priority": _with_higher_priority(situation, application),
        "order": situation.followed.order,
        "share": situation.followed.share,
    }
    if scratch is not None and application < len(scratch.apps) and scratch.queues["order"][int(row["queue"])] == KEYED:
        key = float(scratch.apps["key"][application])
        facts["key"] = key if np.isfinite(key) else None  # None: last, as one without a key
    if row["queue"] >= 0:
        facts |= share_of(situation, int(row["queue"]), int(row["partition"]))
        facts["turn"] = turn_of(situation, int(row["queue"]), int(row["partition"])) if situation.commits else ""
    return facts
