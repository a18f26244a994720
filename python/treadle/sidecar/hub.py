"""Several engines as one: a frame of the ResourceManager in, each engine's own frame out, and their answers merged.

No engine waits for another: one that is deciding when a frame arrives gets the changes later, all at once.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from threading import Condition
from typing import Any, Final

import numpy as np

from treadle.config.settings import GANG_MAX, RosterEngine
from treadle.errors import ConfigError, printable
from treadle.events import (
    NOTHING_HELD,
    Applications,
    ApplicationState,
    ContainerEvent,
    Containers,
    Event,
    Fates,
    Held,
    Snapshot,
)
from treadle.sidecar.child import ChildProcess, Work
from treadle.sidecar.conversation import FAILURES_MAX, Conversation, Listener, Tick
from treadle.sidecar.merge import REPORT_INTERVAL_MS, Bidder, Merge, Offer, Report, check_answer, merge_into
from treadle.sidecar.mirror import Feed, Mirror
from treadle.sidecar.roster import NEVER, Asking, Move, Roster
from treadle.wire.answer import decode_answer, rows_within
from treadle.wire.frames import Frame, FrameEncoder, FrameFlag, FrameHeader
from treadle.yarn.codes import application_id

_log = logging.getLogger(__name__)

LEASE_MS: Final = 2000
TICK_MS: Final = 10
BATCH: Final = 48
"""The ResourceManager's defaults, until a frame has its settings."""

REMEMBERED_MAX: Final = 256
"""Things that wait for an engine that does not live; beyond, the oldest is dropped."""

_TEXT_MAX: Final = 200
"""Maximum length of an engine's texts in the log and in applications' diagnostics."""

_NUMBER: Final = 0xFFFFFFFF

CLAIMS_EVERY_MS: Final = 1000
"""So seldom it is looked for asks beyond claims."""

_KNOWN_SPARE: Final = 1024
"""So many applications more than twice those that run are remembered, for their next attempts."""


class _Engine(Bidder):
    """An engine of the roster as the hub sees it."""

    def __init__(self, row: RosterEngine, child: ChildProcess, mirror: Mirror, now_ms: int) -> None:
        super().__init__(row, now_ms)
        self.child = child
        self.feed, self.encoder = Feed(mirror), FrameEncoder()
        self.sequence = self.base = self.begun = 0
        self.rows_max = 0
        """Maximum number of proposals in its next answer."""
        self.is_deciding = False
        """Has it work that it has not answered?"""
        self.rejected_answers = 0
        """How many of its answers in a row were not used?"""
        self.has_died = False
        """Has it been alive, and then not?"""
        self.events: list[Event] = []
        self.remembered: deque[object] = deque(maxlen=REMEMBERED_MAX)
        self.report = Report()
        self.held = NOTHING_HELD
        """The nodes that it reserves, according to its latest answer."""


class Hub(Conversation):
    """Answers the frames of one ResourceManager for all engines of a roster. `decide` is for one thread at a time."""

    def __init__(
        self,
        roster: Sequence[RosterEngine],
        make_child: Callable[[RosterEngine, Condition], ChildProcess],
        *,
        clock_ns: Callable[[], int],
        read_roster: Callable[[], Future[Sequence[RosterEngine]]],
        listeners: Sequence[Listener] = (),
        on_end: Callable[[str, str], None] = lambda engine, application: None,
    ) -> None:
        """Start the engines.

        Args:
            roster: the engines, at least one
            make_child: starts one, which notifies the condition whenever it has answered, begun or ended
            clock_ns: a monotonic clock
            read_roster: has it read again, whenever the frames' configuration number changes
            listeners: see each tick, in order
            on_end: is called with the owner and YARN's id of an application that has ended; must not wait
        """
        super().__init__(listeners, clock_ns)
        self._changed = Condition()
        self._make_child, self._read_roster, self._on_end = make_child, read_roster, on_end
        self._mirror = Mirror()
        self._merge = Merge(self._mirror)
        self._roster = Roster(())
        self._engines: dict[str, _Engine] = {}
        self._key: dict[int, int] = {}
        """The roster's key of each running application, by index; the same for all its attempts."""
        self._index: dict[int, int] = {}
        self._tasks_unknown: set[int] = set()
        """Applications whose number of tasks matters and is not known yet, by index."""
        self._frames = self._snapshot_at = 0
        """How many have come, and how many had when the latest snapshot began."""
        self._configuration: int | None = None
        self._reading: Future[Sequence[RosterEngine]] | None = None
        self._beyond: set[int] = set()
        """Applications that ask for more than is left of their engine's claim."""
        self._claims_ms = -CLAIMS_EVERY_MS
        """When that was looked at."""
        self._given_up: dict[int, str] = {}
        """Messages for applications that were given up, by index."""
        self._has_new_status, self._report_ms = True, 0
        """Has any engine a new status? When are figures shown again?"""
        self._messages = 0
        """How many messages had engines sent when the lease was last renewed?"""
        self._follow_roster(roster)

    def _now_ms(self) -> int:
        return self._clock_ns() // 1_000_000

    @property
    def _lease_ms(self) -> int:
        return self._setting("lease-ms", LEASE_MS)

    def roster_json(self) -> dict[str, Any]:
        """Return each engine with all figures, and home and owner of applications by YARN's id."""
        with self._turn:
            owners = {}
            for key in filter(self._roster.__contains__, self._index):
                home, owner = self._roster.home(key), self._roster.owner(key)
                why = "given up" if self._roster.has_given_up(key) else ""
                owners[_yarn_id(key)] = [home, owner or "", why]
            return {"engines": self._figures(self._now_ms()), "applications": owners}

    def remember(self, thing: object, engine: str = "") -> None:
        """Queue a finished job for an engine, without a name the first; for any thread."""
        with self._turn:
            name = engine or next(iter(self._engines))
            if name in self._engines:
                self._engines[name].remembered.append(thing)

    # Frames

    def _take(self, tick: Tick, frame: Frame) -> None:
        """Pass a frame to the mirror, let engines decide, and take the part of their answers to send now."""
        self._has_new_status |= frame.header.snapshot
        self._mirror.take(frame.events)
        tick.cluster = self._mirror
        self._frames += not frame.header.more
        self._take_events(frame)
        for each in self._listeners:
            for external in each.collect(frame):
                self._divide_events(external)
        for each in self._listeners:
            each.taken(tick)
        if not frame.header.more:
            self._answer(tick, frame.header)
            self.failures = 0

    def _failed(self, error: Exception) -> None:
        _log.error("frame %d failed, a snapshot is awaited", self._sequence, exc_info=error)
        if self.failures >= FAILURES_MAX:
            raise error

    def _take_events(self, frame: Frame) -> None:
        for event in frame.events:
            match event:
                case Snapshot():
                    self._snapshot_at = self._frames + frame.header.more
                    self._key, self._index, self._tasks_unknown = {}, {}, set()
                    self._given_up = {}
                    self._claims_ms = -CLAIMS_EVERY_MS
                    self._merge.forget()
                    for engine in self._engines.values():
                        engine.forget()
                        engine.events, engine.owned, engine.held = [], set(), NOTHING_HELD
                        engine.report.forget()
                case Applications():
                    self._take_applications(event)
                case Containers():
                    native = (event.event == ContainerEvent.ALLOCATED) & (event.by_treadle == 0) & (event.node >= 0)
                    for node in event.node[native].tolist():
                        self._merge.changed(node, "", self._frames)
                case Fates():
                    self._merge.fates(event, self._frames)

    def _take_applications(self, event: Applications) -> None:
        columns = (event.application, event.cluster_timestamp, event.id, event.state)
        for index, timestamp, number, state in zip(*(column.tolist() for column in columns), strict=True):
            key = timestamp << 32 | number
            if state == ApplicationState.GONE:
                gone = self._key.pop(index, None)
                if gone is not None and self._index.get(gone) == index:
                    del self._index[gone]
                self._tasks_unknown.discard(index)
                for name, engine in self._engines.items():
                    if index in engine.owned:
                        engine.owned.discard(index)
                        self._on_end(name, _yarn_id(key if gone is None else gone))
            elif self._key.get(index) != key:
                self._key[index], self._index[key] = key, index
                self._tasks_unknown.add(index)

    def _divide_events(self, event: Any) -> None:
        """Send each engine the rows of an event that are about its own applications."""
        owner = np.array([self._owner(index) or "" for index in event.application.tolist()])
        for name in np.unique(owner).tolist():
            if engine := self._engines.get(name):
                fields = {field: getattr(event, field)[owner == name] for field in type(event).__slots__}
                engine.events.append(type(event)(**fields))

    # Owners of applications

    def _owner(self, index: int) -> str | None:
        key = self._key.get(index)
        return None if key is None else self._roster.owner(key)

    def _settle(self, now_ms: int) -> None:
        """Check which engines are alive, and assign each application to its owner."""
        for name, engine in self._engines.items():
            alive = engine.child.check_alive(self._lease_ms, round(1000 * engine.row.entry.decision_max_s))
            if engine.child.starts != engine.begun:
                self._begin_again(engine)
            if alive != self._roster.lives(name):
                _log.warning("engine %s is %s", name, "alive" if alive else "dead")
                steady, engine.has_died, self._report_ms = not engine.has_died, engine.has_died or not alive, 0
                roster = self._roster
                if not alive:  # no changes are stored for it from now on
                    engine.feed.begin_again()
                self._move(roster.returns(name, now_ms, steady=steady) if alive else roster.dies(name, now_ms))
        self._assign_new(now_ms)
        if NEVER < self._roster.next_ms() <= now_ms:
            self._move(self._roster.settle(now_ms))

    def _begin_again(self, engine: _Engine) -> None:
        """Reset an engine, so that it begins with a snapshot."""
        engine.begun = engine.counts.starts = engine.child.starts
        engine.forget()
        engine.feed.begin_again()
        engine.is_deciding, engine.rejected_answers, engine.report = False, 0, Report()

    def _assign_new(self, now_ms: int) -> None:
        """Assign homes to new applications; if tasks matter, again when their number is known."""
        if not self._tasks_unknown:
            return
        mirror, paths, asks = self._mirror, self._mirror.queue_paths(), self._mirror.asks()
        columns, texts, containers = mirror.applications.columns, mirror.texts, mirror.usage.columns["containers"]
        by_tasks = any(row.entry.select.tasks_min or row.entry.select.tasks_max for row in self._roster.engines)
        for index in sorted(self._tasks_unknown):
            key, count = self._key[index], int(asks[index])
            runs = count > 0 and not columns["awaiting_am"][index]
            if key not in self._roster or (by_tasks and runs):
                held = int(containers[index]) if index < len(containers) else 0
                tasks = count + max(held - 1, 0) if runs else 0
                queue, type_, user = (int(columns[name][index]) for name in ("queue", "type_name", "user_name"))
                asking = Asking(
                    key & _NUMBER, paths.get(queue, ""), texts[type_], texts[user], mirror.tags_of(index), tasks
                )
                self._roster.begin(key, asking, now_ms)
            self._assign(index, self._roster.owner(key))
            if runs or not by_tasks:
                self._tasks_unknown.discard(index)
        self._roster.keep(self._index, 2 * len(self._index) + _KNOWN_SPARE)

    def _move(self, moves: Iterable[Move]) -> None:
        """Change the owners of running applications."""
        for move in moves:
            if move.application in self._index:
                self._assign(self._index[move.application], move.after)

    def _assign(self, index: int, owner: str | None) -> None:
        """Assign an application to one engine alone."""
        for name, engine in self._engines.items():
            if index in engine.owned and name != owner:
                engine.owned.discard(index)
                engine.feed.lose(index)
                engine.counts.moved += 1
            elif index not in engine.owned and name == owner:
                engine.owned.add(index)
                engine.feed.serve(index)
                self._tell_again((index,))

    def _tell_again(self, applications: Iterable[int]) -> None:
        for each in self._listeners:
            each.again(applications)

    def _unserved(self, proposals: int) -> bool:
        """Return whether an application has requests and no live engine serves it, or no engine shows life.

        Only signs of life renew the lease: it ends one lease after the last live engine has stopped.
        """
        living = [name for name in self._engines if self._roster.lives(name)]
        before, self._messages = self._messages, sum(engine.child.messages for engine in self._engines.values())
        if not living or (self._messages == before and not proposals):
            return True
        if len(living) == len(self._engines):
            return False
        asks = self._mirror.asks()
        return any(asks[index] and self._roster.owner(key) not in living for key, index in self._index.items())

    # Other rosters

    def _reconfigure(self, configuration: int, now_ms: int) -> None:
        """Have the roster read again if the number changed."""
        before, self._configuration = self._configuration, configuration
        if before is not None and before != configuration:
            self._reading = self._read_roster()
            for engine in self._engines.values():
                engine.child.retry()
        if self._reading is None or not self._reading.done():
            return
        reading, self._reading = self._reading, None
        try:
            roster = reading.result()
        except ConfigError as error:  # engines report this too, in more detail
            _log.warning("the roster stays: %s", "; ".join(error.lines()))
            return
        if roster:  # without a roster each engine reports the remedy
            self._follow_roster(roster)

    def _follow_roster(self, roster: Sequence[RosterEngine]) -> None:
        now_ms = self._now_ms()
        before = self._engines
        self._engines = {}
        for row in roster:
            engine = before.pop(row.name, None)
            if engine is None:
                engine = _Engine(row, self._make_child(row, self._changed), self._mirror, now_ms)
            engine.row = row
            self._engines[row.name] = engine
        for engine in before.values():
            engine.child.close()
        self._report_ms = 0
        self._move(self._roster.replace(roster, now_ms, living=()))

    # Answers

    def _answer(self, tick: Tick, header: FrameHeader) -> None:
        now_ms, reply_max_bytes = self._now_ms(), tick.reply_max_bytes
        assert reply_max_bytes is not None
        self._reconfigure(header.configuration, now_ms)
        self._settle(now_ms)
        engines = list(self._engines.values())
        for engine in engines:
            self._receive(engine, now_ms)
        rows_max = rows_within(reply_max_bytes, transactions=True)
        deciding = [each for each in engines if each.offer is None and not each.is_deciding and each.child.idle]
        for engine in deciding:
            engine.rows_max = max(0, min(header.limit + GANG_MAX - 1, rows_max))
            self._ask(engine, header, reply_max_bytes)
        with self._changed:
            tick_s = self._setting("tick-ms", TICK_MS) / 1000
            self._changed.wait_for(lambda: not any(each.child.busy for each in deciding), tick_s)
        for engine in deciding:
            self._receive(engine, now_ms)
        limit = min(header.limit, rows_max)
        batch = self._setting("batch-size", BATCH)
        merged = self._merge.answer(engines, header.sequence, limit, rows_max, batch)
        tick.again = any(
            each.is_deciding or each.offer is not None for each in engines if self._roster.lives(each.row.name)
        )
        tick.status = self._report(now_ms)
        tick.unserved, tick.held = self._unserved(len(merged)), self._held(now_ms)
        tick.proposals = merged

    def _held(self, now_ms: int) -> Held:
        """Return the engines' reservations for their own applications, and requests beyond their claims."""
        if not 0 <= now_ms - self._claims_ms < CLAIMS_EVERY_MS:
            self._claims_ms, self._beyond = now_ms, self._merge.beyond_claims(list(self._engines.values()))
        applications, nodes = set(self._beyond), set[int]()
        for engine in self._engines.values():
            applications |= engine.owned & set(engine.held.applications.tolist())
            nodes.update(engine.held.nodes.tolist())
        if not applications and not nodes:
            return NOTHING_HELD
        return Held(*(np.array(sorted(found), np.int32) for found in (applications, nodes)))

    def _ask(self, engine: _Engine, header: FrameHeader, reply_max_bytes: int) -> None:
        """Send an engine the changes since its last frame."""
        events = engine.feed.read()
        snapshot = bool(events) and isinstance(events[0], Snapshot)
        if snapshot:
            engine.encoder, engine.events = FrameEncoder(), []
            engine.fates.clear()
            self._tell_again(engine.owned)
        engine.sequence += 1
        engine.base, engine.is_deciding = self._frames, True
        flags = header.flags & FrameFlag.OBSERVE | (FrameFlag.SNAPSHOT if snapshot else 0)
        own = header._replace(flags=int(flags), sequence=engine.sequence)
        frame = engine.encoder.encode(own, [*events, *engine.unsent_fates()])
        work = Work(frame, reply_max_bytes, tuple(engine.events), tuple(engine.remembered), self._lease_ms)
        engine.events = []
        engine.remembered.clear()
        engine.child.begin(work)

    def _receive(self, engine: _Engine, now_ms: int) -> None:
        """Take an engine's answer, if there is one."""
        content = engine.child.take()
        if content is None or not engine.is_deciding:
            return
        engine.is_deciding = False
        try:
            answer = decode_answer(content, engine.rows_max)
            check_answer(answer, engine.sequence)
            engine.report.take(answer.status, fresh=engine.base >= self._snapshot_at)
            engine.held = answer.held if engine.base >= self._snapshot_at else NOTHING_HELD
            engine_status = engine.report.status
            engine_status.diagnostics = [each for each in engine_status.diagnostics if each[0] in engine.owned]
            self._has_new_status |= bool(answer.status)
        except ValueError as error:
            _log.warning("engine %s: its answer is not used: %s", engine.row.name, _short_text(str(error)))
            engine.feed.begin_again()
            engine.rejected_answers += 1
            if engine.rejected_answers >= FAILURES_MAX:
                engine.child.fail(f"{engine.rejected_answers} of its answers in a row were wrong")
            return
        engine.rejected_answers = 0
        if answer.resend:
            engine.feed.begin_again()
        decide_us = min(max(0, answer.decide_us), round(1_000_000 * engine.row.entry.decision_max_s))
        offer = Offer(engine.sequence, answer.proposals, decide_us, engine.base)
        if not len(offer.proposals):
            engine.counts.take(offer)
        else:
            engine.offer = offer
            if engine.base < self._snapshot_at:
                engine.forget()
        for index, why in engine_status.engines.given_up:
            self._give_up(engine, index, _short_text(why), now_ms)

    def _give_up(self, engine: _Engine, index: int, why: str, now_ms: int) -> None:
        key = self._key.get(index)
        if key is None or self._roster.owner(key) != engine.row.name:
            return
        move = self._roster.give_up(key, now_ms)
        if move is not None:
            _log.warning(
                "application %d of engine %s is served by %s from now on: %s", index, move.before, move.after, why
            )
            engine.counts.given_up += 1
            self._given_up[index] = f"{why}; engine {move.after} serves it now"
            self._move([move])

    def _setting(self, name: str, default: int) -> int:
        value = self._mirror.settings.get(name, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else default

    def _report(self, now_ms: int) -> str:
        """Return the status if it has changed; changes of figures alone are sent once an interval."""
        if not self._has_new_status and now_ms < self._report_ms:
            return ""
        self._has_new_status = False
        engines, status = self._engines, self._status
        problems = {name: engine.child.problem for name, engine in engines.items()}
        merge_into(status, {name: engine.report for name, engine in engines.items()}, problems)
        self._given_up = {index: text for index, text in self._given_up.items() if index in self._key}
        status.diagnostics = (*self._given_up.items(), *status.diagnostics)
        known = (each.summary() for each in self._listeners)
        status.learned = "; ".join(filter(None, (status.learned, *known)))
        warnings = (warning for each in self._listeners for warning in each.warnings())
        status.warnings = (*warnings, *status.warnings)
        if now_ms >= self._report_ms:
            self._report_ms = now_ms + REPORT_INTERVAL_MS
            status.engines = {"engines": self._figures(now_ms)}
        return status.changed()

    def _figures(self, now_ms: int) -> dict[str, Any]:
        """Return the figures of each engine."""
        return {
            name: {
                "entry": engine.row.entry_name,
                "alive": self._roster.lives(name),
                "served_by": self._roster.stand_in(name, now_ms) or "",
                "applications": len(engine.owned),
                **engine.report.shown(engine.child.problem, engine.counts, now_ms),
            }
            for name, engine in self._engines.items()
        }


def _yarn_id(key: int) -> str:
    return application_id(key >> 32, key & _NUMBER)


def _short_text(text: str) -> str:
    return printable(text)[:_TEXT_MAX]
