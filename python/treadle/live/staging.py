"""Reads the splits of MapReduce jobs from their staging folders, when they come. Beside the decisions.

What is there is the users': each gets his turn, and so many bytes a second are read of a user and of all. A job whose
turn has not come by the time that its master has a container is sampled without its splits, as one without any.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final, NamedTuple

from treadle import events
from treadle.am.keeping import Bounds, Keeping
from treadle.events import ApplicationState
from treadle.history.stages.frameworks import Framework
from treadle.history.stages.job import JobState
from treadle.history.stages.splits import BYTES_MAX, Places, SplitMetaError, SplitOrder, open_staged, read_splits
from treadle.history.stages.tracker import StageTracker
from treadle.wire.frames import Frame

_log = logging.getLogger(__name__)

WAITING: Final = Bounds(1024, 100 << 10, 1000 << 10, things=1000)
"""Jobs whose splits have not been read yet: 100 of a user, 1,000 in all; of whoever has most the oldest goes."""

ALL_BYTES_PER_S: Final = 1 << 20
USER_BYTES_PER_S: Final = 256 << 10
"""How fast splits are read in the long run; parsing takes about a sixth of a second a MiB."""
READ_BYTES_MIN: Final = 16 << 10
"""What a file counts for at least, also one that is none."""
_PAUSE_MS_MAX: Final = 60_000
"""A clock that was set back is waited for no longer."""
_USERS_MAX: Final = 1_000


class ToldSplits(NamedTuple):
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
        """Applications that run and had their turn: what is told of them again is no reason for another one."""
        self._again_ms: dict[str, int] = {}
        """When more is read of a user; of all under the empty name."""

    def look(self, frame: Frame, tracker: StageTracker, staging: str, pending: Collection[str]) -> list[ToldSplits]:
        """Return the splits of MapReduce jobs whose masters have no container yet, as many as there is time for.

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

    def _read_some(self, tracker: StageTracker, staging: str, pending: set[str], now_ms: int) -> list[ToldSplits]:
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
                    found.append(ToldSplits(application, order))
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
