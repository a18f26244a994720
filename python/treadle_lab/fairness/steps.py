"""Shares of a queue tree described in a file, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, model_validator

from treadle.config.yaml_nodes import YamlDocument, details_of, explained, text_of
from treadle.errors import ConfigError, nearest
from treadle_lab.fairness import algorithms
from treadle_lab.fairness.fluid import Group, Leaf, Tree, TreeError

PAGE: Final = "docs/queue-shares.md"
ROOT: Final = "(root)"
CHARS_MAX: Final = 40
"""Maximum length of a number."""


@dataclass(frozen=True)
class Event:
    """The change between two steps: `kind` is leave, join or tasks; `leaves` are the affected leaves."""

    kind: str
    name: str
    leaves: tuple[str, ...]
    tasks: int | None = None


@dataclass(frozen=True)
class Problem:
    """A file's content. Without servers the cluster is one divisible pool."""

    tree: Tree
    servers: tuple[algorithms.ServerClass, ...] = ()
    events: tuple[Event, ...] = ()
    calculator: str | None = None
    headroom: bool = False


def _exact(value: Any) -> Fraction:
    """Return the number, 0 or more, that YAML has: 2, 0.5 or 1/3."""
    try:
        number = Fraction("" if isinstance(value, bool) or len(str(value)) > CHARS_MAX else str(value))
    except (ValueError, ZeroDivisionError):
        number = Fraction(-1)
    if number < 0:
        raise ValueError(f"{value!r}: write a finite number, 0 or more, such as 2, 0.5 or 1/3")
    return number


Amount = Annotated[Fraction, PlainValidator(_exact)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Node(_Model):
    weight: Amount = Fraction(1)
    children: dict[str, _Node] | None = Field(default=None, min_length=1)
    scheduler: Literal["fair", "fifo"] | None = None
    demand: dict[str, Amount] | None = None
    tasks: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _is_leaf_or_group(self) -> _Node:
        if (self.children is None) == (self.demand is None):
            raise ValueError("a leaf needs a demand, a group children: write one of them")
        if self.children is not None and self.tasks is not None:
            raise ValueError("only leaves run tasks: move them to a leaf")
        if self.demand is not None and self.scheduler is not None:
            raise ValueError("only groups have a scheduler: leave it out of a leaf")
        return self

    def built(self, name: str) -> Group | Leaf:
        """Return the node of this name."""
        if self.children is None:
            return Leaf(name, self.demand or {}, self.weight, self.tasks)
        children = tuple(child.built(below) for below, child in self.children.items())
        return Group(name, children, self.weight, self.scheduler or "fair")


class _Event(_Model):
    leave: str | None = None
    join: str | None = None
    tasks: dict[str, Annotated[int, Field(ge=0)]] | None = Field(default=None, min_length=1, max_length=1)

    @model_validator(mode="after")
    def _is_one(self) -> _Event:
        if len(self.model_fields_set) != 1:
            raise ValueError("each event is one of leave: NAME, join: NAME, tasks: {LEAF: number}")
        return self


class _Document(_Model):
    resources: dict[str, Amount] | None = Field(default=None, min_length=1)
    servers: tuple[dict[str, Amount], ...] = ()
    tree: dict[str, _Node] = Field(min_length=1)
    events: tuple[_Event, ...] = ()
    calculator: str = "dominant"
    headroom: bool = False

    @model_validator(mode="after")
    def _has_one_cluster(self) -> _Document:
        if (self.resources is None) == (not self.servers):
            raise ValueError("write either resources (one divisible pool) or servers (whole tasks)")
        if any(each.get("count", Fraction(0)).numerator < 1 or each["count"].denominator > 1 for each in self.servers):
            raise ValueError("servers: say by count how many servers of each class there are, 1 or more")
        if self.headroom and not self.servers:
            raise ValueError("headroom: a divisible pool needs none; leave it out, or describe servers")
        return self


def read_problem(path: Path) -> Problem:
    """Read and check a file.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong, with its line.
        TreeError: the tree makes no sense.
    """
    document = YamlDocument(str(path), text_of(path))
    if not isinstance(document.value, dict):
        raise ConfigError(str(path), [document.problem((), f"is not a mapping; write resources: and tree: ({PAGE})")])
    try:
        found = _Document.model_validate(document.value)
    except ValidationError as error:
        problems = [document.problem(each["loc"], explained(each, PAGE)) for each in details_of(error)]
        raise ConfigError(str(path), problems) from None
    servers = tuple(
        algorithms.ServerClass(int(each["count"]), {name: amount for name, amount in each.items() if name != "count"})
        for each in found.servers
    )
    capacity = algorithms.total_capacity(servers) if found.resources is None else found.resources
    if found.calculator not in ("dominant", *capacity):
        raise ConfigError(
            str(path), [document.problem(("calculator",), f"write dominant or one of {', '.join(capacity)}")]
        )
    tree = Tree(capacity, Group(ROOT, tuple(node.built(name) for name, node in found.tree.items())))
    calculator = None if found.calculator == "dominant" else found.calculator
    return Problem(tree, servers, _events(found.events, tree, document), calculator, found.headroom)


def _events(found: tuple[_Event, ...], tree: Tree, document: YamlDocument) -> tuple[Event, ...]:
    below = _leaves_below(tree)
    present = {leaf.name for leaf in tree.leaves}
    events = []
    for at, each in enumerate(found):
        (kind,) = each.model_fields_set
        name, tasks = next(iter(each.tasks.items())) if each.tasks else (each.leave or each.join or "", None)
        there = {"leave": present, "join": set(below) - present}.get(kind, {name})
        leaves = tuple(leaf for leaf in below.get(name, ()) if leaf in there)
        if kind == "tasks" and leaves != (name,):
            leaves = ()
        if not leaves:
            what = {"leave": "leaf that is there", "join": "leaf that has left", "tasks": "leaf"}[kind]
            text = f"{name}: there is no such {what}{nearest(name, below)}"
            raise ConfigError(document.file, [document.problem(("events", at, kind), text)])
        if kind != "tasks":
            present ^= set(leaves)
        events.append(Event(kind, name, leaves, tasks))
    return tuple(events)


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
    """The allocation of a leaf: tasks, resources by name, and its dominant share (0 to 1) of the cluster."""

    tasks: Fraction
    resources: dict[str, Fraction]
    dominant_share: Fraction


@dataclass(frozen=True)
class Step:
    """The allocation after an event (None: at the start). A leaf that has left is listed with nothing."""

    event: Event | None
    leaves: dict[str, LeafResult]
    settled: bool

    def as_json(self) -> dict[str, object]:
        """Return the step as `treadle lab share -o json` prints it; numbers become the nearest floats."""
        event = None
        if self.event is not None:
            name = self.event.name
            event = {self.event.kind: name if self.event.tasks is None else {name: self.event.tasks}}
        leaves = {
            name: {
                "tasks": float(result.tasks),
                "resources": {resource: float(amount) for resource, amount in result.resources.items()},
                "dominant_share": float(result.dominant_share),
            }
            for name, result in self.leaves.items()
        }
        return {"event": event, "settled": self.settled, "leaves": leaves}


def compute_steps(problem: Problem, algorithm: str) -> Iterator[Step]:
    """Return the allocation at the start and after each event, each the one that the algorithm leads to in the end.

    Raises:
        TreeError: the tree has more leaves than the algorithm can take.
    """
    tree = problem.tree
    if algorithm in algorithms.AS_TASKS_END and len(tree.leaves) > LEAVES_MAX:
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


def _step(event: Event | None, problem: Problem, tree: Tree, absent: set[str], algorithm: str) -> Step:
    present = tree.without(absent)
    if problem.servers:
        allocation = algorithms.allocate_whole(
            present, problem.servers, algorithm, calculator=problem.calculator, headroom=problem.headroom
        )
    else:
        allocation = algorithms.allocate_fluid(present, algorithm, problem.calculator)
    leaves = {leaf.name: _result(tree, leaf, allocation) for leaf in tree.leaves}
    return Step(event, leaves, allocation.settled)


def _result(tree: Tree, leaf: Leaf, allocation: algorithms.Allocation) -> LeafResult:
    tasks = allocation.tasks.get(leaf.name, Fraction(0))
    resources = {name: tasks * leaf.demand.get(name, 0) for name in tree.resources}
    return LeafResult(tasks, resources, tasks * max(tree.demand_share(leaf)))
