"""Exact shares, by the papers' algorithms, and whole tasks one by one."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from treadle.fairness.fluid import fill
from treadle.fairness.tree import HDRF, NAIVE, Group, Leaf, Rule, Tree, flattened

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
