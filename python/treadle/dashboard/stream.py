"""Server-sent events: a line to each page that looks whenever there is something new, to a bounded number of pages.

Nothing is queued for anybody: who comes late for a change gets the next one.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Final

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from treadle.dashboard.board import Board

CLIENTS_MAX: Final = 32
PULSE_S: Final = 5.0
"""So often a line is sent although nothing is new; it says when the cluster was looked at last."""
LIFE_S: Final = 3600.0
"""A stream ends after that; the browser opens another one."""
SEND_S: Final = 20.0
"""Who does not take a line within this time is let go."""


class Stream:
    """The events of a board, as an ASGI application."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._changed = asyncio.Event()
        self.clients = 0

    def wake(self) -> None:
        """Wake all streams: something is new; on the event loop's thread."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        if self.clients >= CLIENTS_MAX:
            text = f"{CLIENTS_MAX} pages are open already; close one"
            await PlainTextResponse(text, 503, {"Retry-After": "30"})(scope, receive, send)
            return
        self.clients += 1
        try:
            gone = asyncio.ensure_future(_gone(receive))
            try:
                await self._serve(send, gone)
            except (OSError, TimeoutError):
                pass  # it left, or does not read
            finally:
                gone.cancel()
        finally:
            self.clients -= 1

    async def _serve(self, send: Send, gone: asyncio.Future[None]) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        until_s = time.monotonic() + LIFE_S
        while time.monotonic() < until_s and not gone.done():
            changed = asyncio.ensure_future(self._changed.wait())
            line = json.dumps({"version": self._board.version, "looked_s": self._board.looked_s, "now_s": time.time()})
            body = f"event: look\ndata: {line}\n\n".encode()
            try:
                await asyncio.wait_for(send({"type": "http.response.body", "body": body, "more_body": True}), SEND_S)
                awaited: set[asyncio.Future[Any]] = {changed, gone}
                await asyncio.wait(awaited, timeout=PULSE_S, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
