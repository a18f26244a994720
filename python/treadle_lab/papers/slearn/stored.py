"""What the store of profiles says of Google's jobs when they come, as it does to slearn-history on a cluster.

`treadle.history.profile.predicted` goes by the latest runs of a recurring job: the median of their means, and by how
much that has missed so far. A job recurs by its user and its logical name, which is Google's name without what changes
from run to run; the trace has numbers for both, from which nothing more can be taken out.
"""

from __future__ import annotations

from collections.abc import Iterable

from treadle.history.profile import JobProfile, Prediction, predicted, with_run
from treadle.history.run import JobRun, RecurrenceKey, StageRun
from treadle.history.sketch import DurationSketch
from treadle.workload.job import JobFeatures, JobRecord

__all__ = ["StoredRuns"]

STAGE = "map"


class StoredRuns:
    """Profiles of the jobs that have run. They are bounded by the trace: a store's own bounds are larger."""

    def __init__(self, records: Iterable[JobRecord] = ()) -> None:
        """Learn from records in order of submission."""
        self._profiles: dict[RecurrenceKey, JobProfile] = {}
        for record in records:
            self.add(record)

    def add(self, record: JobRecord) -> None:
        """Take in a job as if it had ended when it was submitted, as other histories here do."""
        key, submit_ms = _key(record.features), record.features.submit_ms
        durations = DurationSketch(record.durations_ms.tolist())
        run = JobRun(key, record.id, submit_ms, submit_ms, (StageRun(STAGE, record.tasks, durations),))
        profile = with_run(self._profiles.get(key), run)
        if profile is not None:
            self._profiles[key] = profile

    def prediction(self, features: JobFeatures) -> Prediction | None:
        """Return what the hint for a job's tasks would be; None without an earlier run."""
        profile = self._profiles.get(_key(features))
        return None if profile is None or not profile.stages else predicted(profile.stages[0], {})


def _key(features: JobFeatures) -> RecurrenceKey:
    return RecurrenceKey(features.user, "default", "MAPREDUCE", features.application)
