"""Exact shares by the papers' algorithms, of one pool and of servers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from treadle_lab.fairness.fluid import HDRF, Group, Leaf, Rule, Tree, TreeError, fill

ALGORITHMS = ("hdrf", "hdrf-static", "hdrf-dynamic", "drf-flat", "drf-naive", "capacity")
"""H-DRF filled from empty; the paper's definition of the static allocation; where H-DRF ends as tasks end; collapsed
hierarchies; naive H-DRF as tasks end; and used over guaranteed capacity, as YARN's CapacityScheduler orders
its queues."""

AS_TASKS_END = frozenset({"hdrf-dynamic", "drf-naive"})
"""Computed by letting the tasks of one leaf after another end, which takes a filling for each."""

MAX_ROUNDS = 1000
LONGEST_DENOMINATOR = 10**60
GRAIN = 10**30


@dataclass(frozen=True)
class Allocation:
    """The tasks that each leaf has, by name. `settled`: running tasks that end and start again change nothing more."""

    tasks: Mapping[str, Fraction]
    settled: bool = True


def allocate_fluid(tree: Tree, algorithm: str, calculator: str | None = None) -> Allocation:
    """Share the pool among the leaves of `tree` by one of `ALGORITHMS`.

    `calculator` is for "capacity": the one resource that counts, None for the dominant one.
    Those of `AS_TASKS_END` are where a filling ends as tasks end and others take their place; all others are filled
    from empty.
    """
    rule = _rule_of(algorithm, calculator)
    shared = flattened(tree) if algorithm == "drf-flat" else tree
    held = fill(shared, rule)
    return churn(shared, rule, held) if algorithm in AS_TASKS_END else Allocation(held)


def _rule_of(algorithm: str, calculator: str | None) -> Rule:
    """Return how an algorithm measures a node.

    The CapacityScheduler measures a queue by its use over its guarantee, of one resource or of the dominant.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"unknown algorithm {algorithm!r}; choose one of {', '.join(ALGORITHMS)}")
    if algorithm == "capacity" and calculator is not None:
        return Rule(False, False, frozenset({calculator}))
    return HDRF if algorithm in ("hdrf", "hdrf-dynamic") else NAIVE


def churn(tree: Tree, rule: Rule, held: Mapping[str, Fraction], portion: Fraction = Fraction(1)) -> Allocation:
    """Return the allocation that results when tasks end and their resources are distributed again by `rule`.

    One leaf after another loses `portion` of its tasks and the pool is filled again, until a round through all leaves
    changes nothing, or until a state repeats or 1,000 rounds are over (then the result is not settled). A state that is
    only approached, never reached, counts as reached within 10^-30 tasks.
    """
    state = dict(held)
    seen: set[tuple[Fraction, ...]] = set()
    for _ in range(MAX_ROUNDS):
        before = tuple(state[leaf.name] for leaf in tree.leaves)
        if before in seen:
            break
        seen.add(before)
        for leaf in tree.leaves:
            if any(tree.demand_share(leaf)):
                state[leaf.name] -= state[leaf.name] * portion
                state = fill(tree, rule, {name: _shortened(tasks) for name, tasks in state.items()})
        if tuple(state[leaf.name] for leaf in tree.leaves) == before:
            return Allocation(state)
    return Allocation(state, settled=False)


def _shortened(tasks: Fraction) -> Fraction:
    """Return `tasks`, or for a number with many digits, the number without slivers under 10^-30."""
    return tasks if tasks.denominator <= LONGEST_DENOMINATOR else Fraction(math.floor(tasks * GRAIN), GRAIN)


ZERO = Fraction(0)


@dataclass(frozen=True)
class NodeShare:
    """A node's share, the (rescaled) vector that it passes up, and whether it is blocked."""

    share: Fraction
    use: tuple[Fraction, ...]
    blocked: bool


class ShareTree:
    """Selects the leaf of the next task, while tasks start and end: algorithms 3 and 4, shares recomputed per task.

    Leaves are named by their position in `tree.leaves`. Amounts are fractions of the cluster. With exact numbers in the
    tree all results are exact; with floats as demands, shares have their precision.
    """

    def __init__(self, tree: Tree, rule: Rule) -> None:
        self.tree = tree
        self.rule = rule
        self._place = {leaf.name: position for position, leaf in enumerate(tree.leaves)}
        self._demands: list[list[Fraction]] = [tree.demand_share(leaf) for leaf in tree.leaves]
        self._needs = [tree.needs(leaf) for leaf in tree.leaves]
        self._pending: list[int | None] = [leaf.tasks for leaf in tree.leaves]
        self._placeable = [True] * len(tree.leaves)
        self._held = [[ZERO] * len(tree.resources) for _ in tree.leaves]
        self._tasks = [0] * len(tree.leaves)

    # -- what happens ---------------------------------------------------------------------------------------------

    def allocate(self, leaf: int) -> None:
        """`leaf` starts a task. Raises ValueError if none of its tasks waits."""
        waiting = self._pending[leaf]
        if waiting is not None:
            if not waiting:
                raise ValueError(f"{self.tree.leaves[leaf].name} has no task waiting")
            self._pending[leaf] = waiting - 1
        self._change(leaf, 1)

    def release(self, leaf: int, *, again: bool = True) -> None:
        """A task of `leaf` ends. If `again`, another waits in its place, as in the paper's dynamic model.

        Raises ValueError if the leaf has no task running.
        """
        if not self._tasks[leaf]:
            raise ValueError(f"{self.tree.leaves[leaf].name} has no task running")
        waiting = self._pending[leaf]
        if again and waiting is not None:
            self._pending[leaf] = waiting + 1
        self._change(leaf, -1)

    def set_pending(self, leaf: int, tasks: int | None) -> None:
        """Set how many tasks of `leaf` wait; None for endless work. With 0 it is blocked."""
        self._pending[leaf] = tasks

    def set_placeable(self, leaf: int, placeable: bool) -> None:
        """Set whether some server has room for a task of `leaf`; if none has, the leaf is blocked."""
        self._placeable[leaf] = placeable

    # -- what follows from it -------------------------------------------------------------------------------------

    def next_leaf(self) -> int | None:
        """Return the leaf that is owed the next task: from the root, always the child with the least weighted share.

        The leftmost of equals; None if all leaves are blocked.
        """
        shares = self._shares()
        node: Group | Leaf = self.tree.root
        while isinstance(node, Group):
            children = [child for child in node.children if not shares[child.name].blocked]
            if not children:
                return None
            node = (
                children[0]
                if node.scheduler == "fifo"
                else min(children, key=lambda child: shares[child.name].share / child.weight)
            )
        return self._place[node.name]

    def shares(self) -> dict[str, Fraction]:
        """Every node's share, by name, as the algorithm sees it now (rescaled, without saturated resources)."""
        return {name: found.share for name, found in self._shares().items()}

    def tasks(self, leaf: int) -> int:
        """Return the number of running tasks of `leaf`."""
        return self._tasks[leaf]

    def waiting(self, leaf: int) -> int | None:
        """Return the number of waiting tasks of `leaf`; None for endless work."""
        return self._pending[leaf]

    def saturated(self) -> tuple[bool, ...]:
        """Which resources are fully used, or do not exist."""
        used = [sum((held[place] for held in self._held), ZERO) for place in range(len(self.tree.resources))]
        amounts = self.tree.capacity.values()
        return tuple(each >= 1 or not amount for each, amount in zip(used, amounts, strict=True))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _change(self, leaf: int, tasks: int) -> None:
        self._tasks[leaf] += tasks
        held = self._held[leaf]
        for position, amount in enumerate(self._demands[leaf]):
            held[position] += amount * tasks

    def _shares(self) -> dict[str, NodeShare]:
        """Return UpdateS of algorithm 3 for every node, by name."""
        saturated = self.saturated()
        counted = self.rule.counted(self.tree.resources, saturated)
        found: dict[str, NodeShare] = {}
        for node in reversed(list(self.tree.nodes())):
            use, blocked = self._leaf(node, saturated) if isinstance(node, Leaf) else self._group(node, found)
            found[node.name] = NodeShare(max((use[p] for p in counted), default=ZERO), use, blocked)
        return found

    def _leaf(self, leaf: Leaf, saturated: Sequence[bool]) -> tuple[tuple[Fraction, ...], bool]:
        """Return what a leaf holds and whether it is blocked."""
        place = self._place[leaf.name]
        full = any(need and gone for need, gone in zip(self._needs[place], saturated, strict=True))
        return tuple(self._held[place]), self._pending[place] == 0 or not self._placeable[place] or full

    def _group(self, group: Group, found: Mapping[str, NodeShare]) -> tuple[tuple[Fraction, ...], bool]:
        """Return the sum of the children's vectors, rescaled to the least of them, and whether all are blocked."""
        pairs = [(child, found[child.name]) for child in group.children]
        least = min((state.share / child.weight for child, state in pairs if not state.blocked), default=None)
        total = [ZERO] * len(self.tree.resources)
        for child, state in pairs:
            factor = Fraction(1)
            if self.rule.rescale and group.scheduler == "fair" and least is not None and not state.blocked:
                factor = least * child.weight / state.share if state.share else ZERO
            total = [sofar + factor * amount for sofar, amount in zip(total, state.use, strict=True)]
        return tuple(total), least is None


MAX_SERVERS = 200_000
MAX_TASKS = 2_000_000
SERVER_ROUNDS_MAX = 10_000


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
    shared = flattened(tree) if algorithm == "drf-flat" else tree
    cluster = WholeTasks(shared, servers, _rule_of(algorithm, calculator), headroom=headroom)
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
        amounts = [*(group.capacity for group in servers), *(leaf.demand for leaf in tree.leaves)]
        unit = math.lcm(*(amount.denominator for each in amounts for amount in each.values()))

        def whole(amounts: Mapping[str, Fraction]) -> tuple[int, ...]:
            return tuple(int(amounts.get(name, 0) * unit) for name in tree.resources)

        self._scale = [float(tree.capacity[name] * unit) or 1.0 for name in tree.resources]
        self._sizes = [whole(group.capacity) for group in servers]
        self._classes = [position for position, group in enumerate(servers) for _ in range(group.count)]
        self._free = [self._sizes[position] for position in self._classes]
        self._changes = list(range(len(self._free)))
        """When each server changed last, in changes of all."""
        self._demands = [whole(leaf.demand) for leaf in tree.leaves]
        self._running: list[deque[int]] = [deque() for _ in tree.leaves]
        self._started = 0
        for leaf, demand in enumerate(self._demands):
            if not any(demand):
                self._shares.set_pending(leaf, 0)
        self._look()

    def tasks(self) -> list[int]:
        """Return the number of running tasks of each leaf; all of them, if they need nothing."""
        return [
            len(running) if any(demand) else leaf.tasks or 0
            for leaf, running, demand in zip(self._leaves, self._running, self._demands, strict=True)
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
        for _ in range(SERVER_ROUNDS_MAX):
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
        server = self._running[leaf].popleft()
        self._shares.release(leaf)
        self._move(server, leaf, 1)

    def _start(self, leaf: int) -> None:
        """Start a task on the fullest server with room for it; ties go to the one that changed last."""
        self._started += 1
        if self._started > MAX_TASKS:
            raise TreeError(f"servers: more than {MAX_TASKS} tasks start; write one pool, with resources, instead")
        server = min(
            (server for server in range(len(self._free)) if self._fits(self._demands[leaf], server)), key=self._rank
        )
        self._shares.allocate(leaf)
        self._running[leaf].append(server)
        self._move(server, leaf, -1)

    def _rank(self, server: int) -> tuple[float, int, tuple[int, ...], int]:
        free = self._free[server]
        room = sum(room / scale for room, scale in zip(free, self._scale, strict=True))
        return room, self._classes[server], free, -self._changes[server]

    def _move(self, server: int, leaf: int, sign: int) -> None:
        """Change a server's free room by one task of a leaf."""
        pairs = zip(self._free[server], self._demands[leaf], strict=True)
        self._free[server] = tuple(room + sign * amount for room, amount in pairs)
        self._changes[server] = 1 + max(self._changes)
        self._look()

    def _look(self) -> None:
        """Find out how much room to keep on servers, and which leaves have a server."""
        waiting = [demand for leaf, demand in enumerate(self._demands) if self._shares.waiting(leaf) != 0]
        self._spare = [_largest(size, waiting if self._headroom else ()) for size in self._sizes]
        fits = {demand: any(map(partial(self._fits, demand), range(len(self._free)))) for demand in set(self._demands)}
        for leaf, demand in enumerate(self._demands):
            self._shares.set_placeable(leaf, fits[demand])

    def _fits(self, demand: tuple[int, ...], server: int) -> bool:
        spare = self._spare[self._classes[server]]
        rooms = zip(self._free[server], demand, spare, strict=True)
        return all(room >= max(amount, kept) for room, amount, kept in rooms if amount)


def _largest(size: tuple[int, ...], demands: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the most that any of `demands` that fit an empty server needs, resource by resource."""
    fitting = [d for d in demands if all(amount <= room for amount, room in zip(d, size, strict=True))]
    return tuple(max(column) for column in zip(*fitting, strict=True)) if fitting else (0,) * len(size)


def flattened(tree: Tree) -> Tree:
    """Collapsed hierarchy (section 3.2): every leaf directly below the root, with the product of its path's shares.

    A node's share is its weight over the sum of its siblings' and its own.
    """
    leaves: list[Leaf] = []

    def collapse(group: Group, share: Fraction) -> None:
        total = sum((child.weight for child in group.children), Fraction(0))
        for child in group.children:
            portion = share * child.weight / total
            if isinstance(child, Leaf):
                leaves.append(replace(child, weight=portion))
            else:
                collapse(child, portion)

    collapse(tree.root, Fraction(1))
    return replace(tree, root=Group(tree.root.name, tuple(leaves)))


NAIVE = Rule(rescale=False, ignore_saturated=False)
"""Algorithm 1, which started from nothing defines the static allocation and kept running is naive H-DRF (3.3)."""
