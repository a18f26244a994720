"""The process of one of several engines: started by the hub (`treadle.live.engines`), which ends with the hub.

Its session gets the hub's frames as if they were the ResourceManager's.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from treadle.errors import UserError
from treadle.events import Event, Samples
from treadle.live.closing import Close, close_all
from treadle.live.log_lines import log_to_stderr
from treadle.live.process import EXIT_MISTAKE, kernel_cache, loading
from treadle.sidecar.child import READY
from treadle.sidecar.hub import LEASE_MS
from treadle.sidecar.roles import Work
from treadle.wire.frames import Frame

_log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1


class Beside:
    """The event source of what the hub knows beside frames."""

    def __init__(self) -> None:
        self.events: Sequence[Event] = ()

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return what came with the frame."""
        return self.events

    def learn(self, samples: Samples) -> None:
        """Ignore pilot measurements."""

    def forget(self) -> None:
        """Go on: the hub repeats nothing."""

    def summary(self) -> str:
        """Return nothing: the hub says it."""
        return ""

    def warnings(self) -> Sequence[str]:
        """Return nothing: the hub warns."""
        return ()

    def keys_for(self) -> Sequence[str]:
        """Return no type: no keys come here."""
        return ()


class Line:
    """What the hub hears: answers, and four signs of life in a lease."""

    def __init__(self, connection: Connection) -> None:
        """Show signs of life from now on, and end with the hub, even while stopped."""
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        self._connection, self._lock = connection, Lock()
        self.lease_ms = LEASE_MS
        Thread(target=self._live, name="life", daemon=True).start()

    def send(self, content: bytes) -> None:
        """Send a message."""
        with self._lock:
            self._connection.send_bytes(content)

    def _live(self) -> None:
        with suppress(OSError):
            while True:
                self.send(b"")
                time.sleep(self.lease_ms / 4000)
        os._exit(0)  # the hub is gone, however busy this is


def main() -> None:
    """Serve the hub. Arguments: treadle.yaml, the engine's name, and the descriptor of the connection."""
    config, engine, connection = Path(sys.argv[1]), sys.argv[2], Connection(int(sys.argv[3]))
    log_to_stderr()
    logging.getLogger("numba").setLevel(logging.WARNING)
    closing: list[Close] = []
    signal.signal(signal.SIGTERM, lambda *_: _end(closing))
    line, cache = Line(connection), kernel_cache(config)
    closing.append(lambda _: cache.remove())
    try:
        _serve(connection, line, config, engine, closing)
    except UserError as error:
        text = "; ".join(str(error).splitlines())
        _log.error("%s", text)
        line.send(text.encode())
        sys.exit(EXIT_MISTAKE)
    except (EOFError, OSError):
        _end(closing)


def _serve(connection: Connection, line: Line, config: Path, engine: str, closing: list[Close]) -> None:
    beside = Beside()
    with loading():
        from treadle.live.engine_session import open_session

        session = open_session(config, closing, engine, beside)
    line.send(READY)
    while True:
        work: Work = connection.recv()
        beside.events, line.lease_ms = work.beside, work.lease_ms
        line.send(session.decide(work.frame, work.reply_max_bytes))


def _end(closing: Sequence[Close]) -> None:
    close_all(closing, "the sidecar was ended")
    logging.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
