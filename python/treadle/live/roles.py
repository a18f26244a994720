"""Who works together with a session in a sidecar: who knows, keeps and watches. Each does nothing by default."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.events import Event, PolicySwitch
from treadle.policy.user_parts import PartFailure
from treadle.sidecar.work import EventSource

__all__ = ["EventSource", "FrameObserver", "PolicyKeeper", "TickRecorder"]


class PolicyKeeper:
    """Gets the outcome of policy changes; `treadle.live.policies.LivePolicies` is one."""

    def begin(self) -> None:
        """Take notice that a decide begins."""

    def changed(self, before: Settings, now: Settings) -> None:
        """Take notice that the engine follows other settings; ``before`` did well."""

    def failed(
        self, settings: Settings, failure: PartFailure, running: Settings, switches: Sequence[PolicySwitch]
    ) -> None:
        """Take notice that a part of ``settings``, or of those that replaced them, failed, and which run now.

        ``switches`` are those of the engine that were not reported before, oldest first.
        """


class FrameObserver:
    """Who is shown every frame that was taken; `treadle.live.history_writer.ProfileRecorder` is."""

    def take(self, frame: bytes) -> None:
        """Take a frame; must return at once and raise nothing."""

    def follow(self, settings: Settings) -> None:
        """Follow other settings from now on; must return at once and raise nothing."""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know."""
        return ()

    def wants_snapshot(self) -> bool:
        """Say, once, that nothing can be made of the frames before the next snapshot, which should come now."""
        return False


class TickRecorder:
    """Gets all input and output of a session; `treadle.live.recorder.LiveRecorder` is one.

    All must return at once and raise nothing.
    """

    def begin(self, frame: bytes, reply_max_bytes: int | None) -> bool:
        """Take a frame before it is used; return whether the answer must ask for a snapshot."""
        return False

    def refused(self) -> None:
        """Take notice that the frame is refused because the observer wants a snapshot."""

    def reading(self, reading: Future[Settings]) -> None:
        """Record the outcome of reading the settings again."""

    def beside(self, events: Sequence[Event]) -> None:
        """Record events that the engine got beside the frame."""

    def end(self, answer: bytes, decide_us: int, known: str, warnings: Sequence[str], engine: Engine) -> None:
        """Record the answer, and the parts of it that are not the engine's.

        Args:
            answer: all of it
            decide_us: what it says of the time taken
            known: what is known beside the frames
            warnings: those of others than the engine
            engine: the engine, for its switches
        """

    def summary(self) -> str:
        """Return in a few words what is recorded, for the status; empty if nothing is."""
        return ""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know."""
        return ()

    def follow(self, settings: Settings) -> None:
        """Follow other settings from now on."""
