"""What each process of Treadle sets for itself: its priority, for processor and memory, and its log.

Also the processes that it talks to through a pipe each way: a child, or one behind a socket.

Untrusted names cannot start a line of a log, command a terminal, or displace all other lines.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copyfileobj
from threading import Lock
from typing import IO, BinaryIO, Final, NamedTuple, cast

from treadle.errors import printable

RELAXED_THRESHOLDS: Final = (100_000, 50, 1_000)
"""Garbage collection thresholds for programs whose objects mostly persist, or are freed without a collection."""


@contextmanager
def relaxed_gc() -> Iterator[None]:
    """Collect garbage rarely during the context."""
    before = gc.get_threshold()
    gc.set_threshold(*RELAXED_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def peak_memory_mb() -> float:
    """Return the peak resident memory (MB) of this process since its program started.

    `getrusage` does not show that: after fork and exec, its `ru_maxrss` starts at the parent's value.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")


LISTENER: Final = 10
"""Niceness of processes that serve waiting application masters: a tenth of a contended processor."""

LEAST: Final = 19
"""Niceness of background work: the minimum share of a processor."""

FIRST: Final = 900
"""OOM score of the process that the kernel should kill first; 0 is the default, 1,000 the maximum."""


def prefer_oom_kill() -> None:
    """Make the kernel kill this process and its children before others when memory runs out.

    A custom part may use all memory of the ResourceManager's host: then the sidecar must be killed first.
    """
    with suppress(OSError, ValueError):  # the file may be missing
        path = Path("/proc/self/oom_score_adj")
        if int(path.read_text("ascii")) < FIRST:
            path.write_text(f"{FIRST}\n", "ascii")


def lower_priority(nice: int) -> None:
    """Give other processes priority, where supported; applies to threads started later too.

    Only within a session: some kernels first share processors between sessions (`sched_autogroup_enabled`). So a
    process that is to yield to its parent must not have its own session.
    """
    with suppress(OSError, AttributeError):
        os.nice(nice)
    with suppress(OSError, AttributeError):
        # Waking up, as it does for each connection, preempts no other process.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class Rate(NamedTuple):
    """How much at once, and per second in the long run."""

    burst: float
    per_s: float


class Bucket:
    """An allowance that refills at a rate, full at first. Not thread-safe."""

    def __init__(self, rate: Rate, now_s: float) -> None:
        self._rate = rate
        self._left, self._at_s = rate.burst, now_s

    def left(self, now_s: float) -> float:
        """Return the allowance now; a clock that went back refills nothing."""
        self._left = min(self._rate.burst, self._left + max(now_s - self._at_s, 0.0) * self._rate.per_s)
        self._at_s = now_s
        return self._left

    def take(self, amount: float) -> None:
        """Reduce the allowance."""
        self._left -= amount


class LineLimit(logging.Filter):
    """Limits the rate of records; the first after a gap reports how many were dropped. Thread-safe."""

    def __init__(self, burst: float, per_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Start with a full allowance.

        Args:
            burst: lines at once
            per_s: lines per second in the long run
            clock_s: the time, in seconds
        """
        super().__init__()
        self._clock_s = clock_s
        self._lines = Bucket(Rate(burst, per_s), clock_s())
        self._left_out = 0
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        with self._lock:
            if self._lines.left(self._clock_s()) < 1.0:
                self._left_out += 1
                return False
            self._lines.take(1.0)
            left_out, self._left_out = self._left_out, 0
        if left_out:
            record.msg, record.args = f"({left_out} lines were left out) {record.getMessage()}", ()
        return True


def limited(name: str, burst: float, per_s: float) -> logging.Logger:
    """Return a logger with a rate limit and the destinations of a named logger."""
    logger = logging.Logger(name, logging.INFO)
    logger.parent = logging.getLogger(name)
    logger.addFilter(LineLimit(burst, per_s))
    return logger


FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class PrintableFormatter(logging.Formatter):
    """Formats records: only the first line begins at the margin; others, such as a stack trace, are indented."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return "\n    ".join(printable(line) for line in super().format(record).split("\n"))


def log_to_stderr() -> None:
    """Send all records to standard error, in such lines; of some libraries only warnings and errors."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for noisy in ("py4j", "numba"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


LOG_BYTES: Final = 16 << 20
"""Maximum size of a log in bytes; above it the log is moved to FILE.1."""


def shorten(descriptor: int, most_bytes: int = LOG_BYTES) -> None:
    """Move a log's content to FILE.1 once it is too long, and empty it.

    It is emptied rather than renamed, since other processes append to it, too. Other kinds of files are ignored.

    Args:
        descriptor: the open file, in append mode for all writers
        most_bytes: its maximum size
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size <= most_bytes:
        return
    with suppress(OSError):
        file = Path(f"/proc/self/fd/{descriptor}").readlink()
        older = file.with_name(f"{file.name}.1")
        older.unlink(missing_ok=True)
        with file.open("rb") as full, older.open("xb") as copy:
            copyfileobj(full, copy)
    os.ftruncate(descriptor, 0)


class Child:
    """A process of this user's."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        errors: IO[bytes] | None = None,
        group: int | None = None,
    ) -> None:
        """Start it, without a shell.

        Args:
            command: the program and its arguments
            environment: all variables that it gets
            errors: takes its standard error; None: this process's
            group: the process group that it joins; 0: one of its own; None: this process's
        """
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            process_group=group,
        )
        self.stdin, self.stdout = cast(BinaryIO, self.popen.stdin), cast(BinaryIO, self.popen.stdout)

    def kill(self) -> None:
        """End it."""
        self.popen.kill()

    def close(self) -> int:
        """Close the pipes, wait for its end and return its exit status."""
        _close(self.stdin, self.stdout)
        return self.popen.wait()


class Remote:
    """A process behind a socket; it ends when the connection does."""

    def __init__(self, connected: socket.socket) -> None:
        """Take a connection."""
        self._connected = connected
        self.stdin: BinaryIO = connected.makefile("wb")
        self.stdout: BinaryIO = connected.makefile("rb")

    def kill(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        _close(self.stdin, self.stdout, self._connected)


def _close(*streams: BinaryIO | socket.socket) -> None:
    for stream in streams:
        # close() writes unread data once more; its failure would hide the reason
        with suppress(OSError):
            stream.close()
