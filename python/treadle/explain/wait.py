"""How long an ask is expected to wait, where it is known how long containers run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I64
from treadle.events import ApplicationState, NodeState
from treadle.explain.causes import Cause, Verdict, Wait, Way, Why
from treadle.explain.ends import DRAWS, Durations, Ends, Running, drawn_durations, durations_of, ends_of, running_of
from treadle.explain.forecast import Budget, End, Forecast, Item, Leaf, Limit, Rule
from treadle.explain.kept_free import KeptFree
from treadle.explain.limits import queues_up
from treadle.explain.nodes import NodesOfAsk
from treadle.explain.situation import Situation
from treadle.explain.ways import labels_with_room, next_nodes, next_queues
from treadle.model.tables import ASSUMED, GUARANTEED, LIMIT, MAXIMUM, TOTAL, USED
from treadle.policy.state import FAIR, KEYED
from treadle.words import counted, in_time

ESTIMATED_MAX: Final = 4
"""Asks of an application whose wait is estimated unless one is named."""
STEPS_MAX: Final = 2800
"""Steps that are made for all of them."""
SOON: Final = 4
"""Containers per step whose ends are drawn: those that should end next."""
TRIES: Final = 3
"""If it is served in none of the first draws, the others are spared."""
MARGIN: Final = 2.0
"""The earliest of what was drawn is divided by this, and the latest multiplied: the forecast is not the policy."""
DURATIONS: Final = 4
"""Durations that are drawn for each kind of ask; its containers have them in turn."""
ITEMS_MAX: Final = 32
"""Asks of a leaf that are examined."""
ROWS_MAX: Final = 512
"""Asks of all leaves that are examined; those of its own come first."""
_TIMED: Final = {
    Why.QUEUE_MAXIMUM,
    Why.USER_LIMIT,
    Why.NODES_FULL,
    Why.NODES_KEPT_FREE,
    Why.NODES_RESERVED,
    Why.NODES_NOT_NAMED,
    Why.NODES_BLACKLISTED,
    Why.NODES_NOT_CHOSEN,
    Why.NODES_REJECTED,
    Why.TURN,
    Why.PROPOSED,
}
"""What goes by as containers end; when anything else does, sizes say nothing."""
_MAY_SERVE: Final = ("rejected", "reserved", "full", "kept_free", "would_do")


class _Setting(NamedTuple):
    """What a forecast begins with."""

    row: int
    partition: int
    nodes: npt.NDArray[np.int64]
    free: I64
    usable: frozenset[int]
    waiting: npt.NDArray[np.int64]
    others: npt.NDArray[np.int64]
    rule: Rule
    held: dict[int, int]


class Waits:
    """The waits of one application's asks."""

    def __init__(self, situation: Situation, application: int, asks: int) -> None:
        """Look at what runs and what is asked for.

        Args:
            situation: the model, which is only read
            application: its index
            asks: how many asks there are that are explained
        """
        self._situation, self._application = situation, application
        self._counted: npt.NDArray[np.bool_] = situation.view.counted == 1
        self._steps = STEPS_MAX // (DRAWS * max(min(asks, ESTIMATED_MAX), 1))
        self._left = ESTIMATED_MAX

    @cached_property
    def _running(self) -> Running:
        return running_of(self._situation)

    @cached_property
    def _durations(self) -> Durations:
        return durations_of(self._situation, self._running)

    @cached_property
    def _ends(self) -> Ends:
        return ends_of(self._situation, self._running, self._durations)

    @cached_property
    def _soon(self) -> Ends:
        """Those of which some end within a forecast, however it is drawn."""
        return self._ends.soonest(SOON * self._steps)

    def of(self, row: int, nodes: NodesOfAsk, causes: Collection[Cause]) -> tuple[Wait, tuple[Way, ...]]:
        """Return how long the ask of a request row is expected to wait, and what would let it start."""
        usable = np.logical_or.reduce([nodes.by_reason[reason] for reason in _MAY_SERVE])
        if self._left <= 0:
            return Wait(f"only the first {ESTIMATED_MAX} asks are estimated; name this one with --ask"), ()
        self._left -= 1
        labels = tuple(labels_with_room(self._situation, row, nodes))
        why = self._why_not(usable, causes)
        if why:
            return Wait(why), labels
        ways = (
            *next_nodes(self._situation, self._soon, nodes),
            *next_queues(self._situation, self._ends, row, usable, causes),
        )
        return self._wait(row, usable), (*ways, *labels)

    def _why_not(self, usable: npt.NDArray[np.bool_], causes: Collection[Cause]) -> str:
        """Return why nothing can be said about the wait; empty if something can."""
        if any(cause.verdict != Verdict.WAITING for cause in causes):
            return "it does not start unless somebody changes something"
        other = next((cause for cause in causes if cause.why not in _TIMED), None)
        if other is not None:
            return f"sizes do not show when this ends: {other.text}"
        if not usable.any():
            return "no node may serve it now"
        if self._situation.now_ms < 0:
            return "nothing has been decided yet"
        here = usable[self._ends.node]
        known = np.count_nonzero(self._ends.known() & here)
        if any(cause.why == Why.TURN for cause in causes) or known:
            return ""
        count = int(np.count_nonzero(here))
        what = f"{counted(count, 'container')} on the nodes that may serve it"
        if count:
            return f"nobody knows how long the {what} run: there is no hint, and none like them has ended"
        return "nothing that is known to end runs on the nodes that may serve it"

    def _wait(self, row: int, usable: npt.NDArray[np.bool_]) -> Wait:
        times, reached, setting = list[float](), list[float](), self._setting(row, usable)
        for draw in range(DRAWS):
            forecast = self._forecast(setting, draw)
            served_ms = forecast.served_ms(Budget(self._steps))
            times.append(float("inf") if served_ms is None else served_ms)
            reached.append(forecast.reached_ms)
            if served_ms is None and not forecast.reached_ms:  # what is free now is so in each draw
                return Wait("more asks are served before it in the next decisions than are looked at")
            if len(times) == TRIES and min(times) == float("inf"):
                break
        early, expected, late = min(times), sorted(times)[len(times) // 2], max(times)
        if early == float("inf"):
            return Wait(f"more containers end before than are looked at, those of {in_time(max(reached))} at least")
        unknown = ~self._ends.known() & usable[self._ends.node]
        if unknown.any():  # any of them may end now, or never
            early, late = 0.0, float("inf")
        beyond = max(reached) if late == float("inf") else None
        early, late = early / MARGIN, late * MARGIN
        return Wait("", round(early), _whole(expected), _whole(late), None if beyond is None else round(beyond))

    def _setting(self, row: int, usable: npt.NDArray[np.bool_]) -> _Setting:
        """Return what is the same however often it is drawn when containers end."""
        situation, view = self._situation, self._situation.view
        partition = int(view.rows["partition"][row])
        here = usable | ((view.nodes["partition"] == partition) & (view.nodes["state"] == NodeState.USABLE))
        indices = np.flatnonzero(here)
        held = np.flatnonzero((view.nodes["hold_row"] >= 0) & here).tolist()
        followed = situation.followed
        part = 1.0 if followed.compares_shares else followed.hold_nodes_share
        nodes_max = min(followed.hold_nodes_max, max(round(part * len(indices)), 1))
        waiting, others = self._waiting(row, partition)
        return _Setting(
            row=row,
            partition=partition,
            nodes=indices,
            free=situation.available()[indices][:, self._counted],
            usable=frozenset(np.flatnonzero(usable).tolist()),
            waiting=waiting,
            others=others,
            rule=Rule(nodes_max if followed.hold_duration_ms else 0, float(followed.hold_duration_ms)),
            held=dict(zip(held, view.nodes["hold_row"][held].tolist(), strict=True)),
        )

    def _forecast(self, setting: _Setting, draw: int) -> Forecast:
        leaf = int(self._situation.view.apps["queue"][self._application])
        least = self._situation.view.capability[setting.waiting][:, self._counted].min(axis=0)
        leaves = self._leaves(setting, leaf, draw)
        return Forecast(
            dict(zip(setting.nodes.tolist(), setting.free.tolist(), strict=True)),
            setting.nodes[(setting.free >= least).all(axis=1)].tolist(),
            setting.usable,
            leaves,
            self._limits(setting.row, leaf, setting.partition),
            self._soonest(draw),
            setting.rule,
            setting.held,
            self._kept_free(setting, leaves),
        )

    def _kept_free(self, setting: _Setting, leaves: dict[int, Leaf]) -> KeptFree | None:
        """Return what nodes keep free for the largest ask, if the latest decide had them do so."""
        scratch, view = self._situation.scratch, self._situation.view
        if scratch is None or not len(scratch.headroom):
            return None
        totals = view.node_amounts[setting.nodes, TOTAL][:, self._counted].tolist()
        return KeptFree(
            dict(zip(setting.nodes.tolist(), map(tuple, totals), strict=True)),
            (item.amounts for leaf in leaves.values() for item in leaf.waiting),
            map(tuple, view.capability[setting.others][:, self._counted].tolist()),
        )

    def _soonest(self, draw: int) -> Iterator[tuple[float, End]]:
        ends, view = self._soon, self._situation.view
        in_ms = ends.drawn_ms(draw, self._situation.followed.seed)
        known = np.flatnonzero(np.isfinite(in_ms))
        first = known[np.argsort(in_ms[known], kind="stable")[: self._steps]]
        columns = (
            in_ms[first].tolist(),
            ends.node[first].tolist(),
            ends.queue[first].tolist(),
            view.apps["user"][ends.application[first]].tolist(),
            ends.amounts[first][:, self._counted].tolist(),
        )
        for at_ms, node, queue, user, amounts in zip(*columns, strict=True):
            yield at_ms, End(node, queue, user, tuple(amounts))

    def _leaves(self, setting: _Setting, own: int, draw: int) -> dict[int, Leaf]:
        """Return the leaves that ask for something in the partition, with what they ask for in order."""
        view, situation, rows = self._situation.view, self._situation, setting.waiting
        shared = situation.followed.share != "none"
        apps = view.rows["application"][rows]
        durations = drawn_durations(self._durations.rows_ms[rows], DURATIONS, situation.followed.seed, draw)
        columns = (
            rows.tolist(),
            view.apps["queue"][apps].tolist(),
            view.apps["user"][apps].tolist(),
            view.capability[rows][:, self._counted].tolist(),
            (view.rows["count"][rows] - view.rows["assumed"][rows]).tolist(),
            durations,
        )
        leaves: dict[int, Leaf] = {}
        for row, queue, user, amounts, count, durations_ms in zip(*columns, strict=True):
            place = queue if shared else own
            if place not in leaves:
                leaves[place] = self._leaf(place, setting.partition)
            asked = row == setting.row
            item = Item(row, place, user, tuple(amounts), 1 if asked else count, durations_ms, asked)
            leaves[place].waiting.append(item)
        return leaves

    def _leaf(self, queue: int, partition: int) -> Leaf:
        view = self._situation.view
        amounts = view.limit_amounts[queue, partition][:, self._counted]
        known = bool(view.limit_known[queue, partition])
        return Leaf(
            (amounts[USED] + amounts[ASSUMED]).tolist(),
            tuple(amounts[GUARANTEED].tolist()),
            tuple(amounts[MAXIMUM].tolist()) if known else None,
            [],
        )

    def _waiting(self, row: int, partition: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the request rows that compete for room, the one asked about included, and those not looked at.

        The former are in the order of their leaves.
        """
        view, scratch = self._situation.view, self._situation.scratch
        rows, apps, decide = view.rows, view.apps, self._situation.decide
        app = np.maximum(rows["application"], 0)
        wanted = (rows["application"] >= 0) & (rows["count"] > rows["assumed"]) & (rows["partition"] == partition)
        wanted &= (apps["state"][app] == ApplicationState.ACTIVE) & (apps["queue"][app] >= 0)
        wanted &= (rows["backoff_until"] <= decide) & (apps["backoff_until"][app] <= decide)
        if scratch is not None:
            seen = min(len(rows), len(scratch.rows))
            wanted[:seen] &= (scratch.rows["may"][:seen] == 1) & (scratch.rows["quota"][:seen] > 0)
        wanted[row] = True
        found = np.flatnonzero(wanted)
        first, rank = self._order()
        of = app[found]
        keys = (rows["allocation_request_id"][found], rows["priority"][found], rank[of], first[of])
        found = found[np.lexsort(keys)]
        chosen = self._first_of_leaves(found, row)
        return chosen, np.setdiff1d(found, chosen)

    def _first_of_leaves(self, rows: npt.NDArray[np.int64], asked: int) -> npt.NDArray[np.int64]:
        """Return of request rows in their order the first `ITEMS_MAX` of each leaf, and the one that is asked about."""
        view = self._situation.view
        leaves = view.apps["queue"][view.rows["application"][rows]]
        by_leaf = np.argsort(leaves, kind="stable")
        first = np.searchsorted(leaves[by_leaf], leaves[by_leaf])
        place = np.empty(len(rows), np.int64)
        place[by_leaf] = np.arange(len(rows)) - first
        chosen: npt.NDArray[np.int64] = rows[(place < ITEMS_MAX) | (rows == asked)]
        if len(chosen) <= ROWS_MAX:
            return chosen
        own = leaves[rows == asked][0]
        mine = view.apps["queue"][view.rows["application"][chosen]] == own
        return np.concatenate([chosen[mine], chosen[~mine][: ROWS_MAX - np.count_nonzero(mine)]])

    def _order(self) -> tuple[F64, F64]:
        """Return for each application two numbers by which its leaf serves it, as the latest decide had them."""
        view, scratch, ranks = self._situation.view, self._situation.scratch, self._situation.view.rank
        first, rank = np.zeros(len(view.apps)), np.full(len(view.apps), np.inf)
        rank[: len(ranks)] = ranks[: len(rank)]
        if scratch is None:
            return first, rank
        leaf = view.apps["queue"]
        known = (leaf >= 0) & (leaf < len(scratch.queues)) & (np.arange(len(view.apps)) < len(scratch.apps))
        kinds = scratch.queues["order"][np.where(known, leaf, 0)]
        keyed = np.flatnonzero(known & (kinds == KEYED))
        fair = np.flatnonzero(known & (kinds == FAIR))
        first[keyed] = scratch.apps["key"][keyed]
        first[fair] = view.app_amounts[fair, USED, 0]
        return first, rank

    def _limits(self, row: int, leaf: int, partition: int) -> list[Limit]:
        """Return what the queues above the leaf, and the user in it, may have."""
        situation, view = self._situation, self._situation.view
        found = []
        for queue in queues_up(situation, leaf):
            if queue == leaf or not view.limit_known[queue, partition]:
                continue
            amounts = view.limit_amounts[queue, partition][:, self._counted]
            used = (amounts[USED] + amounts[ASSUMED]).tolist()
            found.append(Limit(used, tuple(amounts[MAXIMUM].tolist()), self._below(queue)))
        name = int(view.apps["user"][self._application])
        user = situation.user(leaf, partition, name)
        if user >= 0:
            amounts = view.user_amounts[user][:, self._counted]
            used = (amounts[USED] + amounts[ASSUMED]).tolist()
            found.append(Limit(used, tuple(amounts[LIMIT].tolist()), frozenset({leaf}), name, True))
        return found

    def _below(self, queue: int) -> frozenset[int]:
        """Return the leaves below a queue; an empty list means all, at the root."""
        situation = self._situation
        if situation.view.queues["parent"][queue] < 0:
            return frozenset()
        leaves = np.unique(situation.view.apps["queue"])
        return frozenset(leaf for leaf in leaves.tolist() if leaf >= 0 and queue in queues_up(situation, leaf))


def _whole(time_ms: float) -> int | None:
    return None if time_ms == float("inf") else round(time_ms)
