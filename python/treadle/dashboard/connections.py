"""Bounds the server's connections: strangers get a deadline and a share of them, the rest is for who is known.

A connection is known while it answers a request that shows the token or a cookie. At all other times it is a
stranger's, whatever was asked on it before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from treadle.line_limit import limited

KNOWN_MAX: Final = 64
"""Requests of the known that are answered at a time."""

STRANGERS_MAX: Final = 64
"""Connections of strangers; one more ends the oldest, if its grace is over."""

CROWD_MAX: Final = 256
"""Beyond so many strangers the oldest is ended however young it is."""

GRACE_S: Final = 0.05
"""How long a stranger is not ended for another one: a client sends its request at once."""

STRANGER_S: Final = 10.0
"""How long a stranger has for a request and the whole answer."""

LINES: Final = (20.0, 0.1)
"""Lines about what strangers send in the log at once, and in each second in the long run."""

ADMIT: Final = "treadle.admit"
"""The key in a request's state of a function that makes its connection known; it returns whether there is room."""


class Connections:
    """All connections of one server. Everything is for the event loop's thread."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._strangers: dict[BoundedProtocol, float] = {}
        """Since when; the oldest first."""
        self._known: set[BoundedProtocol] = set()
        self.log = limited("uvicorn.error", *LINES)
        """For requests that are none; `treadle.dashboard.server` logs the others."""

    def enter(self, connection: BoundedProtocol) -> None:
        """Take a connection for a stranger's, and end the oldest ones for which there is no room."""
        self.leave(connection)
        self._strangers[connection] = now_s = self._clock_s()
        while len(self._strangers) > STRANGERS_MAX:
            oldest, since_s = next(iter(self._strangers.items()))
            if now_s - since_s < GRACE_S and len(self._strangers) <= CROWD_MAX:
                break
            self.leave(oldest)
            oldest.transport.abort()

    def admit(self, connection: BoundedProtocol) -> bool:
        """Take a connection for known; return whether there is room."""
        if len(self._known) >= KNOWN_MAX:
            return False
        self.leave(connection)
        self._known.add(connection)
        return True

    def leave(self, connection: BoundedProtocol) -> None:
        """Forget a connection."""
        self._strangers.pop(connection, None)
        self._known.discard(connection)


class BoundedProtocol(H11Protocol):
    """One connection."""

    def __init__(self, connections: Connections, **made_of: Any) -> None:
        """Make one of ``connections``; uvicorn passes all else by name."""
        super().__init__(**made_of)
        self.app_state = {**self.app_state, ADMIT: self._admit}
        self.logger = connections.log
        self._bounds = connections
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin as a stranger."""
        super().connection_made(transport)
        self._enter()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._bounds.leave(self)
        self._set_deadline(None)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Be a stranger again, until the next request."""
        super().on_response_complete()
        self._enter()

    def _enter(self) -> None:
        self._set_deadline(self.loop.call_later(STRANGER_S, self.transport.abort))
        self._bounds.enter(self)

    def _admit(self) -> bool:
        admitted = self._bounds.admit(self)
        if admitted:
            self._set_deadline(None)
        return admitted

    def _set_deadline(self, deadline: asyncio.TimerHandle | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = deadline
