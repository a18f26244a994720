"""Looks at a cluster again and again: the only one of the dashboard who asks the ResourceManager unasked.

Beans are read each `BEANS_EVERY_S`, and at most `LOOK_PAUSE_MAX_S` after a look that was slow: whether Treadle
schedules must not be shown wrong for long. What beans say is posted before pages are read. REST pages are read each
`PAGES_EVERY_S`; at most a tenth of the time is spent on them, so that a slow ResourceManager is asked less often.

What changed in the ResourceManager between two looks: its policy, its mode, that it restarted.

Which nodes engines keep free, asked beside the looks: an engine that hangs must not make the dashboard blind.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any, Final

from treadle.dashboard.history import Conditions, History, Trouble
from treadle.dashboard.reading import COUNTERS, Decisions, HeldNode, Job, Nodes, Queue, Reader, held_of
from treadle.dashboard.views import EVENTS_SHOWN_MAX, PARTS, Board, Estimates, View, documents, exposition, overview
from treadle.errors import STARVED, UserError, printable
from treadle.yarn import pages
from treadle.yarn.pages import active_of

TEXT_MAX: Final = 200
RESTART_S: Final = 60.0
"""Counters that begin so much later than before are those of another start: both times are by the dashboard's clock."""

_COUNTED_SINCE: Final = "counted since"


class Changes:
    """Compares a look with what was seen before, by an earlier process too."""

    def __init__(self, seen: Mapping[str, str]) -> None:
        """Begin with what was seen last."""
        self.seen = dict(seen)
        self._counted_ms = -1

    def see(self, at_s: float, decisions: Decisions) -> list[str]:
        """Return a line for each change.

        Args:
            at_s: the time of the look, seconds since 1970
            decisions: what Treadle's beans say
        """
        return [*self._restarted(at_s, decisions), *self._renamed(decisions)]

    @property
    def counted_since_s(self) -> float:
        """When Treadle's counters began at 0, seconds since 1970; 0 if that is not known."""
        return float(self.seen.get(_COUNTED_SINCE, 0.0))

    def _restarted(self, at_s: float, decisions: Decisions) -> list[str]:
        counted_ms = decisions.numbers.get("SinceMs", 0)
        if not counted_ms:
            return []
        since_s, known_s = at_s - counted_ms / 1000, self.counted_since_s
        again = bool(known_s) and (counted_ms < self._counted_ms or since_s > known_s + RESTART_S)
        self._counted_ms = counted_ms
        if known_s and not again:
            return []
        self.seen[_COUNTED_SINCE] = f"{since_s:.0f}"
        started = datetime.fromtimestamp(since_s, UTC).isoformat(timespec="seconds")
        return [f"the ResourceManager started, or became active again, at {started}: counters began at 0"] * again

    def _renamed(self, decisions: Decisions) -> list[str]:
        now = {"mode": decisions.texts["Mode"], "policy": decisions.texts["Policy"]}
        now |= {f"policy of engine {each['engine']}": str(each["policy"]) for each in decisions.engines}
        lines = []
        for name, text in now.items():
            before = self.seen.get(name, "")
            if text and before and text != before:
                lines.append(f"{name} changed from {printable(before[:TEXT_MAX])} to {printable(text[:TEXT_MAX])}")
            if text:
                self.seen[name] = text
        return lines


_log = logging.getLogger(__name__)

WAIT_S: Final = 0.4
"""How long a look waits for engines, so that looks come as often as before; what is later is shown by the next one."""

NOT_YET: Final = "an engine has not answered yet"

Held = Callable[[], list[dict[str, Any]]]
"""Returns the nodes that engines keep free; raises `UserError` if they cannot be asked."""


def nobody_tells() -> list[dict[str, Any]]:
    """Report no held node.

    Raises:
        UserError: always.
    """
    raise UserError("nobody can be asked")


class HeldNodes:
    """Asks engines on a thread of its own, one question at a time."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._asking: Thread | None = None
        self._found: tuple[list[HeldNode], str] = [], ""

    def ask(self, wait_s: float | None = None) -> tuple[list[HeldNode], str]:
        """Return the nodes that engines keep free, and why that is not known; empty if it is."""
        if self._asking is None:
            self._asking = Thread(target=self._ask, name="held", daemon=True)
            self._asking.start()
        self._asking.join(WAIT_S if wait_s is None else wait_s)
        if self._asking.is_alive():
            return [], NOT_YET
        self._asking = None
        return self._found

    def _ask(self) -> None:
        try:
            self._found = held_of(self._held()), ""
        except UserError as error:  # elsewhere than on the ResourceManager's host that is no trouble
            self._found = [], printable(str(error))
        except Exception as error:  # pages say so; whoever looks goes on
            _log.exception("engines cannot be asked which nodes they keep free")
            self._found = [], printable(f"{type(error).__name__}: {error}")


BEANS_EVERY_S: Final = 5.0
PAGES_EVERY_S: Final = 15.0
DUTY: Final = 0.1
"""The part of the time that may be spent on asking."""
LOOK_PAUSE_MAX_S: Final = 10.0
OF_BEANS: Final = ("overview", "decisions")
"""Documents that tell what beans say."""
PAGES_S: Final = 10.0
"""No further page is read in a look once pages have taken so long."""
PAGES_PAUSE_MAX_S: Final = 300.0
QUEUES_CHARTED_MAX: Final = 60
"""Queues whose shares are kept over time, in the order of the tree."""
ENDED_BACK_MS: Final = 24 * 3600 * 1000
"""How long ago jobs may have ended that the first look asks for."""


class Collector:
    """Looks, keeps what it saw, and posts documents."""

    def __init__(
        self,
        reader: Reader,
        history: History,
        board: Board,
        clock: Callable[[], float] = time.time,
        held: Held = nobody_tells,
    ) -> None:
        """Begin where an earlier process stopped.

        Args:
            reader: of the ResourceManager
            history: what is remembered
            board: where documents are posted
            clock: seconds since 1970
            held: asks an engine which nodes it keeps free

        Raises:
            UserError: the history cannot be read.
        """
        self._reader, self._history, self._board, self._clock = reader, history, board, clock
        self._held = HeldNodes(held)
        try:
            looked_s, kept = history.conditions()
            self._estimates = Estimates(history.jobs(ended=False))
            self._ended = set(history.jobs(ended=True))
            self._seen = history.seen()
            self._changes = Changes(self._seen)
        except sqlite3.Error as error:
            raise UserError(f"{history.path}: {error}; move the file away, then a new history begins") from error
        self._conditions = Conditions(kept, looked_s)
        self.view = View(rm=reader.rm)
        self._counted: tuple[float, Mapping[str, int]] | None = None
        self._pages_due_s = 0.0
        self._history_trouble = ""
        self._lines: list[str] = []
        """What changed, and is not kept yet."""

    def run(self, stop: Event) -> None:
        """Look until somebody says stop; nothing ends it but that."""
        while not stop.is_set():
            began_s = time.monotonic()
            try:
                self.look()
            except Exception as error:  # a look that fails must not be the last
                _log.exception("a look at the cluster failed")
                self._tell_failure(error)
            took_s = time.monotonic() - began_s
            stop.wait(min(max(BEANS_EVERY_S, took_s / DUTY - took_s), LOOK_PAUSE_MAX_S))

    def look(self) -> None:
        """Ask once, keep the answers, and post documents."""
        at_s, troubles = self._clock(), dict[str, Trouble]()
        values = self._look_at_beans(at_s, troubles)
        is_active = self.view.state == "ACTIVE"
        pages_due = is_active and at_s >= self._pages_due_s
        self._keep(at_s, values, troubles | (self.view.page_troubles if is_active else {}))
        if pages_due:
            if self._board.version:  # pages may be slow: what beans say is shown before
                self._post(OF_BEANS)
            began_s = time.monotonic()
            values = self._look_at_pages(at_s)
            took_s = time.monotonic() - began_s
            self._pages_due_s = at_s + min(max(PAGES_EVERY_S, took_s / DUTY), PAGES_PAUSE_MAX_S) - BEANS_EVERY_S / 2
            self._keep(at_s, values, troubles | self.view.page_troubles)
        self._post(PARTS)

    def _post(self, parts: tuple[str, ...]) -> None:
        found = documents(self.view)
        self._board.post(self._clock(), {part: found[part] for part in parts}, exposition(self.view))

    def _tell_failure(self, error: Exception) -> None:
        """Post that a look failed; what was wrong before stays, nobody knows better."""
        at_s, view = self._clock(), self.view
        text = f"a look at the cluster failed, what is shown is old: {type(error).__name__}: {printable(str(error))}"
        known = {each.name: Trouble(each.severity, each.text) for each in view.conditions}
        try:
            self._keep(at_s, {}, {"look": Trouble("fail", f"{text}; the dashboard's log has more")} | known)
            self._board.post(at_s, {"overview": overview(view)}, exposition(view))
        except Exception:  # pages then say that nobody looks any more
            _log.exception("a look that failed cannot be reported")

    def _look_at_beans(self, at_s: float, troubles: dict[str, Trouble]) -> dict[str, float]:
        view, reader = self.view, self._reader
        try:
            view.state, decisions = reader.beans()
        except UserError as error:
            view.state = ""
            troubles["lost"] = Trouble("fail", f"the ResourceManager does not answer: {printable(str(error))}")
            self._counted = None
            return {}
        view.heard_s = at_s
        if view.state == "STANDBY":
            if not view.active:
                view.active = active_of(reader.rm, reader.ca)
            where = f"; the active one is {view.active}" if view.active else ""
            text = f"the ResourceManager at {reader.rm} is on standby, where nothing is scheduled{where}; start the "
            troubles["standby"] = Trouble("fail", f"{text}dashboard with --rm of the active one")
            self._counted = None
            return {}
        view.active = ""
        if moving := pages.passing(view.state):
            text = f"the ResourceManager at {reader.rm} is {moving}: nothing is scheduled"
            troubles["passing"] = Trouble("fail", f"{text}; if it stays so, look at its log")
            self._counted = None
            return {}
        if decisions is None:
            view.decisions = None
            text = "the ResourceManager runs without Treadle; look at yarn.resourcemanager.scheduler.class in its "
            troubles["treadle"] = Trouble("fail", f"{text}yarn-site.xml (treadle install), and at its log")
            self._counted = None
            return {}
        view.decisions, view.decisions_s = decisions, at_s
        self._lines += self._changes.see(at_s, decisions)
        view.counted_since_s = self._changes.counted_since_s
        troubles |= _troubles_of(decisions)
        return self._rates(at_s, decisions)

    def _rates(self, at_s: float, decisions: Decisions) -> dict[str, float]:
        """Return numbers over time: of counters how much they rose a second since the last look."""
        numbers = decisions.numbers
        counted: dict[str, int] = {name: numbers[name] for name in COUNTERS if name in numbers}
        counted |= {f"Rejected{reason}": count for reason, count in decisions.rejected.items()}
        counted |= {f"engine {each['engine']} committed": int(each["committed"]) for each in decisions.engines}
        values = {"schedules": float(numbers.get("Schedules", 0))}
        for name, metric in (("decide p50", "DecideP50Us"), ("decide p99", "DecideP99Us")):
            values[name] = numbers.get(metric, 0) / 1000
        before, self._counted = self._counted, (at_s, counted)
        if before is None or at_s <= before[0] or any(counted.get(name, 0) < old for name, old in before[1].items()):
            self.view.rates = {}
            return values  # the first look, or counted anew: another ResourceManager
        rates = {name: (count - before[1].get(name, 0)) / (at_s - before[0]) for name, count in counted.items()}
        self.view.rates = rates
        # a reason that never occurred needs no series
        reasons = {f"Rejected{reason}" for reason, count in decisions.rejected.items() if count == 0}
        return values | {f"rate {name}": rate for name, rate in rates.items() if name not in reasons}

    def _look_at_pages(self, at_s: float) -> dict[str, float]:
        view, found, values = self.view, dict[str, Trouble](), dict[str, float]()
        until_s = time.monotonic() + PAGES_S

        def attempt(name: str, what: str, read: Callable[[], None]) -> None:
            try:
                if time.monotonic() > until_s:
                    raise UserError("the ResourceManager took too long with the pages before")
                read()
            except UserError as error:
                found[name] = Trouble("warn", f"{what} cannot be read, what is shown is old: {printable(str(error))}")

        def cluster() -> None:
            view.nodes, view.queues, view.queues_left_out = self._reader.cluster()
            view.cluster_s = at_s
            values.update(_shares(view.nodes, view.queues))

        def jobs() -> None:
            view.jobs, view.jobs_left_out = self._reader.jobs()
            view.jobs_s = at_s
            values.update({"jobs running": sum(job.state == "RUNNING" for job in view.jobs), "jobs": len(view.jobs)})
            self._follow(view.jobs)

        def held() -> None:
            view.held, view.held_error = self._held.ask()

        def placements() -> None:
            view.placements = self._reader.placements()

        attempt("nodes and queues", "nodes and queues", cluster)
        attempt("jobs", "jobs", jobs)
        held()
        if view.decisions is not None:
            attempt("placements", "who placed the containers", placements)
        view.page_troubles = found
        return values

    def _follow(self, jobs: list[Job]) -> None:
        """Keep what was expected of jobs, and those that ended since the last look."""
        try:
            back_ms = int(self._clock() * 1000) - ENDED_BACK_MS
            since_ms = max(back_ms, max((int(job["ended_ms"]) for job in self.view.ended), default=0))
            ended = [job for job in self._reader.ended(since_ms) if job.id not in self._ended]
            changed: dict[str, dict[str, Any]] = self._estimates.see(jobs)
            changed |= {job.id: self._estimates.end(job) for job in ended}
            if changed:
                self._history.keep_jobs(changed)
            self._history.forget_jobs(self._estimates.gone(job.id for job in jobs))
            if changed or not self.view.ended:
                self.view.ended = list(self._history.jobs(ended=True).values())
                self._ended = {str(job["id"]) for job in self.view.ended}
        except sqlite3.Error as error:
            self._history_trouble = str(error)

    def _keep(self, at_s: float, values: dict[str, float], troubles: dict[str, Trouble]) -> None:
        """Write what was seen into the history; where that fails the pages say so and show the rest."""
        view = self.view
        if self._history_trouble:
            text = f"{self._history.path} cannot be written, so nothing is remembered: {self._history_trouble}"
            troubles["history"] = Trouble("warn", text)
        self._history_trouble = ""
        view.conditions, began, over = self._conditions.see(at_s, troubles)
        for condition in self._conditions.unsaid():
            _log.warning("%s, since %s", printable(condition.line()), _utc(condition.since_s))
        changed, self._lines = self._lines, []
        for line in (*over, *changed):
            _log.info("%s", printable(line))
        lines = [*changed, *began, *over]
        try:
            if values:
                view.series_left_out = self._history.record(at_s, values)
            self._history.keep_conditions(at_s, view.conditions, lines)
            if self._changes.seen != self._seen:
                self._history.keep_seen(self._changes.seen)
                self._seen = dict(self._changes.seen)
            view.events = self._history.events(EVENTS_SHOWN_MAX)
        except sqlite3.Error as error:
            self._history_trouble = str(error)


def _troubles_of(decisions: Decisions) -> dict[str, Trouble]:
    """Return what Treadle's beans find wrong."""
    found = {}
    if decisions.why_not:
        mode = decisions.texts["Mode"].lower()
        severity = "fail" if mode == "enforce" or not mode else "warn"
        found["scheduling"] = Trouble(severity, f"Treadle does not schedule: {decisions.why_not}")
        if mode == "observe_only" and decisions.numbers.get("LeaseHeld") == 0:
            error = decisions.texts["LastError"] or "no error is reported"
            found["engine"] = Trouble("fail", f"no engine answers: {error}")
    for name, severity, text in (
        ("LastError", "warn", "last error"),
        ("Warnings", "warn", "the engine warns"),
        ("IgnoredSettings", "warn", "settings without effect"),
    ):
        text_now = decisions.texts[name]
        if name == "Warnings":
            starved, text_now = _starved(text_now)
            found |= starved
        if text_now and text_now not in decisions.why_not:
            found[name] = Trouble(severity, f"{text}: {printable(text_now)}")
    if decisions.numbers.get("Escapes", 0):
        text = "exceptions were caught in overrides; the ResourceManager's log has them"
        found["escapes"] = Trouble("warn", text)
    for each in decisions.engines:
        if not each["lives"]:
            by = f"; {each['served_by']} serves its applications" if each["served_by"] else ""
            state = "is dead" if each["has_answered"] else "has not answered yet"
            found[f"engine {each['engine']}"] = Trouble("fail", f"the engine {each['engine']} {state}{by}")
    return found


def _starved(warnings: str) -> tuple[dict[str, Trouble], str]:
    """Return each queue that is starved, and the engine's other warnings."""
    lines = warnings.split("; ")
    mine = [line for line in lines if line.startswith(STARVED)]
    found = {f"starved {line.removeprefix(STARVED).split(' ')[0]}": Trouble("warn", printable(line)) for line in mine}
    return found, "; ".join(line for line in lines if not line.startswith(STARVED))


def _shares(nodes: Nodes, queues: list[Queue]) -> dict[str, float]:
    totals = nodes.totals()
    values = {
        "nodes": float(totals["nodes"]),
        "containers": float(totals["containers"]),
        "memory used": totals["memory_used_mb"] / max(totals["memory_mb"], 1),
        "vcores used": totals["vcores_used"] / max(totals["vcores"], 1),
    }
    for queue in queues[:QUEUES_CHARTED_MAX]:
        values |= {f"queue {queue.path} used": queue.used, f"queue {queue.path} owed": queue.owed}
        values[f"queue {queue.path} pending"] = queue.pending
    return values


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
