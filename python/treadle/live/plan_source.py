"""What application masters reported of their DAGs, as events for the engine; and keys and nodes for their listener.

On the thread that decides: it takes arrays that others have made, of a bounded number of applications at a time.

The plan listener of a sidecar: put together when it starts, if treadle.yaml names an address.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.am.listener import TYPES
from treadle.am.protocol import Attempt
from treadle.am.quotas import FairQueue
from treadle.am.record import CLAIM, Claims
from treadle.am.registries import Amounts
from treadle.config.settings import Settings
from treadle.errors import counted
from treadle.events import ApplicationState, Event, NodeState, PlanRanks, Replaces, TaskClaims
from treadle.history.run import JobRun
from treadle.live.history_writer import StagesOf
from treadle.live.plan_link import PlanLink, PlanSide
from treadle.sidecar.child import EventSource
from treadle.wire.frames import Frame

_log = logging.getLogger(__name__)

LOOKED_MAX: Final = 8
"""Applications that are looked at between two decides; the others wait for their turn, each user's in turn."""

ROWS_MAX: Final = 1_000
"""Request keys with hints between two decides."""

KEYS_MAX: Final = 3_000
"""Request keys of an application that may have hints; a DAG that is planned has no more priorities."""

_NOTHING: Final = np.array([(0, -1, -1, -1, -1.0)], CLAIM)
_SAID: Final = ("tasks", "duration_ms", "deviation_ms", "score")


@dataclass(eq=False)
class _Application:
    attempt: Attempt
    user: str
    priorities: dict[int, int] = field(default_factory=dict)
    """By request key, in order of their coming: that of the rows below."""
    sent: Claims = field(default_factory=lambda: np.zeros(0, CLAIM))
    """What the engine was given for each request key; nothing for those after the last one."""
    said: Any = field(default_factory=lambda: np.zeros(0, bool))
    """Was it given anything?"""
    sent_before: frozenset[int] = frozenset()
    """Priorities of request keys that had hints before a snapshot, which gave them other keys."""

    def priorities_sent(self) -> frozenset[int]:
        """Return the priorities of request keys that the engine has hints for."""
        priorities = zip(self.priorities.values(), self.said.tolist(), strict=False)
        return self.sent_before.union(priority for priority, said in priorities if said)

    def forget(self) -> None:
        """Take that the engine knows nothing, and that request keys are given anew."""
        self.priorities.clear()
        self.sent, self.said = self.sent[:0], self.said[:0]
        self.sent_before = frozenset()

    def changes(self, claims: Claims | None, most: int) -> tuple[Any, Any, bool]:
        """Take the hints that are due, for at most this many request keys.

        Returns:
            the keys, what to send of each, and whether there is more
        """
        many = len(self.priorities)
        if len(self.sent) < many:
            self.sent = np.concatenate([self.sent, np.repeat(_NOTHING, many - len(self.sent))])
            self.said = np.concatenate([self.said, np.zeros(many - len(self.said), bool)])
        known = _NOTHING[:0] if claims is None else claims
        priorities = np.fromiter(self.priorities.values(), np.int64, many)
        at = np.searchsorted(known["priority"], priorities)
        at[at >= len(known)] = 0
        there = known["priority"][at] == priorities if len(known) else np.zeros(many, bool)
        now = np.repeat(_NOTHING, many)
        now[there] = known[at[there]]
        differs = np.zeros(many, bool)
        for name in _SAID:
            differs |= now[name] != self.sent[name]
        unsure = np.isin(priorities, list(self.sent_before))
        changed = np.flatnonzero(((there | unsure) & ~self.said) | (self.said & differs))
        rows, more = changed[:most], len(changed) > most
        self.sent[rows], self.said[rows] = now[rows], True
        return np.fromiter(self.priorities, np.int64, many)[rows], now[rows], more


class PlanEventSource(EventSource):
    """Sends an engine which request keys are which vertices of a plan, and how long their tasks take."""

    def __init__(self, side: PlanSide) -> None:
        self._side = side
        self._names: list[str] = []
        self._resources: tuple[tuple[int, str], ...] = ()
        self._queues: dict[int, str] = {}
        self._nodes: dict[int, Amounts] = {}
        self._applications: dict[int, _Application] = {}
        self._index: dict[Attempt, int] = {}
        self._waiting: FairQueue[int] = FairQueue()
        """Applications to be looked at."""
        self._planned: set[int] = set()
        """Those with hints."""
        self._before: dict[Attempt, frozenset[int]] = {}
        """Attempts that ran before a snapshot of which not all has come yet, and the priorities with hints."""
        self._broken = False
        """Something went wrong; until the next snapshot there are no hints."""

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return the events that the engine gets after this frame, and before it decides."""
        self._broken = self._broken and not frame.header.snapshot
        if self._broken:
            return ()
        try:
            return self._collect(frame)
        except Exception:  # plans are worth less than decisions
            _log.exception("the engine hears of no plans until the next snapshot")
            self._broken = True
            return ()

    def _collect(self, frame: Frame) -> Sequence[Event]:
        for event in frame.events:
            self._follow(event)
        if frame.header.more:
            return ()
        for attempt in self._before.keys() - self._index.keys():
            self._side.part(attempt)
        self._before.clear()
        return self._look()

    def again(self, applications: Iterable[int]) -> None:
        """Return all that is known of some applications with the next frames, as if it were new."""
        for index in applications:
            if (known := self._applications.get(index)) is not None:
                known.sent, known.said = known.sent[:0], known.said[:0]
                self._waiting.put(known.user, index)

    def forget(self) -> None:
        """Take that the engine fails over and over: nothing of what is known now is given again."""
        self._waiting.clear()
        for application in self._applications.values():
            application.forget()

    def summary(self) -> str:
        """Return in a few words how many DAGs are known, and what is wrong."""
        planned = f"{counted(len(self._planned), 'DAG')} by their application masters" if self._planned else ""
        return "; ".join(filter(None, (planned, self._side.summary())))

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know: why there are no plans."""
        return tuple(filter(None, (self._side.problem(),)))

    def keys_for(self) -> Sequence[str]:
        """Return the types of the applications whose AMs may ask for plans."""
        return TYPES

    def _follow(self, event: Event) -> None:
        match event:
            case events.Snapshot():
                self._names, self._queues, self._nodes = [], {}, {}
                self._before |= {known.attempt: known.priorities_sent() for known in self._applications.values()}
                self._applications, self._index, self._planned = {}, {}, set()
                self._waiting.clear()
            case events.Names():
                event.into(self._names)
            case events.ResourceTypes():
                counted = zip(event.names, event.counted.tolist(), strict=True)
                self._resources = tuple((at, name) for at, (name, counts) in enumerate(counted) if counts)
            case events.Queues():
                paths = zip(event.queue.tolist(), event.path_name.tolist(), strict=True)
                self._queues = {queue: self._names[path] for queue, path in paths}
            case events.Nodes():
                self._follow_nodes(event)
            case events.Applications():
                self._follow_applications(event)
            case events.Requests():
                self._follow_requests(event)
            case events.AttemptKeys():
                self._take_keys(event)
            case _:
                return

    def _follow_nodes(self, event: events.Nodes) -> None:
        changed: dict[int, Amounts | None] = {}
        for node, state, total in zip(event.node.tolist(), event.state.tolist(), event.total.tolist(), strict=True):
            gone = state == NodeState.GONE
            has = None if gone else tuple((name, float(total[at])) for at, name in self._resources)
            if has != changed.get(node, self._nodes.get(node)):
                changed[node] = has
        # Nearly all frames have what is free alone.
        if changed:
            self._nodes = {node: has for node, has in (self._nodes | changed).items() if has is not None}
            self._side.machines(self._nodes)

    def _follow_applications(self, event: events.Applications) -> None:
        for row, index in enumerate(event.application.tolist()):
            if event.state[row] == ApplicationState.GONE:
                self._part(index)
                continue
            type_ = self._names[event.type_name[row]].upper()
            if type_ not in TYPES:
                continue
            user, queue = self._names[event.user_name[row]], self._queues.get(int(event.queue[row]), "")
            attempt = Attempt(int(event.cluster_timestamp[row]), int(event.id[row]), int(event.attempt[row]))
            known = self._applications.get(index)
            if known is None:
                self._applications[index], self._index[attempt] = _Application(attempt, user), index
                self._applications[index].sent_before = self._before.get(attempt, frozenset())
            elif event.replaces[row] & Replaces.REQUESTS:
                known.forget()
            self._side.meet(attempt, user, queue, type_)

    def _part(self, index: int) -> None:
        """Forget an attempt that has ended."""
        gone = self._applications.pop(index, None)
        if gone is not None:
            self._waiting.discard(gone.user, index)
            self._planned.discard(index)
            self._index.pop(gone.attempt, None)
            self._side.part(gone.attempt)

    def _follow_requests(self, event: events.Requests) -> None:
        for row in np.flatnonzero(np.isin(event.application, list(self._applications))).tolist():
            application = self._applications[int(event.application[row])]
            key, priority = int(event.key[row]), int(event.priority[row])
            before = application.priorities.get(key)
            if before != priority and (before is not None or len(application.priorities) < KEYS_MAX):
                application.priorities[key] = priority
                self._waiting.put(application.user, int(event.application[row]))

    def _take_keys(self, event: events.AttemptKeys) -> None:
        for row, index in enumerate(event.application.tolist()):
            application = self._applications.get(index)
            if application is not None:
                words = (event.word0, event.word1, event.word2, event.word3)
                key = b"".join(int(word[row]).to_bytes(8, "little", signed=True) for word in words)
                self._side.give_key(application.attempt, int(event.number[row]), key)

    def _look(self) -> Sequence[Event]:
        """Look at applications of which something is new, as many as may be."""
        for _ in range(LOOKED_MAX):
            attempt = self._side.news()
            if attempt is None:
                break
            if (index := self._index.get(attempt)) is not None:
                self._waiting.put(self._applications[index].user, index)
        found, left, again = [], ROWS_MAX, []
        for _ in range(LOOKED_MAX):
            if not self._waiting or not left:
                break
            user, index = self._waiting.pop()
            application = self._applications[index]
            claims = self._side.claims(application.attempt)
            keys, rows, more = application.changes(claims, left)
            if claims is not None and len(claims):
                self._planned.add(index)
            else:
                self._planned.discard(index)
            if more:
                again.append((user, index))
            if len(keys):
                found.append((np.full(len(keys), index, np.int32), keys.astype(np.int32), rows))
                left -= len(keys)
        for user, index in again:
            self._waiting.put(user, index)
        return _events(*(np.concatenate(columns) for columns in zip(*found, strict=True))) if found else ()


def _events(application: Any, key: Any, rows: Any) -> Sequence[Event]:
    said = {name: np.ascontiguousarray(rows[name]) for name in _SAID}
    return (
        PlanRanks(application=application, key=key, score=said["score"]),
        TaskClaims(
            application=application,
            key=key,
            duration_ms=said["duration_ms"],
            deviation_ms=said["deviation_ms"],
            tasks=said["tasks"],
        ),
    )


def open_plans(
    settings: Settings, remember: Callable[[JobRun], None], ask_stages: Callable[[StagesOf], None]
) -> PlanEventSource | None:
    """Open the plan listener that the settings name; one that cannot listen is tried again, which it reports.

    Args:
        settings: what to follow, as long as the process runs
        remember: is given each DAG that has succeeded
        ask_stages: is given whom to ask for the stages of an application that has

    Returns:
        who sends the engine plans; None without an address
    """
    if not settings.listener.address:
        return None
    link = PlanLink(settings, remember)
    link.start()
    ask_stages(link.take)
    return PlanEventSource(link)
