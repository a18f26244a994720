"""The simulated ResourceManager with its nodes and application masters: tells the engine, commits what it proposes."""

from __future__ import annotations

import numpy as np

from treadle import events
from treadle.events import Event, filled
from treadle.proposals import Proposals
from treadle.simulator.build import Built, with_room
from treadle.simulator.cluster import state as tables
from treadle.simulator.cluster.advance import advance, begin
from treadle.simulator.cluster.commit import commit
from treadle.simulator.cluster.event_queue import next_time, schedule_all
from treadle.simulator.cluster.state import EventKind, Knobs, State
from treadle.simulator.feed import FrameWriter, Told
from treadle.simulator.plans import FollowedPlans

NOTHING = filled(events.Fates, 0)


class SimulatedRM:
    """The truth. Time goes on by `advance` alone."""

    def __init__(
        self,
        built: Built,
        settings: dict[str, str],
        *,
        oracle: bool = False,
        slots: int = 1,
        told: Told | None = None,
        plans: FollowedPlans | None = None,
    ) -> None:
        """Begin at time 0.

        Args:
            built: the tables
            settings: of the RM, as the engine is told them
            oracle: whether the engine is told the true durations of tasks
            slots: tasks that a container may hold
            told: what the engine is told of each job's tasks when it comes
            plans: tell how early jobs' plans want tasks
        """
        self.state: State = built.state
        self.knobs: Knobs = built.knobs
        self._slots = slots
        self._writer = FrameWriter(built, settings, oracle, told, plans)
        self._fates: events.Fates | None = None
        self._make_room(0)
        apps = np.arange(len(self.state.apps), dtype=np.int32)
        schedule_all(self.state, int(EventKind.JOB_ARRIVES), self.state.apps["arrival_ms"].copy(), apps)
        begin(self.state, self.knobs)

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
        advance(self.state, self.knobs, until_ms)
        self._check()

    def frame(self) -> list[Event]:
        """Return what the engine is to be told, and forget it."""
        told = self._writer.frame(self.state, self._fates)
        self._fates = None
        return told

    def commit(self, made: Proposals, sequence: int) -> events.Fates:
        """Commit what may be committed of an answer; return the fates, which the next frame tells."""
        count = len(made)
        if not count:
            return NOTHING
        self._make_room(count)
        fates, numbers = np.zeros(count, np.uint8), np.zeros(count, np.int64)
        commit(self.state, self.knobs, made.application, made.key, made.node, fates, numbers)
        self._check()
        positions = np.arange(count, dtype=np.int32)
        self._fates = filled(events.Fates, count, sequence=sequence, position=positions, fate=fates, container=numbers)
        return self._fates

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
        lives = int(clock[tables.LIVES]) + 2 * containers + 2 * commits
        self.state = with_room(self.state, containers=commits + 64, events=more, lives=lives)

    def _check(self) -> None:
        if self.state.clock[tables.OUT_OF_ROOM]:
            raise AssertionError("the simulator's tables were too small for what happened in one step")
