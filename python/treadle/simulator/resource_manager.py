"""The simulated ResourceManager with its nodes and application masters: sends changes, commits proposals.

It begins with an empty cluster, or with what one was in at an instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle import events
from treadle.compiled.array_types import I64, U8, Records
from treadle.events import Event, filled
from treadle.proposals import Proposals
from treadle.sidecar.mirror import Feed as MirrorFeed
from treadle.sidecar.mirror import Mirror
from treadle.simulator.build import Built, with_room
from treadle.simulator.cluster import tables
from treadle.simulator.cluster.advance import STEP, Put, advance, begin, commit, resume
from treadle.simulator.cluster.tables import (
    AppState,
    EventKind,
    RowKind,
    SimulationParameters,
    State,
    next_time,
    schedule_all,
)
from treadle.simulator.feed import Feed, FollowedPlans, JobHints


@dataclass(frozen=True, slots=True)
class Held:
    """A container that a task had or has. Times are milliseconds from the simulation's time 0."""

    node: int
    """The place in the simulation's table of nodes."""
    created_ms: int
    begin_ms: int
    """When the task in it began; of one whose input is missing it does not count."""
    end_ms: int = -1
    """-1: it is there still."""


@dataclass(frozen=True, slots=True)
class StageSituation:
    """A stage: its first tasks are those that have begun, in the order of ``containers``."""

    containers: tuple[Held, ...] = ()
    asks: int = 0
    """Containers that are asked for."""


@dataclass(frozen=True, slots=True)
class JobSituation:
    """A job that has come."""

    stands: AppState
    end_ms: int = -1
    """Of one that has ended."""
    master: Held | None = None
    """The container of its application master."""
    registers_ms: int = -1
    """When that registers, or has."""
    stages: Mapping[int, StageSituation] = field(default_factory=dict)
    """By the stage's id."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All of it. Jobs that are not in it come when they come."""

    at_ms: int
    jobs: Mapping[str, JobSituation]
    """By id, in the order in which they came."""


def steps_of(situation: Situation, built: Built) -> Records:
    """Return the steps to put into the tables, in order, of the type `STEP`."""
    places = {job.id: at for at, job in enumerate(built.workload.jobs)}
    all_steps = [
        step for id_, job in situation.jobs.items() for step in _steps(job, places[id_], built, situation.at_ms)
    ]
    steps = np.zeros(len(all_steps), STEP)
    for at, step in enumerate(all_steps):
        for name, value in step.items():
            steps[name][at] = value
    return steps


def _steps(job: JobSituation, app: int, built: Built, at_ms: int) -> Iterator[dict[str, Any]]:
    """Yield the steps of a job."""
    rows = _rows(app, built)
    if job.stands == AppState.FINISHED:
        yield {"what": Put.ENDED, "app": app, "end_ms": job.end_ms}
        for stage, own in job.stages.items():
            for held in own.containers:
                yield {"what": Put.USED, "row": rows[stage], "created_ms": held.created_ms, "end_ms": held.end_ms}
        if job.master is not None:
            first = int(built.state.apps["first_row"][app])
            yield {"what": Put.USED, "row": first, "created_ms": job.master.created_ms, "end_ms": job.end_ms}
        return
    if job.stands == AppState.PENDING:
        yield {"what": Put.WAITS, "app": app}
        return
    yield {"what": Put.ASKS_MASTER, "app": app}
    running = job.stands == AppState.RUNNING
    if job.master is not None:
        registers_ms = -1 if running else job.registers_ms
        master = {"node": job.master.node, "created_ms": job.master.created_ms, "end_ms": registers_ms}
        yield {"what": Put.MASTER, "app": app, **master}
    if not running:
        return
    yield {"what": Put.REGISTERED, "app": app, "begin_ms": min(job.registers_ms, at_ms)}
    yield from _stages(job, rows, built)
    yield {"what": Put.GOES_ON, "app": app}


def _stages(job: JobSituation, rows: Mapping[int, int], built: Built) -> Iterator[dict[str, Any]]:
    """Yield what was done, before what runs and what is asked for: that is of stages that may have waited for it."""
    for wanted in (Put.DONE, Put.RUNS):
        for stage, own in job.stages.items():
            first = int(built.state.rows["first_task"][rows[stage]])
            for at, held in enumerate(own.containers):
                if (held.end_ms >= 0) == (wanted == Put.DONE):
                    times = {"created_ms": held.created_ms, "begin_ms": held.begin_ms, "end_ms": held.end_ms}
                    yield {"what": wanted, "task": first + at, "node": held.node, **times}
    for stage, own in job.stages.items():
        if own.asks:
            yield {"what": Put.ASKS, "row": rows[stage], "count": own.asks}


def _rows(app: int, built: Built) -> dict[int, int]:
    """Return the row of each stage of a job, by the stage's id."""
    state = built.state
    first = int(state.apps["first_row"][app])
    own = np.arange(first, first + int(state.apps["rows"][app]))
    tasks = own[state.rows["kind"][own] == RowKind.TASKS]
    stages = [stage.id for stage in built.workload.jobs[app].dag.stages if stage.tasks]
    return dict(zip(stages, tasks.tolist(), strict=True))


NOTHING = filled(events.Fates, 0)

Committer = Callable[[State, SimulationParameters, U8, I64], None]
"""Commits an answer in its own way, and fills in the fates of its rows and the numbers of containers."""


class SimulatedRM:
    """The state of the cluster. Time goes on by `advance` alone.

    There is one engine, number 0, which receives everything; or there are those of `join_in_part`, each at its own
    pace. Each gets the fates of what it proposed itself.
    """

    def __init__(
        self,
        built: Built,
        settings: dict[str, str],
        *,
        oracle: bool = False,
        slots: int = 1,
        hints: JobHints | None = None,
        plans: FollowedPlans | None = None,
        situation: Situation | None = None,
    ) -> None:
        """Begin at time 0, or in the middle.

        Args:
            built: the tables
            settings: of the RM, as the engine receives them
            oracle: whether the engine gets the true durations of tasks
            slots: tasks that a container may hold
            hints: about each job's tasks that the engine gets when the job arrives
            plans: report how early jobs' plans want tasks
            situation: what there is when it begins in the middle
        """
        self.state: State = built.state
        self.parameters: SimulationParameters = built.parameters
        self._slots = slots
        self._built, self._settings = built, settings
        self._feed = Feed(built, settings, oracle, hints, plans)
        self._mirror = Mirror()
        self._parts: list[tuple[MirrorFeed, bool]] = []
        """Of engines that receive some applications only: the feed, and whether it gets the true durations."""
        self._fates: dict[int, events.Fates] = {}
        self._make_room(0)
        there = set() if situation is None else situation.jobs.keys()
        ahead = [at for at, job in enumerate(built.workload.jobs) if job.id not in there]
        apps = np.array(ahead, dtype=np.int32)
        schedule_all(self.state, int(EventKind.JOB_ARRIVES), self.state.apps["arrival_ms"][apps], apps)
        begin(self.state, self.parameters)
        if situation is not None:
            self._resume(situation)

    def _resume(self, situation: Situation) -> None:
        """Let it be the time of a situation, and be there what was there."""
        steps = steps_of(situation, self._built)
        self.advance(situation.at_ms)
        self.state = with_room(
            self.state,
            containers=len(steps) + 64,
            events=2 * len(steps) + 64,
            container_steps=len(self.state.container_steps) + len(steps),
        )
        resume(self.state, self.parameters, steps)
        self._check()

    def join_in_part(self, *, oracle: bool = False) -> MirrorFeed:
        """Let one more engine read, of some applications only: return its feed, which says of which.

        Its number is how many did so before. All of them read one mirror of what an engine that is alone would receive;
        with ``oracle`` it gets the true durations of tasks too.
        """
        if not self._parts:
            self._mirror.take(self._whole(None))
        feed = MirrorFeed(self._mirror)
        self._parts.append((feed, oracle))
        return feed

    def begin_again(self) -> None:
        """Let the next frame be a snapshot, which has the names of resources and settings among its texts."""
        settings = (text for pair in self._settings.items() for text in pair)
        self._feed.begin_again((*self._built.resources, "Mi", *settings))

    @property
    def start_ms(self) -> int:
        """What its clock shows at time 0."""
        return self._built.start_ms

    @property
    def now_ms(self) -> int:
        """The time."""
        return int(self.state.clock[tables.NOW])

    def next_time(self) -> int:
        """Return when something happens next, or -1 if nothing ever will by itself."""
        return int(next_time(self.state))

    def advance(self, until_ms: int) -> None:
        """Let everything happen up to and at an instant."""
        self._make_room(0)
        advance(self.state, self.parameters, until_ms)
        self._check()

    def frame(self, engine: int = 0) -> list[Event]:
        """Return the events that an engine has not received yet."""
        fates = self._fates.pop(engine, None)
        return self._part(engine, fates) if self._parts else self._whole(fates)

    def _whole(self, fates: events.Fates | None) -> list[Event]:
        frame = self._feed.frame(self.state, fates)
        self.state.clock[tables.CONTAINER_STEPS] = 0
        return frame

    def _part(self, engine: int, fates: events.Fates | None) -> list[Event]:
        """Return the events for an engine that receives some applications only."""
        feed, oracle = self._parts[engine]
        self._mirror.take(self._whole(None))
        part_events: list[Event] = []
        for event in feed.read():
            part_events.append(event)
            if oracle and isinstance(event, events.ApplicationUsage):
                part_events.append(self._feed.estimates(self.state, event.application))
        if fates is not None and not (part_events and isinstance(part_events[0], events.Snapshot)):
            part_events.append(fates)
        return part_events

    def commit(
        self, made: Proposals, sequence: int, engine: int = 0, committer: Committer | None = None
    ) -> events.Fates:
        """Commit what may be committed of an engine's answer; return the fates, which its next frame has.

        Args:
            made: the answer
            sequence: what the fates will call it
            engine: whose answer it is
            committer: judges and commits; without one each proposal is committed by itself
        """
        count = len(made)
        if not count:
            return NOTHING
        self._make_room(count)
        fates, numbers = np.zeros(count, np.uint8), np.zeros(count, np.int64)
        if committer is None:
            commit(self.state, self.parameters, made.application, made.key, made.node, fates, numbers)
        else:
            committer(self.state, self.parameters, fates, numbers)
        self._check()
        positions = np.arange(count, dtype=np.int32)
        made_of = filled(events.Fates, count, sequence=sequence, position=positions, fate=fates, container=numbers)
        self._fates[engine] = made_of
        return made_of

    def _make_room(self, commits: int) -> None:
        """Grow the tables for all that may happen until the next call.

        A container alive has at most one event for each task in it, one for its report and one for its readiness,
        and voids at most as many; an application has a heartbeat and one that was brought forward; a node two. With
        contention a node is looked at again for every task that begins or ends there.
        """
        clock = self.state.clock
        containers = int(clock[tables.CONTAINERS]) + commits
        apps = len(self.state.apps) - int(clock[tables.FINISHED])
        more = containers * (2 * self._slots + 4) + 4 * apps + 4 * len(self.state.nodes) + 64
        if len(self.state.node_wanted):
            more += 16 * containers
        container_steps = int(clock[tables.CONTAINER_STEPS]) + 2 * containers + 2 * commits
        self.state = with_room(self.state, containers=commits + 64, events=more, container_steps=container_steps)

    def _check(self) -> None:
        if self.state.clock[tables.OUT_OF_ROOM]:
            raise AssertionError("the simulator's tables were too small for what happened in one step")
