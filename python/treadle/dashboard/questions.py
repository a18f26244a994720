"""What a page asks beyond the documents: why an application waits, what it asks for. One question at a time."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from treadle.dashboard.reading import Reader
from treadle.errors import UserError

KEPT_S: Final = 10.0
"""How long an answer is given again."""
PAUSE_S: Final = 0.5
"""At least so much time is between two questions to the sidecar or the ResourceManager."""
KEPT_MAX: Final = 64
_WAIT_S: Final = 5.0
_APPLICATION: Final = re.compile(r"application_\d{1,19}_\d{1,10}")

Explain = Callable[[str], dict[str, Any]]
"""Returns what the sidecar says of an application; raises `UserError` if it cannot be asked."""


class BusyError(Exception):
    """Others ask already."""


class Questions:
    """Asks in the name of those who look at a page. Thread-safe."""

    def __init__(self, reader: Reader, explain: Explain, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin.

        Args:
            reader: of the ResourceManager
            explain: asks a sidecar
            clock: seconds
        """
        self._reader, self._explain, self._clock = reader, explain, clock
        self._one = Lock()
        self._kept: OrderedDict[str, tuple[float, dict[str, Any]]] = OrderedDict()
        self._asked_s = -PAUSE_S

    def about(self, application: str) -> dict[str, Any]:
        """Return what is known of an application: ``explained`` and ``asks``, or why not; ``ended`` if it has.

        ``diagnostics`` are YARN's.

        Raises:
            ValueError: there can be no such application.
            BusyError: too many ask.
        """
        if not _APPLICATION.fullmatch(application):
            raise ValueError("an application's id is application_TIME_NUMBER")
        if not self._one.acquire(timeout=_WAIT_S):
            raise BusyError
        try:
            kept = self._kept.get(application)
            if kept is not None and self._clock() - kept[0] < KEPT_S:
                return kept[1]
            time.sleep(min(max(self._asked_s + PAUSE_S - self._clock(), 0.0), PAUSE_S))
            answer = self._answer(application)
            self._asked_s = self._clock()
            self._kept[application] = self._asked_s, answer
            self._kept.move_to_end(application)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
            return answer
        finally:
            self._one.release()

    def _answer(self, application: str) -> dict[str, Any]:
        answer: dict[str, Any] = {"application": application, "asked_s": time.time()}
        try:
            found = self._reader.application(application)
            answer |= {"asks": found.asks, "diagnostics": found.diagnostics}
            if found.ended:
                return {**answer, "ended": found.ended}
        except UserError as error:
            answer["asks_error"] = str(error)
        try:
            said = self._explain(application)
        except UserError as error:
            return {**answer, "explain_error": str(error)}
        return {**answer, "explain_error": str(said["error"])} if "error" in said else {**answer, "explained": said}
