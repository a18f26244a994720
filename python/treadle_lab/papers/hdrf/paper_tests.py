"""Tests A to D of the H-DRF paper (SoCC 2013, figures 4, 5, 7 and 9): trees, and who comes and goes.

The paper's CPU and GPU are two extra resource types of YARN, because YARN gives every container memory and a virtual
core: of those a node has so much that they are nobody's dominant resource.

Test D is the paper's on 49 servers with 196 CPU and as many GPU; here there are 20 of each. There leaves leave as their
2,000 tasks end, here when their shares have settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from treadle.fairness.tree import Group, Leaf, Tree
from treadle_lab.fairness.algorithms import allocate_fluid

__all__ = ["TESTS", "HdrfTest", "Step"]


@dataclass(frozen=True)
class Step:
    """Leaves that come and leaves that go at the same time; then the shares are given time to settle."""

    join: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What happens, in a few words."""
        came = f"{', '.join(self.join)} {'come' if len(self.join) > 1 else 'comes'}" if self.join else ""
        went = f"{', '.join(self.leave)} {'leave' if len(self.leave) > 1 else 'leaves'}" if self.leave else ""
        return ", ".join(part for part in (came, went) if part)


@dataclass(frozen=True)
class HdrfTest:
    """One of the paper's worked examples.

    Attributes:
        name: A, B, C or D.
        about: what the paper shows by it.
        node: CPU and GPU of one node.
        nodes: number of nodes.
        groups: for each group its leaves, each with what one of its tasks needs of CPU and GPU.
        steps: what happens.
        weights: of groups that have another than 1.
    """

    name: str
    about: str
    node: int
    nodes: int
    groups: Mapping[str, Mapping[str, tuple[int, int]]]
    steps: tuple[Step, ...]
    weights: Mapping[str, int] = field(default_factory=dict)

    @property
    def demands(self) -> dict[str, dict[str, int]]:
        """For each leaf what one of its tasks needs, by resource."""
        return {leaf: {"cpu": cpu, "gpu": gpu} for below in self.groups.values() for leaf, (cpu, gpu) in below.items()}

    @property
    def capacity(self) -> int:
        """CPU, and as many GPU, of the whole cluster."""
        return self.node * self.nodes

    @property
    def tree(self) -> Tree:
        """The tree as `treadle share` computes with it."""
        groups = []
        for group, below in self.groups.items():
            leaves = (Leaf(leaf, {"cpu": Fraction(cpu), "gpu": Fraction(gpu)}) for leaf, (cpu, gpu) in below.items())
            groups.append(Group(group, tuple(leaves), Fraction(self.weights.get(group, 1))))
        capacity = Fraction(self.capacity)
        return Tree({"cpu": capacity, "gpu": capacity}, Group("root", tuple(groups)))

    def shares(self, algorithm: str) -> list[dict[str, float]]:
        """After each step the tasks of the leaves that are there, as one of `fairness.ALGORITHMS` has it."""
        present: set[str] = set()
        shares = []
        for step in self.steps:
            present = (present | set(step.join)) - set(step.leave)
            tasks = allocate_fluid(self.tree.without(set(self.demands) - present), algorithm).tasks
            shares.append({leaf: float(count) for leaf, count in tasks.items()})
        return shares


TESTS: Mapping[str, HdrfTest] = MappingProxyType(
    {
        "A": HdrfTest(
            "A",
            "naive H-DRF starves n2.1",
            node=5,
            nodes=2,
            groups={"n1": {"n1.1": (1, 0)}, "n2": {"n2.1": (1, 0), "n2.2": (0, 1)}},
            steps=(
                Step(join=("n1.1",)),
                Step(join=("n2.1", "n2.2")),
                Step(leave=("n2.2",)),
                Step(join=("n2.2",)),
            ),
        ),
        "B": HdrfTest(
            "B",
            "blocked nodes need care",
            node=6,
            nodes=2,
            groups={
                "n1": {"n1.1": (1, 0)},
                "n2": {"n2.1": (1, 0)},
                "n3": {"n3.1": (1, 0), "n3.2": (0, 1)},
                "n4": {"n4.1": (0, 1)},
            },
            steps=(
                Step(join=("n1.1", "n2.1", "n3.1", "n3.2", "n4.1")),
                Step(leave=("n3.2",)),
                Step(join=("n3.2",)),
            ),
        ),
        "C": HdrfTest(
            "C",
            "n1.1 loses when n2.2 leaves",
            node=30,
            nodes=2,
            groups={"n1": {"n1.1": (3, 2)}, "n2": {"n2.1": (1, 1), "n2.2": (1, 3)}},
            steps=(Step(join=("n1.1", "n2.1", "n2.2")), Step(leave=("n2.2",)), Step(join=("n2.2",))),
        ),
        "D": HdrfTest(
            "D",
            "shares follow weights, and who leaves makes room for its siblings' and others' tasks",
            node=10,
            nodes=2,
            groups={"n1": {"n1.1": (1, 0), "n1.2": (0, 1)}, "n2": {"n2.1": (1, 0), "n2.2": (1, 0)}},
            steps=(Step(join=("n1.1", "n1.2", "n2.1", "n2.2")), Step(leave=("n1.1",)), Step(leave=("n2.2",))),
            weights={"n1": 4},
        ),
    }
)
"""By name."""
