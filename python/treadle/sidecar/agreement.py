"""Whether engines and the CapacityScheduler agree: the containers of an application and priority, and what is counted.

docs/running-it.md says how. All times are the ResourceManager's, milliseconds since 1970; nodes are indices of frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from treadle.errors import printable
from treadle.events import Fate

WINDOW_MS: Final = 1000
"""How long a proposal is awaited for a container that was placed, and how long one that is not repeated is remembered.
An interruption of the frames that is longer is a loss."""

REJECTIONS_KEPT_MS: Final = 600_000
"""How long a rejection is known to be a repeated one."""

CONTAINERS_MAX: Final = 1000
"""Proposed containers, and placed ones, of an application and priority."""
NAMES_MAX: Final = 1000
"""Queues that have figures of their own, and types of applications."""
NAME_CHARS_MAX: Final = 256
OTHERS: Final = "(others)"

Count = Annotated[int, Field(ge=0, le=1 << 53)]
Name = Annotated[str, Field(max_length=NAME_CHARS_MAX)]
Tallies = Annotated[dict[Name, "Tally"], Field(max_length=NAMES_MAX + 1)]


@dataclass(slots=True)
class Tally:
    """What became of the containers that the CapacityScheduler placed: of all, of a queue, or of a type."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    same_node: Count = 0
    other_node: Count = 0
    stock_only: Count = 0
    """Not proposed."""
    earlier: Count = 0
    earlier_ms: Count = 0
    later: Count = 0
    later_ms: Count = 0
    """Of those that were proposed: how many before they were placed, how many after, and the sums of how long."""


class Figures(BaseModel):
    """All that is counted, and outlives a sidecar."""

    model_config = ConfigDict(extra="forbid", strict=True)

    since_ms: Annotated[int, Field(ge=0, le=1 << 47)] = 0
    """When counting began; 0: it has not."""
    seen_ms: Count = 0
    """The time of the latest frame."""
    stock_placements: Count = 0
    forgotten: Count = 0
    """What could not be compared."""
    interruptions: Count = 0
    interrupted_ms: Count = 0
    """How often frames were missed, and for how long in all; what was placed meanwhile is not counted."""
    lost: Annotated[str, Field(max_length=1000)] = ""
    """Why earlier figures are lost; empty: none are."""
    would_reject: Annotated[dict[Name, Count], Field(max_length=len(Fate))] = Field(default_factory=dict)
    total: Tally = Field(default_factory=Tally)
    by_queue: Tallies = Field(default_factory=dict)
    by_framework: Tallies = Field(default_factory=dict)

    def tallies(self, queue: str, framework: str) -> tuple[Tally, Tally, Tally]:
        """Return those that count a container of a queue and a type of applications."""
        return self.total, _named(self.by_queue, queue), _named(self.by_framework, framework)

    def reject(self, fate: int) -> None:
        """Count a proposal that would have been rejected."""
        name = Fate(fate).name
        self.would_reject[name] = self.would_reject.get(name, 0) + 1


def _named(tallies: dict[str, Tally], name: str) -> Tally:
    if name in tallies:  # then it is printable
        return tallies[name]
    name = printable(name)[:NAME_CHARS_MAX]
    if name not in tallies and len(tallies) >= NAMES_MAX:
        name = OTHERS
    return tallies.setdefault(name, Tally())


@dataclass(slots=True, eq=False)
class _Container:
    """A container: first on a node at a time, and later still there or elsewhere."""

    node: int
    since_ms: int
    renewed_ms: int


@dataclass(slots=True)
class Containers:
    """Containers of an application and priority, the oldest first, at most `CONTAINERS_MAX`."""

    every: dict[_Container, None] = field(default_factory=dict)
    _by_node: dict[int, list[_Container]] = field(default_factory=dict)

    def add(self, node: int, at_ms: int) -> bool:
        """Take one more; return whether there was room."""
        if len(self.every) >= CONTAINERS_MAX:
            return False
        made = _Container(node, at_ms, at_ms)
        self.every[made] = None
        self._by_node.setdefault(node, []).append(made)
        return True

    def pop(self, node: int) -> _Container | None:
        """Give up the oldest on a node, or else the oldest; None if there is none."""
        if not self.every:
            return None
        container = self._by_node[node][0] if node in self._by_node else next(iter(self.every))
        self._remove(container)
        return container

    def expire(self, now_ms: int) -> int:
        """Give up those that were not renewed for a window; return how many."""
        old = [each for each in self.every if now_ms - each.renewed_ms > WINDOW_MS]
        for each in old:
            self._remove(each)
        return len(old)

    def _remove(self, container: _Container) -> None:
        del self.every[container]
        here = self._by_node[container.node]
        here.remove(container)
        if not here:
            del self._by_node[container.node]


@dataclass(slots=True)
class Open:
    """The containers of an application and priority: which are proposed, and which were placed before that."""

    tallies: tuple[Tally, ...]
    proposed: Containers = field(default_factory=Containers)
    placed: Containers = field(default_factory=Containers)
    rejected: set[int] = field(default_factory=set)
    """Why proposals would have been rejected since something was placed."""
    rejected_ms: int = 0

    def propose(self, nodes: dict[int, int], at_ms: int) -> None:
        """Take what one answer proposes: how many containers on which node.

        An engine repeats itself in each answer until they are placed, so only what goes beyond the answer before is
        new. A container keeps the node that was proposed first.
        """
        elsewhere = []
        for container in self.proposed.every:
            if _take_one(nodes, container.node):
                container.renewed_ms = at_ms
            else:
                elsewhere.append(container)
        for container in elsewhere:
            if not nodes:
                return
            _take_one(nodes, next(iter(nodes)))
            container.renewed_ms = at_ms
        for node, count in nodes.items():
            for _ in range(count):
                self.proposed.add(node, at_ms)

    def place(self, node: int, at_ms: int) -> None:
        """Take a container that the CapacityScheduler placed."""
        self.rejected.clear()
        proposed_times = self.proposed.pop(node)
        if proposed_times is not None:
            for tally in self.tallies:
                tally.earlier += 1
                tally.earlier_ms += max(at_ms - proposed_times.since_ms, 0)
            self._agree(proposed_times.node == node)
        elif not self.placed.add(node, at_ms):
            self._disagree(1)

    def propose_late(self, node: int, at_ms: int) -> None:
        """Take a proposal of what is not asked for any more: perhaps what was placed since the engine was asked."""
        containers = self.placed.pop(node)
        if containers is not None:
            for tally in self.tallies:
                tally.later += 1
                tally.later_ms += max(at_ms - containers.since_ms, 0)
            self._agree(containers.node == node)

    def is_new_rejection(self, fate: int, at_ms: int) -> bool:
        """Say whether none was for that reason since something was placed."""
        self.rejected_ms = at_ms
        if fate in self.rejected:
            return False
        self.rejected.add(fate)
        return True

    def has_containers(self) -> bool:
        """Say whether any is proposed, or was placed and is not compared yet."""
        return bool(self.proposed.every or self.placed.every)

    def expire(self, now_ms: int) -> bool:
        """Count what was placed a window ago, forget what is not proposed any more; return whether nothing is left."""
        self.proposed.expire(now_ms)
        if over := self.placed.expire(now_ms):
            self._disagree(over)
        return not (self.has_containers() or (self.rejected and now_ms - self.rejected_ms <= REJECTIONS_KEPT_MS))

    def _agree(self, same_node: bool) -> None:
        for tally in self.tallies:
            if same_node:
                tally.same_node += 1
            else:
                tally.other_node += 1

    def _disagree(self, containers: int) -> None:
        for tally in self.tallies:
            tally.stock_only += containers


def _take_one(nodes: dict[int, int], node: int) -> bool:
    """Take a container of a node off; say whether there was one."""
    left = nodes.get(node, 0)
    if left > 1:
        nodes[node] = left - 1
    elif left:
        del nodes[node]
    return left > 0
