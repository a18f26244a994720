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
from treadle.live.process import EXIT_MISTAKE, kernel_cache, loading
from treadle.live.question_socket import Close, close_all
from treadle.processes import log_to_stderr
from treadle.sidecar.child import LISTENS, READY, Work
from treadle.sidecar.hub import LEASE_MS

_log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1


class Line:
    """The messages to the hub: answers, and eight signs of life per lease."""

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
                time.sleep(self.lease_ms / 8000)
        os._exit(0)  # the hub is gone, however busy this is


def main() -> None:
    """Serve the hub. Arguments: treadle.yaml, the engine's name, LISTENS or another word, and a descriptor."""
    config, engine, listens, connection = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Connection(int(sys.argv[4]))
    log_to_stderr()
    closing: list[Close] = []
    signal.signal(signal.SIGTERM, lambda *_: _end(closing))
    line, cache = Line(connection), kernel_cache(config)
    closing.append(lambda _: cache.remove())
    try:
        _serve(connection, line, closing, config, engine, listens == LISTENS)
    except UserError as error:
        text = "; ".join(str(error).splitlines())
        _log.error("%s", text)
        line.send(text.encode())
        sys.exit(EXIT_MISTAKE)
    except (EOFError, OSError):
        _end(closing)


def _serve(connection: Connection, line: Line, closing: list[Close], config: Path, engine: str, listens: bool) -> None:
    with loading():
        from treadle.live.policies import HubEvents, open_session

        beside = HubEvents(listens)
        session = open_session(config, closing, engine, beside)
    line.send(READY)
    while True:
        work: Work = connection.recv()
        beside.take(work.events, work.remembered)
        line.lease_ms = work.lease_ms
        line.send(session.decide(work.frame, work.reply_max_bytes))


def _end(closing: Sequence[Close]) -> None:
    close_all(closing, "the sidecar was ended")
    logging.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
