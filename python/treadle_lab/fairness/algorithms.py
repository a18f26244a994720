"""Exact shares by the papers' algorithms, of one pool and of servers."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from treadle.fairness import HDRF, Group, Leaf, Rule, Tree, TreeError, fill

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
    if algorithm == "hdrf":
        return Allocation(fill(tree, HDRF))
    if algorithm == "hdrf-static":
        return Allocation(fill(tree, NAIVE))
    if algorithm == "drf-flat":
        return Allocation(fill(flattened(tree), NAIVE))
    if algorithm == "hdrf-dynamic":
        return churn(tree, HDRF, fill(tree, HDRF))
    if algorithm == "drf-naive":
        return churn(tree, NAIVE, fill(tree, NAIVE))
    if algorithm == "capacity":
        return Allocation(fill(tree, capacity_rule(calculator)))
    raise ValueError(f"unknown algorithm {algorithm!r}; choose one of {', '.join(ALGORITHMS)}")


def capacity_rule(calculator: str | None) -> Rule:
    """How the CapacityScheduler measures a queue: its use over its guarantee, of one resource or of the dominant."""
    return NAIVE if calculator is None else Rule(False, False, frozenset({calculator}))


def churn(tree: Tree, rule: Rule, held: Mapping[str, Fraction], portion: Fraction = Fraction(1)) -> Allocation:
    """Where an allocation ends when tasks end and what they leave is handed out again by `rule`.

    One leaf after another loses `portion` of its tasks and the pool is filled again, until a round through all leaves
    changes nothing, or until a state comes back or 1,000 rounds are over (then the result is not settled). A state
    that is only approached, never reached, is taken as reached when it is within 10^-30 tasks.
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
    """`tasks`, or if it has become a number of many digits, what is left when slivers under 10^-30 are cut off."""
    return tasks if tasks.denominator <= LONGEST_DENOMINATOR else Fraction(math.floor(tasks * GRAIN), GRAIN)


MAX_VIEWS = 16
"""Sets of saturated resources for which shares are kept: all there are with four resources."""

ZERO = Fraction(0)


class ShareTree:
    """Who is owed the next task, while tasks come and go.

    Leaves are named by their position in `tree.leaves`. Amounts are fractions of the cluster. With exact numbers in
    the tree all results are exact; with floats as demands, shares have their precision.
    """

    def __init__(self, tree: Tree, rule: Rule) -> None:
        self.tree = tree
        self.rule = rule
        nodes = list(tree.nodes())
        numbers = {node.name: number for number, node in enumerate(nodes)}
        self._weights = [node.weight for node in nodes]
        self._fifo = [isinstance(node, Group) and node.scheduler == "fifo" for node in nodes]
        self._children = [
            [numbers[child.name] for child in node.children] if isinstance(node, Group) else [] for node in nodes
        ]
        self._parents = [-1] * len(nodes)
        for number, children in enumerate(self._children):
            for child in children:
                self._parents[child] = number
        self._leaf_of = {numbers[leaf.name]: position for position, leaf in enumerate(tree.leaves)}
        self._node_of = [numbers[leaf.name] for leaf in tree.leaves]
        self._is_leaf = [isinstance(node, Leaf) for node in nodes]
        self._demands: list[list[Fraction]] = [tree.demand_share(leaf) for leaf in tree.leaves]
        self._needs = [tree.needs(leaf) for leaf in tree.leaves]
        self._pending: list[int | None] = [leaf.tasks for leaf in tree.leaves]
        self._placeable = [True] * len(tree.leaves)
        self._held = [[ZERO] * len(tree.resources) for _ in tree.leaves]
        self._tasks = [0] * len(tree.leaves)
        self._consumed = [ZERO] * len(tree.resources)
        self._views: OrderedDict[tuple[bool, ...], _View] = OrderedDict()

    # -- what happens ---------------------------------------------------------------------------------------------

    def allocate(self, leaf: int, tasks: int = 1, demand: Sequence[Fraction] | None = None) -> None:
        """`leaf` starts tasks that each need `demand` (its usual demand if None): one path of the tree changes.

        Raises ValueError if the leaf has not that many tasks waiting.
        """
        waiting = self._pending[leaf]
        if waiting is not None:
            if waiting < tasks:
                raise ValueError(f"{self.tree.leaves[leaf].name} has {waiting} tasks waiting, not {tasks}")
            self._pending[leaf] = waiting - tasks
        self._change(leaf, tasks, demand)

    def release(
        self, leaf: int, tasks: int = 1, demand: Sequence[Fraction] | None = None, *, again: bool = True
    ) -> None:
        """Tasks of `leaf` end. If `again`, as many wait in their place, as in the paper's dynamic model.

        Raises ValueError if the leaf has not that many tasks running.
        """
        if self._tasks[leaf] < tasks:
            raise ValueError(f"{self.tree.leaves[leaf].name} has {self._tasks[leaf]} tasks running, not {tasks}")
        waiting = self._pending[leaf]
        if again and waiting is not None:
            self._pending[leaf] = waiting + tasks
        self._change(leaf, -tasks, demand)

    def set_pending(self, leaf: int, tasks: int | None) -> None:
        """Set how many tasks of `leaf` wait; None for endless work. With 0 it is blocked."""
        self._pending[leaf] = tasks
        self._mark(leaf)

    def set_placeable(self, leaf: int, placeable: bool) -> None:
        """Return whether some server has room for a task of `leaf`; if none has, the leaf is blocked."""
        if self._placeable[leaf] != placeable:
            self._placeable[leaf] = placeable
            self._mark(leaf)

    # -- what follows from it -------------------------------------------------------------------------------------

    def next_leaf(self) -> int | None:
        """Return the leaf that is owed the next task: from the root, always the child with the least weighted share.

        The leftmost of equals; None if all leaves are blocked.
        """
        view = self._view()
        node = 0
        while not self._is_leaf[node]:
            child = view.least_child(node)
            if child is None:
                return None
            node = child
        return self._leaf_of[node]

    def shares(self) -> dict[str, Fraction]:
        """Every node's share, by name, as the algorithm sees it now (rescaled, without saturated resources)."""
        view = self._view()
        return {node.name: view.share[number] for number, node in enumerate(self.tree.nodes())}

    def tasks(self, leaf: int) -> int:
        """How many tasks `leaf` runs."""
        return self._tasks[leaf]

    def waiting(self, leaf: int) -> int | None:
        """How many tasks `leaf` has waiting; None for endless work."""
        return self._pending[leaf]

    def saturated(self) -> tuple[bool, ...]:
        """Which resources are fully used, or do not exist."""
        amounts = self.tree.capacity.values()
        return tuple(used >= 1 or not amount for used, amount in zip(self._consumed, amounts, strict=True))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _change(self, leaf: int, tasks: int, demand: Sequence[Fraction] | None) -> None:
        self._tasks[leaf] += tasks
        held = self._held[leaf]
        for position, amount in enumerate(self._demands[leaf] if demand is None else demand):
            if amount:
                held[position] += amount * tasks
                self._consumed[position] += amount * tasks
        self._mark(leaf)

    def _mark(self, leaf: int) -> None:
        for view in self._views.values():
            view.changed.add(leaf)

    def _view(self) -> _View:
        saturated = self.saturated()
        view = self._views.get(saturated)
        if view is None:
            if len(self._views) == MAX_VIEWS:
                self._views.popitem(last=False)
            view = self._views[saturated] = _View(self, saturated)
        self._views.move_to_end(saturated)
        view.refresh()
        return view

    def _leaf_state(self, leaf: int, saturated: tuple[bool, ...]) -> tuple[list[Fraction], bool]:
        """Return what a leaf holds and whether it is blocked."""
        blocked = self._pending[leaf] == 0 or not self._placeable[leaf]
        if not blocked:
            blocked = any(need and full for need, full in zip(self._needs[leaf], saturated, strict=True))
        return self._held[leaf], blocked


class _View:
    """Shares of all nodes while one set of resources is saturated."""

    def __init__(self, owner: ShareTree, saturated: tuple[bool, ...]) -> None:
        self.owner = owner
        self.saturated = saturated
        self.counted = owner.rule.counted(owner.tree.resources, saturated)
        self.changed: set[int] = set()
        size = len(owner._parents)
        self._zero = [ZERO] * len(saturated)
        self.share = [ZERO] * size
        self.use = [self._zero] * size
        self.blocked = [True] * size
        self._unit = [self._zero[:] for _ in range(size)]  # D of a group
        self._fixed = [self._zero[:] for _ in range(size)]  # B of a group
        self._part: list[tuple[bool, list[Fraction]]] = [(False, self._zero)] * size  # a child's part of D or B
        self._heaps: list[list[tuple[Fraction, int, int]]] = [[] for _ in range(size)]
        self._stamps = [0] * size
        self._changes = [0] * size
        for node in range(size - 1, 0, -1):
            self._measure(node)
            self._hand_up(node)
        self._measure(0)

    def refresh(self) -> None:
        """Bring the paths of all leaves that changed up to date."""
        while self.changed:
            node = self.owner._node_of[self.changed.pop()]
            while node:
                self._measure(node)
                self._hand_up(node)
                node = self.owner._parents[node]
            self._measure(0)

    def least_child(self, group: int) -> int | None:
        """Return the non-blocked child with the least weighted share, or in a fifo group the first one."""
        heap = self._heaps[group]
        while heap and heap[0][2] != self._stamps[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def _measure(self, node: int) -> None:
        """Compute a node's vector, share and whether it is blocked."""
        owner = self.owner
        if owner._is_leaf[node]:
            held, self.blocked[node] = owner._leaf_state(owner._leaf_of[node], self.saturated)
            use = held[:]
        else:
            use = self._fixed[node]
            least = self.least_child(node)
            self.blocked[node] = least is None
            if least is not None and self._scales(node):
                level = self._heaps[node][0][0]
                use = [level * unit + fixed for unit, fixed in zip(self._unit[node], use, strict=True)]
            else:
                use = use[:]
        self.use[node] = use
        self.share[node] = max((use[p] for p in self.counted), default=ZERO)

    def _scales(self, group: int) -> bool:
        return self.owner.rule.rescale and not self.owner._fifo[group]

    def _hand_up(self, node: int) -> None:
        """Replace a node's part in its parent's sums, and its place among its siblings."""
        parent = self.owner._parents[node]
        scaled, part = self._part[node]
        total = self._unit[parent] if scaled else self._fixed[parent]
        for position, amount in enumerate(part):
            if amount:
                total[position] -= amount
        self._stamps[node] += 1
        use, share, active = self.use[node], self.share[node], not self.blocked[node]
        scaled = active and self._scales(parent)
        if scaled:
            factor = self.owner._weights[node] / share if share else ZERO
            use = [amount * factor for amount in use]
        self._part[node] = (scaled, use)
        total = self._unit[parent] if scaled else self._fixed[parent]
        for position, amount in enumerate(use):
            if amount:
                total[position] += amount
        if active:
            key = ZERO if self.owner._fifo[parent] else share / self.owner._weights[node]
            heapq.heappush(self._heaps[parent], (key, node, self._stamps[node]))
        self._tidy(parent)

    def _tidy(self, group: int) -> None:
        """Now and then, as often as there are children, drop dead entries and what rounding left in the sums."""
        self._changes[group] += 1
        children = self.owner._children[group]
        if self._changes[group] < 2 * len(children) + 16:
            return
        self._changes[group] = 0
        self._heaps[group] = [entry for entry in self._heaps[group] if entry[2] == self._stamps[entry[1]]]
        heapq.heapify(self._heaps[group])
        for scaled, sums in ((True, self._unit), (False, self._fixed)):
            parts = [part for is_scaled, part in (self._part[child] for child in children) if is_scaled == scaled]
            sums[group] = [sum(column, ZERO) for column in zip(*parts, strict=True)] if parts else self._zero[:]


MAX_SERVERS = 200_000
MAX_TASKS = 2_000_000
SERVER_ROUNDS_MAX = 10_000
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
