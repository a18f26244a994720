"""A caller's frames, each decoded once and answered: what one engine and a hub of several engines have in common.

A frame becomes a `Tick`, which listeners see in order: policies, histories, plans, the recorder, the comparison of
`observe_only`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final, NamedTuple, Protocol

from treadle.config.settings import Settings
from treadle.events import NOTHING_HELD, Event, Held, PolicySwitch, Proposals, Samples
from treadle.wire.answer import Answer, Status, encode_answer
from treadle.wire.frames import (
    Frame,
    FrameDecoder,
    FrameHeader,
    TooManyError,
    VersionError,
    WireError,
    read_frame_header,
)

_log = logging.getLogger(__name__)

FAILURES_MAX: Final = 8
"""After this many failures without a decision in between the process ends."""


class Application(NamedTuple):
    """An application, independent of its current index."""

    id: int
    """The cluster's time stamp and its number."""
    attempt: int
    queue: str
    type: str


class IndexLookup(Protocol):
    """The cluster after the latest frame: the meaning of indices."""

    def application_at(self, index: int) -> Application | None:
        """Return an application; None if it is not known."""

    def priority_of(self, application: int, key: int) -> int | None:
        """Return the priority of a request key; None if it is not known."""


@dataclass(slots=True)
class Tick:
    """A frame on its way to its answer."""

    content: bytes
    reply_max_bytes: int | None
    """No answer is longer, from this one on; None: as before."""
    frame: Frame | None = None
    """None: it is not decoded yet, or refused."""
    asks_snapshot: bool = False
    """A listener has the answer ask for a snapshot."""
    refused: bool = False
    """A listener wants a snapshot, for which the frame was refused."""
    reading: Future[Settings] | None = None
    """The outcome of reading the settings again."""
    offline_events: list[Event] = field(default_factory=list)
    """Events that the engine got outside the frame."""
    cluster: IndexLookup | None = None
    """The cluster as of the frame; None: it is not known."""
    proposals: Proposals = field(default_factory=Proposals.none)
    held: Held = NOTHING_HELD
    again: bool = False
    unserved: bool = False
    """As in the answer."""
    status: str | None = None
    """Status text of the answer; None: the changes of the status."""
    answer: bytes = b""
    decide_us: int = 0
    known: str = ""
    """Summary of the data outside frames, as in the status."""
    warnings: Sequence[str] = ()
    """Those of others than the engine."""
    switches: Sequence[PolicySwitch] = ()
    """The engine's latest changes of policy."""


class Listener:
    """Sees each tick, and may know more than the frames. All must return at once and raise nothing."""

    def begin(self, tick: Tick) -> None:
        """Handle the arrival of a frame, which may be invalid."""

    def wants_snapshot(self) -> bool:
        """Return, once, whether it can use no frame before the next snapshot; one is then requested."""
        return False

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return the events that the engine gets after those of a frame and before it decides."""
        return ()

    def taken(self, tick: Tick) -> None:
        """Handle a frame that the cluster of the tick has taken; it is not decided about yet."""

    def deciding(self) -> None:
        """Handle the start of a decision."""

    def learn(self, samples: Samples) -> None:
        """Take the engine's pilot measurements."""

    def end(self, tick: Tick) -> None:
        """Handle the answer to the frame."""

    def follow(self, settings: Settings, before: Settings | None = None) -> None:
        """Follow other settings from now on; those ``before``, None at first, ran without a failure."""

    def failed(self, settings: Settings, failure: Any, running: Settings, switches: Sequence[PolicySwitch]) -> None:
        """Handle the failure of a part of ``settings``, or of those that replaced them, and the settings that run now.

        ``failure`` is a `treadle.policy.user_parts.PartFailure`; ``switches`` are those of the engine that were not
        reported before, oldest first.
        """

    def forget(self) -> None:
        """Handle an engine that fails repeatedly: discard the data sent to it, which may be the cause."""

    def again(self, applications: Iterable[int]) -> None:
        """Return the known data of some applications again with the next frames."""

    def summary(self) -> str:
        """Return a short summary for the status; empty if there is nothing to report."""
        return ""

    def warnings(self) -> Sequence[str]:
        """Return warnings for the administrator."""
        return ()

    def keys_for(self) -> Sequence[str]:
        """Return the types of the applications whose keys the frames should bring (`treadle.events.AttemptKeys`)."""
        return ()


class Conversation(ABC):
    """Checks epochs and sequences, and answers every frame. Subclasses decide."""

    def __init__(self, listeners: Sequence[Listener], clock_ns: Callable[[], int]) -> None:
        """Await a snapshot.

        Args:
            listeners: see each tick, in order
            clock_ns: for the time spent deciding, which is reported and never decided upon
        """
        self._turn = RLock()
        self._listeners: tuple[Listener, ...] = tuple(listeners)
        self._clock_ns = clock_ns
        self._decoder = FrameDecoder()
        self._epoch = self._sequence = 0
        self._awaits_snapshot = True
        """Only a snapshot will be taken."""
        self._refusing = False
        """It has been logged."""
        self.failures = 0
        """How often it has failed with no decision since."""
        self._known = ""
        self._warnings: Sequence[str] = ()
        """`Tick.known` and `Tick.warnings` of the latest frame."""
        self._status = Status("", keys_for=tuple(type_ for each in self._listeners for type_ in each.keys_for()))

    def decide(self, frame: bytes, reply_max_bytes: int | None = None) -> bytes:
        """Answer a frame, an invalid one with `RESEND` and no proposals.

        Args:
            frame: as in docs/wire-format.md
            reply_max_bytes: no answer to the caller is longer, from this one on

        Raises:
            Exception: it has failed `FAILURES_MAX` times in a row; the process is to end.
        """
        with self._turn:
            tick = Tick(frame, reply_max_bytes, known=self._known, warnings=self._warnings)
            self._decide(tick)
            self._known, self._warnings = tick.known, tick.warnings
            return tick.answer

    def _decide(self, tick: Tick) -> None:
        began_ns = self._clock_ns()
        for each in self._listeners:
            each.begin(tick)
        header: FrameHeader | None = None
        try:
            header, _ = read_frame_header(tick.content)
            self._follow(tick, header)
            tick.frame = self._decoder.decode(tick.content)
            self._awaits_snapshot = self._refusing = False
            self._status.frame_error = ""
            self._take(tick, tick.frame)
        except WireError as error:
            self._refuse(header, error)
        except Exception as error:  # any error: only a snapshot is taken next
            self._awaits_snapshot = True
            self.failures += 1
            self._failed(error)
        epoch, sequence = (header.epoch, header.sequence) if header else (0, 0)
        tick.decide_us = (self._clock_ns() - began_ns) // 1000
        # of the answers to the parts of a frame only the last is read
        if header is not None and header.more and not self._awaits_snapshot:
            status = ""
        else:
            status = self._status.changed() if tick.status is None else tick.status
        resend, made = self._awaits_snapshot, tick.proposals
        answer = Answer(epoch, sequence, tick.decide_us, resend, made, status, tick.again, tick.unserved, tick.held)
        tick.answer, tick.switches = encode_answer(answer), self._switches()
        for each in self._listeners:
            each.end(tick)

    @abstractmethod
    def _take(self, tick: Tick, frame: Frame) -> None:
        """Apply a frame, and decide unless another part of it follows."""

    @abstractmethod
    def _failed(self, error: Exception) -> None:
        """Handle a failure of `_take`; raise if the process is to end."""

    def _switches(self) -> Sequence[PolicySwitch]:
        """Return the latest changes of policy."""
        return ()

    def _follow(self, tick: Tick, header: FrameHeader) -> None:
        """Refuse a frame that does not continue the one before."""
        if header.snapshot:
            if header.epoch != self._epoch:
                _log.info(
                    "new scheduler session (epoch %d): snapshot received, frame %d", header.epoch, header.sequence
                )
            self._epoch = header.epoch
            self._status.forget_sent()
        elif self._awaits_snapshot:
            raise WireError("flags", "a delta while a snapshot is awaited")
        elif header.epoch != self._epoch:
            raise WireError("epoch", f"{header.epoch} after {self._epoch}")
        elif header.sequence != self._sequence + 1:
            raise WireError("sequence", f"{header.sequence} after {self._sequence}")
        # a list: each listener is asked, so that one snapshot serves all
        elif [each for each in self._listeners if each.wants_snapshot()]:
            tick.refused = True
            raise WireError("flags", "a delta, and what is remembered of jobs begins with a snapshot")
        self._sequence = header.sequence

    def _refuse(self, header: FrameHeader | None, error: WireError) -> None:
        sequence = header.sequence if header else "?"
        # Further frames until the snapshot are refused too: one warning is enough.
        level = logging.DEBUG if self._refusing else logging.WARNING
        if isinstance(error, TooManyError | VersionError):
            self._status.frame_error = f"frame {sequence} refused: {error}"
        _log.log(level, "frame %s refused, a snapshot is awaited: %s", sequence, error)
        self._awaits_snapshot = self._refusing = True
