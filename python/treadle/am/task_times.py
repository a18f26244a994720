"""How long tasks of recurring DAGs took: those that were reported, and those that the store of profiles remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final

from treadle.am.keeping import Bounds, Keeping
from treadle.am.keys import Attempt
from treadle.am.protocol import PlanRequest
from treadle.history.profile import JobProfile, Prediction, predicted, with_run
from treadle.history.run import JobRun, Measured, RecurrenceKey, StageRun
from treadle.history.sketch import DurationSketch

BYTES: Final = Bounds(8 << 20, 16 << 20, 64 << 20, things=1_000)
"""Of a recurring DAG, of a user's, and of all that are remembered without a store. Beyond, those of the user
who has most make room, the one used least recently first."""

_STAGE_BYTES: Final = 6_000
"""A stage with what is kept of its latest runs one by one."""
_BUCKET_BYTES: Final = 110
_EDGE_BYTES: Final = 100

FindProfile = Callable[[RecurrenceKey], JobProfile | None]


class History:
    """Profiles of DAGs by user, queue and name. For several threads."""

    def __init__(self, find: FindProfile = lambda _: None, remember: Callable[[JobRun], None] = lambda _: None) -> None:
        """Begin with what is in a store.

        Args:
            find: a profile of the store; None if there is none
            remember: is given each DAG that has succeeded, for the store
        """
        self._find = find
        self._remember = remember
        self._profiles: Keeping[RecurrenceKey, JobProfile] = Keeping(BYTES)
        self._lock = Lock()

    def find(self, key: RecurrenceKey) -> JobProfile | None:
        """Return what is remembered of a DAG; None if it is nothing."""
        with self._lock:
            profile = self._profiles.get(key)
        return profile or self._find(key)

    def put(self, run: JobRun) -> None:
        """Take a DAG that has succeeded."""
        with self._lock:
            before = self._profiles.pop(run.key)
            after = with_run(before, run) or before
            if after is not None:
                self._profiles.put(run.key, run.key.user, after, _size_bytes(after))
        self._remember(run)


def _size_bytes(profile: JobProfile) -> int:
    edges = sum(len(stage.parents) + len(stage.one_to_one) + len(stage.demand) for stage in profile.stages)
    buckets = sum(stage.durations.buckets for stage in profile.stages)
    names = sum(4 * len(stage.name) for stage in profile.stages)
    return len(profile.stages) * _STAGE_BYTES + edges * _EDGE_BYTES + buckets * _BUCKET_BYTES + names


def predictions(profile: JobProfile | None, request: PlanRequest) -> dict[int, Prediction]:
    """Return how long tasks of each vertex will take, by its id; those alone of which something is known."""
    if profile is None:
        return {}
    stages = {stage.name: stage for stage in profile.stages if stage.measured is Measured.TASKS}
    said = {
        vertex.id: predicted(stages[vertex.name], vertex.demand) for vertex in request.vertices if vertex.name in stages
    }
    return {vertex: prediction for vertex, prediction in said.items() if prediction is not None}


def widths(profile: JobProfile | None) -> dict[str, int]:
    """Return how many tasks each vertex usually has, by its name."""
    return {} if profile is None else {stage.name: stage.width for stage in profile.stages}


def run_of(
    key: RecurrenceKey,
    attempt: Attempt,
    request: PlanRequest,
    widths: Mapping[int, int],
    durations: Mapping[int, DurationSketch],
    times_ms: tuple[int, int],
) -> JobRun:
    """Return a DAG that has succeeded, as the store of profiles takes it; ``times_ms`` are its start and end."""
    names = {vertex.id: vertex.name for vertex in request.vertices}
    stages = tuple(
        StageRun(
            vertex.name,
            max(widths.get(vertex.id, vertex.tasks), 0),
            durations[vertex.id],
            vertex.demand,
            tuple(names[parent] for parent in vertex.parents if parent in names),
            one_to_one=tuple(names[parent] for parent, single in vertex.parents.items() if single and parent in names),
        )
        for vertex in request.vertices
    )
    # As Tez names it, so that an import of Tez's own history counts it once.
    name = f"dag_{attempt.cluster_timestamp}_{attempt.application:04d}_{request.dag}"
    return JobRun(key, name, *times_ms, stages)
