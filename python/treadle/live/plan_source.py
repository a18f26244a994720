"""DAGs reported by application masters, as events for the engine; and keys and nodes for their listener.

The listener is a process of its own (`treadle.live.plan_child`), which parses the messages and is restarted when it
ends. It may also be started behind a socket, as another user, so that no process of the sidecar's user parses network
input: systemd, for example, listens on the socket and starts a process for each connection. The deciding thread takes
arrays that other threads have made, of a bounded number of applications at a time.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Lock, Thread
from threading import Event as ThreadEvent
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.am.listener import TYPES
from treadle.am.protocol import NUMBERS_MAX, Attempt, MessageError
from treadle.am.quotas import Bounds, FairQueue, QuotaCache
from treadle.am.registries import CLAIM, CLAIMS_MAX, Amounts, Claims, read_claims, runs_of
from treadle.config.settings import JobHistory, Settings
from treadle.config.trust import connect
from treadle.errors import counted, printable
from treadle.events import Event, NodeState, PlanRanks, Replaces, TaskClaims
from treadle.history.profile import JobRun, StageRun
from treadle.live.plan_messages import MessageKind, line, read_frame, run_from_bytes, stages_from_bytes
from treadle.processes import Child, Remote
from treadle.sidecar.conversation import Listener
from treadle.wire.frames import Frame

COMMAND: Final = (sys.executable, "-P", "-m", "treadle.live.plan_child")

ALLOCATOR: Final = MappingProxyType({"MALLOC_ARENA_MAX": "2"})
"""glibc gives threads memory from arenas of their own and hardly ever returns it: requests of 1 MiB, a thread each,
made a process grow to 2 GiB. A value set by the user stays."""


_log = logging.getLogger(__name__)

BYTES: Final = Bounds(CLAIMS_MAX * CLAIM.itemsize, 8 << 20, 64 << 20)
"""Limits for the engine's data of DAGs: of one attempt, of one user, in total."""

LINES_MAX: Final = 100_000
"""Maximum number of lines that wait for the listener; beyond, it is restarted and gets the current state."""

START_S: Final = 120.0
"""How long the first start may take: kernels of the planner may have to be compiled."""

PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0

TAKE_S: Final = 2.0
"""How long a request for an application's stages waits for them."""


@dataclass(eq=False)
class _AttemptFacts:
    user: str
    queue: str
    type: str
    keys: dict[int, bytes] = field(default_factory=dict)


class PlanLink:
    """The plan listener, which is another process. For several threads; nothing that decides waits."""

    def __init__(
        self, settings: Settings, remember: Callable[[JobRun], None], command: Sequence[str] = COMMAND
    ) -> None:
        """Begin with no process; `start` makes one."""
        listener, history = settings.listener, settings.history
        self._command, self._socket = command, listener.socket
        if self._socket:
            history = JobHistory()  # the store is this user's
        self._begin = line("begin", *(part.model_dump(mode="json") for part in (settings.plans, listener, history)))
        self._address = listener.address
        self._remember = remember
        self._lock = Lock()
        self._known: dict[Attempt, _AttemptFacts] = {}
        self._claims: QuotaCache[Attempt, Claims] = QuotaCache(BYTES)
        self._updates: FairQueue[Attempt] = FairQueue()
        self._nodes: Mapping[int, Amounts] = {}
        self._changed = Condition()
        self._lines: deque[tuple[Any, ...]] = deque()
        self._nodes_changed = False
        self._child: Child | Remote | None = None
        self._closed = ThreadEvent()
        self._first_outcome = ThreadEvent()
        """Set when the first process listens, or has reported why it cannot."""
        self._stages: dict[str, list[bytes] | None] = {}
        self._answered = Condition()
        self._problem = ""
        self.listening = False
        """Is the port open?"""
        self._has_failed = False
        """Whether the process has reported why it ends."""
        self._refused = 0
        self._thread = Thread(target=self._run, name="plan listener", daemon=True)
        self.port = 0
        """Where the listener is."""

    def start(self) -> None:
        """Start the process and wait until it listens, or `summary` has the reason why not, which is tried again."""
        self._thread.start()
        if not self._first_outcome.wait(START_S):
            self._fail(f"listener: its process has said nothing for {START_S:g} s; see the log")

    def close(self) -> None:
        """End the process, for good; returns when it has ended."""
        self._closed.set()
        if self._child is not None:
            self._child.kill()
        self._thread.join()

    # For the thread that decides.

    def register_attempt(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        """Register a running attempt: its user, its queue, and its application type in upper case."""
        with self._lock:
            known = self._known.setdefault(attempt, _AttemptFacts(user, queue, type_))
            known.user, known.queue, known.type = user, queue, type_
        self._enqueue("meet", attempt, user, queue, type_)

    def forget_attempt(self, attempt: Attempt) -> None:
        """Forget an attempt that has ended."""
        with self._lock:
            known = self._known.pop(attempt, None)
            self._claims.pop(attempt)
            if known is not None:
                self._updates.discard(known.user, attempt)
        self._enqueue("part", attempt)

    def give_key(self, attempt: Attempt, number: int, key: bytes) -> None:
        """Take a key of an attempt."""
        with self._lock:
            known = self._known.get(attempt)
            if known is None:
                return
            known.keys.pop(number, None)
            known.keys[number] = key
            while len(known.keys) > NUMBERS_MAX:
                del known.keys[next(iter(known.keys))]
        self._enqueue("key", attempt, number, key.hex())

    def set_machines(self, nodes: Mapping[int, Amounts]) -> None:
        """Set the resources of each usable node; the mapping must not change afterwards."""
        with self._changed:
            self._nodes, self._nodes_changed = nodes, True
            self._changed.notify()

    def next_update(self) -> Attempt | None:
        """Return an attempt with new data of its DAG, the users in turn; None if there is none."""
        with self._lock:
            return self._updates.pop()[1] if self._updates else None

    def claims(self, attempt: Attempt) -> Claims | None:
        """Return the engine's data of an attempt's DAG, read-only; None if none was reported."""
        with self._lock:
            return self._claims.get(attempt)

    def summary(self) -> str:
        """Return a short description of the problems; empty if there are none."""
        refused = (
            f"{counted(self._refused, 'request')} for plans or reports beyond what is allowed" if self._refused else ""
        )
        return "; ".join(filter(None, (self.problem(), refused)))

    def problem(self) -> str:
        """Return why there are no plans; empty if there are."""
        return self._problem and f"no plans, tried again soon: {self._problem}"

    # For the recorder of jobs.

    def take_stages(self, application: str) -> tuple[StageRun, ...]:
        """Return once the stages that an application's driver has reported; waits for `TAKE_S` at most.

        Without a listener the result is empty: a listener's data end with its process.
        """
        with self._answered:
            self._stages[application] = None
            if self.listening:
                self._enqueue("take", application)
            self._answered.wait_for(lambda: self._stages[application] is not None or not self.listening, TAKE_S)
            stages = self._stages.pop(application)
        try:
            return runs_of(stages or [])
        except MessageError as error:
            _log.warning("stages of %s are not remembered: %s", application, error)
            return ()

    # The process.

    def _enqueue(self, *elements: Any) -> None:
        with self._changed:
            if len(self._lines) >= LINES_MAX:
                self._lines.clear()
                if self._child is not None:
                    self._child.kill()  # its successor gets the state of that moment
            self._lines.append(elements)
            self._changed.notify()

    def _run(self) -> None:
        pause_s = PAUSE_S
        while not self._closed.is_set():
            began_s = time.monotonic()
            try:
                self._run_once()
            except Exception as error:  # any error of the process: another one is started
                self._fail(f"the plan listener: {printable(str(error)) or type(error).__name__}")
            if time.monotonic() - began_s > PAUSE_MAX_S:
                pause_s = PAUSE_S
            if not self._closed.wait(pause_s):
                _log.warning("the plan listener is restarted")
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _run_once(self) -> None:
        """Start a process and handle its messages until it ends."""
        self._has_failed = False
        child = self._child = self._start()
        if self._closed.is_set():
            child.kill()
        over, code = ThreadEvent(), None
        writer = Thread(target=self._write, args=(child, over), name="to the plan listener", daemon=True)
        writer.start()
        try:
            while (message := read_frame(child.stdout)) is not None:
                self._handle(*message)
        finally:
            child.kill()
            with self._changed:
                over.set()
                self._changed.notify_all()
            with self._answered:
                self.listening = False
                self._answered.notify_all()
            writer.join()
            code = child.close()
            self._forget()
        if self._closed.is_set() or self._has_failed:
            return
        if code is None:
            self._fail(f"the plan listener behind {self._socket} has ended; its own log says why")
        else:
            self._fail(f"the plan listener's process ended with code {code}")

    def _start(self) -> Child | Remote:
        """Start a process, or connect to one.

        Raises:
            UserError: the socket does not answer, or others could have put it there.
        """
        if self._socket:
            return Remote(connect(Path(self._socket), "listener.socket", "treadle-plans.socket"))
        # not a session: it would get the same processor share as this one (`lower_priority`)
        return Child(self._command, {**ALLOCATOR, **os.environ}, group=0)

    def _write(self, child: Child | Remote, over: ThreadEvent) -> None:
        """Send a new process the whole state, and then the changes."""
        try:
            with self._changed:
                self._lines.clear()
                self._nodes_changed = True
            child.stdin.write(self._begin + b"".join(self._state_lines()))
            child.stdin.flush()
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: bool(self._lines) or self._nodes_changed or over.is_set())
                    words, nodes = list(self._lines), self._nodes if self._nodes_changed else None
                    self._lines.clear()
                    self._nodes_changed = False
                if over.is_set():
                    return
                if nodes is not None:  # how many there are of each kind
                    child.stdin.write(line("machines", list(Counter(nodes.values()).items())))
                child.stdin.write(b"".join(line(*word) for word in words))
                child.stdin.flush()
        except OSError as error:
            _log.info("the plan listener hears no more: %s", error)

    def _state_lines(self) -> list[bytes]:
        with self._lock:
            known = [(attempt, one, list(one.keys.items())) for attempt, one in self._known.items()]
        lines = []
        for attempt, one, keys in known:
            lines.append(line("meet", attempt, one.user, one.queue, one.type))
            lines += [line("key", attempt, number, key.hex()) for number, key in keys]
        return lines

    def _handle(self, kind: MessageKind, attempt: Attempt, content: bytes) -> None:
        """Take a frame of the process's.

        Raises:
            ValueError: it makes no sense.
        """
        match kind:
            case MessageKind.CLAIMS:
                self._take_claims(attempt, read_claims(content))
            case MessageKind.RUN:
                self._remember(run_from_bytes(content))
            case MessageKind.STAGES:
                application, stages = stages_from_bytes(content)
                with self._answered:
                    if application in self._stages:
                        self._stages[application] = stages
                    self._answered.notify_all()
            case MessageKind.REFUSED:
                self._refused = int(json.loads(content))
            case MessageKind.READY:
                self.port, self._problem = int(json.loads(content)), ""
                self.listening = True
                self._first_outcome.set()
                _log.info("application masters may ask for plans at %s port %d", self._address, self.port)
            case MessageKind.PROBLEM:
                self._has_failed = True
                self._fail(printable(content.decode("utf-8", "replace")))

    def _take_claims(self, attempt: Attempt, claims: Claims) -> None:
        with self._lock:
            known = self._known.get(attempt)
            if known is not None:
                self._claims.put(attempt, known.user, claims, claims.nbytes)
                self._updates.put(known.user, attempt)

    def _forget(self) -> None:
        """Drop all received data: its sender is gone."""
        with self._lock:
            for attempt, known in self._known.items():
                if attempt in self._claims:
                    self._claims.put(attempt, known.user, read_claims(b""), 0)
                    self._updates.put(known.user, attempt)

    def _fail(self, problem: str) -> None:
        if problem != self._problem:  # the same reason at each retry needs no second report
            _log.error("%s", problem)
        self._problem = problem
        self._first_outcome.set()


LOOKED_MAX: Final = 8
"""Applications that are looked at between two decides; the others wait for their turn, each user's in turn."""

ROWS_MAX: Final = 1_000
"""Request keys with hints between two decides."""

KEYS_MAX: Final = 3_000
"""Request keys of an application that may have hints; a DAG that is planned has no more priorities."""

_NOTHING: Final = np.array([(0, -1, -1, -1, -1.0)], CLAIM)
_HINT_COLUMNS: Final = ("tasks", "duration_ms", "deviation_ms", "score")


@dataclass(eq=False)
class _Application:
    attempt: Attempt
    user: str
    priorities: dict[int, int] = field(default_factory=dict)
    """By request key, in order of their coming: that of the rows below."""
    sent: Claims = field(default_factory=lambda: np.zeros(0, CLAIM))
    """Data sent to the engine for each request key; empty for keys after the last one."""
    is_sent: Any = field(default_factory=lambda: np.zeros(0, bool))
    """Was it given anything?"""
    sent_before: frozenset[int] = frozenset()
    """Priorities of request keys that had hints before a snapshot, which gave them other keys."""

    def priorities_sent(self) -> frozenset[int]:
        """Return the priorities of request keys that the engine has hints for."""
        priorities = zip(self.priorities.values(), self.is_sent.tolist(), strict=False)
        return self.sent_before.union(priority for priority, said in priorities if said)

    def forget(self) -> None:
        """Handle an engine without data, whose request keys will be assigned again."""
        self.priorities.clear()
        self.sent, self.is_sent = self.sent[:0], self.is_sent[:0]
        self.sent_before = frozenset()

    def changes(self, claims: Claims | None, most: int) -> tuple[Any, Any, bool]:
        """Take the hints that are due, for at most this many request keys.

        Returns:
            the keys, the data to send of each, and whether there is more
        """
        many = len(self.priorities)
        if len(self.sent) < many:
            self.sent = np.concatenate([self.sent, np.repeat(_NOTHING, many - len(self.sent))])
            self.is_sent = np.concatenate([self.is_sent, np.zeros(many - len(self.is_sent), bool)])
        known = _NOTHING[:0] if claims is None else claims
        priorities = np.fromiter(self.priorities.values(), np.int64, many)
        at = np.searchsorted(known["priority"], priorities)
        at[at >= len(known)] = 0
        there = known["priority"][at] == priorities if len(known) else np.zeros(many, bool)
        now = np.repeat(_NOTHING, many)
        now[there] = known[at[there]]
        differs = np.zeros(many, bool)
        for name in _HINT_COLUMNS:
            differs |= now[name] != self.sent[name]
        unsure = np.isin(priorities, list(self.sent_before))
        changed = np.flatnonzero(((there | unsure) & ~self.is_sent) | (self.is_sent & differs))
        rows, more = changed[:most], len(changed) > most
        self.sent[rows], self.is_sent[rows] = now[rows], True
        return np.fromiter(self.priorities, np.int64, many)[rows], now[rows], more


class PlanEventSource(Listener):
    """Sends an engine the vertex of each request key in a plan, and the durations of its tasks."""

    def __init__(self, side: PlanLink) -> None:
        self._link = side
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
            self._link.forget_attempt(attempt)
        self._before.clear()
        return self._new_events()

    def again(self, applications: Iterable[int]) -> None:
        """Return all that is known of some applications with the next frames, as if it were new."""
        for index in applications:
            if (known := self._applications.get(index)) is not None:
                known.sent, known.is_sent = known.sent[:0], known.is_sent[:0]
                self._waiting.put(known.user, index)

    def forget(self) -> None:
        """Handle an engine that fails repeatedly: send none of the current data again."""
        self._waiting.clear()
        for application in self._applications.values():
            application.forget()

    def summary(self) -> str:
        """Return the number of known DAGs and the problems, in a few words."""
        planned = f"{counted(len(self._planned), 'DAG')} by their application masters" if self._planned else ""
        return "; ".join(filter(None, (planned, self._link.summary())))

    def warnings(self) -> Sequence[str]:
        """Return warnings for the administrator: why there are no plans."""
        return tuple(filter(None, (self._link.problem(),)))

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
        # Nearly all frames change free resources alone.
        if changed:
            self._nodes = {node: has for node, has in (self._nodes | changed).items() if has is not None}
            self._link.set_machines(self._nodes)

    def _follow_applications(self, event: events.Applications) -> None:
        ended = event.ended()
        for row, index in enumerate(event.application.tolist()):
            if ended[row]:
                self._forget_attempt(index)
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
            self._link.register_attempt(attempt, user, queue, type_)

    def _forget_attempt(self, index: int) -> None:
        """Forget an attempt that has ended."""
        gone = self._applications.pop(index, None)
        if gone is not None:
            self._waiting.discard(gone.user, index)
            self._planned.discard(index)
            self._index.pop(gone.attempt, None)
            self._link.forget_attempt(gone.attempt)

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
                self._link.give_key(application.attempt, int(event.number[row]), key)

    def _new_events(self) -> Sequence[Event]:
        """Collect events of applications with new data, up to the bound."""
        for _ in range(LOOKED_MAX):
            attempt = self._link.next_update()
            if attempt is None:
                break
            if (index := self._index.get(attempt)) is not None:
                self._waiting.put(self._applications[index].user, index)
        events, left, again = [], ROWS_MAX, []
        for _ in range(LOOKED_MAX):
            if not self._waiting or not left:
                break
            user, index = self._waiting.pop()
            application = self._applications[index]
            claims = self._link.claims(application.attempt)
            keys, rows, more = application.changes(claims, left)
            if claims is not None and len(claims):
                self._planned.add(index)
            else:
                self._planned.discard(index)
            if more:
                again.append((user, index))
            if len(keys):
                events.append((np.full(len(keys), index, np.int32), keys.astype(np.int32), rows))
                left -= len(keys)
        for user, index in again:
            self._waiting.put(user, index)
        return _events(*(np.concatenate(columns) for columns in zip(*events, strict=True))) if events else ()


def _events(application: Any, key: Any, rows: Any) -> Sequence[Event]:
    hints = {name: np.ascontiguousarray(rows[name]) for name in _HINT_COLUMNS}
    ranks = PlanRanks(application=application, key=key, score=hints.pop("score"))
    return ranks, TaskClaims(application=application, key=key, **hints)


def open_plans(
    settings: Settings,
    remember: Callable[[JobRun], None],
    ask_stages: Callable[[Callable[[str], Sequence[StageRun]]], None],
) -> PlanEventSource | None:
    """Open the plan listener that the settings name; one that cannot listen is tried again, which it reports.

    Args:
        settings: those to follow, as long as the process runs
        remember: is given each DAG that has succeeded
        ask_stages: is given the function that returns the stages of an application that has

    Returns:
        the source of plans for the engine; None without an address
    """
    if not settings.listener.address:
        return None
    link = PlanLink(settings, remember)
    link.start()
    ask_stages(link.take_stages)
    return PlanEventSource(link)
