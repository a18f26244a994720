"""What one of several engines hears of its hub beside frames: hints of plans, finished jobs, and stages of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition
from typing import Final

from treadle.events import Event
from treadle.history.run import JobRun, StageRun
from treadle.sidecar.work import EventSource
from treadle.wire.frames import Frame

STAGES_MAX: Final = 256
"""Applications whose stages nobody has asked for yet; jobs of other frameworks are among them."""

STAGES_S: Final = 3.0
"""How long a finished job waits for what the plan listener has heard of its stages."""


class Beside(EventSource):
    """An event source. The hub has the plan listener, and says and warns of it itself."""

    def __init__(self, listens: bool) -> None:
        """Begin; ``listens``: the hub has a plan listener."""
        self.remember: Callable[[JobRun], None] = lambda run: None
        """Takes a finished job."""
        self._listens = listens
        self._events: Sequence[Event] = ()
        self._stages: dict[str, Sequence[StageRun]] = {}
        self._changed = Condition()

    def take(self, events: Sequence[Event], told: Sequence[object]) -> None:
        """Take what comes with the next frame: hints, and finished jobs and stages by YARN's id."""
        self._events = events
        for thing in told:
            if isinstance(thing, JobRun):
                self.remember(thing)
            elif isinstance(thing, tuple):
                with self._changed:
                    self._stages[thing[0]] = thing[1]
                    while len(self._stages) > STAGES_MAX:
                        del self._stages[next(iter(self._stages))]
                    self._changed.notify_all()

    def stages_of(self, application: str) -> Sequence[StageRun]:
        """Return, once, what an application has reported of its stages; waits for it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._listens or application in self._stages, STAGES_S)
            return self._stages.pop(application, ())

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return what came with the frame."""
        return self._events
