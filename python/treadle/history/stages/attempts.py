"""Containers as attempts at tasks, and how each ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from treadle.history.stages.frameworks import Framework


class Outcome(StrEnum):
    """How an attempt ended. Only those that ended well tell how long a task takes."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    RELEASED = "released"
    """Given back by its application when it was no longer needed: how containers of Tez and Spark end."""
    FAILED = "failed"
    KILLED = "killed"
    """By its application master, as the loser of two speculative attempts is, or by somebody else."""
    PREEMPTED = "preempted"
    LOST = "lost"
    """With its node or disk, or unseen."""


WELL: Final = frozenset({Outcome.SUCCEEDED, Outcome.RELEASED})

_PREEMPTED = {-102, -108}  # PREEMPTED, KILLED_BY_CONTAINER_SCHEDULER (an opportunistic one made room)
_KILLED = {-105, -106, -107, 137, 143}  # by the AM, by the RM, after the application; SIGKILL and SIGTERM
_FAILED = {-103, -104, -109}  # too much virtual or physical memory, too large logs
_ABORTED = -100


def outcome_of(framework: Framework, exit_status: int) -> Outcome:
    """Return what an exit status of YARN's says (`ContainerExitStatus`).

    A MapReduce attempt that failed ends with 0 like one that succeeded: its task's JVM reports the failure to the
    application master and exits in peace. `treadle.history.stages.stage.StageState` tells those by what is asked for
    next.
    """
    if exit_status == 0:
        return Outcome.SUCCEEDED
    if exit_status in _PREEMPTED:
        return Outcome.PREEMPTED
    if exit_status == _ABORTED:
        return Outcome.LOST if framework is Framework.MAPREDUCE else Outcome.RELEASED
    if exit_status in _KILLED:
        return Outcome.KILLED
    if exit_status > 0 or exit_status in _FAILED:
        return Outcome.FAILED
    return Outcome.LOST


class ContainerKey(NamedTuple):
    """Tells the containers of an application apart: numbers begin anew with each of its attempts."""

    container: int
    """Its number within its application attempt."""
    created_ms: int


@dataclass(slots=True)
class Attempt:
    """A container of a stage."""

    key: ContainerKey
    priority: int
    node: int
    """The shim's index of the node; -1 if it has gone."""
    started_ms: int = -1
    ended_ms: int = -1
    exit_status: int = 0
    outcome: Outcome = Outcome.RUNNING
    answered: bool = False
    """It is known which ask followed its end."""

    @property
    def duration_ms(self) -> int:
        """From its allocation to its end, by the ResourceManager's clock; -1 if not known or the clock went back."""
        return self.ended_ms - self.key.created_ms if self.ended_ms >= self.key.created_ms else -1
