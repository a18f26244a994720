"""The stages of a Spark application as a run's: called by their places, since call sites repeat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from treadle.history.run import StageRun
from treadle.history.sketch import DurationSketch


@dataclass(frozen=True, slots=True, eq=False)
class SparkStage:
    """A stage of which tasks ran; those that Spark lists anew, with other ids, are the same one."""

    number: int
    """Another one for each stage."""
    first_id: int
    """The smallest of Spark's ids that it has."""
    name: str
    """Its call site."""
    tasks: int
    parents: tuple[int, ...]
    """Numbers of the stages that feed it."""
    durations: DurationSketch
    input_bytes: int
    retried: int
    """Attempts that failed, or succeeded though their task had before."""
    speculative: int


def stage_runs(stages: Iterable[SparkStage]) -> tuple[StageRun, ...]:
    """Return stages as those of a run, in the order of Spark's ids; parents that are not among them are left out."""
    ordered = sorted(stages, key=lambda stage: (stage.first_id, stage.number))
    # a call site and a place: two stages may have one call site
    names = {stage.number: f"{at} {_call_site(stage.name)}".strip() for at, stage in enumerate(ordered)}
    return tuple(
        StageRun(
            names[stage.number],
            stage.tasks,
            stage.durations,
            {},
            tuple(names[parent] for parent in stage.parents if parent in names and parent != stage.number),
            input_bytes=stage.input_bytes,
            retried=stage.retried,
            speculative=stage.speculative,
        )
        for stage in ordered
    )


def _call_site(name: str) -> str:
    """Return a call site without the folder of its file: in cluster mode a container's, another one in each run."""
    call, at, place = name.rpartition(" at ")
    return f"{call}{at}{place.rpartition('/')[2]}" if at else name
