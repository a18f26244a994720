"""A dashboard of a cluster, served by a real server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import requests
from tests.support.waiting import eventually

from treadle.dashboard.collector import Board, Collector
from treadle.dashboard.history import History
from treadle.dashboard.reading import Held, Reader
from treadle.dashboard.server import Authenticator, Explain, ExplainRequests, Parts, addresses, listen, server_of
from treadle.errors import UserError

TOKEN = "a-token-of-tests-0123456789"
ANSWER_S = 120.0


def nobody() -> Any:
    """What is asked of engines where there are none."""
    raise UserError("no engine can be asked")


@dataclass
class Dashboard:
    """Where it is, and what it is made of."""

    url: str
    parts: Parts

    def get(self, path: str, **options: Any) -> requests.Response:
        """Ask as somebody who has the token, unless other headers are given."""
        options.setdefault("headers", {"Authorization": f"Bearer {TOKEN}"})
        return requests.get(self.url + path, timeout=ANSWER_S, allow_redirects=False, **options)


@contextmanager
def dashboard(
    rm: str, folder: Path, explain: Explain, urls: tuple[str, ...] = (), held: Held = nobody
) -> Iterator[Dashboard]:
    """Serve a dashboard that has looked at least once."""
    history, board, reader = History(folder / "history.sqlite"), Board(), Reader(rm)
    collector = Collector(reader, history, board, held=held, observed=nobody)
    questions = ExplainRequests(reader, explain)
    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        parts = Parts(collector, board, history, questions, addresses("127.0.0.1", port, urls), Authenticator(TOKEN))
        server = server_of(parts)
        thread = Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            eventually(lambda: board.version > 0)
            yield Dashboard(f"http://127.0.0.1:{port}", parts)
        finally:
            server.should_exit = True
            thread.join()
            history.close()
