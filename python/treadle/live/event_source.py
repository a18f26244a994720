"""What the sidecar knows beside the frames, as events for the engine: history of jobs, and pilot measurements.

Looking up is done elsewhere (`treadle.live.history_writer`); the thread that decides only takes over what is there.
Every hint is an event, so a run can be repeated from its frames and these events. Input splits are the users' files:
each user gets his turn, and what is read a second is bounded, by user and in all. A job whose turn has not come by the
time that its AM has a container is sampled without its splits, as one without any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import numpy as np

from treadle import events
from treadle.am.quotas import Bounds, Keeping
from treadle.events import INDEX_MAX, KEYS_AHEAD, Applications, ApplicationState, Event, Samples, TaskEstimates, filled
from treadle.history.database import SAMPLES_MAX
from treadle.history.profile import JobProfile, Measured, RecurrenceKey, predicted
from treadle.history.splits import (
    BYTES_MAX,
    Places,
    SplitFollower,
    SplitMetaError,
    SplitOrder,
    open_staged,
    read_splits,
)
from treadle.history.stages import Framework, JobState, StageTracker
from treadle.history.store import Sample, sample_at, samples_event
from treadle.sidecar.child import EventSource
from treadle.wire.frames import Frame
from treadle.yarn.codes import application_id

_log = logging.getLogger(__name__)

WAITING: Final = Bounds(1024, 100 << 10, 1000 << 10, things=1000)
"""Jobs whose splits are not read yet: 100 of a user, 1,000 in all; the user that has most loses the oldest."""

ALL_BYTES_PER_S: Final = 1 << 20
USER_BYTES_PER_S: Final = 256 << 10
"""How fast splits are read in the long run; parsing takes about a sixth of a second a MiB."""
READ_BYTES_MIN: Final = 16 << 10
"""What a file counts for at least, also one that is none."""
_PAUSE_MS_MAX: Final = 60_000
"""A clock that was set back is waited for no longer."""
_USERS_MAX: Final = 1_000


class JobSplits(NamedTuple):
    """The splits of a job, arranged for the nodes of the cluster."""

    application: int
    """The shim's index."""
    order: SplitOrder


class StagedSplits:
    """A folder in which jobs' clients leave their splits."""

    def __init__(self) -> None:
        self._places = Places()
        self._waiting: Keeping[int, str] = Keeping(WAITING)
        """Users of the jobs whose turn has not come, by application."""
        self._had: set[int] = set()
        """Applications that run and had their turn: being reported again is no reason for another one."""
        self._again_ms: dict[str, int] = {}
        """When more is read of a user; of all under the empty name."""

    def look(self, frame: Frame, tracker: StageTracker, staging: str, pending: Collection[str]) -> list[JobSplits]:
        """Return the splits of MapReduce jobs whose AMs have no container yet, as many as there is time for.

        Args:
            frame: what is new
            tracker: has been given it
            staging: as `treadle.config.settings.Profiles.staging`; empty: nothing is read
            pending: users of whom there are splits that nobody has taken yet: theirs wait
        """
        for event in frame.events:
            self._places.follow(event)
        if not staging or frame.header.snapshot:
            # which splits the maps that run have is not known
            self._waiting, self._had = Keeping(WAITING), set()
            return []
        for event in frame.events:
            if isinstance(event, events.Applications):
                self._applications(event, tracker)
        return self._read_some(tracker, staging, set(pending), frame.header.rm_time_ms)

    def _applications(self, event: events.Applications, tracker: StageTracker) -> None:
        self._had.difference_update(event.application[event.state == ApplicationState.GONE].tolist())
        waits = (event.state != ApplicationState.GONE) & (event.awaiting_am == 1) & (event.attempt == 1)
        for application in event.application[waits].tolist():
            job = tracker.job(application)
            if job is not None and job.framework is Framework.MAPREDUCE and application not in self._had:
                self._had.add(application)
                self._waiting.put(application, job.user, job.user, 0)

    def _read_some(self, tracker: StageTracker, staging: str, pending: set[str], now_ms: int) -> list[JobSplits]:
        found = []
        for application, user in self._waiting.things():
            job = tracker.job(application)
            if job is None or not job.awaiting_am:
                self._waiting.pop(application)
            elif not self._may_read("", now_ms):
                break
            elif user not in pending and self._may_read(user, now_ms):
                self._waiting.pop(application)
                order = self._read(staging, job, now_ms)
                if order is not None:
                    pending.add(user)
                    found.append(JobSplits(application, order))
        return found

    def _read(self, staging: str, job: JobState, now_ms: int) -> SplitOrder | None:
        size = READ_BYTES_MIN
        try:
            with open_staged(staging, job.user, job.id) as stream:
                size = max(size, stream.seek(0, 2))
                stream.seek(0)
                splits = read_splits(stream)
        except (OSError, SplitMetaError) as error:
            _log.info("%s is sampled without its splits: %s", job.id, error)
            return None
        finally:
            self._charge(job.user, size, now_ms)
        return SplitOrder(splits, self._places.racks()) if any(split.bytes for split in splits) else None

    def _may_read(self, user: str, now_ms: int) -> bool:
        left_ms = self._again_ms.get(user, now_ms) - now_ms
        return left_ms <= 0 or left_ms > _PAUSE_MS_MAX

    def _charge(self, user: str, size: int, now_ms: int) -> None:
        size = min(size, BYTES_MAX)
        if len(self._again_ms) > _USERS_MAX:
            self._again_ms = {name: time_ms for name, time_ms in self._again_ms.items() if time_ms > now_ms}
        self._again_ms[user] = now_ms + 1000 * size // USER_BYTES_PER_S
        self._again_ms[""] = now_ms + 1000 * size // ALL_BYTES_PER_S


KEYS_MAX: Final = 1_000_000
"""Request keys that are looked at; beyond it there are no hints until the next snapshot."""

KEYS_KEPT: Final = 4096
"""The shim uses higher indices of request keys again, so that no hint is given for them."""

AHEAD_KEY: Final = INDEX_MAX - 1
"""Hints for stages that are not asked for yet have request keys from here down: the shim counts from 0 up."""
STAGES_AHEAD_MAX: Final = KEYS_AHEAD
"""Stages of a job that get hints before they are asked for."""

FindProfile = Callable[[RecurrenceKey], JobProfile | None]


class SnapshotId(NamedTuple):
    """A snapshot, by which indices of applications and of request keys are counted."""

    epoch: int
    sequence: int


class KeyHint(NamedTuple):
    """What earlier runs say of the tasks of a request key; a row of `treadle.events.TaskEstimates`."""

    application: int
    key: int
    duration_ms: int
    deviation_ms: int
    tasks: int = -1
    """How many have not ended, of a stage that is not asked for yet; -1: what is asked for says it."""


class HistoryLookup:
    """Looks up each job once, when it first asks for containers, and gives a hint for each of its request keys once.

    With the first come hints for the job's other stages, and how wide they were; these are taken back
    when they are asked for.
    """

    def __init__(self, tracker: StageTracker, find: FindProfile) -> None:
        """Look up jobs that a tracker follows.

        Args:
            tracker: is given each frame before `look` is
            find: the profile of a key, None if there is none
        """
        self._tracker = tracker
        self._find = find
        self._profiles: dict[int, JobProfile | None] = {}
        """By application, of those that have asked for containers."""
        self._asked: dict[int, set[int]] = {}
        """The request keys that were looked at, by application."""
        self._keys = 0
        self._known: set[int] = set()
        """Applications with hints."""
        self._ahead: dict[int, dict[str, int]] = {}
        """Of each application the keys of stages that it has not asked for yet."""
        self.snapshot = SnapshotId(0, 0)
        """Which snapshot the indices of what was returned last count by."""

    def look(self, frame: Frame) -> list[KeyHint]:
        """Return hints for what a frame asks for and had none since the last snapshot, in its order."""
        if frame.header.snapshot:
            self.snapshot = SnapshotId(frame.header.epoch, frame.header.sequence)
            self._profiles.clear()
            self._asked.clear()
            self._keys = 0
            self._known.clear()
            self._ahead.clear()
        found: list[KeyHint] = []
        for event in frame.events:
            if isinstance(event, events.Applications):
                gone = event.application[event.state == ApplicationState.GONE]
                for application in gone.tolist():
                    self._forget(application)
            elif isinstance(event, events.Requests):
                rows = (event.application, event.key, event.priority, event.count)
                for row in zip(*(column.tolist() for column in rows), strict=True):
                    found += self._look_up(*row)
        return found

    def summary(self) -> str:
        """Return in a few words how many jobs are known by earlier runs."""
        return f"{len(self._known)} of {len(self._profiles)} jobs by earlier runs"

    def _look_up(self, application: int, key: int, priority: int, count: int) -> list[KeyHint]:
        job = self._tracker.job(application)
        if job is None or not count or job.awaiting_am or self._keys >= KEYS_MAX or key >= KEYS_KEPT:
            return []  # the only container of a job that awaits its AM is the AM's
        keys = self._asked.setdefault(application, set())
        if key in keys:
            return []
        keys.add(key)
        self._keys += 1
        name = job.stage(priority).name
        if application not in self._profiles:
            self._profiles[application] = _measured_as(self._find(job.key()), job.framework.measured)
            found = self._tell_ahead(job, application, name)
        else:
            ahead = self._ahead.get(application, {}).pop(name, None)
            found = [KeyHint(application, ahead, -1, -1, 0)] if ahead is not None else []
        asked = self._tell(job, application, key, priority)
        return [*found, asked] if asked is not None else found

    def _tell_ahead(self, job: JobState, application: int, first: str) -> list[KeyHint]:
        """Return what is known of stages that come after the first one asked for, under keys of their own."""
        profile = self._profiles[application]
        stages = () if profile is None else profile.stages
        position = next((stage.position for stage in stages if stage.name == first), None)
        if position is None:
            return []
        found: list[KeyHint] = []
        for at, stage in enumerate(stages[:STAGES_AHEAD_MAX]):
            if stage.position <= position or stage.measured is not job.framework.measured:
                continue
            estimate = predicted(stage, stage.demand)
            if estimate is not None:
                key = AHEAD_KEY - at  # the same after the next snapshot, whatever is asked for by then
                self._ahead.setdefault(application, {})[stage.name] = key
                found.append(KeyHint(application, key, estimate.duration_ms, estimate.deviation_ms, stage.width))
        return found

    def _tell(self, job: JobState, application: int, key: int, priority: int) -> KeyHint | None:
        profile = self._profiles[application]
        name = job.stage(priority).name
        stage = None if profile is None else next((one for one in profile.stages if one.name == name), None)
        if stage is None or stage.measured is not job.framework.measured:
            return None
        estimate = predicted(stage, job.demand(priority))
        if estimate is None:
            return None
        job.note_hint(name, estimate.duration_ms)
        self._known.add(application)
        return KeyHint(application, key, estimate.duration_ms, estimate.deviation_ms)

    def _forget(self, application: int) -> None:
        self._profiles.pop(application, None)
        self._known.discard(application)
        self._ahead.pop(application, None)
        self._keys -= len(self._asked.pop(application, ()))


def _measured_as(profile: JobProfile | None, measured: Measured) -> JobProfile | None:
    """Return a profile with those stages alone for which there can be hints, which are few: it is kept by job."""
    if profile is None:
        return None
    return replace(profile, stages=tuple(stage for stage in profile.stages if stage.measured is measured))


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
