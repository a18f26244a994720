"""Shares of a queue tree described in a file, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Final, NoReturn

import yaml

from treadle.errors import nearest
from treadle.fairness import MAX_DEPTH, Group, Leaf, Tree, TreeError
from treadle_lab.fairness.algorithms import (
    AS_TASKS_END,
    Allocation,
    ServerClass,
    allocate_fluid,
    allocate_whole,
    total_capacity,
)

ROOT = "(root)"
MAX_BYTES = 64 * 1024 * 1024
LARGEST_EXPONENT = 18
MOST_DIGITS = 36


@dataclass(frozen=True)
class Event:
    """What changes between two steps: `kind` is leave, join or tasks; `leaves` are the leaves it happens to."""

    kind: str
    name: str
    leaves: tuple[str, ...]
    tasks: int | None = None


@dataclass(frozen=True)
class Problem:
    """A file's content. Without servers the cluster is one divisible pool."""

    tree: Tree
    servers: tuple[ServerClass, ...] = ()
    events: tuple[Event, ...] = ()
    calculator: str | None = None
    headroom: bool = False


def read_problem(path: Path) -> Problem:
    """Read and check a file. Raises `TreeError`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TreeError(f"{path}: larger than {MAX_BYTES} bytes; give a smaller tree")
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise TreeError(f"{path}: {problem.strerror or problem}; give the path of a readable YAML file") from None
    except UnicodeDecodeError:
        raise TreeError(f"{path}: not UTF-8 text; give a YAML file") from None
    return _Reader(path).read(text)


class _Reader:
    """Goes through YAML nodes rather than plain values: those know their lines, and numbers keep all their digits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.capacity: dict[str, Fraction] = {}
        self.lines: dict[str, int] = {}  # of nodes of the tree

    def fail(self, where: yaml.Node | yaml.Event, problem: str) -> NoReturn:
        assert where.start_mark is not None, "everything that was read from text has a place in it"
        raise TreeError(f"{self.path}:{where.start_mark.line + 1}: {problem}")

    def read(self, text: str) -> Problem:
        document = self._compose(text)
        known = ("resources", "servers", "tree", "events", "calculator", "headroom")
        fields = self._fields(document, "the document", known)
        servers: tuple[ServerClass, ...] = ()
        if ("resources" in fields) == ("servers" in fields):
            self.fail(document, "write either resources (one divisible pool) or servers (whole tasks)")
        if "servers" in fields:
            servers = tuple(self._server(item) for item in self._items(fields["servers"], "servers"))
            self.capacity = total_capacity(servers)
        else:
            self.capacity = self._amounts(fields["resources"], "resources")
        if not self.capacity:
            self.fail(document, "the cluster has no resources; name at least one")
        if "tree" not in fields:
            self.fail(document, "there is no tree; add tree with at least one leaf")
        root = Group(ROOT, self._children(fields["tree"], "tree", 1))
        tree = Tree(self.capacity, root)
        calculator = self._calculator(fields.get("calculator"))
        return Problem(tree, servers, self._events(fields.get("events"), tree), calculator, self._headroom(fields))

    def _compose(self, text: str) -> yaml.Node:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            depth = 0
            for event in yaml.parse(text, Loader=loader):
                if isinstance(event, yaml.AliasEvent):
                    self.fail(event, f"*{event.anchor}: aliases are not supported; write it out")
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > 2 * MAX_DEPTH + 4:
                    self.fail(event, f"more than {MAX_DEPTH} levels; make the tree flatter")
            document = yaml.compose(text, Loader=loader)
        except yaml.YAMLError as problem:
            mark = getattr(problem, "problem_mark", None)
            line = f":{mark.line + 1}" if mark else ""
            what = getattr(problem, "problem", None) or str(problem)
            raise TreeError(f"{self.path}{line}: not YAML: {what}; correct the text there") from None
        if document is None:
            raise TreeError(f"{self.path}: empty; write resources and a tree")
        return document

    # -- the tree -------------------------------------------------------------------------------------------------

    def _children(self, node: yaml.Node, field: str, depth: int) -> tuple[Group | Leaf, ...]:
        children = tuple(self._node(key, value, depth) for key, value in self._pairs(node, field))
        if not children:
            self.fail(node, f"{field}: no children; add a leaf, with a demand")
        return children

    def _node(self, key: yaml.ScalarNode, value: yaml.Node, depth: int) -> Group | Leaf:
        name = key.value
        if not name or name == ROOT:
            self.fail(key, f"{name!r} cannot be the name of a node; choose another one")
        if name in self.lines:
            self.fail(key, f"{name}: line {self.lines[name]} has a node of this name; give each a name of its own")
        if depth > MAX_DEPTH:
            self.fail(key, f"{name}: more than {MAX_DEPTH} levels; make the tree flatter")
        self.lines[name] = key.start_mark.line + 1
        fields = self._fields(value, name, ("weight", "children", "demand", "tasks", "scheduler"))
        if "children" in fields and ("demand" in fields or "tasks" in fields):
            self.fail(value, f"{name}: has children and a demand or tasks; only leaves run tasks: move them to a leaf")
        weight = self._number(fields["weight"], f"{name}.weight") if "weight" in fields else Fraction(1)
        if weight <= 0:
            self.fail(fields["weight"], f"{name}.weight is {weight}; a weight must be above 0")
        if "children" in fields:
            children = self._children(fields["children"], f"{name}.children", depth + 1)
            return Group(name, children, weight, self._scheduler(fields.get("scheduler"), name))
        if "demand" not in fields:
            self.fail(value, f"{name}: neither a demand nor children; a leaf needs a demand, a group children")
        if "scheduler" in fields:
            self.fail(fields["scheduler"], f"{name}.scheduler: {name} is a leaf; only groups have a scheduler")
        return self._leaf(name, weight, fields)

    def _leaf(self, name: str, weight: Fraction, fields: dict[str, yaml.Node]) -> Leaf:
        demand = self._amounts(fields["demand"], f"{name}.demand")
        for (key, _), resource in zip(self._pairs(fields["demand"], name), demand, strict=True):
            if resource not in self.capacity:
                self.fail(
                    key,
                    f"{name}.demand: no resource {resource}, only {', '.join(self.capacity)}; correct the name, or "
                    f"add {resource}: 0 to the cluster if nobody has any",
                )
        tasks = self._whole(fields["tasks"], f"{name}.tasks") if "tasks" in fields else None
        if tasks is None and not any(demand.values()):
            self.fail(fields["demand"], f"{name}.demand: all zero and endless work; add tasks, or what a task needs")
        return Leaf(name, demand, weight, tasks)

    def _scheduler(self, node: yaml.Node | None, name: str) -> str:
        if node is None:
            return "fair"
        if not isinstance(node, yaml.ScalarNode) or node.value not in ("fair", "fifo"):
            self.fail(node, f"{name}.scheduler: write fair or fifo")
        return str(node.value)

    # -- everything else ------------------------------------------------------------------------------------------

    def _server(self, node: yaml.Node) -> ServerClass:
        capacity = self._amounts(node, "servers")
        count = capacity.pop("count", None)
        if count is None or count < 1 or count.denominator != 1:
            self.fail(node, "servers.count: say how many servers of this class there are, 1 or more")
        return ServerClass(int(count), capacity)

    def _calculator(self, node: yaml.Node | None) -> str | None:
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.value not in ("dominant", *self.capacity):
            self.fail(node, f"calculator: write dominant or one of {', '.join(self.capacity)}")
        return None if node.value == "dominant" else str(node.value)

    def _headroom(self, fields: dict[str, yaml.Node]) -> bool:
        node = fields.get("headroom")
        if node is None:
            return False
        if not isinstance(node, yaml.ScalarNode) or node.value not in ("true", "false"):
            self.fail(node, "headroom: write true or false")
        if "servers" not in fields:
            self.fail(node, "headroom: a divisible pool needs none; remove it, or describe servers")
        return bool(node.value == "true")

    def _events(self, node: yaml.Node | None, tree: Tree) -> tuple[Event, ...]:
        if node is None:
            return ()
        below = _leaves_below(tree)
        present = {leaf.name for leaf in tree.leaves}
        events = []
        for item in self._items(node, "events"):
            fields = self._fields(item, "events", ("leave", "join", "tasks"))
            if len(fields) != 1:
                self.fail(item, "events: each event is one of leave: NAME, join: NAME, tasks: {LEAF: number}")
            ((kind, value),) = fields.items()
            events.append(self._event(kind, value, below, present))
        return tuple(events)

    def _event(self, kind: str, value: yaml.Node, below: dict[str, tuple[str, ...]], present: set[str]) -> Event:
        tasks = None
        target = value
        if kind == "tasks":
            pairs = list(self._pairs(value, "events.tasks"))
            if len(pairs) != 1:
                self.fail(value, "events.tasks: name one leaf and its number of tasks, as in {n1.1: 5}")
            target, number = pairs[0]
            tasks = self._whole(number, "events.tasks")
        if not isinstance(target, yaml.ScalarNode) or target.value not in below:
            hint = nearest(target.value, below) if isinstance(target, yaml.ScalarNode) else ""
            self.fail(value, f"events.{kind}: no such node in the tree; write the name of a leaf or group of it{hint}")
        name = target.value
        leaves = below[name]
        if kind == "tasks" and leaves != (name,):
            self.fail(value, f"events.tasks: {name} is a group; name a leaf")
        if kind == "join":
            leaves = tuple(leaf for leaf in leaves if leaf not in present)
        elif kind == "leave":
            leaves = tuple(leaf for leaf in leaves if leaf in present)
        if not leaves:
            self.fail(value, f"events.{kind}: {name} has {'left' if kind == 'leave' else 'not left'} at that point")
        if kind != "tasks":
            present ^= set(leaves)
        return Event(kind, name, leaves, tasks)

    # -- pieces ---------------------------------------------------------------------------------------------------

    def _items(self, node: yaml.Node, field: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"{field}: write a list, as in [..., ...]")
        return list(node.value)

    def _pairs(self, node: yaml.Node, field: str) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{field}: write a mapping, as in {{name: value}}")
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.fail(key, f"{field}: a name must be plain text")
            if key.value in seen:
                self.fail(key, f"{field}: {key.value} is there twice; remove one or give it a name of its own")
            seen.add(key.value)
            yield key, value

    def _fields(self, node: yaml.Node, field: str, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        fields = {}
        for key, value in self._pairs(node, field):
            if key.value not in known:
                self.fail(
                    key,
                    f"{field}: unknown field {key.value}; the fields are {', '.join(known)}{nearest(key.value, known)}",
                )
            fields[key.value] = value
        return fields

    def _amounts(self, node: yaml.Node, field: str) -> dict[str, Fraction]:
        amounts = {}
        for key, value in self._pairs(node, field):
            amount = self._number(value, f"{field}.{key.value}")
            if amount < 0:
                self.fail(value, f"{field}.{key.value} is {amount}; write 0 or more")
            amounts[key.value] = amount
        return amounts

    def _whole(self, node: yaml.Node, field: str) -> int:
        number = self._number(node, field)
        if number < 0 or number.denominator != 1:
            self.fail(node, f"{field} is {number}; write a whole number, 0 or more")
        return int(number)

    def _number(self, node: yaml.Node, field: str) -> Fraction:
        """Return an exact number: 2, 0.5, 1e-3 or 1/3."""
        number = _exact(node.value) if isinstance(node, yaml.ScalarNode) else None
        if number is None:
            what = f"is {node.value}" if isinstance(node, yaml.ScalarNode) else "is not a number"
            self.fail(node, f"{field} {what}; write a finite number such as 2, 0.5 or 1/3, below 10^{LARGEST_EXPONENT}")
        return number


def _exact(text: str) -> Fraction | None:
    """Return the number that `text` writes; None if it writes none, or one of absurd size or length."""
    parts = text.split("/")
    if len(parts) > 2 or len(text) > 2 * MOST_DIGITS:
        return None
    numbers = []
    for part in parts:
        try:
            number = Decimal(part)
        except InvalidOperation:
            return None
        if not number.is_finite() or len(number.as_tuple().digits) > MOST_DIGITS:
            return None
        if number and abs(number.adjusted()) >= LARGEST_EXPONENT:
            return None
        numbers.append(Fraction(number) if number else Fraction(0))
    if len(numbers) == 1:
        return numbers[0]
    return numbers[0] / numbers[1] if numbers[1] else None


def _leaves_below(tree: Tree) -> dict[str, tuple[str, ...]]:
    below: dict[str, tuple[str, ...]] = {}
    for node in reversed(list(tree.nodes())):
        if isinstance(node, Leaf):
            below[node.name] = (node.name,)
        else:
            below[node.name] = tuple(name for child in node.children for name in below[child.name])
    return below


LEAVES_MAX: Final = 200
"""For the algorithms of `AS_TASKS_END`: their work grows with the square of the leaves, and by rounds."""


@dataclass(frozen=True)
class LeafResult:
    """What a leaf gets: tasks, resources by name, and its dominant share (0 to 1) of the cluster."""

    tasks: Fraction
    resources: dict[str, Fraction]
    dominant_share: Fraction


@dataclass(frozen=True)
class Step:
    """The allocation after an event (None: at the start). A leaf that has left is there with nothing."""

    event: Event | None
    leaves: dict[str, LeafResult]
    settled: bool


def compute_steps(problem: Problem, algorithm: str) -> Iterator[Step]:
    """Return the allocation at the start and after each event, each the one that the algorithm leads to in the end.

    Raises:
        TreeError: the tree has more leaves than the algorithm can take.
    """
    tree = problem.tree
    if algorithm in AS_TASKS_END and len(tree.leaves) > LEAVES_MAX:
        raise TreeError(
            f"tree: {len(tree.leaves):,} leaves; {algorithm} lets the tasks of one leaf after another end and fills "
            f"the cluster again after each, which is for {LEAVES_MAX} leaves at most; others take them all"
        )
    absent: set[str] = set()
    yield _step(None, problem, tree, absent, algorithm)
    for event in problem.events:
        if event.kind == "leave":
            absent |= set(event.leaves)
        elif event.kind == "join":
            absent -= set(event.leaves)
        else:
            leaves = {leaf.name: leaf for leaf in tree.leaves if leaf.name in event.leaves}
            tree = tree.with_leaves({name: replace(leaf, tasks=event.tasks) for name, leaf in leaves.items()})
        yield _step(event, problem, tree, absent, algorithm)


def steps_json(algorithm: str, steps: list[Step]) -> dict[str, object]:
    """Return the steps as `treadle share --json` prints them; numbers become the nearest floats."""
    return {"algorithm": algorithm, "steps": [_step_json(step) for step in steps]}


def _step(event: Event | None, problem: Problem, tree: Tree, absent: set[str], algorithm: str) -> Step:
    present = tree.without(absent)
    if problem.servers:
        allocation = allocate_whole(
            present, problem.servers, algorithm, calculator=problem.calculator, headroom=problem.headroom
        )
    else:
        allocation = allocate_fluid(present, algorithm, problem.calculator)
    leaves = {leaf.name: _result(tree, leaf, allocation) for leaf in tree.leaves}
    return Step(event, leaves, allocation.settled)


def _result(tree: Tree, leaf: Leaf, allocation: Allocation) -> LeafResult:
    tasks = allocation.tasks.get(leaf.name, Fraction(0))
    resources = {name: tasks * leaf.demand.get(name, 0) for name in tree.resources}
    return LeafResult(tasks, resources, tasks * max(tree.demand_share(leaf)))


def _step_json(step: Step) -> dict[str, object]:
    event = None
    if step.event is not None:
        name = step.event.name
        event = {step.event.kind: name if step.event.tasks is None else {name: step.event.tasks}}
    leaves = {
        name: {
            "tasks": float(result.tasks),
            "resources": {resource: float(amount) for resource, amount in result.resources.items()},
            "dominant_share": float(result.dominant_share),
        }
        for name, result in step.leaves.items()
    }
    return {"event": event, "settled": step.settled, "leaves": leaves}


MOST_LEAVES = 19
MOST_STEPS = 12


def plot_steps(tree: Tree, algorithm: str, steps: Sequence[Step], titles: Sequence[str], target: Path) -> Path:
    """Draw a panel for each of the first 12 steps: what the 19 largest leaves and all others have of each resource."""
    from treadle_lab.plots import Line, Panel, panels  # only here: it imports numba

    steps = steps[:MOST_STEPS]
    names = _largest(steps)
    shown = []
    for step, title in zip(steps, titles, strict=False):
        rest = [name for name in step.leaves if name not in set(names)]
        parts = {name: [name] for name in names} | ({"all others": rest} if rest else {})
        points = {name: Line(list(tree.resources), _heights(tree, step, leaves)) for name, leaves in parts.items()}
        shown.append(Panel(points, "", "share of the cluster (%)", title))
    return panels(shown, target, algorithm)


def _largest(steps: Sequence[Step]) -> list[str]:
    peak = {name: max(step.leaves[name].dominant_share for step in steps) for name in steps[0].leaves}
    chosen = set(sorted(peak, key=lambda name: peak[name], reverse=True)[:MOST_LEAVES])
    return [name for name in peak if name in chosen]


def _heights(tree: Tree, step: Step, leaves: Sequence[str]) -> list[float]:
    held = {name: sum(step.leaves[leaf].resources[name] for leaf in leaves) for name in tree.capacity}
    return [float(100 * held[name] / amount) if amount else 0.0 for name, amount in tree.capacity.items()]
