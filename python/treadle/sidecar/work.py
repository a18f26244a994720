"""What an engine of a hub gets, and who knows more than frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from treadle.events import Event, Samples
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
    """It shows that it lives eight times in so long."""


class EventSource:
    """Knows more than the frames, such as `treadle.live.event_source.HistorySource`. All must return at once."""

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return the events that the engine gets after those of a frame and before it decides."""
        return ()

    def learn(self, samples: Samples) -> None:
        """Take the engine's pilot measurements."""

    def forget(self) -> None:
        """Take that the engine fails over and over: what it was given may be why."""

    def again(self, applications: Iterable[int]) -> None:
        """Return all that is known of some applications with the next frames, as if it were new."""

    def summary(self) -> str:
        """Return in a few words what is known, for the status; empty if there is nothing to say."""
        return ""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know."""
        return ()

    def keys_for(self) -> Sequence[str]:
        """Return the types of the applications whose keys the frames should bring (`treadle.events.AttemptKeys`)."""
        return ()
