"""Who works together in a hub: what it needs of an engine's process, and of who knows more than frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from treadle.events import Event
from treadle.wire.frames import Frame


class Work(NamedTuple):
    """What an engine gets at a time."""

    frame: bytes
    reply_max_bytes: int
    beside: tuple[Event, ...]
    """What is known beside the frame, by its indices."""
    lease_ms: int
    """It shows that it lives four times in so long."""


class Child(Protocol):
    """An engine that takes frames one at a time; `treadle.sidecar.child.ChildProcess` is one."""

    starts: int
    """How often it has begun with nothing known; 0: it has not begun yet."""
    problem: str
    """Why it does not run; empty if it does."""

    def look(self, lease_ms: int, decision_max_ms: int) -> bool:
        """Return whether it is alive; one that shows no life for so long is ended, and another one started."""

    @property
    def idle(self) -> bool:
        """Can it take work?"""

    @property
    def busy(self) -> bool:
        """Does it work?"""

    def begin(self, work: Work) -> None:
        """Let it take work, if it is idle."""

    def take(self) -> bytes | None:
        """Return, once, what it has answered."""

    def retry(self) -> None:
        """Let the next one be started at once, if it waits for that."""

    def close(self) -> None:
        """End it for good; need not wait."""


class Beside(Protocol):
    """Who knows more of applications than the frames; `treadle.live.plan_source.PlanEventSource` is."""

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return the events beside a frame, by application."""

    def again(self, applications: Iterable[int]) -> None:
        """Return all that is known of some applications with the next frames, as if it were new."""

    def summary(self) -> str:
        """Return in a few words what is known."""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know."""

    def keys_for(self) -> Sequence[str]:
        """Return the types of the applications whose keys the frames should bring."""
