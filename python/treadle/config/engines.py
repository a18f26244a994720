"""The section `engines:` of a treadle.yaml or a scenario: several engines on one cluster, and which serves what.

The section is a mapping from names to entries, in order; the first entry whose `select` matches an application serves
it. An entry with `copies` describes several engines, which share the entry's applications by their ids. Sections of
treadle.yaml that stand in an entry are that entry's instead of the file's (`treadle.config.reader`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, field_validator

from treadle.config.errors import unknown
from treadle.config.parts import Parameters
from treadle.words import nearest

ENGINES_MAX: Final = 8
"""Engines on one cluster, copies counted: each reads all nodes and queues, and conflicts grow with their number."""

GANG_MAX: Final = 512
"""Containers that one transaction may have, since it is committed under one hold of the scheduler's lock."""

STEADY_MS: Final = 10_000
"""How long an engine that was dead must be alive before its applications return to it."""

_SHOWN_MAX: Final = 20

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")


class Select(Parameters):
    """Which applications an entry serves: those that every condition matches; an empty list matches all."""

    queues: tuple[str, ...] = Field(
        default=(), max_length=256, strict=False, description="Whole paths, as root.prod: a queue, and all below it."
    )
    types: tuple[str, ...] = Field(
        default=(), max_length=256, strict=False, description="As MAPREDUCE, TEZ, SPARK; compared in upper case."
    )
    tags: tuple[str, ...] = Field(
        default=(), max_length=256, strict=False, description="Tags, of which an application has at least one."
    )
    users: tuple[str, ...] = Field(default=(), max_length=256, strict=False, description="Users.")
    tasks_min: int = Field(
        default=0, ge=0, le=1_000_000_000, description="Containers that it has and asks for when it is first seen."
    )
    tasks_max: int = Field(default=0, ge=0, le=1_000_000_000, description="The same, at most; 0: no bound.")

    @field_validator("queues")
    @classmethod
    def _are_paths(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for queue in value:
            if queue != "root" and not queue.startswith("root."):
                raise ValueError(f"{queue!r} is no path from the root; write it whole, as root.{queue or 'default'}")
        return value

    @field_validator("types")
    @classmethod
    def _in_upper_case(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each.upper() for each in value)

    @property
    def matches_all(self) -> bool:
        """Whether it says nothing, as that of the last entry must."""
        return self == Select()

    def covers(self, other: Select) -> bool:
        """Return whether this one matches all that another does."""
        within = all(any(f"{queue}.".startswith(f"{own}.") for own in self.queues) for queue in other.queues)
        return (
            (not self.queues or "root" in self.queues or (bool(other.queues) and within))
            and _includes(self.types, other.types)
            and _includes(self.tags, other.tags)
            and _includes(self.users, other.users)
            and self.tasks_min <= other.tasks_min
            and (not self.tasks_max or 0 < other.tasks_max <= self.tasks_max)
        )

    @property
    def leaves_nothing(self) -> bool:
        """Whether no application is left to entries below."""
        return self.covers(Select())


def _includes(names: Collection[str], others: Collection[str]) -> bool:
    """Say whether who has one of the others has one of the names; there being none is a condition that all meet."""
    return not names or (bool(others) and set(others) <= set(names))


class Retry(Parameters):
    """When an application whose transaction conflicted is tried again."""

    backoff_ms: int = Field(default=1000, ge=1, le=3_600_000, description="After the first conflict; then doubled.")
    backoff_max_ms: int = Field(default=30_000, ge=1, le=3_600_000, description="The longest.")
    attempts_max: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Conflicts with nothing placed between them, after which its fallback serves the application.",
    )


class Entry(Parameters):
    """An entry of the section, without the sections of treadle.yaml that may stand in it."""

    select: Select = Field(default=Select(), description="Which applications it serves; empty: all that are left.")
    conflicts: Literal["fine", "coarse"] = Field(
        default="fine",
        description="fine: what does not fit any more is refused; coarse: whatever is for a node on which others have "
        "placed something since the engine looked.",
    )
    transactions: Literal["incremental", "gang"] = Field(
        default="incremental",
        description="incremental: what can be placed is; gang: all that an application asks for after its AM, or "
        "nothing. The tag treadle:gang=N asks for the same for the first N containers after the AM.",
    )
    decision_max_s: float = Field(
        default=30.0, gt=0.0, le=600.0, description="An engine that thinks for longer counts as dead."
    )
    retry: Retry = Field(default=Retry(), description="When it tries again after a conflict.")
    copies: int = Field(default=1, ge=1, le=ENGINES_MAX, description="Engines that share its applications by id.")
    claim: float = Field(default=1.0, gt=0.0, le=1.0, description="The largest part of a partition that each may use.")
    precedence: int = Field(
        default=0, ge=-1000, le=1000, description="Of two that wait to commit the one with the higher number is first."
    )
    fallback: str = Field(
        default="",
        description="The entry that serves its applications while it is dead; empty: its other copies, then the first "
        "engine that is alive.",
    )


@dataclass(frozen=True, slots=True)
class RosterEngine:
    """One engine of a roster."""

    name: str
    """As its entry, with -1, -2, … appended if that has copies."""
    entry_name: str
    copy: int
    """Which copy it is, from 0."""
    entry: Entry
    fallback: str
    """The entry that is asked first while this engine is dead, its own if there are copies; empty: no certain one."""


def engines_of(entries: Mapping[str, Entry]) -> tuple[RosterEngine, ...]:
    """Return the engines of entries in which `problems` finds nothing, in order."""
    found = []
    for name, entry in entries.items():
        fallback = entry.fallback or (name if entry.copies > 1 else "")
        for copy in range(entry.copies):
            own = f"{name}-{copy + 1}" if entry.copies > 1 else name
            found.append(RosterEngine(own, name, copy, entry, fallback))
    return tuple(found)


def problems(entries: Mapping[str, Entry]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what is wrong with entries that are right each for itself: the path below `engines`, and what to do."""
    if not entries:
        return
    seen: dict[str, str] = {}
    for name, entry in entries.items():
        for engine in engines_of({name: entry}):
            if not _NAME.fullmatch(engine.name):
                text = f"{engine.name!r} is no name of an engine; write at most 32 of a-z, 0-9 and -, a letter first"
                yield (name,), text
                break
            if engine.name in seen:
                text = f"an engine of this entry and one of {seen[engine.name]!r} are called {engine.name}; rename one"
                yield (name,), text
                break
            seen[engine.name] = name
        select, retry = entry.select, entry.retry
        if select.tasks_max and select.tasks_max < select.tasks_min:
            text = f"{select.tasks_max} is below tasks_min, {select.tasks_min}; raise it, or write 0 for no bound"
            yield (name, "select", "tasks_max"), text
        if retry.backoff_max_ms < retry.backoff_ms:
            text = f"{retry.backoff_max_ms} is below backoff_ms, {retry.backoff_ms}; raise it"
            yield (name, "retry", "backoff_max_ms"), text
        yield from _fallback(name, entry, entries)
    count = sum(entry.copies for entry in entries.values())
    if count > ENGINES_MAX:
        yield (), f"{count} engines with copies; at most {ENGINES_MAX} may be on one cluster"
    last = list(entries)[-1]
    if not entries[last].select.matches_all:
        text = "the last entry must serve what no other does; take its select out, or add an entry without one"
        yield (last, "select"), text
    yield from _serving_nothing(entries)


def _serving_nothing(entries: Mapping[str, Entry]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield entries that leave nothing to others below them, unless these serve while another is dead."""
    names = list(entries)
    first = next((at for at, name in enumerate(names) if entries[name].select.leaves_nothing), len(names))
    fallbacks = {entry.fallback for name, entry in entries.items() if entry.fallback != name}
    idle = [name for name in names[first + 1 :] if name not in fallbacks]
    if idle:
        text = (
            f"matches everything, so that {', '.join(idle)} below never serve{'s' * (len(idle) == 1)} anything; "
            "write what it selects, or put it last"
        )
        yield (names[first], "select"), text
    for at, name in enumerate(names[: first + 1]):
        above = next((each for each in names[:at] if entries[each].select.covers(entries[name].select)), None)
        if above is not None and name not in fallbacks:
            same = entries[name].select.covers(entries[above].select)
            remedy = f"change what one of them selects, or leave {name} out" if same else f"put {name} above {above}"
            text = f"{above} above matches all of it, so that {name} never serves anything; {remedy}"
            yield (name, "select"), text


def _fallback(name: str, entry: Entry, entries: Mapping[str, Entry]) -> Iterator[tuple[tuple[str, ...], str]]:
    known = [other for other in entries if other != name or entry.copies > 1]
    if entry.fallback and entry.fallback not in known:
        yield (name, "fallback"), unknown(entry.fallback, known)


def lost_queues(
    engines: Sequence[RosterEngine], queues: Collection[str], of: str = "the scenario"
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield which queues of selectors a cluster has not: the path in the file, and what is wrong.

    Args:
        engines: a roster
        queues: whole paths of all queues, inner ones too
        of: whose they are, as a message calls it
    """
    for name, entry in {engine.entry_name: engine.entry for engine in engines}.items():
        for queue in entry.select.queues:
            if queue not in queues:
                hint = nearest(queue, queues) or f"; there are {', '.join(sorted(queues)[:_SHOWN_MAX])}"
                yield ("engines", name, "select", "queues"), f"{queue} is no queue of {of}{hint}"


def unused(value: object) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield what stands in a section of this kind and is not used: the path in the file, and why."""
    for name, entry in list(value.items())[1:] if isinstance(value, dict) else ():
        if isinstance(entry, dict) and "listener" in entry:
            yield ("engines", str(name), "listener"), "is not used: only the first engine has the plan listener"
