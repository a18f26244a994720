"""Which of several engines serves an application. Time is an argument, and all orders are defined.

Each application has a *home*, the engine that the roster's selectors name. Its *owner* serves it now: its home, or
another engine while the home is dead or after it has given the application up. While any engine is alive, every
application has one owner, and that one is alive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from treadle.config.settings import STEADY_MS, RosterEngine, Select

NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class Asking:
    """The properties of an application when its first request is seen."""

    number: int
    """Its own number, the last part of a YARN application id."""
    queue: str
    """The whole path."""
    type: str = ""
    user: str = ""
    tags: tuple[str, ...] = ()
    tasks: int = 0
    """Containers that it has and asks for."""


@dataclass(frozen=True, slots=True)
class Move:
    """A change of an application's owner; None if no engine is alive or the application is new."""

    application: int
    before: str | None
    after: str | None


@dataclass(slots=True)
class _Served:
    asking: Asking
    home: str
    owner: str | None = None
    given_up: bool = False


@dataclass(slots=True)
class _Life:
    alive: bool
    since_ms: int
    """Time since which it has been alive; long enough, and it is steady."""


def matches(select: Select, asking: Asking) -> bool:
    """Say whether a selector names an application."""
    if select.queues and not any(asking.queue == each or asking.queue.startswith(f"{each}.") for each in select.queues):
        return False
    if select.types and asking.type.upper() not in select.types:
        return False
    if select.tags and not set(select.tags) & set(asking.tags):
        return False
    if select.users and asking.user not in select.users:
        return False
    return asking.tasks >= select.tasks_min and (not select.tasks_max or asking.tasks <= select.tasks_max)


class Roster:
    """Owners of applications; applications are known by an index of the caller's."""

    def __init__(self, engines: Sequence[RosterEngine]) -> None:
        """Begin with engines that are all steady."""
        self._lives: dict[str, _Life] = {}
        self._served: dict[int, _Served] = {}
        self.replace(engines, 0, living=[engine.name for engine in engines])

    def owner(self, application: int) -> str | None:
        """Return the engine that serves an application; None if no engine does, or it is not active."""
        served = self._served.get(application)
        return None if served is None else served.owner

    def __contains__(self, application: int) -> bool:
        """Return whether an application is known."""
        return application in self._served

    def has_given_up(self, application: int) -> bool:
        """Return whether its home has given an application up."""
        return self._served[application].given_up

    def keep(self, applications: Collection[int], most: int) -> None:
        """Forget all other applications, if more than ``most`` are known."""
        if len(self._served) > most:
            self._served = {each: served for each, served in self._served.items() if each in applications}

    def home(self, application: int) -> str:
        """Return the owner of an active application while that engine is alive."""
        return self._served[application].home

    def owned_by(self, name: str) -> Iterator[int]:
        """Yield the applications that an engine serves, in the order in which they became active."""
        return (application for application, served in self._served.items() if served.owner == name)

    def stand_in(self, name: str, now_ms: int) -> str | None:
        """Return the engine that serves an engine's applications now, itself while it is alive; None if none does."""
        return self._choose(_Served(Asking(self.engines[self._place[name]].copy, ""), name), now_ms)

    def lives(self, name: str) -> bool:
        """Return whether an engine is alive."""
        return self._lives[name].alive

    def next_ms(self) -> int:
        """Return when `settle` is due by itself, or `NEVER`."""
        return self._steady_ms

    def begin(self, application: int, asking: Asking, now_ms: int) -> str | None:
        """Take an application that has become active; return its owner."""
        served = _Served(asking, self._home(asking))
        served.owner = self._choose(served, now_ms)
        self._served[application] = served
        return served.owner

    def end(self, application: int) -> None:
        """Forget an application that is not active any more."""
        self._served.pop(application, None)

    def dies(self, name: str, now_ms: int) -> list[Move]:
        """Take an engine for dead; return the moves of its applications."""
        self._lives[name].alive = False
        return self.settle(now_ms)

    def returns(self, name: str, now_ms: int, *, steady: bool = False) -> list[Move]:
        """Take an engine for living; its applications follow when it has been so for `STEADY_MS`, or is ``steady``."""
        life = self._lives[name]
        if not life.alive:
            life.alive, life.since_ms = True, now_ms - STEADY_MS * steady
        return self.settle(now_ms)

    def give_up(self, application: int, now_ms: int) -> Move | None:
        """Assign an application to another engine; None if no other is alive, or it is not active."""
        served = self._served.get(application)
        if served is None or served.given_up:
            return None
        before, served.given_up = served.owner, True
        chosen = self._choose(served, now_ms)
        if chosen == before:
            served.given_up = False
            return None
        served.owner = chosen
        return Move(application, before, chosen)

    def replace(self, engines: Sequence[RosterEngine], now_ms: int, *, living: Collection[str]) -> list[Move]:
        """Follow another roster; engines that stay keep their state, others are alive if they are named."""
        before = self._lives
        self.engines = tuple(engines)
        """The engines, in order."""
        self._place = {engine.name: at for at, engine in enumerate(self.engines)}
        self._lives = {
            engine.name: before.get(engine.name, _Life(engine.name in living, now_ms - STEADY_MS))
            for engine in self.engines
        }
        for served in self._served.values():
            home = self._home(served.asking)
            if home != served.home:
                served.home, served.given_up = home, False
        return self.settle(now_ms)

    def settle(self, now_ms: int) -> list[Move]:
        """Assign each application to its current owner; return the moves, in order of activation."""
        moves = []
        for application, served in self._served.items():
            after = self._due(served, now_ms)
            if after != served.owner:
                moves.append(Move(application, served.owner, after))
                served.owner = after
        pending = [life.since_ms + STEADY_MS for life in self._lives.values() if life.alive]
        self._steady_ms = min((at for at in pending if at > now_ms), default=NEVER)
        return moves

    def _due(self, served: _Served, now_ms: int) -> str | None:
        """Return the engine for an application: its home if that is steady, else its present owner, if alive."""
        if not served.given_up and self._is_steady(served.home, now_ms):
            return served.home
        owner = served.owner
        if owner is not None and owner in self._lives and self._lives[owner].alive:
            return owner
        return self._choose(served, now_ms)

    def _choose(self, served: _Served, now_ms: int) -> str | None:
        """Return the first steady engine in an application's own order, else the first that is alive."""
        order = list(self._order(served))
        steady = (name for name in order if self._is_steady(name, now_ms))
        alive = (name for name in order if self._lives[name].alive)
        return next(steady, next(alive, None))

    def _order(self, served: _Served) -> Iterator[str]:
        """Yield all engines: home, the fallback's copies from the application's own one on, then all in order."""
        home = self.engines[self._place[served.home]]
        if not served.given_up:
            yield home.name
        copies = [engine.name for engine in self.engines if engine.entry_name == home.fallback]
        own = served.asking.number % len(copies) if copies else 0
        order = [*copies[own:], *copies[:own], *(engine.name for engine in self.engines)]
        yield from (name for name in dict.fromkeys(order) if name != home.name)
        if served.given_up:
            yield home.name

    def _home(self, asking: Asking) -> str:
        for engine in self.engines:
            if matches(engine.entry.select, asking):
                first = self._place[engine.name]
                return self.engines[first + asking.number % engine.entry.copies].name
        raise AssertionError("the last entry of a roster matches everything")

    def _is_steady(self, name: str, now_ms: int) -> bool:
        life = self._lives[name]
        return life.alive and now_ms - life.since_ms >= STEADY_MS
