"""An engine on a fake RM whose tasks begin and end, as both hear of it."""

from __future__ import annotations

from tests.engine.fake_rm import LEAF, FakeRM, cluster, listed
from tests.engine.parts import containers

from treadle.engine import Engine
from treadle.events import ContainerEvent, Event

MAP, FAILED_MAP, REDUCE = 20, 5, 10
STARTED, ENDED = ContainerEvent.ALLOCATED, ContainerEvent.COMPLETED


class Bench:
    """An engine whose answers are committed and sent back as containers that begin; a leaf of so many slots."""

    def __init__(self, engine: Engine, slots: int = 1000, nodes: int = 1, rm: FakeRM | None = None) -> None:
        self.rm = rm or cluster(*[(slots // nodes, slots // nodes)] * nodes)
        self.engine = engine
        self.now_ms = 1_000_000
        self.running: list[tuple[int, int, int, int]] = []
        """(application, container, priority, begin)"""
        self.more: list[Event] = []
        """What comes with the next frame."""
        self._containers = 0

    def job(self, maps: int, reduces: int = 0, kind: str = "MAPREDUCE", priority: int = MAP) -> int:
        """Add an application that asks for maps and reduces; return it."""
        app = self.rm.application(LEAF, kind=kind)
        self.ask(app, 0, maps, priority)
        if reduces:
            self.ask(app, 1, reduces, REDUCE)
        return app

    def ask(self, app: int, key: int, count: int, priority: int) -> None:
        """Let an application ask for containers of one unit."""
        self.rm.ask(app, key, count, (1, 1), priority=priority)

    def tell(self, *events: Event) -> None:
        """Tell the engine something with the next frame."""
        self.more += events

    def begun(self, after_ms: int = 1000, limit: int = 100_000) -> list[tuple[int, int]]:
        """Decide, and return (application, priority) of each container that begins."""
        self.now_ms += after_ms
        made = self.rm.turn(self.engine, self.now_ms, limit, self.more)
        self.more.clear()
        for app, key, _ in listed(made):
            self._containers += 1
            life = (app, self._containers, self.rm.applications[app].asks[key].priority, self.now_ms)
            self.running.append(life)
            self.tell(containers(STARTED, (*life, self.now_ms)))
        return [(app, priority) for app, _, priority, _ in self.running[len(self.running) - len(made) :]]

    def end(self, count: int = 1, exit_status: int = 0, app: int | None = None) -> None:
        """End the containers that have run for longest, of an application if one is named."""
        for life in [life for life in self.running if app in (None, life[0])][:count]:
            self.rm.complete(next(at for at, held in enumerate(self.rm.containers) if held[0] == life[0]))
            self.running.remove(life)
            self.tell(containers(ENDED, (*life, self.now_ms), exit_status=exit_status))
