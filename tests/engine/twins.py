"""Two equal clusters side by side: one engine gets deltas alone, the other now and then a snapshot."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from tests.engine.fake_rm import FakeRM, listed
from tests.engine.parts import containers, estimates

from treadle import events
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.events import INDEX_MAX, KEYS_RESERVED, ApplicationState, ContainerEvent, Event, Fate, Proposals

Proposal = tuple[int, int, int]
"""Application, key, node."""


@dataclass(frozen=True)
class Shifts:
    """By how much the indices of a snapshot differ from those before: they are given out anew."""

    application: int = 0
    node: int = 0
    queue: int = 0
    key: int = 0
    name: int = 0

    def told(self, event: Event) -> Event:
        """Return an event with these indices."""
        if isinstance(event, events.Names) and event.texts[:1] == ("",):
            return events.Names(("", *(f"dummy {at}" for at in range(self.name)), *event.texts[1:]))
        if isinstance(event, events.Names | events.Snapshot | events.ResourceTypes | events.Settings):
            return event
        changed = {}
        for field in fields(event):
            by = self.name if field.name.endswith("_name") else getattr(self, _KIND.get(field.name, ""), 0)
            if by:
                column = getattr(event, field.name)
                least = 1 if field.name.endswith("_name") else 0
                most = INDEX_MAX - KEYS_RESERVED if field.name == "key" else INDEX_MAX
                changed[field.name] = np.where((column >= least) & (column < most), column + by, column)
        return replace(event, **changed)


_KIND = {"application": "application", "node": "node", "queue": "queue", "parent": "queue", "key": "key"}


class Follower:
    """A fake RM and an engine that gets its frames."""

    def __init__(self, rm: FakeRM, settings: Settings) -> None:
        self.rm = rm
        self.engine = Engine(settings)
        self.shifts = Shifts()

    def frame(self, snapshot: Shifts | None, more: list[Event], epoch: int) -> None:
        """Tell the next frame, a snapshot with other indices if they are given."""
        if snapshot is not None:
            self.rm.snapshot_next()
            self.shifts = snapshot
        told: list[Event] = [event for event in self.rm.frame() if not isinstance(event, events.Snapshot)]
        if any(isinstance(event, events.ResourceTypes) for event in told):
            told = [events.Snapshot(epoch), *(_alive(event, self.rm) for event in told)]
        frame = [event for event in (*told, *more) if not isinstance(event, BESIDE)]
        beside = [event for event in more if isinstance(event, BESIDE)]
        for part in (frame, beside):
            self.engine.apply([self.shifts.told(event) for event in part])

    def decide(self, now_ms: int, limit: int, assume: bool) -> Proposals:
        made = self.engine.decide(now_ms, limit, sequence=self.rm.sequence, assume=assume)
        shifts = self.shifts
        return Proposals(made.application - shifts.application, made.key - shifts.key, made.node - shifts.node)


BESIDE = (events.TaskEstimates, events.PlanRanks, events.Samples, events.LearnedState)


def _alive(event: Event, rm: FakeRM) -> Event:
    """Return a snapshot's event without what it would not tell: applications that have gone."""
    if not hasattr(event, "application"):
        return event
    lives = np.array([app.state != ApplicationState.GONE for app in rm.applications], bool)
    keep = lives[event.application]
    return replace(event, **{field.name: getattr(event, field.name)[keep] for field in fields(event)})


class Twins:
    """Both, and what is done to both. `tick` fails where their proposals differ."""

    def __init__(self, rm: FakeRM, settings: Settings) -> None:
        self.plain = Follower(rm, settings)
        self.other = Follower(copy.deepcopy(rm), settings)
        self.now_ms = 1_000_000
        self.epoch = 1
        self.running: list[tuple[int, int, int, int]] = []
        """Application, container, priority, begin."""
        self._container = 0
        self._node: dict[int, int] = {}
        """On which each of them runs."""
        self._steps: list[Event] = []
        self._beside: list[Event] = []
        self._lost = False
        """Has anything come that a snapshot would not tell?"""

    @property
    def rm(self) -> FakeRM:
        return self.plain.rm

    def node_of(self, container: int) -> int:
        """Return the node on which a container runs."""
        return self._node[container]

    def do(self, change: Callable[[FakeRM], Any]) -> Any:
        """Change both clusters."""
        change(self.other.rm)
        return change(self.plain.rm)

    def tell(self, event: Event) -> None:
        """Tell both engines something beside the next frame."""
        self._beside.append(event)

    def estimate(self, application: int, key: int, duration_ms: int, tasks: int = -1) -> None:
        self.tell(estimates((application, key, duration_ms, tasks)))

    def end(self, container: int, exit_status: int = 0) -> None:
        """End one of the containers that run, by its place."""
        application, number, priority, begin_ms = self.running.pop(container)
        node = self._node.pop(number)
        found = [at for at, held in enumerate(self.rm.containers) if held[:2] == (application, node)]
        self.do(lambda rm: rm.complete(found[0]))
        life = (application, number, priority, begin_ms, self.now_ms)
        self._steps.append(containers(ContainerEvent.COMPLETED, life, exit_status=exit_status))
        self._lost = True

    def tick(
        self,
        after_ms: int = 1000,
        limit: int = 1000,
        snapshot: Shifts | None = None,
        fate: Callable[[int], Fate | None] = lambda _: None,
        assume: bool = True,
    ) -> list[Proposal]:
        """Tell both, let both decide, compare and commit; before a snapshot they are sent what it would leave out.

        ``fate`` is that of a proposal by its position, None if it is committed.
        """
        if snapshot is not None and self._lost:
            self.tick(0, 0)
        self.now_ms += after_ms
        steps, self._steps = self._steps, []
        beside, self._beside = self._beside, []
        self._lost = False
        self.plain.frame(None, [*steps, *beside], 1)
        if snapshot is not None:
            lives = [(*life, life[3]) for life in self.running]
            steps = [containers(ContainerEvent.ALLOCATED, *lives)] if lives else []
        self.other.frame(snapshot, [*steps, *beside], self.epoch)
        made = self.plain.decide(self.now_ms, limit, assume)
        again = self.other.decide(self.now_ms, limit, assume)
        assert listed(again) == listed(made)
        if not assume:
            return listed(made)
        fates = self.rm.commit(made, lambda at: fate(at) or Fate.COMMITTED)
        self.other.rm.commit(again, lambda at: fate(at) or Fate.COMMITTED)
        self._lost = any(fates)
        for position, (app, key, node) in enumerate(listed(made)):
            if fates[position] == Fate.COMMITTED:
                self._begin(app, self.rm.applications[app].asks[key].priority, node)
        return listed(made)

    def _begin(self, app: int, priority: int, node: int) -> None:
        self._container += 1
        life = (app, self._container, priority, self.now_ms)
        self.running.append(life)
        self._node[self._container] = node
        self._steps.append(containers(ContainerEvent.ALLOCATED, (*life, self.now_ms)))
