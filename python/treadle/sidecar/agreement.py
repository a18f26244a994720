"""Whether engines and the CapacityScheduler agree: the containers of an application and priority, and what is counted.

docs/observe.md says how. All times are the ResourceManager's, milliseconds since 1970; nodes are indices of frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

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


class Tally(BaseModel):
    """What became of the containers that the CapacityScheduler placed: of all, of a queue, or of a type."""

    model_config = ConfigDict(extra="forbid", strict=True)

    same_node: Count = 0
    other_node: Count = 0
    stock_only: Count = 0
    """Not proposed."""
    earlier: Count = 0
    earlier_ms: Count = 0
    later: Count = 0
    later_ms: Count = 0
    """Of those that were proposed: how many before they were placed, how many after, and the sums of how long."""

    def add(self, what: str, more: int = 1) -> None:
        """Count more of a field."""
        setattr(self, what, getattr(self, what) + more)


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
    name = printable(name)[:NAME_CHARS_MAX]
    if name not in tallies and len(tallies) >= NAMES_MAX:
        name = OTHERS
    return tallies.setdefault(name, Tally())


@dataclass(slots=True)
class _Proposed:
    """A container that is proposed: first on a node at a time, and still at another."""

    node: int
    since_ms: int
    renewed_ms: int


@dataclass(slots=True)
class Open:
    """The containers of an application and priority: which are proposed, and which were placed before that."""

    tallies: tuple[Tally, ...]
    proposed: list[_Proposed] = field(default_factory=list)
    placed: list[tuple[int, int]] = field(default_factory=list)
    """Node and time."""
    rejected: set[int] = field(default_factory=set)
    """Why proposals would have been rejected since something was placed."""
    rejected_ms: int = 0

    def propose(self, nodes: dict[int, int], at_ms: int) -> None:
        """Take what one answer proposes: how many containers on which node.

        An engine repeats itself in each answer until they are placed, so only what goes beyond the answer before is
        new. A container keeps the node that was proposed first.
        """
        elsewhere = []
        for container in self.proposed:
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
            new = min(count, CONTAINERS_MAX - len(self.proposed))
            self.proposed += [_Proposed(node, at_ms, at_ms) for _ in range(new)]

    def place(self, node: int, at_ms: int) -> None:
        """Take a container that the CapacityScheduler placed."""
        self.rejected.clear()
        if self.proposed:
            found = self.proposed.pop(_of(node, [each.node for each in self.proposed]))
            self._agree(found.node == node, "earlier", at_ms - found.since_ms)
        elif len(self.placed) < CONTAINERS_MAX:
            self.placed.append((node, at_ms))
        else:
            self._count("stock_only")

    def propose_late(self, node: int, at_ms: int) -> None:
        """Take a proposal of what is not asked for any more: perhaps what was placed since the engine was asked."""
        if self.placed:
            where, placed_ms = self.placed.pop(_of(node, [each for each, _ in self.placed]))
            self._agree(where == node, "later", at_ms - placed_ms)

    def is_new_rejection(self, fate: int, at_ms: int) -> bool:
        """Say whether none was for that reason since something was placed."""
        self.rejected_ms = at_ms
        if fate in self.rejected:
            return False
        self.rejected.add(fate)
        return True

    def expire(self, now_ms: int) -> bool:
        """Count what was placed a window ago, forget what is not proposed any more; return whether nothing is left."""
        self.proposed = [each for each in self.proposed if now_ms - each.renewed_ms <= WINDOW_MS]
        kept = [each for each in self.placed if now_ms - each[1] <= WINDOW_MS]
        self._count("stock_only", len(self.placed) - len(kept))
        self.placed = kept
        rejections = self.rejected and now_ms - self.rejected_ms <= REJECTIONS_KEPT_MS
        return not (self.proposed or self.placed or rejections)

    def _agree(self, same_node: bool, when: str, by_ms: int) -> None:
        self._count("same_node" if same_node else "other_node")
        self._count(when)
        self._count(f"{when}_ms", max(by_ms, 0))

    def _count(self, what: str, more: int = 1) -> None:
        for tally in self.tallies:
            tally.add(what, more)


def _take_one(nodes: dict[int, int], node: int) -> bool:
    """Take a container of a node off; say whether there was one."""
    left = nodes.get(node, 0)
    if left > 1:
        nodes[node] = left - 1
    elif left:
        del nodes[node]
    return left > 0


def _of(node: int, nodes: list[int]) -> int:
    """Return the place of a node, or that of the oldest."""
    return nodes.index(node) if node in nodes else 0
