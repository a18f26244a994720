"""Stores the history of finished jobs, on a thread of its own.

The thread derives stages from answered frames, and profiles from stages. It also stores pilot measurements of running
jobs for the next sidecar. All of it happens after the answer. If the store is unusable or the recorder falls behind,
only history and hints are lost.

The deciding thread takes finished results and sends them to the engine. Every hint is an event, so a run can be
repeated from its frames and these events.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from threading import Condition, Thread
from typing import Any, Final, TypeVar

import numpy as np

from treadle.am.listener import SPARK
from treadle.am.quotas import Bounds, QuotaCache
from treadle.config.settings import JobHistory, Settings
from treadle.events import Applications, Event, Samples, TaskEstimates, filled
from treadle.history.database import SAMPLES_MAX, StoreError
from treadle.history.profile import JobProfile, JobRun, RecurrenceKey, StageRun, size_of_run
from treadle.history.splits import SplitFollower
from treadle.history.stages import StageTracker
from treadle.history.store import ProfileStore, Sample, open_store, sample_at, samples_event
from treadle.live.history_lookup import HistoryLookup, JobSplits, KeyHint, SnapshotId, StagedSplits
from treadle.sidecar.conversation import Listener, Tick
from treadle.wire.frames import Frame
from treadle.yarn.codes import application_id

_log = logging.getLogger(__name__)

RETRY_MS: Final = 60_000
"""How long a store that could not be used is left alone."""

OpenStore = Callable[[str, JobHistory], ProfileStore]

T = TypeVar("T")


class RetryingStore:
    """A store that may be missing, full, broken or busy, for one thread.

    `opened` is called with the store each time that it was opened.
    """

    def __init__(self, opened: Callable[[ProfileStore], None], open_: OpenStore = open_store) -> None:
        self._open = open_
        self._opened = opened
        self._settings = JobHistory()
        self._store: ProfileStore | None = None
        self._refused_ms: int | None = None
        self.problem = ""
        """Why the store could not be used when it was last tried; empty if it could."""

    def follow(self, settings: JobHistory) -> None:
        """Use the store of other settings from now on; the one before is closed, nothing is opened yet."""
        self._close("")
        self._settings = settings
        self._refused_ms = None

    def may_try(self, now_ms: int) -> bool:
        """Say whether the store may be asked now."""
        # a clock that stepped back must not keep it closed
        return self._refused_ms is None or abs(now_ms - self._refused_ms) >= RETRY_MS

    def use(self, now_ms: int, action: Callable[[ProfileStore], T]) -> T | None:
        """Call a function with the store; None if the store cannot be used, which is logged once."""
        if not self.may_try(now_ms):
            return None
        self._refused_ms = now_ms
        try:
            done = action(self._ready())
        except StoreError as error:
            self._close(str(error))
            return None
        self._refused_ms = None
        return done

    def _ready(self) -> ProfileStore:
        if self._store is None:
            self._store = self._open(self._settings.store, self._settings)
            self._opened(self._store)
            self.problem = ""
            _log.info("jobs are remembered in %s", self._store.name)
        return self._store

    def _close(self, problem: str) -> None:
        if problem and problem != self.problem:
            _log.warning("jobs are not remembered: %s", problem)
        self.problem = problem
        if self._store is not None:
            self._store.close()
            self._store = None


WAITING_BYTES_MAX: Final = 64 << 20
"""Frames that wait; beyond, all are dropped up to the next snapshot."""

WAITING_RUNS: Final = Bounds(16 << 20, 32 << 20, 64 << 20, things=1_000)
"""Finished jobs that wait for a store that cannot be used: bytes of each, of a user's and of all. The oldest go first
of a user with too many, and of the user with most."""

SAMPLES_EVERY_MS: Final = 500
"""How often pilot measurements are written."""

HINTS: Final = Bounds(1 << 10, 10_000 << 10, 10_000 << 10, things=10_000)
"""Limits for request keys with hints that the engine has not taken yet: 10,000, 1 KiB each. The oldest of the user with
most are dropped first."""

SPLITS: Final = Bounds(1 << 10, 1 << 10, 100 << 10, things=100)
"""Limits for jobs with splits that the engine has not taken yet: one per user, 100 in total."""

StagesOf = Callable[[str], Sequence[StageRun]]
"""Returns once the stages that an application's own driver has reported, by YARN's id."""


class ProfileRecorder(Listener):
    """Takes frames on the caller's thread, works on them on its own. Does nothing without a store in the settings.

    `end`, `keep`, `hints` and `restored` are for the thread that decides: none of them waits for the store.
    """

    def __init__(self, open_: OpenStore = open_store) -> None:
        self._changed = Condition()
        self._waiting: deque[tuple[Frame | JobHistory, int]] = deque()
        """With how many bytes each takes."""
        self._hints: QuotaCache[int, tuple[SnapshotId, KeyHint]] = QuotaCache(HINTS)
        self._splits: QuotaCache[int, tuple[SnapshotId, JobSplits]] = QuotaCache(SPLITS)
        self._samples: dict[str, Sample | None] = {}
        """Pilot measurements that are not written yet, by application; None: it has ended."""
        self._restored: dict[str, Sample] = {}
        self._was_restored = False
        self._waiting_bytes = 0
        self._enabled = False
        self._lost = True
        """Only a snapshot will be taken."""
        self._wants_snapshot = False
        """A store was named while frames come."""
        self._settings = JobHistory()
        self._tracker = StageTracker()
        self._store = RetryingStore(self._restore, open_)
        self._history = HistoryLookup(self._tracker, self._profile)
        self._stages_of: StagesOf = lambda _: ()
        self._staged = StagedSplits()
        self._runs: QuotaCache[int, JobRun] = QuotaCache(WAITING_RUNS)
        self._numbers = count()
        self._now_ms = 0
        self._samples_ms: int | None = None

    def start(self) -> None:
        """Begin to work, until the end of the process."""
        Thread(target=self._work, name="profiles", daemon=True).start()

    def follow(self, settings: Settings, before: Settings | None = None) -> None:
        """Follow other settings from now on."""
        with self._changed:
            if self._waiting and isinstance(self._waiting[-1][0], JobHistory):
                self._waiting.pop()
            self._waiting.append((settings.history, 0))
            was_enabled, self._enabled = self._enabled, bool(settings.history.store)
            self._wants_snapshot = self._enabled and not was_enabled
            self._lost = self._lost or not self._enabled
            self._changed.notify()

    def end(self, tick: Tick) -> None:
        """Take a frame that was answered."""
        if self._enabled and tick.frame is not None:
            self.take(tick.frame, len(tick.content))

    def take(self, frame: Frame, size: int) -> None:
        """Take a frame of ``size`` bytes."""
        with self._changed:
            if self._lost and not frame.header.snapshot:
                return
            if self._waiting_bytes + size > WAITING_BYTES_MAX:
                _log.warning("profiles are not recorded up to the next snapshot: %d bytes wait", self._waiting_bytes)
                self._lost = True
                return
            self._lost = self._wants_snapshot = False
            self._waiting.append((frame, size))
            self._waiting_bytes += size
            self._changed.notify()

    def wants_snapshot(self) -> bool:
        """Say, once, that a store was named after frames had come, of which nothing can be made without a snapshot."""
        wants, self._wants_snapshot = self._wants_snapshot, False
        return wants

    def keep(self, samples: Mapping[str, Sample | None]) -> None:
        """Store pilot measurements, by YARN's id of the application; None: it has ended. Written with later frames.

        Measurements of more than `SAMPLES_MAX` applications are dropped until earlier ones are written.
        """
        if not self._enabled:
            return
        with self._changed:
            for id_, sample in samples.items():
                if id_ in self._samples or len(self._samples) < SAMPLES_MAX:
                    self._samples[id_] = sample

    def hints(self) -> list[tuple[SnapshotId, KeyHint]]:
        """Return the hints for request keys that have not been returned before."""
        if not len(self._hints):
            return []
        with self._changed:
            hints, self._hints = self._hints, QuotaCache(HINTS)
        return [one for _, one in hints.held_keys()]

    def splits(self) -> list[tuple[SnapshotId, JobSplits]]:
        """Return the splits of jobs that have come, and have not been returned before."""
        if not len(self._splits):
            return []
        with self._changed:
            splits, self._splits = self._splits, QuotaCache(SPLITS)
        return [one for _, one in splits.held_keys()]

    def restored(self) -> Mapping[str, Sample]:
        """Return once the pilot measurements that the previous sidecar stored."""
        if not self._restored:
            return {}
        with self._changed:
            restored, self._restored = self._restored, {}
        return restored

    def summary(self) -> str:
        """Return in a few words how many of the jobs that run have hints of earlier runs; empty without a store."""
        return self._history.summary() if self._enabled else ""

    def remember(self, run: JobRun) -> None:
        """Take a finished job from another source than frames; it goes into the store with the next frame."""
        if self._enabled:
            self._wait(run)

    def ask_stages(self, stages_of: StagesOf) -> None:
        """Ask from now on for the stages that a job's driver has reported, when the job is stored."""
        self._stages_of = stages_of

    def warnings(self) -> Sequence[str]:
        """Return warnings for the administrator: why no jobs are stored now."""
        problem = self._store.problem
        warnings: tuple[str, ...] = (f"jobs are not remembered: {problem}",) if problem else ()
        if self._enabled and self._tracker.is_full:
            warnings += (f"jobs beyond {self._tracker.jobs} at a time are not remembered",)
        return warnings

    def _work(self) -> None:
        while True:
            self._next()

    def _next(self) -> None:
        """Wait for the next item and process it."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting))
            item, size = self._waiting.popleft()
            self._waiting_bytes -= size
        try:
            if isinstance(item, JobHistory):
                self._configure(item)
            else:
                self._record(item)
        except Exception:  # any error: scheduling goes on, and so does recording from the next snapshot
            _log.exception("a frame was not recorded; jobs are remembered again from the next snapshot on")
            self._start_over()
            with self._changed:
                self._lost = True
                self._waiting = deque(item for item in self._waiting if isinstance(item[0], JobHistory))
                self._waiting_bytes = 0

    def _configure(self, settings: JobHistory) -> None:
        if settings == self._settings:
            return
        self._settings = settings
        self._store.follow(settings)
        if not settings.store:
            self._start_over()
            with self._changed:
                self._runs = QuotaCache(WAITING_RUNS)
                self._samples.clear()
                self._hints, self._splits = QuotaCache(HINTS), QuotaCache(SPLITS)
            return
        self._store.use(self._now_ms, lambda store: None)  # so that an unusable store is reported at once

    def _start_over(self) -> None:
        self._tracker = StageTracker()
        self._history = HistoryLookup(self._tracker, self._profile)
        self._staged = StagedSplits()

    def _record(self, frame: Frame) -> None:
        if not self._settings.store:
            return
        now_ms = self._now_ms = frame.header.rm_time_ms
        self._tracker.apply(frame.events, now_ms, complete=not frame.header.more)
        for run in self._tracker.finished():
            self._wait(self._with_stages(run))
        if len(self._runs):
            self._put(now_ms)
        self._follow_frame(frame)
        if self._samples and self._store.may_try(now_ms):
            self._put_samples(now_ms)

    def _with_stages(self, run: JobRun) -> JobRun:
        # Only Spark drivers report stages, and asking may take as long as the listener's process is busy.
        hints = self._stages_of(run.id) if run.key.type == SPARK else ()
        return replace(run, stages=(*run.stages, *hints)) if hints else run

    def _follow_frame(self, frame: Frame) -> None:
        """Look up history for the requests that are new in a frame."""
        hints = self._history.update(frame)
        with self._changed:
            pending = self._splits.users()
        splits = self._staged.update(frame, self._tracker, self._settings.staging, pending)
        snapshot = self._history.snapshot
        if hints or splits:
            with self._changed:
                for key in hints:
                    self._hints.put(next(self._numbers), self._user(key.application), (snapshot, key), 0)
                for one in splits:
                    self._splits.put(next(self._numbers), self._user(one.application), (snapshot, one), 0)

    def _user(self, application: int) -> str:
        job = self._tracker.job(application)
        return job.user if job is not None else ""

    def _wait(self, run: JobRun) -> None:
        """Queue a run for the store."""
        with self._changed:
            if not self._runs.put(next(self._numbers), run.key.user, run, size_of_run(run)):
                _log.warning("%s is not remembered: too large, or others wait", run.id)

    def _profile(self, key: RecurrenceKey) -> JobProfile | None:
        """Return the profile of a job; None if there is none, or it cannot be read now."""
        return self._store.use(self._now_ms, lambda store: store.get(key))

    def _put_samples(self, now_ms: int) -> None:
        """Write pilot measurements, as far as the store takes them; not with every frame."""
        if self._samples_ms is not None and abs(now_ms - self._samples_ms) < SAMPLES_EVERY_MS:
            return
        self._samples_ms = now_ms
        with self._changed:
            changed, self._samples = self._samples, {}

        def write(store: ProfileStore) -> bool:
            store.keep_samples(changed, now_ms)
            return True

        if not self._store.use(now_ms, write):
            self.keep({id_: sample for id_, sample in changed.items() if id_ not in self._samples})

    def _put(self, now_ms: int) -> None:
        """Put the runs that wait into the store, as far as it takes them."""
        with self._changed:
            waiting = self._runs.held_keys()

        def put_all(store: ProfileStore) -> None:
            for number, run in waiting:
                store.put(run, now_ms)
                with self._changed:
                    self._runs.pop(number)

        self._store.use(now_ms, put_all)

    def _restore(self, store: ProfileStore) -> None:
        """Read the pilot measurements that the previous sidecar stored."""
        if self._was_restored:
            return
        samples = store.samples()
        self._was_restored = True
        with self._changed:
            self._restored = samples


ROWS_MAX: Final = 5_000
"""Hints given at once; the others wait for the next frame."""

ABSENT_MS: Final = 600_000
"""How long an application's measurements stay if a new connection does not report it: a restarted RM reports its
applications one after the other."""


class HistorySource(Listener):
    """Sends history to an engine between two cycles, and takes its pilot measurements.

    Pilot measurements go to the engine after each snapshot, because the snapshot replaces the engine's model.
    """

    def __init__(self, sources: ProfileRecorder, samples_max: int = SAMPLES_MAX) -> None:
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
        """Inputs of jobs, until a frame has come as a whole."""
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
        """Handle an engine that fails repeatedly: discard the data sent to it, which may be the cause."""
        self._samples.clear()
        self._absent.clear()
        self._due.clear()

    def summary(self) -> str:
        """Return a notice that the limit of stored measurements is reached; empty otherwise."""
        return f"what pilots say is kept of {self._samples_max} jobs and no more" if self._not_kept else ""

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
        columns = (event.application, event.cluster_timestamp, event.id, event.ended())
        for application, timestamp, number, has_ended in zip(*(column.tolist() for column in columns), strict=True):
            if not has_ended:
                id_ = application_id(timestamp, number)
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
        """Return whether one more application's samples fit; those missing for longest make room."""
        if len(self._samples) >= self._samples_max and self._absent:
            oldest = next(iter(self._absent))
            del self._absent[oldest]
            self._samples.pop(oldest, None)
        self._not_kept = len(self._samples) >= self._samples_max
        return not self._not_kept

    def _note_absent(self, now_ms: int) -> None:
        """Handle a complete snapshot. Applications missing from it have ended, if the connection is the same."""
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
            # The sample that began earlier has more data: an engine that lost its samples has started over.
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
        columns: dict[str, Any] = dict(zip(KeyHint._fields, map(np.array, zip(*rows, strict=True)), strict=True))
        return (filled(TaskEstimates, len(rows), **columns),)
