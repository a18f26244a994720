"""The same shares as `paper`, kept up to date: one allocation updates one path of the tree.

What the paper leaves open: rescaling needs the least share M among a group's children that are not blocked, and then
all their vectors. A group here keeps the sum D of its non-blocked children's vectors, each scaled to one unit of
weighted share, and the sum B of what its blocked children hold; its own vector is M x D + B, so that one child's
change costs one subtraction and one addition, and a heap keeps M.

Which children are blocked, and which resources count, depends on which resources are saturated, and in a busy cluster
that changes with every task. There is therefore one view of the tree for each set of saturated resources that was
seen lately; a view that is not in use only remembers which leaves changed and looks at their paths when it is needed.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from fractions import Fraction

from treadle.fairness.tree import Group, Leaf, Rule, Tree

__all__ = ["ShareTree"]

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
