"""The comparison in `observe_only` mode: containers that the CapacityScheduler placed, and those that Treadle proposed.

See docs/running-it.md. All times are the ResourceManager's, from frames, in milliseconds since 1970: this module reads
no clock and no file. Nodes are indices of frames. All stored state is bounded, and discarded entries are counted.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from treadle.errors import printable
from treadle.events import ContainerEvent, Containers, Fate, Fates, Proposals
from treadle.sidecar.conversation import Application, IndexLookup, Listener, Tick
from treadle.wire.frames import Frame

WINDOW_MS: Final = 1000
"""How long a placed container waits for its proposal, and how long a proposal that is not repeated counts. A longer
interruption of the frames is a loss."""

REJECTIONS_KEPT_MS: Final = 600_000
"""How long a rejection is known to be a repeated one."""

CONTAINERS_MAX: Final = 1000
"""Proposed containers, and placed ones, of an application and priority."""
NAMES_MAX: Final = 1000
"""Queues that have figures of their own, and types of applications."""
NAME_CHARS_MAX: Final = 256
OTHERS: Final = "(others)"

Count = Annotated[int, Field(ge=0, le=1 << 53)]
Name = Annotated[str, Field(max_length=NAME_CHARS_MAX)]
Tallies = Annotated[dict[Name, "Tally"], Field(max_length=NAMES_MAX + 1)]


@dataclass(slots=True)
class Tally:
    """The containers that the CapacityScheduler placed, compared with proposals: of all, of a queue, or of a type."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    same_node: Count = 0
    other_node: Count = 0
    capacity_scheduler_only: Count = 0
    """Not proposed."""
    earlier: Count = 0
    earlier_ms: Count = 0
    later: Count = 0
    later_ms: Count = 0
    """Containers proposed before and after their placement, and the sums of the time differences, ms."""


class Figures(BaseModel):
    """All that is counted, and outlives a sidecar."""

    model_config = ConfigDict(extra="forbid", strict=True)

    since_ms: Annotated[int, Field(ge=0, le=1 << 47)] = 0
    """When counting began; 0: it has not."""
    seen_ms: Count = 0
    """The time of the latest frame."""
    stock_placements: Count = 0
    forgotten: Count = 0
    """Containers that could not be compared."""
    interruptions: Count = 0
    interrupted_ms: Count = 0
    """Number and total duration of gaps between frames; placements in a gap are not counted."""
    lost: Annotated[str, Field(max_length=1000)] = ""
    """Why earlier figures are lost; empty: none are."""
    would_reject: Annotated[dict[Name, Count], Field(max_length=len(Fate))] = Field(default_factory=dict)
    total: Tally = Field(default_factory=Tally)
    by_queue: Tallies = Field(default_factory=dict)
    by_framework: Tallies = Field(default_factory=dict)

    def tallies(self, queue: str, framework: str) -> tuple[Tally, Tally, Tally]:
        """Return those that count a container of a queue and a type of applications."""
        return self.total, _named(self.by_queue, queue), _named(self.by_framework, framework)

    def reject(self, fate: int) -> None:
        """Count a proposal that would have been rejected."""
        name = Fate(fate).name
        self.would_reject[name] = self.would_reject.get(name, 0) + 1


def _named(tallies: dict[str, Tally], name: str) -> Tally:
    if name in tallies:  # then it is printable
        return tallies[name]
    name = printable(name)[:NAME_CHARS_MAX]
    if name not in tallies and len(tallies) >= NAMES_MAX:
        name = OTHERS
    return tallies.setdefault(name, Tally())


@dataclass(slots=True, eq=False)
class _Container:
    """A container: first on a node at a time, and later still there or elsewhere."""

    node: int
    since_ms: int
    renewed_ms: int


@dataclass(slots=True)
class KnownContainers:
    """Containers of an application and priority, the oldest first, at most `CONTAINERS_MAX`."""

    every: dict[_Container, None] = field(default_factory=dict)
    _by_node: dict[int, list[_Container]] = field(default_factory=dict)

    def add(self, node: int, at_ms: int) -> bool:
        """Take one more; return whether there was room."""
        if len(self.every) >= CONTAINERS_MAX:
            return False
        made = _Container(node, at_ms, at_ms)
        self.every[made] = None
        self._by_node.setdefault(node, []).append(made)
        return True

    def pop(self, node: int) -> _Container | None:
        """Give up the oldest on a node, or else the oldest; None if there is none."""
        if not self.every:
            return None
        container = self._by_node[node][0] if node in self._by_node else next(iter(self.every))
        self._remove(container)
        return container

    def expire(self, now_ms: int) -> int:
        """Give up those that were not renewed for a window; return how many."""
        old = [each for each in self.every if now_ms - each.renewed_ms > WINDOW_MS]
        for each in old:
            self._remove(each)
        return len(old)

    def _remove(self, container: _Container) -> None:
        del self.every[container]
        here = self._by_node[container.node]
        here.remove(container)
        if not here:
            del self._by_node[container.node]


@dataclass(slots=True)
class Open:
    """The containers of an application and priority: which are proposed, and which were placed before that."""

    tallies: tuple[Tally, ...]
    proposed: KnownContainers = field(default_factory=KnownContainers)
    placed: KnownContainers = field(default_factory=KnownContainers)
    rejected: set[int] = field(default_factory=set)
    """Reasons for which proposals would have been rejected since the last placement."""
    rejected_ms: int = 0

    def propose(self, nodes: dict[int, int], at_ms: int) -> None:
        """Take the proposals of one answer: the number of containers by node.

        An engine repeats proposals in each answer until they are placed, so only those beyond the previous answer are
        new. A container keeps the node that was proposed first.
        """
        elsewhere = []
        for container in self.proposed.every:
            if _take_one(nodes, container.node):
                container.renewed_ms = at_ms
            else:
                elsewhere.append(container)
        for container in elsewhere:
            if not nodes:
                return
            _take_one(nodes, next(iter(nodes)))
            container.renewed_ms = at_ms
        for node, count in nodes.items():
            for _ in range(count):
                self.proposed.add(node, at_ms)

    def place(self, node: int, at_ms: int) -> None:
        """Take a container that the CapacityScheduler placed."""
        self.rejected.clear()
        proposed_times = self.proposed.pop(node)
        if proposed_times is not None:
            for tally in self.tallies:
                tally.earlier += 1
                tally.earlier_ms += max(at_ms - proposed_times.since_ms, 0)
            self._agree(proposed_times.node == node)
        elif not self.placed.add(node, at_ms):
            self._disagree(1)

    def propose_late(self, node: int, at_ms: int) -> None:
        """Take a proposal without a current request: a container may have been placed since the engine was asked."""
        containers = self.placed.pop(node)
        if containers is not None:
            for tally in self.tallies:
                tally.later += 1
                tally.later_ms += max(at_ms - containers.since_ms, 0)
            self._agree(containers.node == node)

    def is_new_rejection(self, fate: int, at_ms: int) -> bool:
        """Return whether this is the first rejection for that reason since the last placement."""
        self.rejected_ms = at_ms
        if fate in self.rejected:
            return False
        self.rejected.add(fate)
        return True

    def has_containers(self) -> bool:
        """Say whether any is proposed, or was placed and is not compared yet."""
        return bool(self.proposed.every or self.placed.every)

    def expire(self, now_ms: int) -> bool:
        """Count placements older than the window and forget expired proposals; return whether nothing is left."""
        self.proposed.expire(now_ms)
        if over := self.placed.expire(now_ms):
            self._disagree(over)
        return not (self.has_containers() or (self.rejected and now_ms - self.rejected_ms <= REJECTIONS_KEPT_MS))

    def _agree(self, same_node: bool) -> None:
        for tally in self.tallies:
            if same_node:
                tally.same_node += 1
            else:
                tally.other_node += 1

    def _disagree(self, containers: int) -> None:
        for tally in self.tallies:
            tally.capacity_scheduler_only += containers


def _take_one(nodes: dict[int, int], node: int) -> bool:
    """Remove a container from a node; return whether there was one."""
    left = nodes.get(node, 0)
    if left > 1:
        nodes[node] = left - 1
    elif left:
        del nodes[node]
    return left > 0


_log = logging.getLogger(__name__)

OPEN_MAX: Final = 20_000
"""Applications and priorities that are compared at a time."""
PRIORITIES_MAX: Final = 1000
"""Priorities of one application."""
COUNTED_MAX: Final = 1 << 14
"""Containers that are known to be counted, in case that they are sent again."""
ANSWERS_MAX: Final = 16
"""Maximum number of answers without fates."""

_NOT_ASKED_FOR: Final = frozenset({Fate.NO_PENDING_ASK, Fate.DUPLICATE})
_FOREVER_MS: Final = 1 << 62
_ATTEMPT_SHIFT: Final = 56
"""From this bit on the number of a container has its attempt, if a later one keeps it."""


class _Subject(NamedTuple):
    """Identifies the proposals and placements to compare, and the tallies that count them."""

    application: Application
    priority: int


@dataclass(slots=True)
class _Answer:
    """An answer and its fates from the ResourceManager so far, with their positions."""

    at_ms: int
    rows: list[tuple[_Subject, int] | None]
    """Whom each proposal is for, and on which node; None if that is not known."""
    fates: list[tuple[int, int]] = field(default_factory=list)


class Observation(Listener):
    """Compares frames with the answers to earlier ones. For one thread that decides, and any that read.

    A comparison that fails stops, and reports it: decisions go on.
    """

    def __init__(self, figures: Figures | None = None) -> None:
        """Go on with figures; without any at 0."""
        self._lock = Lock()
        self._figures = figures or Figures()
        self._open: dict[int, dict[int, Open]] = {}
        """By application and priority; the oldest first."""
        self._opened = 0
        self._recent: set[tuple[int, int]] = set()
        """Application and priority of entries with containers, or added since `_expire`. Entries with rejections alone
        are not included; they stay much longer."""
        self._applications: dict[int, Application | None] = {}
        """By index, those of the latest frame that were looked up."""
        self._answers: dict[int, _Answer] = {}
        """By the frame that was answered."""
        self._placements: list[tuple[int, _Subject, int]] = []
        """Time, subject and node of each placement in a frame whose parts have not all come."""
        self._counted: OrderedDict[tuple[int, int, int], None] = OrderedDict()
        """Application, attempt and number of containers that were counted, the oldest first."""
        self._floor_ms = 0
        """Containers that were created until then count no more."""
        self._in_snapshot = False
        self._expired_ms = self._all_expired_ms = 0
        self.unsaved = ""
        """Why the figures cannot be saved; empty if they can."""
        self._stopped = ""

    def taken(self, tick: Tick) -> None:
        """Take a frame, which the cluster of the tick has taken before."""
        frame, known = tick.frame, tick.cluster
        if frame is not None and known is not None:
            self._safely(lambda: self._take(frame, known))

    def end(self, tick: Tick) -> None:
        """Take the answer to a frame; the cluster of the tick resolves its indices."""
        frame, known, made = tick.frame, tick.cluster, tick.proposals
        if frame is not None and known is not None and frame.header.observe and len(made):
            at_ms = frame.header.rm_time_ms + tick.decide_us // 1000
            self._safely(lambda: self._await(frame.header.sequence, _Answer(at_ms, self._rows(made, known))))

    def shown(self) -> dict[str, Any]:
        """Return the figures so far, for JSON; docs/watch.md describes the fields."""
        with self._lock:
            waiting: dict[int, int] = {}
            for each in (each for mine in self._open.values() for each in mine.values()):
                for tally in each.tallies:
                    waiting[id(tally)] = waiting.get(id(tally), 0) + len(each.proposed.every)

            def plain(tally: Tally) -> dict[str, int]:
                return {**asdict(tally), "waiting": waiting.get(id(tally), 0)}

            figures = self._figures
            return {
                "since_ms": figures.since_ms,
                "window_ms": WINDOW_MS,
                "stock_placements": figures.stock_placements,
                "forgotten": figures.forgotten,
                "interruptions": figures.interruptions,
                "interrupted_ms": figures.interrupted_ms,
                "would_reject": dict(figures.would_reject),
                "warnings": [text for text in (figures.lost, *self.warnings()) if text],
                "total": plain(figures.total),
                "by_queue": {name: plain(tally) for name, tally in sorted(figures.by_queue.items())},
                "by_framework": {name: plain(tally) for name, tally in sorted(figures.by_framework.items())},
            }

    def warnings(self) -> tuple[str, ...]:
        """Return the current problems."""
        return tuple(filter(None, (self.unsaved, self._stopped)))

    def document(self) -> str:
        """Return the figures in JSON; empty if there are none."""
        with self._lock:
            return self._figures.model_dump_json() if self._figures.since_ms or self._figures.lost else ""

    def _safely(self, step: Callable[[], None]) -> None:
        with self._lock:
            if self._stopped:
                return
            try:
                step()
            except Exception as error:
                _log.exception("what observe_only finds is not compared any more")
                reason = printable(f"{type(error).__name__}: {error}")[:200]
                self._stopped = f"the comparison of observe_only has stopped until the sidecar starts again: {reason}"

    def _rows(self, proposals: Proposals, known: IndexLookup) -> list[tuple[_Subject, int] | None]:
        """Return the application and priority, and the node, of each proposal; None where one of them is unknown."""
        subjects: dict[tuple[int, int], _Subject | None] = {}
        rows: list[tuple[_Subject, int] | None] = []
        columns = (proposals.application.tolist(), proposals.key.tolist(), proposals.node.tolist())
        for application, key, node in zip(*columns, strict=True):
            if (application, key) not in subjects:
                known_application, priority = self._application(application, known), known.priority_of(application, key)
                subjects[application, key] = (
                    None if known_application is None or priority is None else _Subject(known_application, priority)
                )
            subject = subjects[application, key]
            rows.append(None if subject is None else (subject, node))
        return rows

    def _await(self, sequence: int, answer: _Answer) -> None:
        self._answers[sequence] = answer
        if len(self._answers) > ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]

    def _take(self, frame: Frame, known: IndexLookup) -> None:
        header, now_ms = frame.header, frame.header.rm_time_ms
        self._applications.clear()
        if header.snapshot:
            self._begin(now_ms, header.observe)
        self._floor_ms = min(self._floor_ms, now_ms)  # of a clock that was set back
        for event in frame.events:
            if isinstance(event, Containers) and header.observe:
                self._read_containers(event, known)
            elif isinstance(event, Fates) and self._answers:
                self._read_fates(event)
        if header.more:
            return
        self._in_snapshot = False
        if header.observe and not self._figures.since_ms:
            self._figures.since_ms = now_ms
        self._compare()
        self._expire(now_ms)
        self._figures.seen_ms = now_ms

    def _begin(self, now_ms: int, observe: bool) -> None:
        """Take a snapshot: indices mean others, containers that live come again, and the last answer gets no fates."""
        figures = self._figures
        self._let_go(_FOREVER_MS, every=True)
        missed_ms = now_ms - figures.seen_ms
        self._floor_ms, self._in_snapshot = now_ms, True
        self._answers.clear()
        if 0 <= missed_ms <= WINDOW_MS:
            self._floor_ms = figures.seen_ms
        elif figures.since_ms and observe:
            figures.interruptions += 1
            figures.interrupted_ms += max(missed_ms, 0)

    def _read_containers(self, event: Containers, known: IndexLookup) -> None:
        new = event.event != ContainerEvent.COMPLETED if self._in_snapshot else event.event == ContainerEvent.ALLOCATED
        new = new & (event.by_treadle == 0) & (event.node >= 0) & (event.created_ms > self._floor_ms)
        before, forgotten = len(self._placements), 0
        columns = (event.application, event.container, event.priority, event.time_ms, event.node)
        for index, number, priority, at_ms, node in zip(*(column[new].tolist() for column in columns), strict=True):
            application = self._application(index, known)
            if application is None:  # it ended before its container was reported
                forgotten += 1
                continue
            attempt, own = number >> _ATTEMPT_SHIFT, number & ((1 << _ATTEMPT_SHIFT) - 1)
            container = application.id, attempt or application.attempt, own
            if container in self._counted:
                continue
            self._counted[container] = None
            if len(self._counted) > COUNTED_MAX:
                self._counted.popitem(last=False)
            self._placements.append((at_ms, _Subject(application, priority), node))
        self._figures.stock_placements += forgotten + len(self._placements) - before
        self._figures.forgotten += forgotten

    def _application(self, index: int, known: IndexLookup) -> Application | None:
        if index not in self._applications:
            self._applications[index] = known.application_at(index)
        return self._applications[index]

    def _read_fates(self, event: Fates) -> None:
        for sequence in np.unique(event.sequence).tolist():
            answer = self._answers.get(sequence)
            if answer is not None:
                mine = event.sequence == sequence
                answer.fates += zip(event.position[mine].tolist(), event.fate[mine].tolist(), strict=True)

    def _compare(self) -> None:
        """Compare in the order in which things happened; answers have the time at which they were given."""
        placements = deque(sorted(self._placements, key=lambda placement: placement[0]))
        self._placements = []
        late: list[tuple[_Subject, int, int]] = []
        for sequence in [sequence for sequence, answer in self._answers.items() if answer.fates]:
            answer = self._answers.pop(sequence)
            while placements and placements[0][0] < answer.at_ms:
                placed_ms, subject, node = placements.popleft()
                self._open_of(subject).place(node, placed_ms)
            late += self._propose(answer)
        for placed_ms, subject, node in placements:
            self._open_of(subject).place(node, placed_ms)
        for subject, node, at_ms in late:  # includes placements made while the answer was on its way
            self._open_of(subject).propose_late(node, at_ms)

    def _propose(self, answer: _Answer) -> list[tuple[_Subject, int, int]]:
        """Take the proposals of an answer; return those without a current request."""
        nodes: dict[_Subject, dict[int, int]] = {}
        late = []
        for position, fate in answer.fates:
            row = answer.rows[position] if position < len(answer.rows) else None
            if row is None:
                continue
            subject, node = row
            if fate == Fate.OBSERVED:
                counts = nodes.setdefault(subject, {})
                counts[node] = counts.get(node, 0) + 1
            elif fate in _NOT_ASKED_FOR:
                late.append((subject, node, answer.at_ms))
            elif self._open_of(subject).is_new_rejection(fate, answer.at_ms):
                self._figures.reject(fate)
        for subject, counts in nodes.items():
            self._open_of(subject).propose(counts, answer.at_ms)
        return late

    def _open_of(self, subject: _Subject) -> Open:
        application, priority = subject
        self._recent.add((application.id, priority))
        mine = self._open.get(application.id, {})
        if priority in mine:
            return mine[priority]
        if len(mine) >= PRIORITIES_MAX:
            self._forget(application.id)
        elif self._opened >= OPEN_MAX:
            self._forget(next(iter(self._open)))
        made = Open(self._figures.tallies(application.queue, application.type or "YARN"))
        self._open.setdefault(application.id, {})[priority] = made
        self._opened += 1
        return made

    def _forget(self, application: int) -> None:
        """Give up the oldest of an application's priorities."""
        forgotten = self._remove(application, next(iter(self._open[application])))
        self._figures.forgotten += max(len(forgotten.placed.every), 1)

    def _remove(self, application: int, priority: int) -> Open:
        mine = self._open[application]
        removed = mine.pop(priority)
        if not mine:
            del self._open[application]
        self._opened -= 1
        self._recent.discard((application, priority))
        return removed

    def _expire(self, now_ms: int) -> None:
        """Expire old entries; frequent calls cost little."""
        if 0 <= now_ms - self._expired_ms < WINDOW_MS // 10:
            return
        back = now_ms < self._expired_ms  # a clock that was set back ends all that is compared
        every = back or now_ms - self._all_expired_ms >= WINDOW_MS
        self._let_go(_FOREVER_MS if back else now_ms, every=every)
        self._expired_ms = now_ms
        self._all_expired_ms = now_ms if every else self._all_expired_ms

    def _let_go(self, until_ms: int, *, every: bool) -> None:
        """Expire entries older than ``until_ms``; with ``every`` also those that have only rejections."""
        which = set(self._recent)
        for application, mine in self._open.items() if every else ():
            which.update(
                (application, at) for at, each in mine.items() if until_ms - each.rejected_ms > REJECTIONS_KEPT_MS
            )
        for application, priority in which:
            each = self._open[application][priority]
            if each.expire(until_ms):
                self._remove(application, priority)
            elif not each.has_containers():
                self._recent.discard((application, priority))
