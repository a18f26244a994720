"""Frames in, answers out: a sidecar between its socket and its engine, with no socket, file or clock of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from treadle.config.errors import ConfigError
from treadle.config.settings import Settings
from treadle.events import Event
from treadle.proposals import Proposals
from treadle.sidecar.status import Status
from treadle.wire.answer import PROPOSAL_HEADER, PROPOSAL_ROW_BYTES, Answer, encode_answer
from treadle.wire.decoder import Frame, FrameDecoder
from treadle.wire.errors import WireError
from treadle.wire.header import FrameHeader, read_frame_header

_log = logging.getLogger(__name__)

FAILURES_MAX: Final = 8
"""An engine that failed so often with no decision in between will not get better: the process ends."""


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
        """Follow other settings from now on; the model stays."""

    def warnings(self) -> Sequence[str]:
        """Return what the administrator should know: what in the cluster is followed otherwise than configured."""


class EngineFailedError(Exception):
    """The engine failed `FAILURES_MAX` times in a row."""


class Session:
    """One caller's conversation: checks epochs and sequences, keeps the engine going, answers every frame.

    Not for several threads at a time.
    """

    def __init__(
        self,
        make_engine: Callable[[Settings], DecisionEngine],
        read_settings: Callable[[], Settings],
        *,
        reply_max_bytes: int,
        clock_ns: Callable[[], int],
    ) -> None:
        """Make the engine.

        Args:
            make_engine: called again after a failure
            read_settings: called now and whenever the frames' configuration number changes
            reply_max_bytes: no answer is longer
            clock_ns: for the time spent deciding, which is told and never decided upon

        Raises:
            ConfigError: there are no settings to start with.
        """
        self._make_engine = make_engine
        self._read_settings = read_settings
        self._settings = read_settings()
        self._engine = make_engine(self._settings)
        self._decoder = FrameDecoder()
        self._clock_ns = clock_ns
        self._reply_max_bytes = reply_max_bytes
        self._epoch = 0
        self._sequence = 0
        self._lost = True
        """Only a snapshot will be taken."""
        self._refusing = False
        """It has been logged."""
        self._configuration: int | None = None
        self._failures = 0
        self._status = Status(self._settings.policy.name())

    def decide(self, frame: bytes) -> bytes:
        """Answer a frame. Whatever is wrong with it is answered with `RESEND` and no proposals.

        Raises:
            EngineFailedError: this session has no future.
        """
        began_ns = self._clock_ns()
        header: FrameHeader | None = None
        proposals = Proposals.none()
        try:
            header, _ = read_frame_header(frame)
            self._follow(header)
            proposals = self._answer(self._decoder.decode(frame))
        except WireError as error:
            self._lose(header, error)
        epoch, sequence = (header.epoch, header.sequence) if header else (0, 0)
        micros = (self._clock_ns() - began_ns) // 1000
        return encode_answer(Answer(epoch, sequence, micros, self._lost, proposals, self._status.changed()))

    def _follow(self, header: FrameHeader) -> None:
        """Refuse a frame that does not continue what came before."""
        if header.snapshot:
            if header.epoch != self._epoch:
                _log.info("epoch %d begins with frame %d", header.epoch, header.sequence)
            self._epoch = header.epoch
            self._status.forget_sent()
        elif self._lost:
            raise WireError("flags", "a delta while a snapshot is awaited")
        elif header.epoch != self._epoch:
            raise WireError("epoch", f"{header.epoch} after {self._epoch}")
        elif header.sequence != self._sequence + 1:
            raise WireError("sequence", f"{header.sequence} after {self._sequence}")
        self._sequence = header.sequence

    def _lose(self, header: FrameHeader | None, error: WireError) -> None:
        # What follows until the snapshot is refused too: that is no news.
        level = logging.DEBUG if self._refusing else logging.WARNING
        _log.log(level, "frame %s refused, a snapshot is awaited: %s", header.sequence if header else "?", error)
        self._lost = self._refusing = True

    def _answer(self, frame: Frame) -> Proposals:
        header = frame.header
        try:
            self._reconfigure(header.configuration)
            self._engine.apply(frame.events)
            self._lost = self._refusing = False
            if header.more:
                return Proposals.none()
            proposals = self._engine.decide(
                header.rm_time_ms, self._limit(header.limit), sequence=header.sequence, assume=not header.observe
            )
            self._status.warnings = tuple(self._engine.warnings())
        except Exception as error:  # whatever it was: the next snapshot starts a new engine
            self._renew(error)
            return Proposals.none()
        self._failures = 0
        return proposals

    def _limit(self, wanted: int) -> int:
        fits = (self._reply_max_bytes - PROPOSAL_HEADER.size - Status.BYTES_MAX) // PROPOSAL_ROW_BYTES
        return max(0, min(wanted, self._settings.limits.proposals_max, fits))

    def _renew(self, error: Exception) -> None:
        self._lost = True
        self._failures += 1
        self._status.engine_error = f"engine started anew after {type(error).__name__}: {error}"
        _log.error("the engine failed on frame %d, a new one is started", self._sequence, exc_info=error)
        if self._failures >= FAILURES_MAX:
            raise EngineFailedError(f"the engine failed {self._failures} times in a row: {error}") from error
        self._engine = self._make_engine(self._settings)

    def _reconfigure(self, configuration: int) -> None:
        """Read treadle.yaml again if the number changed; keep the old settings if the new ones are refused."""
        before, self._configuration = self._configuration, configuration
        self._status.configuration = configuration
        if before is None or before == configuration:
            return
        try:
            settings = self._read_settings()
            self._engine.configure(settings)
        except ConfigError as error:
            self._status.config_error = f"settings refused, the old ones are kept: {'; '.join(error.lines())}"
            _log.error("%s", self._status.config_error)
            return
        self._settings = settings
        self._status.policy = settings.policy.name()
        self._status.config_error = self._status.engine_error = ""
        _log.info("settings read again: %s", self._status.policy)
