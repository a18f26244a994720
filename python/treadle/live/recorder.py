"""Records an engine's input and answers.

The deciding thread puts ticks into a bounded queue and never waits: ticks beyond the bound are dropped, counted and
reported, and the recording goes on with the next segment. Another thread writes. A segment begins with a snapshot; when
one is due, or was lost, the ResourceManager is asked for a snapshot.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Condition, Thread
from threading import Event as Flag
from typing import IO, Any, Final, NamedTuple

from treadle.config.settings import Record, Settings
from treadle.errors import ConfigError, UserError
from treadle.events import PolicySwitch
from treadle.record.files import (
    FILE_HEADER,
    Body,
    ChunkWriter,
    Cost,
    Segment,
    SettingsText,
    Tick,
    create,
    end_head,
    prepare,
    segment_record,
    settings_record,
    text_of,
    tick_record,
    tidy,
)
from treadle.record.reader import engine_hash, schema_hash, versions
from treadle.sidecar import conversation
from treadle.sidecar.conversation import Listener
from treadle.wire.frames import WireError, read_frame_header, without_keys

FLUSH_BYTES: Final = 1 << 20
"""So much waits, unpacked, before it is written without waiting for more."""

Clock = Callable[[], datetime]


def utc() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class SegmentWriter:
    """The segment that is being written, in a folder within its bounds. For one thread."""

    def __init__(self, now: Clock = utc) -> None:
        self._now = now
        self._writer: ChunkWriter | None = None
        self._stream: IO[bytes] | None = None
        self._path = Path()
        self._closed_bytes = 0
        self.written = 0
        """Bytes that this process has written."""

    @property
    def bytes(self) -> int:
        """Length of the segment; pending data count for an eighth."""
        return 0 if self._writer is None else self._writer.bytes + self._writer.waiting // 8

    def begin(self, settings: Record, engine: str, number: int) -> None:
        """Begin a segment; of one of several engines in a folder of its name.

        Raises:
            OSError: it cannot be written.
            RecordingError: others may write to the folder, or there is no zstandard.
        """
        self.close()
        folder = Path(settings.folder)
        prepare(folder)
        if engine:
            folder /= engine
            prepare(folder)
        now = self._now()
        self._path, self._stream = create(folder, os.getpid(), number, now)
        self._writer = ChunkWriter(self._stream)
        room = (settings.size_mb - settings.segment_mb) << 20
        tidy(folder, room, timedelta(hours=settings.age_hours), now, self._path)

    def write(self, head: dict[str, Any], body: Body) -> None:
        """Write a record; nothing if no segment has begun. Raises OSError."""
        if self._writer is None:
            return
        self._writer.write(head, *body)
        if self._writer.waiting >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Flush written data to the file. Raises OSError."""
        if self._writer is not None:
            self._writer.flush()
            self.written = self._closed_bytes + self._writer.bytes

    def close(self) -> None:
        """End the segment; one of which nothing was written goes. Raises OSError."""
        writer, self._writer = self._writer, None
        stream, self._stream = self._stream, None
        if stream is None:
            return
        try:
            if writer is not None:
                writer.flush()
                self._closed_bytes += writer.bytes
                self.written = self._closed_bytes
        finally:
            stream.close()
            if writer is None or writer.bytes <= FILE_HEADER.size:
                self._path.unlink(missing_ok=True)


_log = logging.getLogger(__name__)

FLUSH_S: Final = 1.0
"""Interval between flushes to the file: a killed process loses at most as much."""

WAKE_BYTES: Final = 4 << 20
"""With so many bytes in the queue, the writer begins before its second is over."""

ASK_S: Final = 60.0
"""Minimum interval between requests for a snapshot after a loss."""

CLOSE_S: Final = 0.5
"""How long the end of the process waits for the rest to be written; the shim waits 1 s before it kills."""

_TICK_BYTES: Final = 512
"""A tick's size in the queue without its frame, its answer and its further events."""


class _Begin(NamedTuple):
    """A segment begins."""

    record: Record
    segment: Segment
    settings: Settings


class _End(NamedTuple):
    """The segment ends."""

    why: str
    written: Flag
    """Set when it was, or cannot be."""


class LiveRecorder(Listener):
    """Takes ticks on the caller's thread, writes them on its own. Does nothing without a folder in the settings."""

    def __init__(
        self,
        engine: str = "",
        clock_s: Callable[[], float] = time.monotonic,
        writer: SegmentWriter | None = None,
        keys_for: Sequence[str] = (),
        follows_file: bool = True,
    ) -> None:
        """Record nothing yet.

        Args:
            engine: one of several, which has a folder of its own below that of the settings
            clock_s: determines when a segment is due
            writer: writes segments
            keys_for: the types of applications whose keys the session's status requests
            follows_file: whether the sidecar began with the policy of its file; a recording of another one is not
                replayed, since the reason is in no frame
        """
        engine_hash()  # reads files: not while a frame waits
        self._engine = engine
        self._keys_for = tuple(keys_for)
        self._fresh = follows_file
        """Has the engine learned nothing yet?"""
        self._clock_s = clock_s
        self._changed = Condition()
        self._queue: deque[tuple[Tick | _Begin | _End, int]] = deque()
        self._waiting_bytes = 0
        self._urgent = False
        self._writer = writer or SegmentWriter()
        self._settings: Settings | None = None
        self._record = Record()
        self._frame: bytes | None = None
        """That of the tick, if it is recorded."""
        self._open = False
        """Is there a segment that ticks go to?"""
        self._broken = False
        """The writer's thread failed."""
        self._begun_here = False
        """Has a segment begun in this folder? Frames before the first one are not missing."""
        self._written_to = ""
        """The folder that the writer's thread writes to: the earlier settings' while the queue has their items."""
        self._due_s = self._flushed_s = 0.0
        self._asked_s = -ASK_S
        self._number = 0
        self._why = "the sidecar began to record"
        self._dropped_here = 0
        self._noted: tuple[str, tuple[str, ...]] | None = None
        self._switches: tuple[PolicySwitch, ...] = ()
        self._beside_s = self._writing_s = 0.0
        self._process_s: float | None = None
        self.dropped = 0
        """Frames that were answered and are not in the recording of this folder, though they should be."""
        self.gaps = 0
        self.problem = ""
        """Why nothing is recorded now; empty if it is."""

    def start(self) -> None:
        """Begin to work, until the end of the process."""
        Thread(target=self._work, name="recording", daemon=True).start()

    def follow(self, settings: Settings, before: Settings | None = None) -> None:
        """Follow other settings from now on."""
        last, self._record = self._record, settings.record
        self._settings = settings
        if last.folder != self._record.folder:
            self._stop("record.folder changed")
            self._dropped_here, self.problem = 0, ""
            self._begun_here, self._broken, self.gaps, self.dropped = False, False, 0, 0
            self._asked_s = -ASK_S

    def begin(self, tick: conversation.Tick) -> None:
        """Take a frame; have the answer ask for a snapshot if a segment is due."""
        began_s = time.thread_time()
        if self._process_s is None:
            self._process_s = time.process_time()
        tick.asks_snapshot = self._begin(tick.content)
        self._fresh = False
        self._beside_s += time.thread_time() - began_s

    def cost(self) -> Cost:
        """Return the processor time of recording so far, and that of the process since recording began."""
        process_s = 0.0 if self._process_s is None else time.process_time() - self._process_s
        return Cost(round(1e6 * self._beside_s), round(1e6 * self._writing_s), round(1e6 * process_s))

    def _begin(self, frame: bytes) -> bool:
        self._frame = None
        if not self._record.folder or self._settings is None:
            return False
        try:
            kept = without_keys(frame)
            header, _ = read_frame_header(kept)
        except WireError:
            self._note_gap("a frame was no frame")
            return False
        now_s = self._clock_s()
        if self._broken:
            self._broken = False
            self._note_gap("the recording could not be written")
        due = self._open and (now_s >= self._due_s or self._writer.bytes >= self._record.segment_mb << 20)
        if header.snapshot and (due or not self._open):
            self._next(now_s)
        may_ask = not header.more and not header.snapshot
        if not self._open:
            self._count()
            asks = may_ask and now_s - self._asked_s >= ASK_S
            self._asked_s = now_s if asks else self._asked_s
            return asks
        self._frame = kept
        return may_ask and due

    def end(self, tick: conversation.Tick) -> None:
        """Take the answer; a tick beyond the queue's bound is dropped."""
        began_s = time.thread_time()
        self._end(tick)
        self._beside_s += time.thread_time() - began_s

    def _end(self, tick: conversation.Tick) -> None:
        frame, self._frame = self._frame, None
        if frame is None:
            return
        now, before = (tick.known, tuple(tick.warnings)), self._noted or (None, None)
        switches, self._noted = tuple(tick.switches), now
        kept = Tick(
            frame,
            tick.reply_max_bytes,
            tick.answer,
            tick.decide_us,
            asks_snapshot=tick.asks_snapshot,
            refused=tick.refused,
            reading=None if tick.reading is None else _outcome(tick.reading),
            offline_events=tick.offline_events,
            known=None if now[0] == before[0] else now[0],
            warnings=None if now[1] == before[1] else now[1],
            switches=[each for each in switches if each not in self._switches],
        )
        self._switches = switches
        if not self._put(kept, _TICK_BYTES + len(frame) + len(tick.answer) + _size_beside(kept)):
            self._note_gap("the writer fell behind")

    def summary(self) -> str:
        """Return the amount recorded, in a few words; empty without a recording."""
        if not self._record.folder:
            return ""
        lost = f", {self.dropped} frames not" if self.dropped else ""
        return f"recorded {self._writer.written >> 20} MiB in {self._number} segments{lost}"

    def warnings(self) -> Sequence[str]:
        """Return why nothing is recorded, and how many frames are missing."""
        if not self._record.folder:
            return ()
        warnings = []
        if self.problem:
            warnings.append(f"nothing is recorded: {self.problem}")
        if self.gaps:
            warnings.append(f"the recording has {self.gaps} gaps, {self.dropped} frames are not in it: {self._why}")
        return warnings

    def _next(self, now_s: float) -> None:
        """Begin the next segment; the one before ends."""
        assert self._settings is not None
        segment = Segment(
            number=self._number + 1,
            engine=self._engine,
            began=utc().isoformat(timespec="milliseconds"),
            follows=self._open,
            dropped=self._dropped_here,
            why=self._why if not self._open else "the one before was long enough",
            engine_hash=engine_hash(),
            schema_hash=schema_hash(),
            versions=versions(),
            process=os.getpid(),
            fresh=self._fresh,
            keys_for=self._keys_for,
        )
        if not self._put(_Begin(self._record, segment, self._settings), _TICK_BYTES):
            return
        self._number += 1
        self._begun_here = True
        self._open, self._dropped_here, self._noted = True, 0, None
        self._due_s = now_s + 60 * self._record.segment_minutes

    def _note_gap(self, why: str) -> None:
        """End the segment because frames were lost."""
        if self._open:
            self.gaps += 1
            self._why = why
            _log.warning("the recording has a gap: %s", why)
        self._stop(why)
        self._count()

    def _count(self) -> None:
        self.dropped += self._begun_here
        self._dropped_here += self._begun_here

    def _stop(self, why: str) -> None:
        was_open, self._open, self._frame = self._open, False, None
        if was_open:
            with self._changed:
                self._queue.append((_End(why, Flag()), 0))
                self._wake()

    def _put(self, item: Tick | _Begin, size: int) -> bool:
        """Queue an item for the writer; False if the queue is full."""
        with self._changed:
            if self._waiting_bytes and self._waiting_bytes + size > self._record.queue_mb << 20:
                return False
            self._waiting_bytes += size
            self._queue.append((item, size))
            if self._waiting_bytes >= WAKE_BYTES:
                self._wake()
        return True

    def _wake(self) -> None:
        """Wake the writer at once; the lock is held."""
        self._urgent = True
        self._changed.notify()

    def work_off(self) -> None:
        """Write all that waits, on the caller's thread: of a recorder that was not started."""
        while self._queue:
            self._next_item()

    def close(self, why: str, within_s: float = CLOSE_S) -> bool:
        """End the segment as the process ends, for any thread; return whether the whole queue was written."""
        end = _End(why, Flag())
        with self._changed:
            self._queue.append((end, 0))
            self._wake()
        return end.written.wait(within_s)

    def _work(self) -> None:
        """Write the queue once a second: waking for each tick would cost more than writing it."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._urgent, FLUSH_S)
                self._urgent = False
            self.work_off()
            self._next_item()

    def _next_item(self) -> None:
        """Write the oldest item of the queue; flush the file if the queue is empty."""
        with self._changed:
            item, size = self._queue.popleft() if self._queue else (None, 0)
        began_s = time.thread_time()
        try:
            if item is not None:
                self._write(item)
            now_s = self._clock_s()
            if item is None or now_s - self._flushed_s >= FLUSH_S:
                self._flushed_s = now_s
                self._writer.flush()
        except UserError as error:
            self._fail(str(error))
        except OSError as error:  # a write that fails names no file
            self._fail(f"{error.filename or self._written_to}: {error.strerror}")
        except Exception as error:  # any error: scheduling goes on
            _log.exception("the recording failed")
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            self._writing_s += time.thread_time() - began_s
            with self._changed:
                self._waiting_bytes -= size
            if isinstance(item, _End):
                item.written.set()

    def _write(self, item: Tick | _Begin | _End) -> None:
        if isinstance(item, _Begin):
            self._written_to = item.record.folder
            self._writer.write(end_head("the next one begins", self.cost()), [])
            self._writer.begin(item.record, item.segment.engine, item.segment.number)
            self._writer.write(segment_record(item.segment), [])
            self._writer.write(*settings_record(text_of(item.settings)))
            self._writer.flush()
            self.problem = ""
        elif isinstance(item, Tick):
            self._writer.write(*tick_record(item))
        else:
            self._writer.write(end_head(item.why, self.cost()), [])
            self._writer.close()

    def _fail(self, problem: str) -> None:
        """Give the segment up; the thread that decides begins another one after a while."""
        if self._written_to and self._written_to != self._record.folder:
            _log.error("the recording in %s has lost its end: %s", self._written_to, problem)
        else:
            if problem != self.problem:
                _log.error("nothing is recorded: %s", problem)
            self.problem, self._broken = problem, True
        try:
            self._writer.close()
        except OSError as error:
            _log.info("the segment could not be closed: %s", error)


def _outcome(reading: Future[Settings]) -> SettingsText:
    try:
        settings = reading.result()
    except ConfigError as error:
        return SettingsText(refusal="; ".join(error.lines()))
    except Exception as error:
        return SettingsText(refusal=str(error))
    return text_of(settings)


def _size_beside(tick: Tick) -> int:
    """Return the approximate size of a tick's events and settings outside its frame, bytes."""
    source = None if tick.reading is None else tick.reading.source
    read = 0 if source is None else len(source.text) + sum(map(len, source.part_files.values()))
    return read + sum(256 + 16 * len(getattr(each, "application", ())) * 19 for each in tick.offline_events)
