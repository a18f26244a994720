"""Why an application waits: every cause that holds for each of its asks, the one that decides first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from treadle.events import ApplicationState, Fate
from treadle.explain.causes import ORDER, AskExplained, Cause, Explanation, Why
from treadle.explain.limits import queue_causes, queues_of_all, share_of, user_causes
from treadle.explain.nodes import WORDS, NodesOfAsk, in_words
from treadle.explain.situation import Situation
from treadle.explain.turns import turn_of
from treadle.explain.ways import Running, ways_of
from treadle.policy.state import FIFO, KEYED
from treadle.words import counted

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
    causes = sorted(found or [_turn(situation, row)], key=lambda cause: ORDER[cause.verdict])
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
    if seen["may"] and seen["quota"] > 0:
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


def _turn(situation: Situation, row: int) -> Cause:
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
