"""What an engine of a hub gets, and who knows more than the frames that it is made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from treadle.events import Event
from treadle.wire.frames import Frame

LISTENS: Final = "listens"
"""The argument of an engine's process that says that the hub has a plan listener."""


class Work(NamedTuple):
    """What an engine gets at a time."""

    frame: bytes
    reply_max_bytes: int
    beside: tuple[Event, ...]
    """What is known beside the frame, by its indices."""
    told: tuple[object, ...]
    """What the engine is to remember."""
    lease_ms: int
    """It shows that it lives four times in so long."""


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
