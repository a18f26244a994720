"""Progressive filling of one divisible pool, exactly, event by event.

The paper's algorithms distribute slivers: the next one goes from the root to the child with the least share, down to a
leaf. With ever thinner slivers, children of a node with equal shares rise together, and every share is piecewise linear
in the distributed amount. So instead of slivers this computes the speeds at which all leaves grow, and advances from
one change of speed to the next: a resource is saturated, a leaf has all its tasks, a rising child reaches the next
higher one, another resource becomes a group's dominant one.

Every node has a clock of its own: a leaf's shows its dominant share; a group's runs with the least weighted share among
its children that are not blocked (the paper's M). A parent knows the speed of each child's clock, so that an event
touches one path of the tree and the rest of it is updated only when it is read. All numbers are fractions: results are
exact. The only exception are thousands of leaves whose demands have no small common denominator: their sums would have
thousands of digits, so the ratios of their demands are rounded up to the next 2^-40.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from treadle.errors import UserError

MAX_DEPTH = 64
"""Levels below the root that a tree may have: far more than any organisation, far less than Python's stack."""


class TreeError(UserError):
    """An invalid tree; the message names the node or field, the error and the remedy."""


@dataclass(frozen=True)
class Leaf:
    """A job or user: the only kind of node that is given resources.

    `demand` is what one task needs, by resource, zero or positive; a resource that it does not name is not needed.
    `tasks` is how many tasks there are to run, None for more than any cluster can hold.
    """

    name: str
    demand: Mapping[str, Fraction]
    weight: Fraction = Fraction(1)
    tasks: int | None = None

    def __post_init__(self) -> None:
        _check_weight(self.name, self.weight)
        if self.tasks is None and not any(self.demand.values()):
            raise TreeError(
                f"{self.name}: its tasks need nothing and it has endless work; give it a demand or a number of tasks"
            )


@dataclass(frozen=True)
class Group:
    """An internal node: a queue that shares its resources among its children.

    `scheduler` is the method: "fair" for the selected algorithm, or "fifo", where the first child that can run a task
    takes all (recursive scheduling, section 4.3).
    """

    name: str
    children: tuple[Group | Leaf, ...]
    weight: Fraction = Fraction(1)
    scheduler: str = "fair"

    def __post_init__(self) -> None:
        _check_weight(self.name, self.weight)


@dataclass(frozen=True)
class Tree:
    """The resources to share (`capacity`), and the tree of queues that share them.

    Raises `TreeError` for names that occur twice, a demand of a resource that `capacity` does not name, and a tree that
    is too deep. A capacity of 0 is allowed: no leaf gets any.
    """

    capacity: Mapping[str, Fraction]
    root: Group

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for node, depth in _walk(self.root, 0):
            if depth > MAX_DEPTH:
                raise TreeError(f"{node.name}: more than {MAX_DEPTH} levels below the root; make the tree flatter")
            if node.name in seen:
                raise TreeError(f"{node.name}: two nodes have this name; give each node a name of its own")
            seen.add(node.name)
            if isinstance(node, Leaf):
                self._check_resources(node)

    def _check_resources(self, leaf: Leaf) -> None:
        for resource in leaf.demand:
            if resource not in self.capacity:
                known = ", ".join(self.capacity) or "none"
                raise TreeError(
                    f"{leaf.name}: demand names {resource}, which the cluster does not have ({known}); correct the "
                    f"name, or add {resource}: 0 to the resources if no node has any"
                )

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the resources, in the order in which all vectors list them."""
        return tuple(self.capacity)

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, from left to right."""
        return tuple(node for node in self.nodes() if isinstance(node, Leaf))

    def nodes(self) -> Iterator[Group | Leaf]:
        """All nodes, parents before their children, from left to right, beginning with the root."""
        return (node for node, _ in _walk(self.root, 0))

    def demand_share(self, leaf: Leaf) -> list[Fraction]:
        """Return what one task needs, each resource as a fraction of the cluster; 0 where the cluster has none."""
        return [
            Fraction(leaf.demand.get(name, 0)) / amount if amount else Fraction(0)
            for name, amount in self.capacity.items()
        ]

    def needs(self, leaf: Leaf) -> list[bool]:
        """Which resources a task of `leaf` needs, including those that the cluster has none of."""
        return [leaf.demand.get(name, 0) > 0 for name in self.capacity]

    def without(self, absent: Collection[str]) -> Tree:
        """Return the same tree without the named leaves, and without groups that are left empty. The root stays."""
        return self.with_leaves(dict.fromkeys(absent))

    def with_leaves(self, changed: Mapping[str, Leaf | None]) -> Tree:
        """Return the same tree with some leaves, by name, replaced by others, or by None left out."""
        return replace(self, root=replace(self.root, children=_changed(self.root, changed)))


def _walk(node: Group | Leaf, depth: int) -> Iterator[tuple[Group | Leaf, int]]:
    stack = [(node, depth)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        if isinstance(node, Group):
            stack.extend((child, depth + 1) for child in reversed(node.children))


def _changed(group: Group, changed: Mapping[str, Leaf | None]) -> tuple[Group | Leaf, ...]:
    """Return a group's children with some leaves replaced or left out, and without groups that are left empty."""
    children: list[Group | Leaf] = []
    for child in group.children:
        if isinstance(child, Group):
            below = _changed(child, changed)
            children += [replace(child, children=below)] if below else []
        elif (leaf := changed.get(child.name, child)) is not None:
            children.append(leaf)
    return tuple(children)


def _check_weight(name: str, weight: Fraction) -> None:
    if weight <= 0:
        raise TreeError(f"{name}: weight is {weight}; a weight must be above 0")


@dataclass(frozen=True)
class Rule:
    """The share of a node, given the vectors of what its children hold.

    `rescale`: a group's vector is the sum of its children's, each child that is not blocked first scaled to the least
    share among them (section 3.4, "Rescaling to Minimum Nodes"); otherwise the plain sum (section 3.3).
    `ignore_saturated`: resources that are fully used do not count in a share (end of section 3.4).
    `measured`: the resources that count, by name; None for all. CapacityScheduler's DefaultResourceCalculator counts
    memory alone, its DominantResourceCalculator all.
    """

    rescale: bool
    ignore_saturated: bool
    measured: frozenset[str] | None = None

    def counted(self, resources: Sequence[str], saturated: Sequence[bool]) -> list[int]:
        """Return the positions of the resources that count in a share, given which are saturated."""
        return [
            position
            for position, name in enumerate(resources)
            if (self.measured is None or name in self.measured) and not (self.ignore_saturated and saturated[position])
        ]


HDRF = Rule(rescale=True, ignore_saturated=True)
"""Dynamic H-DRF (Algorithms 2 to 4)."""

ZERO = Fraction(0)
ONE = Fraction(1)
GRAIN = 2**40
MOST_BITS = 2**21
Vector = list[Fraction]


def fill(tree: Tree, rule: Rule, held: Mapping[str, Fraction] | None = None) -> dict[str, Fraction]:
    """Distribute the free resources until no leaf can use more.

    `held` is the number of tasks of each leaf, by name, at the start (default 0); it must fit the pool. Returns the
    number of tasks, possibly fractional, of each leaf at the end; it is never smaller than at the start.

    Where the paper draws lots between equals, here equals rise together; children whose growth does not raise their
    share (their dominant resource is not the growing one) share in proportion to their weights, ahead of level
    siblings whose share does rise: one sliver would put those behind them.
    """
    return _Filling(tree, rule, held or {}).run()


@dataclass(slots=True, eq=False)
class _Node:
    """The state of one node. All of `level`, `use` and `share` are as of `clock`; rates are per unit of the clock."""

    weight: Fraction
    leaf: Leaf | None
    fifo: bool
    use: Vector  # as the parent sees it: rescaled, if the rule rescales
    use_rate: Vector
    real_rate: Vector  # what is really taken from the pool
    children: list[_Node] = field(default_factory=list)
    blocked: bool = False
    clock: Fraction = ZERO
    level: Fraction = ZERO
    share: Fraction = ZERO
    level_rate: Fraction = ZERO
    share_rate: Fraction = ZERO
    next: Fraction | None = None  # when, by its own clock, something changes in its subtree
    # A leaf's.
    unit: Vector = field(default_factory=list)  # what it holds when its dominant share is 1
    needs: list[bool] = field(default_factory=list)
    limit: Fraction | None = None  # its share when all its tasks run
    # A group's.
    rising: int = 0  # children that move
    crossing: Fraction | None = None  # when another resource becomes the dominant one
    heap: list[tuple[Fraction, int, int]] = field(default_factory=list)  # (time, child, the child's stamp)
    stamp: int = 0
    # As its parent sees it.
    position: int = 0
    moving: bool = False
    base: Fraction = ZERO  # the parent's clock when this one showed `clock`
    speed: Fraction = ZERO  # how much its clock advances in a unit of the parent's
    given: Vector = field(default_factory=list)  # its part of the parent's use_rate
    real_given: Vector = field(default_factory=list)  # its part of the parent's real_rate

    def advance(self, time: Fraction) -> None:
        """Advance this node, but not its subtree, to `time` by its own clock."""
        elapsed = time - self.clock
        if not elapsed:
            return
        self.clock = time
        self.level += self.level_rate * elapsed
        self.share += self.share_rate * elapsed
        for position, rate in enumerate(self.use_rate):
            if rate:
                self.use[position] += rate * elapsed

    def sync(self, time: Fraction) -> None:
        """Bring this node to `time` by its parent's clock."""
        if self.moving:
            self.advance(self.clock + self.speed * (time - self.base))
        self.base = time


class _Filling:
    """One run of progressive filling."""

    def __init__(self, tree: Tree, rule: Rule, held: Mapping[str, Fraction]) -> None:
        self.rule = rule
        self.resources = tree.resources
        self.coarse = not _is_short(tree)
        self.consumed = [ZERO] * len(self.resources)
        self.saturated = [not amount for amount in tree.capacity.values()]
        self.leaves: list[_Node] = []
        self.dominant: dict[str, Fraction] = {}  # dominant share of one task
        self.idle: dict[str, Fraction] = {}  # leaves whose tasks need nothing
        self.root = self._node(tree, tree.root, held)
        for leaf in self.leaves:
            for position, amount in enumerate(leaf.use):
                self.consumed[position] += amount
        if any(amount > 1 for amount in self.consumed):
            raise ValueError("what the leaves hold at the start is more than the pool")

    def _node(self, tree: Tree, node: Group | Leaf, held: Mapping[str, Fraction]) -> _Node:
        use, use_rate, real_rate = ([ZERO] * len(self.resources) for _ in range(3))
        leaf, fifo = (node, False) if isinstance(node, Leaf) else (None, node.scheduler == "fifo")
        state = _Node(node.weight, leaf, fifo, use, use_rate, real_rate)
        if isinstance(node, Group):
            state.children = [self._node(tree, child, held) for child in node.children]
            for position, child in enumerate(state.children):
                child.position = position
            return state
        task = tree.demand_share(node)
        dominant = max(task, default=ZERO)
        state.needs = tree.needs(node)
        if any(state.needs):
            self.dominant[node.name] = dominant
        else:
            self.idle[node.name] = Fraction(node.tasks or 0)
        state.unit = [amount / dominant for amount in task] if dominant else task
        if self.coarse:
            state.unit = [Fraction(math.ceil(amount * GRAIN), GRAIN) for amount in state.unit]
        state.clock = held.get(node.name, ZERO) * dominant
        state.use = [amount * state.clock for amount in state.unit]
        state.use_rate = state.real_rate = state.unit
        state.limit = None if node.tasks is None else node.tasks * dominant
        self.leaves.append(state)
        return state

    def run(self) -> dict[str, Fraction]:
        """Fill until the root is blocked; then return what each leaf has."""
        root = self.root
        self._saturate()
        self._rebuild_all(root)
        while not root.blocked:
            ends = self._saturation()
            step = ends if root.next is None else min(ends, root.next - root.clock)
            for position, rate in enumerate(root.real_rate):
                self.consumed[position] += rate * step
            time = root.clock + step
            if root.next == time:
                self._reach(root, time)
            else:
                root.advance(time)
            if step == ends:
                self._saturate()
                self._sync_all(root)
                self._rebuild_all(root)
        self._sync_all(root)
        tasks = dict(self.idle)
        for leaf in self.leaves:
            assert leaf.leaf is not None
            name = leaf.leaf.name
            if name in self.dominant:
                task = self.dominant[name]
                tasks[name] = leaf.clock / task if task else ZERO
        return tasks

    def _saturation(self) -> Fraction:
        """Return the time, by the root's clock, until the next resource is saturated."""
        rates = self.root.real_rate
        return min((ONE - self.consumed[p]) / rate for p, rate in enumerate(rates) if rate)

    def _saturate(self) -> None:
        for position, amount in enumerate(self.consumed):
            if amount == 1:
                self.saturated[position] = True
        self.counted = self.rule.counted(self.resources, self.saturated)

    def _sync_all(self, node: _Node) -> None:
        for child in node.children:
            child.sync(node.clock)
            self._sync_all(child)

    # -- computing a node from its children ---------------------------------------------------------------------

    def _rebuild_all(self, node: _Node) -> None:
        """Recompute a subtree from its leaves; all of it must be in sync."""
        if node.leaf is not None:
            self._measure_leaf(node)
            return
        for child in node.children:
            self._rebuild_all(child)
        self._rebuild(node)

    def _measure_leaf(self, leaf: _Node) -> None:
        wanting = any(leaf.needs) and (leaf.limit is None or leaf.clock < leaf.limit)
        leaf.blocked = not wanting or any(n and s for n, s in zip(leaf.needs, self.saturated, strict=True))
        leaf.share_rate = max((leaf.unit[p] for p in self.counted), default=ZERO)
        leaf.share = leaf.share_rate * leaf.clock
        leaf.next = leaf.limit

    def _rebuild(self, node: _Node) -> None:
        """Compute a group from its children, which must be in sync with its clock."""
        active = [child for child in node.children if not child.blocked]
        node.heap = []
        node.use_rate = [ZERO] * len(self.resources)
        node.real_rate = [ZERO] * len(self.resources)
        node.rising = 0
        node.blocked = not active
        for child in node.children:
            child.moving = False
            child.base = node.clock
            child.speed = ZERO
            child.given = child.real_given = node.use_rate[:]
        if node.fifo:
            self._queue(node, active[:1])
        elif active:
            self._level(node, active)
        else:
            self._add_up(node, ())
        self._remeasure(node)

    def _queue(self, node: _Node, first: list[_Node]) -> None:
        """First in, first out: one child moves, what all have is added up."""
        self._add_up(node, ())
        node.level_rate = ZERO
        for child in first:
            self._move(node, child, ONE)

    def _level(self, node: _Node, active: list[_Node]) -> None:
        """Start the children with the least share: equal ones rise together, those that cannot rise go first."""
        node.level = min(child.share / child.weight for child in active)
        lowest = [child for child in active if child.share == node.level * child.weight]
        ahead = [child for child in active if child.share > node.level * child.weight]
        self._add_up(node, ahead if self.rule.rescale else ())
        stalled = [child for child in lowest if not child.share_rate]
        node.level_rate = ZERO if stalled else ONE
        for child in stalled or lowest:
            self._move(node, child, child.weight if stalled else child.weight / child.share_rate)
        if stalled:
            return
        for child in ahead:
            self._schedule(node, child, child.share / child.weight - node.level)
            if self.rule.rescale:
                factor = child.weight / child.share
                child.given = [amount * factor for amount in child.use]
                _add(node.use_rate, child.given)

    def _add_up(self, node: _Node, rescaled: list[_Node] | tuple[()]) -> None:
        node.use = [ZERO] * len(self.resources)
        for child in node.children:
            _add(node.use, child.use)
        for child in rescaled:
            factor = node.level * child.weight / child.share - 1
            _add(node.use, [amount * factor for amount in child.use])

    def _move(self, node: _Node, child: _Node, speed: Fraction) -> None:
        """Run a child's clock at a speed; the child must be in sync and not in the node's rates."""
        child.moving = True
        child.base = node.clock
        child.speed = speed
        child.given = [rate * speed for rate in child.use_rate]
        child.real_given = [rate * speed for rate in child.real_rate]
        _add(node.use_rate, child.given)
        _add(node.real_rate, child.real_given)
        node.rising += 1
        if child.next is not None:
            self._schedule(node, child, (child.next - child.clock) / speed)

    def _schedule(self, node: _Node, child: _Node, delay: Fraction) -> None:
        child.stamp += 1
        heapq.heappush(node.heap, (node.clock + delay, child.position, child.stamp))

    def _remeasure(self, node: _Node) -> None:
        """Find a group's share, how fast it rises, and when something about the group changes next."""
        use, rate = node.use, node.use_rate
        node.share = max((use[p] for p in self.counted), default=ZERO)
        node.share_rate = max((rate[p] for p in self.counted if use[p] == node.share), default=ZERO)
        crossings = [
            (node.share - use[p]) / (rate[p] - node.share_rate)
            for p in self.counted
            if use[p] < node.share and rate[p] > node.share_rate
        ]
        node.crossing = node.clock + min(crossings) if crossings else None
        self._find_next(node)

    def _find_next(self, node: _Node) -> None:
        heap = node.heap
        while heap and heap[0][2] != node.children[heap[0][1]].stamp:
            heapq.heappop(heap)
        times = [time for time in (node.crossing, heap[0][0] if heap else None) if time is not None]
        node.next = min(times) if times else None

    # -- going through events -----------------------------------------------------------------------------------

    def _reach(self, node: _Node, time: Fraction) -> None:
        """Apply all that is due in a node's subtree at `time`, by its clock; nothing must have been due before."""
        node.advance(time)
        if node.leaf is not None:
            node.blocked = True
            return
        smooth = True
        while node.heap and node.heap[0][0] == time:
            _, position, stamp = heapq.heappop(node.heap)
            child = node.children[position]
            if stamp == child.stamp:
                smooth = self._child_changes(node, child) and smooth
        if smooth:
            self._remeasure(node)
            return
        for child in node.children:
            child.sync(time)
        self._rebuild(node)

    def _child_changes(self, node: _Node, child: _Node) -> bool:
        """Apply the event at one child. Returns whether the node's rates are valid again, or need a rebuild."""
        if not child.moving:
            return self._child_joins(node, child)
        due = child.next
        assert due is not None
        child.advance(due)
        child.base = node.clock
        use, share = child.use[:], child.share
        self._reach(child, due)
        if node.fifo or not node.level_rate or child.use != use or child.share != share:
            return False
        if child.blocked:
            self._take_back(node, child)
            return node.rising > 0
        return self._child_joins(node, child)

    def _child_joins(self, node: _Node, child: _Node) -> bool:
        """Start a child that the rising ones have reached; the result is as in `_child_changes`."""
        self._take_back(node, child)
        if not child.share_rate:
            return False
        self._move(node, child, child.weight / child.share_rate)
        return True

    def _take_back(self, node: _Node, child: _Node) -> None:
        """Remove a child's part from its parent's rates."""
        _subtract(node.use_rate, child.given)
        _subtract(node.real_rate, child.real_given)
        node.rising -= child.moving
        child.moving = False
        child.speed = ZERO
        child.given = child.real_given = [ZERO] * len(self.resources)


def _is_short(tree: Tree) -> bool:
    """Return whether sums over the leaves' demand ratios have a denominator of a bearable length."""
    common = 1
    for leaf in tree.leaves:
        task = tree.demand_share(leaf)
        dominant = max(task, default=ZERO)
        if dominant:
            common = math.lcm(common, *((amount / dominant).denominator for amount in task))
        if common.bit_length() * len(tree.leaves) > MOST_BITS:
            return False
    return True


def _add(total: Vector, addend: Vector) -> None:
    for position, amount in enumerate(addend):
        if amount:
            total[position] += amount


def _subtract(total: Vector, subtrahend: Vector) -> None:
    for position, amount in enumerate(subtrahend):
        if amount:
            total[position] -= amount
