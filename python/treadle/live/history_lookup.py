"""History and input splits of jobs before they run: profiles of earlier runs, and splits that their clients have left.

Input splits are the users' files. Users take turns, and the amount read per second is bounded, for each user and in
total. A job whose AM gets a container before the job's turn is sampled without its splits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from treadle import events
from treadle.am.quotas import Bounds, QuotaCache
from treadle.events import INDEX_MAX, KEYS_AHEAD
from treadle.history.profile import JobProfile, RecurrenceKey, StageProfile, predicted
from treadle.history.splits import BYTES_MAX, Places, SplitMetaError, SplitOrder, open_staged, read_splits
from treadle.history.stages import Framework, JobState, StageTracker
from treadle.wire.frames import Frame

_log = logging.getLogger(__name__)

WAITING: Final = Bounds(1024, 100 << 10, 1000 << 10, things=1000)
"""Limits for jobs whose splits are not read yet: 100 of a user, 1,000 in total; the user with most loses the oldest."""

ALL_BYTES_PER_S: Final = 1 << 20
USER_BYTES_PER_S: Final = 256 << 10
"""How fast splits are read in the long run; parsing takes about a sixth of a second a MiB."""
READ_BYTES_MIN: Final = 16 << 10
"""Minimum number of bytes that a file counts for, even a missing one."""
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
        self._waiting: QuotaCache[int, str] = QuotaCache(WAITING)
        """Users of the jobs whose turn has not come, by application."""
        self._had: set[int] = set()
        """Running applications that had their turn: a repeated report does not give them another one."""
        self._again_ms: dict[str, int] = {}
        """When more is read of a user; of all under the empty name."""

    def update(self, frame: Frame, tracker: StageTracker, staging: str, pending: Collection[str]) -> list[JobSplits]:
        """Return the splits of MapReduce jobs whose AMs have no container yet, as many as there is time for.

        Args:
            frame: the new frame
            tracker: has been given it
            staging: as `treadle.config.settings.JobHistory.staging`; empty: nothing is read
            pending: users with splits that the engine has not taken yet: their jobs wait
        """
        for event in frame.events:
            self._places.follow(event)
        if not staging or frame.header.snapshot:
            # which splits the maps that run have is not known
            self._waiting, self._had = QuotaCache(WAITING), set()
            return []
        for event in frame.events:
            if isinstance(event, events.Applications):
                self._applications(event, tracker)
        return self._read_some(tracker, staging, set(pending), frame.header.rm_time_ms)

    def _applications(self, event: events.Applications, tracker: StageTracker) -> None:
        ended = event.ended()
        self._had.difference_update(event.application[ended].tolist())
        waits = ~ended & (event.awaiting_am == 1) & (event.attempt == 1)
        for application in event.application[waits].tolist():
            job = tracker.job(application)
            if job is not None and job.framework is Framework.MAPREDUCE and application not in self._had:
                self._had.add(application)
                self._waiting.put(application, job.user, job.user, 0)

    def _read_some(self, tracker: StageTracker, staging: str, pending: set[str], now_ms: int) -> list[JobSplits]:
        found = []
        for application, user in self._waiting.held_keys():
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
    """The history of a request key's tasks; a row of `treadle.events.TaskEstimates`."""

    application: int
    key: int
    duration_ms: int
    deviation_ms: int
    tasks: int = -1
    """Number of tasks that have not ended, for a stage without requests yet; -1: the requests determine it."""


@dataclass(eq=False)
class _Job:
    """A job that has asked for containers."""

    stages: tuple[StageProfile, ...]
    """Those of its profile for which there can be hints."""
    asked: set[int] = field(default_factory=set)
    """The request keys that were looked at."""
    ahead: dict[str, int] = field(default_factory=dict)
    """Keys of the hints for stages that it has not requested yet."""
    has_hints: bool = False


class HistoryLookup:
    """Looks up each job once, when it first asks for containers, and gives a hint for each of its request keys once.

    With the first come hints for the job's other stages, and how wide they were; these are taken back
    when they are asked for.
    """

    def __init__(self, tracker: StageTracker, find: FindProfile) -> None:
        """Look up jobs that a tracker follows.

        Args:
            tracker: is given each frame before `update` is
            find: the profile of a key, None if there is none
        """
        self._tracker = tracker
        self._find = find
        self._jobs: dict[int, _Job] = {}
        """By application."""
        self._keys = self._with_hints = 0
        self.snapshot = SnapshotId(0, 0)
        """The snapshot that the indices in the latest result refer to."""

    def update(self, frame: Frame) -> list[KeyHint]:
        """Return hints for the requests of a frame that had none since the last snapshot, in its order."""
        if frame.header.snapshot:
            self.snapshot = SnapshotId(frame.header.epoch, frame.header.sequence)
            self._jobs.clear()
            self._keys = self._with_hints = 0
        found: list[KeyHint] = []
        for event in frame.events:
            if isinstance(event, events.Applications):
                for application in event.application[event.ended()].tolist():
                    if (ended := self._jobs.pop(application, None)) is not None:
                        self._keys -= len(ended.asked)
                        self._with_hints -= ended.has_hints
            elif isinstance(event, events.Requests):
                rows = (event.application, event.key, event.priority, event.count)
                for row in zip(*(column.tolist() for column in rows), strict=True):
                    found += self._look_up(*row)
        return found

    def summary(self) -> str:
        """Return in a few words how many jobs are known by earlier runs."""
        return f"{self._with_hints} of {len(self._jobs)} jobs by earlier runs"

    def _look_up(self, application: int, key: int, priority: int, count: int) -> list[KeyHint]:
        job = self._tracker.job(application)
        if job is None or not count or job.awaiting_am or self._keys >= KEYS_MAX or key >= KEYS_KEPT:
            return []  # the only container of a job that awaits its AM is the AM's
        looked_up = self._jobs.get(application)
        if looked_up is not None and key in looked_up.asked:
            return []
        name, found = job.stage(priority).name, list[KeyHint]()
        if looked_up is None:
            profile, measured = self._find(job.key()), job.framework.measured
            stages = () if profile is None else profile.stages
            looked_up = _Job(tuple(stage for stage in stages if stage.measured is measured))
            self._jobs[application] = looked_up
            found = self._hints_ahead(looked_up, application, name)
        elif (ahead := looked_up.ahead.pop(name, None)) is not None:
            found = [KeyHint(application, ahead, -1, -1, 0)]
        looked_up.asked.add(key)
        self._keys += 1
        asked = self._hint_for(job, looked_up, application, key, priority)
        return [*found, asked] if asked is not None else found

    def _hints_ahead(self, looked_up: _Job, application: int, first: str) -> list[KeyHint]:
        """Return hints for the stages after the first requested one, under keys of their own."""
        position = next((stage.position for stage in looked_up.stages if stage.name == first), None)
        if position is None:
            return []
        found: list[KeyHint] = []
        for at, stage in enumerate(looked_up.stages[:STAGES_AHEAD_MAX]):
            if stage.position <= position:
                continue
            estimate = predicted(stage, stage.demand)
            if estimate is not None:
                key = AHEAD_KEY - at  # the same after the next snapshot, whichever stages are requested by then
                looked_up.ahead[stage.name] = key
                found.append(KeyHint(application, key, estimate.duration_ms, estimate.deviation_ms, stage.width))
        return found

    def _hint_for(self, job: JobState, looked_up: _Job, application: int, key: int, priority: int) -> KeyHint | None:
        name = job.stage(priority).name
        stage = next((one for one in looked_up.stages if one.name == name), None)
        if stage is None:
            return None
        estimate = predicted(stage, job.demand(priority))
        if estimate is None:
            return None
        job.note_hint(name, estimate.duration_ms)
        self._with_hints += not looked_up.has_hints
        looked_up.has_hints = True
        return KeyHint(application, key, estimate.duration_ms, estimate.deviation_ms)
