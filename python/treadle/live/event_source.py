"""What the sidecar knows beside the frames, as events for the engine: history of jobs, and pilot measurements.

Looking up is done elsewhere (`treadle.live.history_writer`); here is only taken over what is there, on the thread that
decides. Every hint is an event, so a run can be repeated from its frames and these events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from treadle.events import Applications, ApplicationState, Event, Samples, TaskEstimates, filled
from treadle.history.database import SAMPLES_MAX
from treadle.history.stages.splits import SplitFollower
from treadle.history.store import Sample, sample_at, samples_event
from treadle.live.hints import JobSplits, KeyHint, SnapshotId
from treadle.sidecar.work import EventSource
from treadle.wire.frames import Frame

ROWS_MAX: Final = 5_000
"""Hints given at once; the others wait for the next frame."""

ABSENT_MS: Final = 600_000
"""How long what is known of an application is kept that a new connection does not report: an RM that was started anew
reports its applications one after the other."""


class Sources(Protocol):
    """The source; `treadle.live.history_writer.ProfileRecorder` is. Nothing may wait."""

    def hints(self) -> list[tuple[SnapshotId, KeyHint]]:
        """Return what earlier runs say of request keys, and has not been returned before."""

    def splits(self) -> list[tuple[SnapshotId, JobSplits]]:
        """Return the splits of jobs that have come, and have not been returned before."""

    def restored(self) -> Mapping[str, Sample]:
        """Return, once, what an earlier sidecar kept of pilots, by YARN's id of the application."""

    def keep(self, samples: Mapping[str, Sample | None]) -> None:
        """Keep pilot measurements; None: the application has ended."""

    def summary(self) -> str:
        """Return in a few words what is known."""


class HistorySource(EventSource):
    """Sends an engine between two decides what is known, and takes its pilot measurements.

    Pilot measurements go to the engine after each snapshot, because the engine's model begins anew with it.
    """

    def __init__(self, sources: Sources, samples_max: int = SAMPLES_MAX) -> None:
        """Ask ``sources``; keep the pilot measurements of at most ``samples_max`` applications."""
        self._sources = sources
        self._samples_max = samples_max
        self._snapshot = SnapshotId(0, 0)
        self._before: int | None = None
        """The epoch before a snapshot of which not all has come yet; None if it has."""
        self._live: dict[int, str] = {}
        """YARN's ids of the applications that run, by the shim's index."""
        self._index: dict[str, int] = {}
        self._samples: dict[str, Sample] = {}
        """Pilot measurements, by YARN's id."""
        self._absent: dict[str, int] = {}
        """Since when those of them are missing that the snapshot did not have, RM's time, the longest first."""
        self._not_kept = False
        """There was no room for pilot measurements."""
        self._due: list[str] = []
        """Whose samples the engine is to get."""
        self._followed = SplitFollower()
        self._inputs: list[Event] = []
        """What jobs read, until a frame has come as a whole."""
        self._waiting: list[tuple[SnapshotId, KeyHint]] = []

    def collect(self, frame: Frame) -> list[Event]:
        """Return the events that the engine gets after this frame, and before it decides."""
        self._follow(frame)
        for snapshot, hint in self._sources.splits():
            if snapshot == self._snapshot and hint.application in self._live:
                self._followed.know(hint.application, hint.order)
        self._inputs += self._followed.follow(frame.events)
        if frame.header.more:
            return []
        inputs, self._inputs = self._inputs, []
        samples = self._restored_samples(frame.header.rm_time_ms)
        self._drop_absent(frame.header.rm_time_ms)
        return [*inputs, *samples, *self._hints()]

    def learn(self, samples: Samples) -> None:
        """Take the engine's pilot measurements."""
        changed = {}
        for row, application in enumerate(samples.application.tolist()):
            id_ = self._live.get(application)
            if id_ is not None and (id_ in self._samples or self._has_room()):
                self._samples[id_] = changed[id_] = sample_at(samples, row)
        if changed:
            self._sources.keep(changed)

    def forget(self) -> None:
        """Take that the engine fails over and over: what it was given may be why."""
        self._samples.clear()
        self._absent.clear()
        self._due.clear()

    def summary(self) -> str:
        """Return in a few words what is known; empty if nothing is remembered."""
        full = f"what pilots say is kept of {self._samples_max} jobs and no more" if self._not_kept else ""
        return "; ".join(filter(None, (self._sources.summary(), full)))

    def _follow(self, frame: Frame) -> None:
        if frame.header.snapshot:
            if self._before is None:
                self._before = self._snapshot.epoch
            self._snapshot = SnapshotId(frame.header.epoch, frame.header.sequence)
            self._live.clear()
            self._index.clear()
            self._inputs.clear()
            self._due = list(self._samples)
        for event in frame.events:
            if isinstance(event, Applications):
                self._applications(event)

    def _applications(self, event: Applications) -> None:
        ended: dict[str, None] = {}
        columns = (event.application, event.cluster_timestamp, event.id, event.state)
        for application, timestamp, number, state in zip(*(column.tolist() for column in columns), strict=True):
            if state != ApplicationState.GONE:
                id_ = f"application_{timestamp}_{number:04d}"
                self._live[application] = id_
                self._index[id_] = application
                if self._absent.pop(id_, None) is not None:
                    self._due.append(id_)
                continue
            gone = self._live.pop(application, None)
            if gone is not None and self._index.get(gone) == application:
                del self._index[gone]
                if self._samples.pop(gone, None) is not None:
                    ended[gone] = None
        if ended:
            self._sources.keep(ended)

    def _has_room(self) -> bool:
        """Say whether one more application's samples can be kept; those missing for longest make room."""
        if len(self._samples) >= self._samples_max and self._absent:
            oldest = next(iter(self._absent))
            del self._absent[oldest]
            self._samples.pop(oldest, None)
        self._not_kept = len(self._samples) >= self._samples_max
        return not self._not_kept

    def _note_absent(self, now_ms: int) -> None:
        """Take that a snapshot is complete. On the same connection, what it does not have has ended."""
        before, self._before = self._before, None
        if before is None:
            return
        missing = [id_ for id_ in self._samples if id_ not in self._index]
        if before == self._snapshot.epoch:
            self._end(missing)
        else:
            self._absent |= {id_: now_ms for id_ in missing if id_ not in self._absent}

    def _drop_absent(self, now_ms: int) -> None:
        """Forget applications that have been missing for so long that they have ended."""
        ended = []
        for id_, since_ms in self._absent.items():
            if now_ms - since_ms < ABSENT_MS:
                break
            ended.append(id_)
        self._end(ended)

    def _end(self, ended: Sequence[str]) -> None:
        for id_ in ended:
            self._absent.pop(id_, None)
            self._samples.pop(id_, None)
        if ended:
            self._sources.keep(dict.fromkeys(ended))

    def _restored_samples(self, now_ms: int) -> Sequence[Event]:
        self._note_absent(now_ms)
        for id_, sample in self._sources.restored().items():
            known = self._samples.get(id_)
            # Whatever began to be sampled earlier knows more: an engine without them has begun anew.
            if known is None or sample.since_ms < known.since_ms:
                runs = id_ in self._index
                if known is None and len(self._samples) >= self._samples_max and not (runs and self._has_room()):
                    continue
                self._samples[id_] = sample
                if runs:
                    self._due.append(id_)
                else:
                    self._absent.setdefault(id_, now_ms)
        if not self._due:
            return ()
        due, self._due = dict.fromkeys(self._due), []
        rows = [(self._index[id_], self._samples[id_]) for id_ in due if id_ in self._index]
        return (samples_event(rows),) if rows else ()

    def _hints(self) -> Sequence[Event]:
        self._waiting += self._sources.hints()
        if not self._waiting:
            return ()
        now, self._waiting = self._waiting[:ROWS_MAX], self._waiting[ROWS_MAX:]
        rows = [key for snapshot, key in now if snapshot == self._snapshot and key.application in self._live]
        if not rows:
            return ()
        application, key, duration_ms, deviation_ms, tasks = (np.array(column) for column in zip(*rows, strict=True))
        return (
            filled(
                TaskEstimates,
                len(rows),
                application=application,
                key=key,
                duration_ms=duration_ms,
                deviation_ms=deviation_ms,
                tasks=tasks,
            ),
        )
