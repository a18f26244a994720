"""The simulated ResourceManager with its nodes and application masters: sends changes, commits proposals.

It starts with an empty cluster, or in a given situation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from treadle import events
from treadle.compiled.array_types import I64, U8, Records
from treadle.events import Event, Proposals, filled
from treadle.sidecar.mirror import Feed as MirrorFeed
from treadle.sidecar.mirror import Mirror
from treadle.simulator.build import Built, with_room
from treadle.simulator.cluster import tables
from treadle.simulator.cluster.advance import STEP, Put, advance, begin, commit, resume
from treadle.simulator.cluster.tables import EventKind, SimulationParameters, State, next_time, schedule_all
from treadle.simulator.feed import Feed, FollowedPlans, stage_rows


class Step(NamedTuple):
    """A step that puts a part of a situation into the tables. Times are milliseconds from the simulation's time 0."""

    what: Put
    job: str
    """Its ID."""
    stage: int = -1
    """Its ID; -1: the AM."""
    task: int = 0
    """Its index in the stage."""
    node: int = 0
    """The place in the simulation's table of nodes."""
    created_ms: int = 0
    begin_ms: int = 0
    """When its task started; ignored while the task's input is missing."""
    end_ms: int = 0
    asks: int = 0
    """Requested containers."""


class Situation(NamedTuple):
    """The state of a cluster at a time. Other jobs are submitted on schedule."""

    at_ms: int
    steps: tuple[Step, ...]
    """Jobs follow in the order of their arrival."""


def _records(situation: Situation, built: Built) -> Records:
    """Return the steps of a situation, in order, of the type `STEP`."""
    places = {job.id: at for at, job in enumerate(built.workload.jobs)}
    rows = {job: _rows(places[job], built) for job in {step.job for step in situation.steps}}
    records = np.zeros(len(situation.steps), STEP)
    for at, step in enumerate(situation.steps):
        app = places[step.job]
        row = rows[step.job].get(step.stage, int(built.state.apps["first_row"][app]))
        task = int(built.state.rows["first_task"][row]) + step.task
        times = (step.created_ms, step.begin_ms, step.end_ms)
        records[at] = (*times, int(step.what), app, row, task, step.node, step.asks)
    return records


def _rows(app: int, built: Built) -> dict[int, int]:
    """Return the row of each stage of a job, by stage ID."""
    stages = [stage.id for stage in built.workload.jobs[app].dag.stages if stage.tasks]
    return dict(zip(stages, stage_rows(built.state, app).tolist(), strict=True))


NOTHING = filled(events.Fates, 0)

Committer = Callable[[State, SimulationParameters, U8, I64], None]
"""Commits an answer in its own way, and sets fates and container numbers of its rows."""


class SimulatedRM:
    """The state of the cluster. Time advances only by `advance`.

    There is one engine, number 0, which receives everything; or the engines of `join_in_part`, each at its own pace.
    Each receives the fates of its own proposals.
    """

    def __init__(
        self,
        built: Built,
        settings: dict[str, str],
        *,
        oracle: bool = False,
        slots: int = 1,
        plans: FollowedPlans | None = None,
        situation: Situation | None = None,
    ) -> None:
        """Start at time 0, or in the middle.

        Args:
            built: the tables
            settings: settings of the RM, as the engine receives them
            oracle: whether the engine gets the true durations of tasks
            slots: tasks per container
            plans: report the scores of jobs' plans
            situation: the state in the middle
        """
        self.state: State = built.state
        self.parameters: SimulationParameters = built.parameters
        self._slots = slots
        self._built, self._settings = built, settings
        self._feed = Feed(built, settings, oracle, plans)
        self._mirror = Mirror()
        self._parts: list[tuple[MirrorFeed, bool]] = []
        """For each engine with some applications only: the feed, and whether it gets the true durations."""
        self._fates: dict[int, events.Fates] = {}
        self._make_room(0)
        there = set() if situation is None else {step.job for step in situation.steps}
        ahead = [at for at, job in enumerate(built.workload.jobs) if job.id not in there]
        apps = np.array(ahead, dtype=np.int32)
        schedule_all(self.state, int(EventKind.JOB_ARRIVES), self.state.apps["arrival_ms"][apps], apps)
        begin(self.state, self.parameters)
        if situation is not None:
            self._resume(situation)

    def _resume(self, situation: Situation) -> None:
        """Set the time and the tables to a situation."""
        steps = _records(situation, self._built)
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
        """Add an engine that receives some applications only; return its feed, which selects them.

        Engines are numbered in order. All of them read one mirror of the events that a single engine would receive;
        with ``oracle`` it also gets the true durations of tasks.
        """
        if not self._parts:
            self._mirror.take(self._whole(None))
        feed = MirrorFeed(self._mirror)
        self._parts.append((feed, oracle))
        return feed

    @property
    def start_ms(self) -> int:
        """Clock value at time 0, in ms."""
        return self._built.start_ms

    @property
    def now_ms(self) -> int:
        """The current time in ms."""
        return int(self.state.clock[tables.NOW])

    def next_time(self) -> int:
        """Return the time of the next event, or -1 if there is none."""
        return int(next_time(self.state))

    def advance(self, until_ms: int) -> None:
        """Process all events up to and including a time."""
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
        """Return the events of an engine that receives some applications only."""
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
        """Commit the valid proposals of an engine's answer; return the fates, which its next frame contains.

        Args:
            made: the answer
            sequence: the number by which the fates refer to it
            engine: number of the engine
            committer: judges and commits; without it each proposal is committed by itself
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
        """Grow the tables for all events until the next call.

        A living container has at most one event per task, one for its report and one for its readiness, and invalidates
        at most as many; an application has a heartbeat and an advanced one; a node two. With contention a node is
        updated again for every task that starts or ends there.
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
