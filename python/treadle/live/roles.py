"""Who works together in a sidecar: what its session needs of an engine, and of those who know, keep and watch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from treadle.config.settings import Settings
from treadle.engine.attempts import Attempts
from treadle.events import Event, PolicySwitch, Samples
from treadle.policy.user_parts import PartFailure
from treadle.proposals import Proposals
from treadle.wire.frames import Frame


class DecisionEngine(Protocol):
    """What a session needs of an engine; `treadle.engine.Engine` is the one there is."""

    def apply(self, events: Sequence[Event]) -> None:
        """Take in what a frame says. Columns of events are valid only during the call."""

    def decide(self, now_ms: int, limit: int, *, sequence: int, assume: bool) -> Proposals:
        """Return at most ``limit`` proposals.

        ``sequence`` is what `treadle.events.Fates` will call this answer; without ``assume`` nothing will be committed,
        and no proposal counts as placed.
        """

    def configure(self, settings: Settings) -> None:
        """Follow other settings from now on; the model stays.

        Raises:
            PartFailure: a part cannot be made; all is as before.
        """

    @property
    def running(self) -> Settings:
        """The settings followed now: with another policy than configured after a part failed."""

    @property
    def failure(self) -> PartFailure | None:
        """Why the policy configured is not the one that runs; None if it is."""

    def switches(self) -> Sequence[PolicySwitch]:
        """Return the latest changes to another policy after a part failed, oldest first."""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know: what in the cluster is followed otherwise than configured."""

    def starved(self) -> Sequence[str]:
        """Return which queues have stayed below what they are entitled to, and why."""

    def diagnostics(self) -> Sequence[tuple[int, str]]:
        """Return what applications should know, by their index."""

    def contention(self) -> str:
        """Return in a few words how contended nodes are; empty if that is not known."""

    def waits_for(self) -> str:
        """Return for what asks that could be served are held back on purpose; empty if none is."""

    def samples(self) -> Samples | None:
        """Return the gate's samples and decisions since the last call; None if nothing has changed."""

    @property
    def attempts(self) -> Attempts | None:
        """How one of several engines tries to place what is asked for; None of the only one."""


class PolicyKeeper(Protocol):
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


class FrameObserver(Protocol):
    """Who is shown every frame that was taken; `treadle.live.history_writer.ProfileRecorder` is."""

    def take(self, frame: bytes) -> None:
        """Take a frame; must return at once and raise nothing."""

    def follow(self, settings: Settings) -> None:
        """Follow other settings from now on; must return at once and raise nothing."""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know."""

    def wants_snapshot(self) -> bool:
        """Say, once, that nothing can be made of the frames before the next snapshot, which should come now."""


class EventSource(Protocol):
    """Knows more than the frames; `treadle.live.event_source.HistorySource` is one. All must return at once."""

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return the events that the engine gets after those of a frame and before it decides."""

    def learn(self, samples: Samples) -> None:
        """Take the engine's pilot measurements."""

    def forget(self) -> None:
        """Take that the engine fails over and over: what it was given may be why."""

    def summary(self) -> str:
        """Return in a few words what is known, for the status; empty if there is nothing to say."""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know."""

    def keys_for(self) -> Sequence[str]:
        """Return the types of the applications whose keys the frames should bring (`treadle.events.AttemptKeys`)."""


class TickRecorder(Protocol):
    """Gets all input and output of a session; `treadle.live.recorder.LiveRecorder` is one.

    All must return at once and raise nothing.
    """

    def begin(self, frame: bytes, reply_max_bytes: int | None) -> bool:
        """Take a frame before it is used; return whether the answer must ask for a snapshot."""

    def refused(self) -> None:
        """Take notice that the frame is refused because the observer wants a snapshot."""

    def reading(self, reading: Future[Settings]) -> None:
        """Record the outcome of reading the settings again."""

    def beside(self, events: Sequence[Event]) -> None:
        """Record events that the engine got beside the frame."""

    def end(self, answer: bytes, decide_us: int, known: str, warnings: Sequence[str], engine: DecisionEngine) -> None:
        """Record the answer, and the parts of it that are not the engine's.

        Args:
            answer: all of it
            decide_us: what it says of the time taken
            known: what is known beside the frames
            warnings: those of others than the engine
            engine: the engine, for its `DecisionEngine.switches`
        """

    def summary(self) -> str:
        """Return in a few words what is recorded, for the status; empty if nothing is."""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know."""

    def follow(self, settings: Settings) -> None:
        """Follow other settings from now on."""
