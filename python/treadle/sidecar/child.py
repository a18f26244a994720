"""An engine process as the hub sees it: it is started, sent frames, watched, killed and restarted.

Engine processes trust the hub, which sends them pickles. The hub does not trust them, because they run user code: it
reads only bytes from them, either an answer or an empty message as a sign of life.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Condition, Thread, Timer
from typing import Final, NamedTuple

from treadle.errors import printable
from treadle.events import Event

LISTENS: Final = "listens"
"""Argument of an engine's process if the hub has a plan listener."""


class Work(NamedTuple):
    """The input of an engine for one frame."""

    frame: bytes
    reply_max_bytes: int
    events: tuple[Event, ...]
    """Events that are not in the frame, with the frame's indices."""
    remembered: tuple[object, ...]
    """Finished jobs, for the engine's job history."""
    lease_ms: int
    """The engine sends eight signs of life in this time."""


_log = logging.getLogger(__name__)

READY: Final = b"ready"
"""The first message of a process that is not a sign of life; any other one is the reason why it cannot start."""

ANSWER_BYTES_MAX: Final = 64 << 20
START_MAX_S: Final = 600.0
"""A process that is not ready by then never will be."""

PAUSE_S: Final = 1.0
PAUSE_MAX_S: Final = 60.0
"""How long after its end another one is started: doubled with each that lived no longer than the most."""

CLOSE_S: Final = 0.7
"""How long one that is to end has to write the rest of its recording."""

ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Avoids unused library threads on each processor; a systemd unit has room for few."""

_TEXT_MAX: Final = 400

_WATCH_S: Final = 0.5
"""Interval of checks whether a silent process has ended: one of its children may hold its descriptor."""

_SIGNS_PER_S: Final = 1000
"""More signs of life than that since the latest answer are a flood; a process shows eight in a lease."""


class ChildProcess:
    """An engine in a process, which is replaced by a new one when it ends."""

    def __init__(self, name: str, command: Sequence[str], changed: Condition) -> None:
        """Start the first process.

        Args:
            name: the engine's
            command: the process's command, to which the number of its descriptor is added
            changed: is notified of every change that the hub may wait for
        """
        self._name, self._command, self._changed = name, command, changed
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        """This end of the connection, until it is cut."""
        self._work: Work | None = None
        self._answer: bytes | None = None
        self._ready = self._working = self._closed = self._restart_now = False
        self._begun_s = self._life_s = self._heard_s = 0.0
        self._signs = 0
        """How many signs of life there were since `_heard_s`, when it began or answered."""
        self._why = ""
        self.starts = 0
        self.messages = 0
        """How many answers and signs of life have come from it and those before it."""
        self.problem = ""
        self._thread = Thread(target=self._run, name=f"engine {name}", daemon=True)
        self._thread.start()

    # For the hub

    def check_alive(self, lease_ms: int, decision_max_ms: int) -> bool:
        """Return whether it is alive; a process without a sign of life for so long is killed and replaced."""
        with self._changed:
            process, now_s = self._process, time.monotonic()
            if process is None:
                return False
            if not self._ready:
                self._kill_if(now_s - self._begun_s > START_MAX_S, f"it was not ready after {START_MAX_S:g} s")
            elif self._working:
                silent_s, thinks_s = now_s - self._life_s, now_s - self._begun_s
                self._kill_if(silent_s > lease_ms / 1000, f"it has shown no life for {silent_s:.1f} s")
                self._kill_if(thinks_s > decision_max_ms / 1000, f"it has thought for {thinks_s:.1f} s")
            if process.poll() is not None:
                self._ready = False
                self._kill()
                self._changed.notify_all()
            return self._ready

    def fail(self, why: str) -> None:
        """Kill it, and have another one started."""
        with self._changed:
            self._kill_if(True, why)

    def _kill_if(self, reason: bool, why: str) -> None:
        if reason and not self._why:
            self._why, self._ready = why, False
            self._kill()

    def _kill(self) -> None:
        """Kill the process and its children, and close the connection, whichever process has the other end."""
        with self._changed:
            process, line, self._line = self._process, self._line, None
            if process is None or line is None:
                return
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(OSError):
                end = socket.socket(fileno=line.fileno())
                try:
                    end.shutdown(socket.SHUT_RDWR)
                finally:
                    end.detach()

    @property
    def idle(self) -> bool:
        """Can it take work?"""
        return self._ready and not self._working

    @property
    def busy(self) -> bool:
        """Does it work?"""
        return self._ready and self._working

    def begin(self, work: Work) -> None:
        """Send it work, if it is idle."""
        with self._changed:
            self._work, self._answer, self._working = work, None, True
            self._begun_s = self._life_s = time.monotonic()
            self._changed.notify_all()

    def take(self) -> bytes | None:
        """Return the latest answer once; None if there is none."""
        with self._changed:
            answer, self._answer = self._answer, None
            return answer

    def retry(self) -> None:
        """Start the next process at once, if it is waiting to be started."""
        with self._changed:
            self._restart_now = True
            self._changed.notify_all()

    def close(self) -> None:
        """End it for good: it is asked to, and killed after CLOSE_S."""
        with self._changed:
            self._closed, self._ready = True, False
            if self._process is not None:
                self._process.terminate()
            self._changed.notify_all()
        late = Timer(CLOSE_S, self._kill)
        late.daemon = True
        late.start()

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended after `close`."""
        self._thread.join(timeout_s)

    @property
    def ended(self) -> bool:
        """Has it ended for good?"""
        return not self._thread.is_alive()

    # Its thread

    def _run(self) -> None:
        pause_s = PAUSE_S
        while not self._closed:
            began_s = time.monotonic()
            ours: Connection | None = None
            try:
                ours, theirs = Pipe()
                self._serve(ours, theirs)
            except Exception as error:  # such as no descriptor or memory left: that passes
                self._end(error)
            finally:
                if ours is not None:
                    ours.close()
            if time.monotonic() - began_s > PAUSE_MAX_S:
                pause_s = PAUSE_S
            with self._changed:
                self._restart_now = False
                hurries = self._changed.wait_for(lambda: self._closed or self._restart_now, pause_s)
            pause_s = PAUSE_S if hurries else min(2 * pause_s, PAUSE_MAX_S)

    def _serve(self, ours: Connection, theirs: Connection) -> None:
        """Start a process, and send it work until it ends.

        Raises:
            EOFError, OSError: it has ended, could not be started, or sent too much.
        """
        with theirs:
            process = subprocess.Popen(
                [*self._command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**ONE_THREAD, **os.environ},
                start_new_session=True,  # it is killed together with its children
            )
        with self._changed:
            self._process, self._line = process, ours
            self._begun_s = self._heard_s = time.monotonic()
            self._signs = 0
            if self._closed:
                raise EOFError
        first = self._read_message(ours, process)
        if first != READY:
            self._why = printable(first[:_TEXT_MAX].decode(errors="replace"))
            raise EOFError
        with self._changed:
            self._ready, self.problem = not self._closed, ""
            self.starts += 1
        while True:
            with self._changed:
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._work is not None or not self._ready)
                if not self._ready or self._work is None:
                    raise EOFError
                work, self._work = self._work, None
            ours.send(work)
            answer = self._read_message(ours, process)
            with self._changed:
                self._answer, self._working = answer, False

    def _read_message(self, ours: Connection, process: subprocess.Popen[bytes]) -> bytes:
        while True:
            has_message, now_s = ours.poll(_WATCH_S), time.monotonic()
            if has_message:
                message = ours.recv_bytes(ANSWER_BYTES_MAX)
                self.messages += 1
                if message:
                    self._signs, self._heard_s = 0, now_s
                    return message
            if process.poll() is not None:
                raise EOFError
            if has_message:
                self._life_s, self._signs = now_s, self._signs + 1
                if self._signs > _SIGNS_PER_S * (1 + now_s - self._heard_s):
                    raise OSError(f"it shows more than {_SIGNS_PER_S} signs of life in a second")

    def _end(self, error: Exception) -> None:
        """Handle the end of the process, or end it."""
        process = self._process
        why = (
            "" if isinstance(error, EOFError | ConnectionError) else printable((str(error) or repr(error))[:_TEXT_MAX])
        )
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(CLOSE_S if self._closed else 0.1)
            self._kill()
            code = process.wait()
            why = why or f"code {code}"
        with self._changed:
            self._process, self._line, self._work, self._answer = None, None, None, None
            self._ready = self._working = False
            self.problem = f"its process has ended ({self._why or why}), and is started again"
            self._why = ""
            self._changed.notify_all()
        if not self._closed:
            _log.warning("engine %s: %s", self._name, self.problem)
