"""What a recorded cluster was in when another policy first decided otherwise: there the model takes over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from treadle.replay.seen import Seen, SeenContainer, SeenJob, SeenStage
from treadle.simulator.cluster.state import AppState
from treadle.simulator.situation import Held, JobSituation, StageSituation

AM_HEARTBEAT_MS: Final = 1000
"""Of application masters: the defaults of MapReduce and Tez; no frame has them."""

HEARD_MS: Final = AM_HEARTBEAT_MS // 2
"""How long after its allocation an AM hears of a container, on average."""


class TimedStage(NamedTuple):
    """A stage whose first tasks are those that had begun when the model takes over."""

    id: int
    ordered: list[SeenContainer]
    begun: list[SeenContainer]
    """The first of them, as they were then."""
    asks: int
    barrier_ms: int
    """When the stages before it had ended; -1: it waits for none."""


def timed_stage(id_: int, stage: SeenStage, then: SeenStage, barrier_ms: int) -> TimedStage:
    """Return a stage with its containers in the order of its tasks.

    Args:
        id_: the stage's in its job's DAG
        stage: all of it
        then: what had been seen of it when the model takes over
        barrier_ms: when the stages before it had ended
    """
    ended = {each[:2]: each for each in stage.containers}
    begun = [each for each in sorted(then.containers) if each[:2] in ended]
    first = [ended[each[:2]] for each in begun]
    there = {each[:2] for each in begun}
    later = sorted(each for each in stage.containers if each[:2] not in there)
    return TimedStage(id_, first + later, begun, then.asked, barrier_ms)


def situation_of(
    job: SeenJob, then: SeenJob, stages: Sequence[TimedStage], seen: Seen, place: Mapping[str, int]
) -> JobSituation:
    """Return what was of a job.

    Args:
        job: all of it
        then: what had been seen of it
        stages: its stages
        seen: all of the recording
        place: of each node, by name, among the model's
    """
    master = None
    if then.master_ms >= 0 and then.master_node in place:
        created_ms = then.master_ms - seen.begin_ms
        master = Held(place[then.master_node], created_ms, created_ms)
    registers_ms = max(job.first_ask_ms, then.master_ms) - seen.begin_ms
    end_ms = then.end_ms - seen.begin_ms if then.end_ms >= 0 else -1
    found = {each.id: _stage(each, seen, place) for each in stages}
    return JobSituation(_stands(then), end_ms, master, registers_ms, found)


def _stands(then: SeenJob) -> AppState:
    if then.end_ms >= 0:
        return AppState.FINISHED
    if then.waits:
        return AppState.PENDING
    if then.before or then.first_ask_ms >= 0 or any(each.containers for each in then.stages.values()):
        return AppState.RUNNING
    return AppState.STARTING


def _stage(timed: TimedStage, seen: Seen, place: Mapping[str, int]) -> StageSituation:
    held = []
    for each in timed.begun:
        begin_ms = max(each.created_ms + HEARD_MS, timed.barrier_ms) - seen.begin_ms
        created_ms = each.created_ms - seen.begin_ms
        end_ms = -1 if each.runs else each.end_ms - seen.begin_ms
        held.append(Held(place.get(each.node, 0), created_ms, begin_ms, end_ms))
    return StageSituation(tuple(held), timed.asks)
