"""A session that answers while its engine decides: one of several engines may think for seconds and keep its lease.

Frames are queued and taken by a worker; what it has decided is the answer to the next frame that comes, and says on
which it was decided. Until then each frame is answered BUSY. A snapshot is taken before it is answered, unless a
decision goes on, and decided on only with the next frame: so it is answered as soon as by an engine that is alone.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Condition, Thread
from typing import Final, NamedTuple

from treadle.live.session import Session
from treadle.proposals import Proposals
from treadle.wire.answer import Answer, decode_answer, encode_answer
from treadle.wire.frames import FrameHeader, read_frame_header
from treadle.wire.schema import WireError

_log = logging.getLogger(__name__)

PATIENCE_S: Final = 0.1
"""A decision that takes no longer is answered like that of an engine that is alone."""

QUEUED_MAX: Final = 4096
QUEUED_BYTES_MAX: Final = 64 << 20
"""Frames that wait while the engine decides; beyond, all are dropped and a snapshot is asked for."""

_ROWS_MAX: Final = 1 << 30


class _Waiting(NamedTuple):
    frame: bytes
    reply_max_bytes: int | None
    more: bool
    """Another part follows."""
    snapshot: bool
    """It is part of a snapshot."""


class BusySession:
    """Answers frames of one caller; of several engines with a thread of its own for the engine.

    `decide` is for one thread at a time.
    """

    def __init__(self, session: Session, *, one_of_several: bool, patience_s: float = PATIENCE_S) -> None:
        """Do nothing yet.

        Args:
            session: takes frames and decides
            one_of_several: there are other engines even if the settings name none
            patience_s: how long a frame waits for its decision before it is answered BUSY
        """
        self._session = session
        self._one_of_several = one_of_several
        self._patience_s = patience_s
        self._changed = Condition()
        self._worker: Thread | None = None
        self._queue: deque[_Waiting] = deque()
        self._in_snapshot = False
        """Not all parts of a snapshot have come."""
        self._queued_bytes = 0
        self._working = False
        self._generation = 0
        """Raised by each snapshot: what was decided before it is about indices that mean something else now."""
        self._decided: Answer | None = None
        """What the next frame is answered with."""
        self._failure: BaseException | None = None
        self._dropping = False
        """Nothing is taken until a snapshot comes."""

    def decide(self, frame: bytes, reply_max_bytes: int | None = None) -> bytes:
        """Answer a frame: with what was decided on it or on an earlier one, or BUSY.

        Raises:
            EngineFailedError: the session has no future.
        """
        with self._changed:
            alone = not (self._one_of_several or self._session.names_engines)
            if alone and not (self._working or self._queue or self._decided):
                return self._session.decide(frame, reply_max_bytes)
            try:
                header, _ = read_frame_header(frame)
            except WireError:
                # the session says what is wrong with it
                header = FrameHeader(0, 0, 0, 0, 0, 0, 0)
            return encode_answer(self._answer(header, frame, reply_max_bytes))

    def _answer(self, header: FrameHeader, frame: bytes, reply_max_bytes: int | None) -> Answer:
        said = Answer(header.epoch, header.sequence, 0, False, Proposals.none(), "")
        if header.snapshot:
            self._forget()
            self._dropping = False
        if self._dropping:
            return said._replace(resend=True)
        snapshot = header.snapshot or self._in_snapshot
        self._in_snapshot = snapshot and header.more
        decides = self._working
        self._queue.append(_Waiting(frame, reply_max_bytes, header.more, snapshot))
        self._queued_bytes += len(frame)
        self._start()
        self._changed.notify_all()
        if header.more:
            return said
        self._changed.wait_for(self._has_answer, None if snapshot and not decides else self._patience_s)
        if self._failure is not None:
            raise self._failure
        decided, self._decided = self._decided, None
        if decided is not None:
            return decided._replace(epoch=header.epoch, sequence=header.sequence)
        if len(self._queue) > QUEUED_MAX or self._queued_bytes > QUEUED_BYTES_MAX:
            _log.warning("%d frames wait for a decision: a snapshot is asked for", len(self._queue))
            self._forget()
            self._dropping = True
            return said._replace(resend=True)
        return said._replace(busy=True)

    def _has_answer(self) -> bool:
        return self._decided is not None or self._failure is not None

    def _forget(self) -> None:
        self._generation += 1
        self._queue.clear()
        self._queued_bytes = 0
        self._decided = None

    def _start(self) -> None:
        if self._worker is None:
            self._worker = Thread(target=self._run, name="decisions", daemon=True)
            self._worker.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._working = False
                # the answer that waits is taken first: the engine must not decide twice on the same events
                self._changed.wait_for(lambda: self._queue and self._decided is None)
                self._working = True
                generation, frames = self._generation, list(self._queue)
                self._queue.clear()
                self._queued_bytes = 0
            try:
                answer = self._take(frames)
            except BaseException as error:
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                if generation == self._generation and answer is not None:
                    self._decided = answer
                    self._changed.notify_all()

    def _take(self, frames: list[_Waiting]) -> Answer | None:
        """Take frames, decide on the last if it is whole; return what to answer, None if there is nothing to say."""
        status, micros, ended, answer = "", 0, False, None
        for at, each in enumerate(frames):
            last = at == len(frames) - 1
            said = self._session.decide(each.frame, each.reply_max_bytes, wanted=last and not each.snapshot)
            answer = decode_answer(said, _ROWS_MAX)
            status, micros = answer.status or status, micros + answer.decide_us
            ended |= not each.more and (last or each.snapshot)
            if answer.resend:
                break
        if answer is None or not (ended or answer.resend):
            return None
        return answer._replace(status=status, decide_us=micros)
