"""Reads the splits of MapReduce jobs from their staging folders, when they come. Beside the decisions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from treadle import events
from treadle.events import ApplicationState
from treadle.stages.frameworks import Framework
from treadle.stages.job import JobState
from treadle.stages.split_meta import SplitMetaError, read_splits, staged_splits
from treadle.stages.splits import Split
from treadle.stages.tracker import StageTracker
from treadle.wire.decoder import Frame

_log = logging.getLogger(__name__)


class ToldSplits(NamedTuple):
    """The splits of a job, in the order of its maps."""

    application: int
    """The shim's index."""
    splits: Sequence[Split]


class StagedSplits:
    """A folder in which jobs' clients leave their splits."""

    def __init__(self, staging: str) -> None:
        """Take `treadle.config.settings.Profiles.staging`; empty: nothing is read."""
        self._staging = staging

    def look(self, frame: Frame, tracker: StageTracker) -> list[ToldSplits]:
        """Return the splits of the MapReduce jobs that a frame tells of and whose masters have no container yet."""
        if not self._staging or frame.header.snapshot:
            return []  # which splits the maps that run have is not known
        found = []
        for event in frame.events:
            if isinstance(event, events.Applications):
                waits = (event.state != ApplicationState.GONE) & (event.awaiting_am == 1) & (event.attempt == 1)
                for application in event.application[waits].tolist():
                    job = tracker.job(application)
                    told = None if job is None else self._read(application, job)
                    found += [told] if told is not None else []
        return found

    def _read(self, application: int, job: JobState) -> ToldSplits | None:
        if job.framework is not Framework.MAPREDUCE or "/" in job.user or job.user in {"", ".", ".."}:
            return None
        file = staged_splits(self._staging, job.user, job.id)
        try:
            splits = read_splits(file)
        except (OSError, SplitMetaError) as error:
            _log.info("%s is sampled without its splits: %s", job.id, error)
            return None
        return ToldSplits(application, splits) if any(split.bytes for split in splits) else None
