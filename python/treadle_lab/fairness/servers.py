"""Whole tasks on servers: the same algorithms where a task needs one server with room for all of it.

The paper's theorems are for divisible resources. What is chosen here where it is silent: a leaf is also blocked when
no server has room for its task; a task goes to the server with the least room that will do (least sum of free
fractions); equals are served from left to right.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from treadle.fairness.tree import HDRF, NAIVE, Rule, Tree, TreeError, flattened
from treadle_lab.fairness.algorithms import AS_TASKS_END, Allocation, ShareTree, capacity_rule

__all__ = ["ServerClass", "WholeTasks", "allocate_whole", "total_capacity"]

MAX_SERVERS = 200_000
MAX_TASKS = 2_000_000
MAX_ROUNDS = 10_000
State = tuple[float, int, tuple[int, ...]]
"""Servers that are alike: how much room in all, the class, and what is free of each resource."""


@dataclass(frozen=True)
class ServerClass:
    """`count` servers that each have `capacity`, by resource."""

    count: int
    capacity: Mapping[str, Fraction]


def total_capacity(servers: Sequence[ServerClass]) -> dict[str, Fraction]:
    """Return what all servers have together, by resource, in the order in which the classes name them."""
    total: dict[str, Fraction] = {}
    for group in servers:
        for name, amount in group.capacity.items():
            total[name] = total.get(name, Fraction(0)) + amount * group.count
    return total


def allocate_whole(
    tree: Tree, servers: Sequence[ServerClass], algorithm: str, *, calculator: str | None = None, headroom: bool = False
) -> Allocation:
    """Share the servers among the leaves by one of `treadle_lab.fairness.algorithms.ALGORITHMS`, in whole tasks.

    `headroom`: a server takes a task only if, of every resource the task needs, it has room for the largest task that
    anybody waits to run and that the server could hold when empty (section 5: small tasks do not nibble away the room
    of large ones).
    """
    rules = {"hdrf": HDRF, "hdrf-dynamic": HDRF, "capacity": capacity_rule(calculator)}
    cluster = WholeTasks(
        flattened(tree) if algorithm == "drf-flat" else tree, servers, rules.get(algorithm, NAIVE), headroom=headroom
    )
    cluster.fill()
    settled = cluster.churn() if algorithm in AS_TASKS_END else True
    return Allocation({leaf.name: Fraction(n) for leaf, n in zip(tree.leaves, cluster.tasks(), strict=True)}, settled)


class WholeTasks:
    """Servers and what runs on them, filled by a rule."""

    def __init__(self, tree: Tree, servers: Sequence[ServerClass], rule: Rule, *, headroom: bool = False) -> None:
        if sum(group.count for group in servers) > MAX_SERVERS:
            raise TreeError(f"servers: more than {MAX_SERVERS} in all; write them as one pool, with resources")
        self._leaves = tree.leaves
        self._shares = ShareTree(tree, rule)
        self._headroom = headroom
        amounts = [list(group.capacity.values()) for group in servers]
        amounts += [list(leaf.demand.values()) for leaf in tree.leaves]
        unit = math.lcm(*(amount.denominator for row in amounts for amount in row))
        names = tree.resources
        self._scale = [float(tree.capacity[name] * unit) or 1.0 for name in names]
        self._sizes = [tuple(int(group.capacity.get(name, 0) * unit) for name in names) for group in servers]
        demands = [tuple(int(leaf.demand.get(name, 0) * unit) for name in names) for leaf in tree.leaves]
        self._kinds = sorted(set(demands))
        number = {demand: kind for kind, demand in enumerate(self._kinds)}
        self._kind_of = [number[demand] for demand in demands]
        self._leaves_of: list[list[int]] = [[] for _ in self._kinds]
        for leaf, kind in enumerate(self._kind_of):
            self._leaves_of[kind].append(leaf)
        self._witness: list[State | None] = [None] * len(self._kinds)
        self._running: list[deque[int]] = [deque() for _ in tree.leaves]
        self._free: list[State] = []
        self._servers_in: dict[State, dict[int, None]] = {}  # in the order in which they came
        self._states: list[State] = []
        for position, group in enumerate(servers):
            for _ in range(group.count):
                self._free.append(self._state(position, self._sizes[position]))
                self._enter(len(self._free) - 1)
        self._needy = [any(demand) for demand in demands]
        self._started = 0
        for leaf, needs in enumerate(self._needy):
            if not needs:
                self._shares.set_pending(leaf, 0)
        self._waiting = [sum(self._shares.waiting(leaf) != 0 for leaf in leaves) for leaves in self._leaves_of]
        self._set_headroom()
        self._look_again()

    def tasks(self) -> list[int]:
        """How many tasks each leaf runs; all of them, if they need nothing."""
        return [
            len(running) if needs else self._leaves[leaf].tasks or 0
            for leaf, (running, needs) in enumerate(zip(self._running, self._needy, strict=True))
        ]

    def placements(self) -> list[list[int]]:
        """Return the server of each running task, leaf by leaf, oldest task first; servers count class after class."""
        return [list(running) for running in self._running]

    def fill(self) -> None:
        """Start tasks until no leaf can start another one."""
        while (leaf := self._shares.next_leaf()) is not None:
            self._start(leaf)

    def churn(self) -> bool:
        """Let tasks end, one of every leaf at a time, the oldest first, and others start in their place.

        Until nothing has changed for as many rounds as a leaf has tasks (at most 100). Returns whether it came to
        that within 10,000 rounds.
        """
        quiet = 0
        for _ in range(MAX_ROUNDS):
            before = self.tasks()
            for leaf, running in enumerate(self._running):
                if running:
                    self.end(leaf)
                    self.fill()
            quiet = quiet + 1 if self.tasks() == before else 0
            if quiet >= min(100, max(before, default=0)):
                return True
        return False

    def end(self, leaf: int) -> None:
        """End the oldest task of a leaf, which then waits to run another one."""
        waited = self._shares.waiting(leaf) != 0
        server = self._running[leaf].popleft()
        self._shares.release(leaf)
        self._move(server, leaf, 1)
        kind = self._kind_of[leaf]
        self._waiting[kind] += not waited
        if not waited and self._headroom_changes(kind, 1):
            self._look_again()
            return
        state = self._free[server]
        for kind, witness in enumerate(self._witness):
            if witness is None and self._fits(kind, state):
                self._set_witness(kind, state)

    def _start(self, leaf: int) -> None:
        kind = self._kind_of[leaf]
        state = self._find(kind)
        assert state is not None, "a leaf that is not blocked has a server"
        self._started += 1
        if self._started > MAX_TASKS:
            raise TreeError(f"servers: more than {MAX_TASKS} tasks start; write one pool, with resources, instead")
        server = next(reversed(self._servers_in[state]))
        self._shares.allocate(leaf)
        self._running[leaf].append(server)
        self._move(server, leaf, -1)
        done = self._shares.waiting(leaf) == 0
        self._waiting[kind] -= done
        if done and self._headroom_changes(kind, 0):
            self._look_again()
        elif state not in self._servers_in:
            for other, witness in enumerate(self._witness):
                if witness == state:
                    self._set_witness(other, self._find(other))

    def _move(self, server: int, leaf: int, sign: int) -> None:
        """Change a server's free room by one task of a leaf."""
        state = self._free[server]
        peers = self._servers_in[state]
        del peers[server]
        if not peers:
            del self._servers_in[state]
            del self._states[bisect_left(self._states, state)]
        demand = self._kinds[self._kind_of[leaf]]
        free = tuple(room + sign * amount for room, amount in zip(state[2], demand, strict=True))
        self._free[server] = self._state(state[1], free)
        self._enter(server)

    def _state(self, position: int, free: tuple[int, ...]) -> State:
        return (sum(room / scale for room, scale in zip(free, self._scale, strict=True)), position, free)

    def _enter(self, server: int) -> None:
        state = self._free[server]
        if state not in self._servers_in:
            self._servers_in[state] = {}
            insort(self._states, state)
        self._servers_in[state][server] = None

    def _find(self, kind: int) -> State | None:
        """Return the fullest servers that take a task of a kind."""
        return next((state for state in self._states if self._fits(kind, state)), None)

    def _fits(self, kind: int, state: State) -> bool:
        _, position, free = state
        demand = self._kinds[kind]
        return all(
            room >= max(amount, spare)
            for room, amount, spare in zip(free, demand, self._spare[position], strict=True)
            if amount
        )

    def _headroom_changes(self, kind: int, waiting: int) -> bool:
        """Set the room to keep anew if `waiting` leaves of a kind wait (1: it has begun to, 0: it has ceased to).

        Returns whether that room is another one now.
        """
        if not self._headroom or self._waiting[kind] != waiting:
            return False
        before = self._spare
        self._set_headroom()
        return self._spare != before

    def _set_headroom(self) -> None:
        self._spare = [(0,) * len(size) for size in self._sizes]
        if self._headroom:
            waiting = [demand for demand, leaves in zip(self._kinds, self._waiting, strict=True) if leaves]
            self._spare = [_largest(size, waiting) for size in self._sizes]

    def _look_again(self) -> None:
        """Find out which kinds of tasks have a server, anew."""
        for kind in range(len(self._kinds)):
            self._set_witness(kind, self._find(kind))

    def _set_witness(self, kind: int, state: State | None) -> None:
        self._witness[kind] = state
        for leaf in self._leaves_of[kind]:
            self._shares.set_placeable(leaf, state is not None)


def _largest(size: tuple[int, ...], demands: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the most that any of `demands` that fit an empty server needs, resource by resource."""
    fitting = [d for d in demands if all(amount <= room for amount, room in zip(d, size, strict=True))]
    return tuple(max(column) for column in zip(*fitting, strict=True)) if fitting else (0,) * len(size)
