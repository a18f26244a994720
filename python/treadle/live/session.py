"""An engine behind a conversation: frames in, answers out, without sockets, files or clocks."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from threading import Event as ThreadEvent
from typing import Final, TypeVar

import numpy as np

from treadle.compiled.array_types import I64
from treadle.config.part_files import missing
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.errors import ConfigError
from treadle.events import AttemptKeys, PolicySwitch
from treadle.model.cluster import Cluster
from treadle.model.tables import grown
from treadle.policy.user_parts import PartFailure
from treadle.sidecar.conversation import FAILURES_MAX, Application, Conversation, Listener, Tick
from treadle.sidecar.merge import REPORT_INTERVAL_MS
from treadle.wire.answer import rows_within
from treadle.wire.frames import Frame, FrameHeader

LATEST: Final = 10_000
"""Number of waits that are remembered."""


class WaitMetrics:
    """Waiting times of one engine's applications, by the ResourceManager's clock, to the interval between frames."""

    def __init__(self) -> None:
        self._asking = np.zeros(0, bool)
        """By application, whether it had requests when `take` was called last."""
        self._since_ms = np.zeros(0, np.int64)
        """Time of the first request of each application that waits for an attempt; else -1."""
        self._waits_ms: deque[int] = deque(maxlen=LATEST)
        self._tried = 0
        self._latest: Mapping[str, int] = {}
        self._latest_ms = 0

    def take(self, header: FrameHeader, pending: I64) -> None:
        """Record which applications begin to have requests; ``pending``: requested containers by application."""
        if header.snapshot:
            # indices have changed, and waits are measured from here on, so that a wait may be reported too short
            self._asking = np.zeros(0, bool)
        asked, since_ms = grown(self._asking, len(pending), False), grown(self._since_ms, len(pending), -1)
        self._asking = pending > 0
        began_ms = np.where(asked[: len(pending)], since_ms[: len(pending)], header.rm_time_ms)
        self._since_ms = np.where(self._asking, began_ms, -1)

    def attempted(self, now_ms: int) -> None:
        """Record a decision about all requests."""
        began_ms = self._since_ms[self._since_ms >= 0]
        self._tried += len(began_ms)
        self._waits_ms.extend(np.maximum(now_ms - began_ms, 0).tolist())
        self._since_ms[:] = -1

    def figures(self, now_ms: int, more: Mapping[str, int]) -> Mapping[str, int]:
        """Return the measured waits, with ``more``; unchanged for `REPORT_INTERVAL_MS`."""
        if self._latest and 0 <= now_ms - self._latest_ms < REPORT_INTERVAL_MS:
            return self._latest
        waits = np.array(self._waits_ms or [0])
        self._latest_ms = now_ms
        self._latest = {
            "attempts": self._tried,
            "wait_mean_ms": round(float(waits.mean())),
            "wait_p50_ms": round(float(np.percentile(waits, 50))),
            "wait_p99_ms": round(float(np.percentile(waits, 99))),
            **more,
        }
        return self._latest


_log = logging.getLogger(__name__)

T = TypeVar("T")

DECISIONS_UNTIL_HEALTHY: Final = 100
"""After this many decisions a new engine is healthy: the failure before it is not reported any more."""

ENGINE_ACCESS_WAIT_S: Final = 0.25
"""Access to the engine is given right after an answer, when the next frame is farthest away, or after this time."""

Submit = Callable[[Callable[[], Settings]], "Future[Settings]"]


def at_once(read: Callable[[], Settings]) -> Future[Settings]:
    """Read settings here and now."""
    future: Future[Settings] = Future()
    try:
        future.set_result(read())
    except Exception as error:
        future.set_exception(error)
    return future


class _Model:
    """Resolves indices with an engine's model."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def application_at(self, index: int) -> Application | None:
        """Return an application; None if it is not known."""
        cluster, texts = self._cluster, self._cluster.names.texts
        if not 0 <= index < cluster.apps.size:
            return None
        row = cluster.apps.at[index]
        queue = int(row["queue"])
        path = texts[int(cluster.queues.at["path"][queue])] if 0 <= queue < cluster.queues.size else ""
        id_ = int(row["cluster_timestamp"]) << 32 | int(row["id"])
        return Application(id_, int(row["attempt"]), path, texts[int(row["type"])])

    def pending(self) -> I64:
        """Return how many containers each application asks for."""
        return self._cluster.apps.at["pending"][: self._cluster.apps.size]

    def priority_of(self, application: int, key: int) -> int | None:
        """Return the priority of a request key; None if it is not known."""
        row = self._cluster.requests.index.find(application, key)
        return None if row < 0 else int(self._cluster.requests.at["priority"][row])


class EngineFailedError(Exception):
    """The engine failed `FAILURES_MAX` times in a row."""


class Session(Conversation):
    """One caller's conversation with one engine, which it replaces after a failure."""

    def __init__(
        self,
        make_engine: Callable[[Settings], Engine],
        read_settings: Callable[[], Settings],
        *,
        reply_max_bytes: int,
        clock_ns: Callable[[], int],
        settings: Settings | None = None,
        submit: Submit = at_once,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Make the engine.

        Args:
            make_engine: called again after a failure
            read_settings: called whenever the frames' configuration number changes, and now without ``settings``
            reply_max_bytes: no answer is longer, until a call of `decide` sets another bound
            clock_ns: for the time spent deciding, which is reported and never decided upon
            settings: those to start with
            submit: has settings read again; until then the old ones are followed
            listeners: see each tick, in order; for a request key, the last listener's data count

        Raises:
            ConfigError: there are no settings to start with.
        """
        super().__init__(listeners, clock_ns)
        self._answered = ThreadEvent()
        self._make_engine = make_engine
        self._read_settings = read_settings
        self._settings = read_settings() if settings is None else settings
        self._reported_switches: list[PolicySwitch] = []
        self._submit = submit
        self._reading: Future[Settings] | None = None
        self.failure: PartFailure | None = None
        """The policy's latest failure; None if there is none."""
        self._running: Settings | None = None
        """Those that the status names."""
        self._missing: tuple[str, ...] = ()
        """Warnings about parts of the policy that lack required settings."""
        self._engine = make_engine(self._settings)
        self._reply_max_bytes = reply_max_bytes
        self._configuration: int | None = None
        self._decisions = 0
        """Number of decisions since the latest failure."""
        self._waits = WaitMetrics()
        self._contention, self._contention_s = "", -1
        self._note_policy()

    def set_policy_error(self, policy_error: str) -> None:
        """Report in each status, until other settings are taken over, why the policy of the file does not run."""
        self._status.policy_error = policy_error

    def decide(self, frame: bytes, reply_max_bytes: int | None = None) -> bytes:
        """Answer a frame, as `Conversation.decide` does.

        Raises:
            EngineFailedError: the engine failed `FAILURES_MAX` times in a row.
        """
        if reply_max_bytes is not None:
            self._reply_max_bytes = reply_max_bytes
        answer = super().decide(frame, reply_max_bytes)
        self._answered.set()
        return answer

    def with_engine(self, action: Callable[[Engine], T]) -> T:
        """Call a function with the engine between two frames; the next frame waits for it."""
        self._answered.clear()
        self._answered.wait(ENGINE_ACCESS_WAIT_S)
        with self._turn:
            return action(self._engine)

    def receive(self, reading: Future[Settings]) -> None:
        """Take settings that were read again, or will have been; they are taken over with the next frame."""
        self._reading = reading

    def _switches(self) -> Sequence[PolicySwitch]:
        return self._engine.switches()

    def _take(self, tick: Tick, frame: Frame) -> None:
        """Pass a frame to the engine and have it decide."""
        header, engine = frame.header, self._engine
        self._reconfigure(tick, header.configuration)
        engine.apply([event for event in frame.events if not isinstance(event, AttemptKeys)])
        inside = engine.inside()
        if inside is not None:
            tick.cluster = known = _Model(inside[0])
            if engine.attempts is not None:
                self._waits.take(header, known.pending())
        # a run can be repeated with the frames and these
        tick.offline_events = [event for each in self._listeners for event in each.collect(frame)]
        if tick.offline_events:
            engine.apply(tick.offline_events)
        for each in self._listeners:
            each.taken(tick)
        if header.more:
            return
        if tick.asks_snapshot:
            self._awaits_snapshot = self._refusing = True
            return
        for each in self._listeners:
            each.deciding()
        fits = rows_within(self._reply_max_bytes, transactions=engine.attempts is not None)
        limit = max(0, min(header.limit, fits))
        proposals = engine.decide(header.rm_time_ms, limit, sequence=header.sequence, assume=not header.observe)
        tick.held = engine.held()
        self._note_policy()
        samples = engine.samples()
        if samples is not None:
            for each in self._listeners:
                each.learn(samples)
        self._status.diagnostics = tuple(engine.diagnostics())
        self._note_attempts(header.rm_time_ms)
        self._status.waits_for = engine.waits_for()
        self._note_known(tick, header.rm_time_ms)
        tick.proposals = proposals  # only now: after a failure above the answer has none
        self.failures = 0
        self._decisions += 1
        if self._decisions >= DECISIONS_UNTIL_HEALTHY:
            self._status.engine_error = ""

    def _note_known(self, tick: Tick, now_ms: int) -> None:
        """Report the listeners' summaries and warnings, and the contention of nodes, updated at most once a second."""
        if now_ms // 1_000 != self._contention_s:
            self._contention_s, self._contention = now_ms // 1_000, self._engine.contention()
        status = self._status
        tick.known = "; ".join(filter(None, (each.summary() for each in self._listeners)))
        status.learned = "; ".join(filter(None, (self._contention, tick.known)))
        tick.warnings = tuple(warning for each in self._listeners for warning in each.warnings())
        status.warnings = (*self._missing, *self._engine.stalled(), *self._engine.warnings(), *tick.warnings)

    def _note_attempts(self, now_ms: int) -> None:
        """Report conflicts, waits and transactions of one of several engines."""
        attempts, status = self._engine.attempts, self._status
        if attempts is None:
            status.engines = {}
            return
        self._waits.attempted(now_ms)
        status.diagnostics = (*attempts.diagnostics(), *status.diagnostics)
        figures = self._waits.figures(now_ms, {"retries": attempts.retries, "too_large": attempts.too_large})
        status.engines = {"figures": figures, "given_up": attempts.given_up()}

    def _failed(self, error: Exception) -> None:
        self._decisions = 0
        self._status.engine_error = f"engine restarted after {type(error).__name__}: {error}"
        _log.error("the engine failed on frame %d, a new one is started", self._sequence, exc_info=error)
        if self.failures > 1:
            for each in self._listeners:
                each.forget()
        if self.failures >= FAILURES_MAX:
            raise EngineFailedError(f"the engine failed {self.failures} times in a row: {error}") from error
        self._engine = self._make_engine(self._engine.running)

    def _note_policy(self) -> None:
        """Report which policy runs, and why if it is not the one configured."""
        failure = self._engine.failure
        running = self._engine.running
        if running is not self._running:
            self._running, self._missing = running, tuple(missing(running))
            self._status.policy = running.policy.name()
            self._status.overrides_guarantees = running.policy.overrides_guarantees()
            self._status.overrides_order = running.policy.overrides_order()
        if failure is None or failure is self.failure:
            return
        self.failure = failure
        self._status.policy_error = f"{failure}; {self._status.policy} runs instead"
        at = f"frame {self._sequence}, call {failure.call}"
        _log.error("the policy changes at %s: %s", at, self._status.policy_error, exc_info=failure)
        switches = [switch for switch in self._engine.switches() if switch not in self._reported_switches]
        self._reported_switches = list(self._engine.switches())
        for each in self._listeners:
            each.failed(self._settings, failure, self._engine.running, switches)

    def _reconfigure(self, tick: Tick, configuration: int) -> None:
        """Have treadle.yaml read again if the number changed; keep the old settings if the new ones are refused."""
        before, self._configuration = self._configuration, configuration
        self._status.configuration = configuration
        if before is not None and before != configuration:
            self._reading = self._submit(self._read_settings)
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            tick.reading = reading
            try:
                self._take_over(reading.result())
            except (ConfigError, PartFailure) as error:
                reason = "; ".join(error.lines()) if isinstance(error, ConfigError) else str(error)
                # Numbered, so that a command that waits for a refusal can distinguish it from an earlier one.
                self._status.config_error = f"settings {self._configuration} refused, the old ones are kept: {reason}"
                _log.error("%s", self._status.config_error, exc_info=error.__cause__)

    def _take_over(self, settings: Settings) -> None:
        """Follow other settings from this tick on."""
        before = self._engine.running
        if settings.digest and settings.digest == before.digest and self._engine.failure is None:
            # The engine keeps its learned state: nothing in the files has changed.
            self._status.config_error = ""
            return
        self._engine.configure(settings)
        self._settings = settings
        self._status.config_error = self._status.engine_error = self._status.policy_error = ""
        for each in self._listeners:
            each.follow(settings, before)
        self._note_policy()
        _log.info("settings read again: %s", self._status.policy)
