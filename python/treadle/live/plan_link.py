"""The sidecar's end of its plan listener, which is a process of its own (`treadle.live.plan_child`).

An application master's messages are parsed there. Here are only references to the results, for the thread that
decides to take; the listener's process is started anew when it ends.

The plan listener's process as the sidecar sees it: one that it starts, or one that is started behind a socket.

The second is of another user: nothing that parses the network is then of the sidecar's user. Something that may
start processes of that user, systemd for example, listens on the socket and starts one for each connection.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Condition, Event, Lock, Thread
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Protocol, cast

from treadle.am.protocol import NUMBERS_MAX, Attempt, MessageError
from treadle.am.quotas import Bounds, FairQueue, Keeping
from treadle.am.record import CLAIM, CLAIMS_MAX, Claims, read_claims
from treadle.am.registries import Amounts, runs_of
from treadle.config.settings import Profiles, Settings
from treadle.config.trust import connect
from treadle.errors import counted, printable
from treadle.history.run import JobRun, StageRun
from treadle.live.plan_words import Said, line, read_frame, run_from_bytes, stages_from_bytes

COMMAND: Final = (sys.executable, "-P", "-m", "treadle.live.plan_child")

ALLOCATOR: Final = MappingProxyType({"MALLOC_ARENA_MAX": "2"})
"""glibc gives threads memory from arenas of their own and hardly ever takes it back: requests of a MiB, a thread each,
made a process that kept 2 GiB. A value that is set otherwise is kept."""


class PlanProcess(Protocol):
    """A process that runs."""

    stdin: BinaryIO
    """Where it hears."""
    said: BinaryIO

    def kill(self) -> None:
        """End it; for any thread."""

    def close(self) -> str:
        """Wait for the end where that can be done, and return how it ended."""


class Started:
    """A process of this user's."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # not a session: it would get as much of the processors as this one (`give_way`)
            env={**ALLOCATOR, **os.environ},
        )
        self.stdin, self.said = cast(BinaryIO, self.popen.stdin), cast(BinaryIO, self.popen.stdout)

    def kill(self) -> None:
        """End it."""
        self.popen.kill()

    def close(self) -> str:
        """Wait for the end and return how it ended."""
        # what it no longer reads would be written once more at the end, and fail in place of the reason
        with suppress(OSError):
            self.stdin.close()
        self.said.close()
        return f"the plan listener's process ended with code {self.popen.wait()}"


class Reached:
    """A process behind a socket; it ends when the connection does."""

    def __init__(self, path: Path) -> None:
        """Connect.

        Raises:
            UserError: nobody is there, or others could have put the socket there.
        """
        self._path = path
        self._connected = connect(path, "listener.socket", "treadle-plans.socket")
        self.stdin: BinaryIO = self._connected.makefile("wb")
        self.said: BinaryIO = self._connected.makefile("rb")

    def kill(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> str:
        """Return how it ended, as far as that is known here."""
        for stream in (self.stdin, self.said, self._connected):
            with suppress(OSError):
                stream.close()
        return f"the plan listener behind {self._path} has ended; its own log says why"


_log = logging.getLogger(__name__)

BYTES: Final = Bounds(CLAIMS_MAX * CLAIM.itemsize, 8 << 20, 64 << 20)
"""Of what the engine may get of an attempt's DAG, of those of a user, of all."""

WORDS_MAX: Final = 100_000
"""Lines that wait for the listener; beyond, it is started anew and gets the current state."""

START_S: Final = 120.0
"""How long the first start may take: kernels of the planner may have to be compiled."""

PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0

TAKE_S: Final = 2.0
"""How long a request for an application's stages waits for them."""


class PlanSide(Protocol):
    """Who has the listener; nothing here may wait. `PlanLink` is one."""

    def meet(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        """Take that an attempt runs: whose it is, in which queue, and its application type in upper case."""

    def part(self, attempt: Attempt) -> None:
        """Forget an attempt that has ended."""

    def give_key(self, attempt: Attempt, number: int, key: bytes) -> None:
        """Take a key of an attempt."""

    def machines(self, nodes: Mapping[int, Amounts]) -> None:
        """Take what each usable node has; not changed afterwards."""

    def news(self) -> Attempt | None:
        """Return an attempt of whose DAG something new is known, each user's in turn; None if there is none."""

    def claims(self, attempt: Attempt) -> Claims | None:
        """Return what the engine should know of an attempt's DAG, not to be changed; None if nothing was heard."""

    def summary(self) -> str:
        """Return in a few words what is wrong; empty if nothing is."""

    def problem(self) -> str:
        """Return why there are no plans; empty if there are."""


@dataclass(eq=False)
class _Known:
    user: str
    queue: str
    type: str
    keys: dict[int, bytes] = field(default_factory=dict)


class PlanLink:
    """A `PlanSide` whose listener is another process. For several threads."""

    def __init__(
        self, settings: Settings, remember: Callable[[JobRun], None], command: Sequence[str] = COMMAND
    ) -> None:
        """Begin with no process; `start` makes one."""
        listener, profiles = settings.listener, settings.profiles
        self._open: Callable[[], PlanProcess] = partial(Started, command)
        if listener.socket:
            self._open = partial(Reached, Path(listener.socket))
            profiles = Profiles()  # the store is this user's
        self._begin = line("begin", *(part.model_dump(mode="json") for part in (settings.plans, listener, profiles)))
        self._address = listener.address
        self._remember = remember
        self._lock = Lock()
        self._known: dict[Attempt, _Known] = {}
        self._claims: Keeping[Attempt, Claims] = Keeping(BYTES)
        self._news: FairQueue[Attempt] = FairQueue()
        self._nodes: Mapping[int, Amounts] = {}
        self._changed = Condition()
        self._words: deque[tuple[Any, ...]] = deque()
        self._nodes_changed = False
        self._child: PlanProcess | None = None
        self._closed = Event()
        self._settled = Event()
        """The first process listens, or has said why it cannot."""
        self._stages: dict[str, list[bytes] | None] = {}
        self._answered = Condition()
        self._problem = ""
        self._listening = False
        self._cannot = False
        """The process has said why it ends."""
        self._refused = 0
        self._thread = Thread(target=self._run, name="plan listener", daemon=True)
        self.port = 0
        """Where the listener is."""

    def start(self) -> None:
        """Start the process and wait until it listens, or until `summary` says why it does not: that is tried again."""
        self._thread.start()
        if not self._settled.wait(START_S):
            self._fail(f"listener: its process has said nothing for {START_S:g} s; see the log")

    def close(self) -> None:
        """End the process, for good; returns when it has ended."""
        self._closed.set()
        if self._child is not None:
            self._child.kill()
        self._thread.join()

    @property
    def listening(self) -> bool:
        """Is the port open?"""
        return self._listening

    # For the thread that decides.

    def meet(self, attempt: Attempt, user: str, queue: str, type_: str) -> None:
        """Take that an attempt runs: whose it is, in which queue, and its application type in upper case."""
        with self._lock:
            known = self._known.setdefault(attempt, _Known(user, queue, type_))
            known.user, known.queue, known.type = user, queue, type_
        self._say("meet", attempt, user, queue, type_)

    def part(self, attempt: Attempt) -> None:
        """Forget an attempt that has ended."""
        with self._lock:
            known = self._known.pop(attempt, None)
            self._claims.pop(attempt)
            if known is not None:
                self._news.discard(known.user, attempt)
        self._say("part", attempt)

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
        self._say("key", attempt, number, key.hex())

    def machines(self, nodes: Mapping[int, Amounts]) -> None:
        """Take what each usable node has; not changed afterwards."""
        with self._changed:
            self._nodes, self._nodes_changed = nodes, True
            self._changed.notify()

    def news(self) -> Attempt | None:
        """Return an attempt of whose DAG something new is known, each user's in turn; None if there is none."""
        with self._lock:
            return self._news.pop()[1] if self._news else None

    def claims(self, attempt: Attempt) -> Claims | None:
        """Return what the engine should know of an attempt's DAG, not to be changed; None if nothing was heard."""
        with self._lock:
            return self._claims.get(attempt)

    def summary(self) -> str:
        """Return in a few words what is wrong; empty if nothing is."""
        refused = (
            f"{counted(self._refused, 'request')} for plans or reports beyond what is allowed" if self._refused else ""
        )
        return "; ".join(filter(None, (self.problem(), refused)))

    def problem(self) -> str:
        """Return why there are no plans; empty if there are."""
        return self._problem and f"no plans, tried again soon: {self._problem}"

    # For the recorder of jobs.

    def take(self, application: str) -> tuple[StageRun, ...]:
        """Return, once, what an application's driver has reported of its stages; waits for `TAKE_S` at most.

        Nothing is known while nobody listens: what a listener has heard ends with its process.
        """
        with self._answered:
            self._stages[application] = None
            if self._listening:
                self._say("take", application)
            self._answered.wait_for(lambda: self._stages[application] is not None or not self._listening, TAKE_S)
            stages = self._stages.pop(application)
        try:
            return runs_of(stages or [])
        except MessageError as error:
            _log.warning("stages of %s are not remembered: %s", application, error)
            return ()

    # The process.

    def _say(self, *words: Any) -> None:
        with self._changed:
            if len(self._words) >= WORDS_MAX:
                self._words.clear()
                if self._child is not None:
                    self._child.kill()  # its successor gets the state of that moment
            self._words.append(words)
            self._changed.notify()

    def _run(self) -> None:
        pause_s = PAUSE_S
        while not self._closed.is_set():
            began_s = time.monotonic()
            try:
                self._live()
            except Exception as error:  # whatever the process said: another one is started
                self._fail(f"the plan listener: {printable(str(error)) or type(error).__name__}")
            if time.monotonic() - began_s > PAUSE_MAX_S:
                pause_s = PAUSE_S
            if not self._closed.wait(pause_s):
                _log.warning("the plan listener is started anew")
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _live(self) -> None:
        """Start a process and hear what it says until it ends."""
        self._cannot = False
        child = self._child = self._open()
        if self._closed.is_set():
            child.kill()
        over, ended = Event(), ""
        writer = Thread(target=self._write, args=(child, over), name="to the plan listener", daemon=True)
        writer.start()
        try:
            while (found := read_frame(child.said)) is not None:
                self._hear(*found)
        finally:
            child.kill()
            with self._changed:
                over.set()
                self._changed.notify_all()
            with self._answered:
                self._listening = False
                self._answered.notify_all()
            writer.join()
            ended = child.close()
            self._forget()
        if not self._closed.is_set() and not self._cannot:
            self._fail(ended)

    def _write(self, child: PlanProcess, over: Event) -> None:
        """Send a new process everything, and then what changes."""
        try:
            with self._changed:
                self._words.clear()
                self._nodes_changed = True
            child.stdin.write(self._begin + b"".join(self._all()))
            child.stdin.flush()
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: bool(self._words) or self._nodes_changed or over.is_set())
                    words, nodes = list(self._words), self._nodes if self._nodes_changed else None
                    self._words.clear()
                    self._nodes_changed = False
                if over.is_set():
                    return
                if nodes is not None:
                    child.stdin.write(_machines(nodes))
                child.stdin.write(b"".join(line(*word) for word in words))
                child.stdin.flush()
        except OSError as error:
            _log.info("the plan listener hears no more: %s", error)

    def _all(self) -> list[bytes]:
        with self._lock:
            known = [(attempt, one, list(one.keys.items())) for attempt, one in self._known.items()]
        said = []
        for attempt, one, keys in known:
            said.append(line("meet", attempt, one.user, one.queue, one.type))
            said += [line("key", attempt, number, key.hex()) for number, key in keys]
        return said

    def _hear(self, said: Said, attempt: Attempt, content: bytes) -> None:
        """Take a frame of the process's.

        Raises:
            ValueError: it makes no sense.
        """
        match said:
            case Said.CLAIMS:
                self._take_claims(attempt, read_claims(content))
            case Said.RUN:
                self._remember(run_from_bytes(content))
            case Said.STAGES:
                application, stages = stages_from_bytes(content)
                with self._answered:
                    if application in self._stages:
                        self._stages[application] = stages
                    self._answered.notify_all()
            case Said.REFUSED:
                self._refused = int(json.loads(content))
            case Said.READY:
                self.port, self._problem = int(json.loads(content)), ""
                self._listening = True
                self._settled.set()
                _log.info("application masters may ask for plans at %s port %d", self._address, self.port)
            case Said.PROBLEM:
                self._cannot = True
                self._fail(printable(content.decode("utf-8", "replace")))

    def _take_claims(self, attempt: Attempt, claims: Claims) -> None:
        with self._lock:
            known = self._known.get(attempt)
            if known is not None:
                self._claims.put(attempt, known.user, claims, claims.nbytes)
                self._news.put(known.user, attempt)

    def _forget(self) -> None:
        """Drop everything that was received: its sender is gone."""
        with self._lock:
            for attempt, known in self._known.items():
                if attempt in self._claims:
                    self._claims.put(attempt, known.user, read_claims(b""), 0)
                    self._news.put(known.user, attempt)

    def _fail(self, problem: str) -> None:
        if problem != self._problem:  # the same reason, each time it is tried again, is no news
            _log.error("%s", problem)
        self._problem = problem
        self._settled.set()


def _machines(nodes: Mapping[int, Amounts]) -> bytes:
    """Return a line that says how many nodes there are of each kind."""
    return line("machines", list(Counter(nodes.values()).items()))
