"""The plan listener as a process of its own: the deciding process parses no message of an application master.

The sidecar (`treadle.live.plan_source`) starts it and sends it the running applications on standard input; it ends with
the sidecar. It has a low processor priority and a memory limit: it returns free memory to the system, and ends if the
limit is exceeded.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final

import psutil

from treadle.am.listener import PlanService
from treadle.am.protocol import Attempt
from treadle.config.settings import JobHistory, Listener, Plans
from treadle.errors import UserError
from treadle.history.profile import JobRun
from treadle.history.store import StoredProfiles
from treadle.live.plan_messages import CONTENT_MAX, NO_ATTEMPT, MessageKind, frame, run_to_bytes, stages_to_bytes
from treadle.processes import LISTENER, Bucket, LineLimit, Rate, log_to_stderr, lower_priority

MEMORY_MAX: Final = 2 << 30
"""Resident bytes; a process that has more ends, and another one is started."""

TRIMMED_EVERY_S: Final = 5.0
TRIMMED_BYTES: Final = 256 << 20
"""Above this usage free memory is returned at that interval; a process that has planned little uses less."""


def resident_bytes() -> int:
    """Return how much memory this process uses now."""
    return int(psutil.Process().memory_info().rss)


def trim() -> None:
    """Return free memory to the system, where the C library can: it would keep a plan's temporary memory."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class Memory:
    """Watches a process's memory."""

    def __init__(
        self,
        used: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = trim,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._used = used
        self._give_back = give_back
        self._clock_s = clock_s
        self._next_s = clock_s()

    def is_too_much(self) -> bool:
        """Return free memory to the system if due; return whether more than `MEMORY_MAX` is in use afterwards."""
        used, now_s = self._used(), self._clock_s()
        if used > MEMORY_MAX or (used > TRIMMED_BYTES and now_s >= self._next_s):
            self._give_back()
            used = self._used()
            self._next_s = now_s + TRIMMED_EVERY_S
        return used > MEMORY_MAX


_log = logging.getLogger(__name__)

ADDRESSES_MAX: Final = 16 << 30
"""Bytes of addresses, of which the planner and 64 threads use few."""

SWITCH_S: Final = 0.0002
"""How often planning yields to other threads: the one thread for all connections waits in nearly each call."""

EXIT_MEMORY: Final = 3

REPORT_INTERVAL_S: Final = 0.25
REPORTS_AT_ONCE: Final = 20
"""DAGs that are reported at a time, those of each user in turn, and how often each is at most."""

LINES: Final = Rate(100, 0.5)
"""Lines of the log at once, and in each second in the long run."""

RUNS: Final = Rate(20, 1.0)
"""Runs that may be remembered at once and in each second, of all users."""
RUNS_OF_USER: Final = Rate(10, 0.2)
USERS_MAX: Final = 1_000


class Runs:
    """Which runs are remembered: a bounded number of a user's and of all, since each costs the recorder work."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._all = Bucket(RUNS, clock_s())
        self._users: dict[str, Bucket] = {}
        self._lock = Lock()
        self.refused = 0

    def allows(self, user: str) -> bool:
        """Count a run of a user; return whether to remember it."""
        with self._lock:
            now_s = self._clock_s()
            if len(self._users) > USERS_MAX:  # those whose allowance is full are as good as new
                bursts = RUNS_OF_USER.burst
                self._users = {name: own for name, own in self._users.items() if own.left(now_s) < bursts}
            buckets = self._users.setdefault(user, Bucket(RUNS_OF_USER, now_s)), self._all
            if min(each.left(now_s) for each in buckets) < 1.0:
                self.refused += 1
                return False
            for each in buckets:
                each.take(1.0)
            return True


class Child:
    """Reads the sidecar's messages, and sends it reports and problems."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._lock = Lock()
        self._runs = Runs()
        self._service: PlanService | None = None

    def begin(self, plans: Any, listener: Any, history: Any) -> None:
        """Open the port; ends the process if that cannot be done."""
        from treadle.planner.graphene import warm_up

        warm_up()
        settings = JobHistory.model_validate(history)
        self._service = PlanService(Plans.model_validate(plans), StoredProfiles(settings).find, self._remember)
        try:
            port = self._service.listen(Listener.model_validate(listener)).port
        except UserError as error:
            self._send(MessageKind.PROBLEM, str(error).encode())
            raise SystemExit(0) from error
        self._send(MessageKind.READY, json.dumps(port).encode())
        Thread(target=self._send_updates, name="news", daemon=True).start()

    def handle(self, line: bytes) -> None:
        """Take a line of the sidecar's."""
        what, *words = json.loads(line)
        if what == "begin":
            self.begin(*words)
            return
        service = self._service
        if service is None:
            raise ValueError(f"{what} before begin")
        match what, words:
            case "meet", [attempt, user, queue, type_]:
                service.register_attempt(Attempt(*attempt), user, queue, type_)
            case "key", [attempt, number, key]:
                service.keys.give(Attempt(*attempt), number, bytes.fromhex(key))
            case "part", [attempt]:
                service.forget_attempt(Attempt(*attempt))
            case "machines", [groups]:
                kinds = [(tuple((name, amount) for name, amount in has), count) for has, count in groups]
                service.plans.set_machines(kinds)
            case "take", [application]:
                self._send(MessageKind.STAGES, stages_to_bytes(application, service.stages.take_stages(application)))
            case _:
                raise ValueError(f"{what} is not known")

    def _remember(self, run: JobRun) -> None:
        if not self._runs.allows(run.key.user):
            return
        content = run_to_bytes(run)
        if len(content) > CONTENT_MAX:
            _log.info("a run of %d bytes is not remembered", len(content))
            return
        self._send(MessageKind.RUN, content)

    def _send_updates(self) -> None:
        assert self._service is not None
        refused = 0
        memory = Memory()
        while True:
            time.sleep(REPORT_INTERVAL_S)
            if memory.is_too_much():
                _log.error("more than %d MiB are in use: the plan listener ends", MEMORY_MAX >> 20)
                logging.shutdown()
                os._exit(EXIT_MEMORY)
            for _ in range(REPORTS_AT_ONCE):
                try:
                    news = self._service.next_update()
                except Exception:  # an error in one attempt's DAG does not affect the others
                    _log.exception("the engine does not hear of a DAG")
                    continue
                if news is None:
                    break
                attempt, claims = news
                self._send(MessageKind.CLAIMS, claims.tobytes(), attempt)
            now = self._service.rates.refused + self._runs.refused
            if now != refused:
                refused = now
                self._send(MessageKind.REFUSED, json.dumps(refused).encode())

    def _send(self, kind: MessageKind, content: bytes, attempt: Attempt = NO_ATTEMPT) -> None:
        whole = frame(kind, content, attempt)
        with self._lock:
            while whole:
                whole = whole[os.write(self._out, whole) :]


def main() -> None:
    """Run until standard input ends."""
    log_to_stderr()
    for handler in logging.getLogger().handlers:
        handler.addFilter(LineLimit(*LINES))
    lower_priority(LISTENER)
    sys.setswitchinterval(SWITCH_S)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_MAX, ADDRESSES_MAX))
    out = os.dup(1)
    os.dup2(2, 1)  # any output goes to the log
    child = Child(out)
    try:
        for line in sys.stdin.buffer:
            child.handle(line)
    except BrokenPipeError:
        _log.info("the sidecar is gone")
    logging.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
