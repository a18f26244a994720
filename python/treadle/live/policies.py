"""An engine with its listeners, and the settings that it follows: those of treadle.yaml, unless a part failed.

Reading a treadle.yaml runs user code, and trying it out runs more of it, so both are watched. Except at the start they
run on a thread of their own. One of several engines follows its entry of `engines:`, in a process of its own, and
receives events outside frames from its hub.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Final

from treadle import events
from treadle.config.part_files import PartStoppedError
from treadle.config.reader import parse_settings, peek_source, read_roster
from treadle.config.settings import JobHistory, Settings, default_settings
from treadle.config.trust import reason_against
from treadle.engine import Engine
from treadle.engine.testing import small_cluster, small_events
from treadle.errors import ConfigError, Problem
from treadle.events import Event, PolicySwitch
from treadle.history.profile import JobRun, StageRun
from treadle.live.explain_server import open_explain_server
from treadle.live.handshake import LIMIT_MIN
from treadle.live.history_writer import HistorySource, ProfileRecorder
from treadle.live.learned_file import FILE, LearnedFile
from treadle.live.live_settings import check_apart, has_file_parts, read_live_settings
from treadle.live.observation_file import open_observation
from treadle.live.plan_source import open_plans
from treadle.live.policy_memory import PolicyMemory, state_folder
from treadle.live.question_socket import Close
from treadle.live.recorder import LiveRecorder
from treadle.live.session import Session
from treadle.policy.user_parts import PartFailure
from treadle.policy.watchdog import Watchdog
from treadle.sidecar.conversation import Listener
from treadle.sidecar.observation import Observation
from treadle.wire.answer import decode_answer
from treadle.wire.frames import SECTIONS, Frame, FrameEncoder, FrameFlag, FrameHeader


def own_settings(settings: Settings, engine: str, file: str) -> Settings:
    """Return the settings of a file that an engine follows. Engines after the first have a store of their own.

    Args:
        settings: all of the file
        engine: the engine's name, empty for the only one
        file: the file's name in errors

    Raises:
        ConfigError: there is no such engine.
    """
    names = [each.name for each in settings.engines]
    if not engine and not names:
        return settings
    if not (engine and names):
        text = "names several engines now" if names else "names no engines any more"
        raise ConfigError(file, [Problem(0, "engines", f"{text}, which `treadle sidecar restart` follows")])
    if engine not in names:
        text = f"has no engine {engine!r}; there is: {', '.join(names)}"
        raise ConfigError(file, [Problem(0, "engines", text)])
    own = settings.for_engine(engine)
    return own if engine == names[0] else replace(own, history=_own_store(own.history, engine))


def _own_store(history: JobHistory, engine: str) -> JobHistory:
    if not history.store or "://" in history.store:
        return history
    path = Path(history.store)
    return history.model_copy(update={"store": str(path.with_name(f"{path.stem}-{engine}{path.suffix}"))})


STAGES_MAX: Final = 256
"""Maximum number of applications whose stages wait to be taken; jobs of other frameworks are among them."""

STAGES_S: Final = 3.0
"""How long a finished job waits for the stages that the plan listener has received."""


class HubEvents(Listener):
    """An event source. The hub has the plan listener, and reports its state and warnings itself."""

    def __init__(self, listens: bool) -> None:
        """Begin; ``listens``: the hub has a plan listener."""
        self.remember: Callable[[JobRun], None] = lambda run: None
        """Takes a finished job."""
        self._listens = listens
        self._events: Sequence[Event] = ()
        self._stages: dict[str, Sequence[StageRun]] = {}
        self._changed = Condition()

    def take(self, events: Sequence[Event], remembered: Sequence[object]) -> None:
        """Take the data of the next frame: hints, and finished jobs and stages by YARN's id."""
        self._events = events
        for thing in remembered:
            if isinstance(thing, JobRun):
                self.remember(thing)
            elif isinstance(thing, tuple):
                with self._changed:
                    self._stages[thing[0]] = thing[1]
                    while len(self._stages) > STAGES_MAX:
                        del self._stages[next(iter(self._stages))]
                    self._changed.notify_all()

    def stages_of(self, application: str) -> Sequence[StageRun]:
        """Return once the stages that an application has reported; waits for them."""
        with self._changed:
            self._changed.wait_for(lambda: not self._listens or application in self._stages, STAGES_S)
            return self._stages.pop(application, ())

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return the events that came with the frame."""
        return self._events


_log = logging.getLogger(__name__)

READ_LIMIT_S: Final = 20.0
"""Maximum time to read a treadle.yaml with all imports of its parts, and to try it out."""


class LivePolicies(Listener):
    """Reads settings, makes engines, and remembers the outcomes of policies."""

    def __init__(
        self,
        config: Path | None,
        memory: PolicyMemory | None = None,
        engine: str = "",
        hub_events: HubEvents | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            config: treadle.yaml
            memory: of policies; without one that of the engine's folder
            engine: one of several; empty: the only one
            hub_events: events from the engine's hub, in place of a plan listener
        """
        self._config = config
        self._engine, self._hub_events = engine, hub_events
        self._is_first = False
        self._memory = memory or PolicyMemory(None if config is None else state_folder(config, engine=engine))
        self._good: Settings | None = None
        self._watch = Watchdog(1.0)
        self._stuck: int | None = None
        self._read_watch = Watchdog(READ_LIMIT_S)
        self._read_lock = Lock()
        self._ticks: LiveRecorder | None = None
        self.refusal = ""
        """Why the settings of the file are not those followed since the start; empty if they are."""

    def start(self) -> Settings:
        """Return the settings to start with.

        Raises:
            ConfigError: the file is wrong.
        """
        self._refuse_distrusted()
        self._good = self._remembered()
        source = None if self._config is None else peek_source(self._config)
        reason = "" if source is None else self._memory.reason_against(source.digest)
        if reason:
            settings = self._good or self._default_settings()
            self.refusal = (
                f"{self._config}: a part of its policy failed: {reason}; {settings.policy.name()} runs instead"
            )
            _log.error("%s", self.refusal)
            # Each sidecar starts its sequences at 1: its first policy applies from before its first frame.
            self._memory.remember_switch(PolicySwitch(0, 0, settings.policy.name(), reason))
            return settings
        stuck = self._memory.stuck_file(source.digest) if source is not None and source.part_files else None
        try:
            self._read_watch.follow(READ_LIMIT_S, stuck)
            return self._read()
        finally:
            self._read_watch.follow(READ_LIMIT_S, None)
            if stuck is not None:
                os.close(stuck)

    def read(self) -> Settings:
        """Return the settings in the file, which have changed.

        Raises:
            ConfigError: the file is wrong, or others may write to it, or its policy is one that failed.
        """
        self._refuse_distrusted()
        source = None if self._config is None else peek_source(self._config)
        reason = "" if source is None else self._memory.reason_against(source.digest)
        if reason:
            text = f"a part failed ({reason}) and nothing has changed since; change it, or run `treadle policy use`"
            raise ConfigError(str(self._config), [Problem(0, "policy", text)])
        if source is not None and source.part_files:
            check_apart(Path(source.file))
        with self._read_lock:
            self._read_watch.begin()
            return self._read()

    def make_engine(self, settings: Settings) -> Engine:
        """Return a new engine that is watched."""
        self._guard(settings)
        return Engine(settings, self._good, self._watch, tries_again=True)

    def session(
        self,
        settings: Settings,
        reply_max_bytes: int,
        clock_ns: Callable[[], int],
        observation: Observation | None = None,
        learned: LearnedFile | None = None,
    ) -> Session:
        """Return a session that starts with settings and reads the file again, on a thread of its own."""
        recorder = ProfileRecorder()
        recorder.follow(settings)
        recorder.start()
        plans: Listener | None = self._hub_events
        if self._hub_events is None:
            plans = open_plans(settings, recorder.remember, recorder.ask_stages)
        else:
            self._hub_events.remember = recorder.remember
            recorder.ask_stages(self._hub_events.stages_of)
        keys_for = () if plans is None else plans.keys_for()
        ticks = LiveRecorder("" if self._is_first else self._engine, keys_for=keys_for, follows_file=not self.refusal)
        ticks.follow(settings)
        ticks.start()
        self._ticks = ticks
        listeners = (self, recorder, HistorySource(recorder), plans, learned, ticks, observation)
        session = Session(
            self.make_engine,
            self.read,
            reply_max_bytes=reply_max_bytes,
            clock_ns=clock_ns,
            settings=settings,
            submit=_on_thread,
            listeners=tuple(filter(None, listeners)),
        )
        session.set_policy_error(self.refusal)
        return session

    def close(self, why: str) -> None:
        """End the recording of the session, since the process ends. For any thread."""
        if self._ticks is not None and not self._ticks.close(why):
            _log.warning("the recording's end could not be written in time")

    def follow(self, settings: Settings, before: Settings | None = None) -> None:
        """Handle a change of the engine's settings; those ``before`` did well."""
        if before is not None:
            self._good = before
            if has_file_parts(before) or has_file_parts(settings):
                self._memory.remember_good(before)
        self._guard(settings)

    def failed(
        self, settings: Settings, failure: PartFailure, running: Settings, switches: Sequence[PolicySwitch] = ()
    ) -> None:
        """Handle the failure of a part of ``settings``, or of those that replaced them, and the settings that run now.

        ``switches`` are those of the engine that were not reported before, oldest first.
        """
        for switch in switches:
            self._memory.remember_switch(switch)
        for digest in sorted({settings.digest, failure.digest} - {"", running.digest}):
            self._memory.remember_bad(digest, str(failure))
        self._guard(running)

    def deciding(self) -> None:
        """Handle the start of a decision."""
        self._watch.begin()

    def _refuse_distrusted(self) -> None:
        """Follow no treadle.yaml that anybody but root and this process's user may change.

        Raises:
            ConfigError: others may.
        """
        if self._config is not None and self._config.exists():
            reason = reason_against(self._config)
            if reason:
                raise ConfigError(str(self._config), [Problem(0, "", reason)])

    def _guard(self, settings: Settings) -> None:
        before = self._stuck
        self._stuck = self._memory.stuck_file(settings.digest) if has_file_parts(settings) else None
        self._watch.follow(settings.limits.part_timeout_ms / 1000, self._stuck)
        if before is not None:
            os.close(before)

    def _read(self) -> Settings:
        try:
            settings = read_live_settings(self._config, self._read_watch)
            self._is_first = self._engine in [each.name for each in settings.engines[:1]]
            return own_settings(settings, self._engine, str(self._config))
        except PartStoppedError as error:
            text = f"a part's file takes longer than {READ_LIMIT_S:.0f} s to load; do less when it is loaded"
            raise ConfigError(str(self._config), [Problem(0, "policy", text)]) from error

    def _default_settings(self) -> Settings:
        """Return the default settings for this engine of the file, which goes on though a policy fails."""
        try:
            roster = () if self._config is None or not self._engine else read_roster(self._config)
        except ConfigError as error:
            _log.error("%s", error)
            roster = ()
        return replace(default_settings(), engine=next((each for each in roster if each.name == self._engine), None))

    def _remembered(self) -> Settings | None:
        source = self._memory.good
        if source is None:
            return None
        try:
            kept = self._read_watch(
                lambda: parse_settings(source.file, source.text, kept=source.part_files, trust_code=True)
            )
            return own_settings(kept, self._engine, source.file)
        except (ConfigError, PartStoppedError) as error:
            _log.warning("the last good policy cannot be used any more: %s", error)
            return None


def _on_thread(read: Callable[[], Settings]) -> Future[Settings]:
    """Read settings on a daemon thread, which the end of the process does not wait for."""
    future: Future[Settings] = Future()

    def run() -> None:
        try:
            future.set_result(read())
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:  # a failure that is not reported would be waited for forever
            future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

    Thread(target=run, name="settings", daemon=True).start()
    return future


def without_file_parts(settings: Settings) -> Settings:
    """Return settings with the default part for each that is from a file."""
    return replace(settings, policy=default_settings().policy) if has_file_parts(settings) else settings


_REPLY_MAX_BYTES: Final = 1 << 20

ON_THE_WIRE: Final = (events.Snapshot, events.Fates, *(section.event for section in SECTIONS.values()))


def warm_up(settings: Settings) -> int:
    """Compile all code that a decision needs; returns the number of containers placed on the invented cluster.

    Raises:
        RuntimeError: the engine failed on it.
    """
    _log.info("compiling kernels")
    try:
        Engine(settings).warm_up()
    except Exception as error:
        raise RuntimeError(f"the engine cannot warm up: {type(error).__name__}: {error}") from error
    session = Session(Engine, lambda: settings, reply_max_bytes=_REPLY_MAX_BYTES, clock_ns=lambda: 0)
    encoder = FrameEncoder()
    placed = 0
    for sequence, batch in enumerate([small_cluster(), *small_events()], 1):
        sent = [event for event in batch if isinstance(event, ON_THE_WIRE)]
        flags = int(FrameFlag.SNAPSHOT) if sequence == 1 else 0
        header = FrameHeader(flags, 1, sequence, 1_000 * sequence, 0, 16, 2)
        answer = decode_answer(session.decide(encoder.encode(header, sent)), 16)
        if answer.resend:
            raise RuntimeError(
                f"the engine failed on frame {sequence} of the cluster that it warms up on: {answer.status}"
            )
        placed += len(answer.proposals)
    return placed


def open_session(
    config: Path | None, closing: list[Close], engine: str = "", beside: HubEvents | None = None
) -> Session:
    """Return the session of an engine that is ready, of the only one if ``engine`` is empty.

    ``closing`` gets functions to call before the process ends; `beside` is ``hub_events`` of `LivePolicies`.

    Raises:
        ConfigError: the settings are wrong.
    """
    policies = LivePolicies(config, engine=engine, hub_events=beside)
    settings = policies.start()
    warm_up(without_file_parts(settings))
    folder = None if config is None else state_folder(config, engine=engine)
    # of several engines the hub compares; without a folder there is no door at which the figures could be asked for
    observation = open_observation(folder, closing) if folder is not None and not engine else None
    learned = None if folder is None else LearnedFile(folder / FILE)
    session = policies.session(settings, LIMIT_MIN, time.perf_counter_ns, observation, learned)
    if learned is not None:
        Thread(target=learned.keep, args=(session,), name="learned", daemon=True).start()
    closing.append(policies.close)
    open_explain_server(folder, session.with_engine, observation)
    return session
