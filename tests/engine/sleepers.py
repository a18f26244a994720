"""A cluster of two scarce resources, CPU and GPU, on which jobs sleep: memory and vcores are plentiful, as on YARN."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.engine.fake_rm import FakeRM

from treadle.config.parts import PARTS, Part
from treadle.config.settings import EngineReservation, Settings, default_settings
from treadle.engine import Engine
from treadle.policy.catalogue import BUILTIN_PARTS

SHARES = sorted(each.kind for each in BUILTIN_PARTS if each.part == "share" and each.kind != "file")
PLENTY = 1 << 20
ENDLESS = 100_000

Tree = Mapping[str, Any]
"""Names of queues, each with its children, or None for a leaf; "name:3" has weight 3."""


def sharing(kind: str, **parameters: Any) -> Settings:
    """Return the default settings with another share, and no node ever held."""
    settings = default_settings()
    found = PARTS.kinds("share")[kind]
    share = Part(found, found.parameters(**parameters))
    return replace(
        settings, policy=replace(settings.policy, share=share), engine_reservation=EngineReservation(nodes_max=0)
    )


class Sleepers:
    """Queues with a job of endless tasks in each leaf; tasks end when the test ends them."""

    def __init__(self, tree: Tree, nodes: int, cpu: int, gpu: int, settings: Settings) -> None:
        self.rm = FakeRM(counted=(1, 1, 1, 1))
        for at in range(nodes):
            self.rm.node(f"n{at}", (PLENTY, PLENTY, cpu, gpu))
        self.engine = Engine(settings)
        self.leaves: dict[str, int] = {}
        self.jobs: dict[str, int] = {}
        root = self.rm.queue(-1, (PLENTY,) * 4)
        self._add(root, tree, (PLENTY,) * 4)

    def _add(self, parent: int, tree: Tree, amounts: tuple[int, ...]) -> None:
        weights = {name: int(name.partition(":")[2] or 1) for name in tree}
        whole = sum(weights.values()) or 1
        for name, below in tree.items():
            guaranteed = tuple(amount * weights[name] // whole for amount in amounts)
            queue = self.rm.queue(parent, guaranteed)
            if below is None:
                self.leaves[name.partition(":")[0]] = queue
            else:
                self._add(queue, below, guaranteed)

    def begin(self, needs: Mapping[str, tuple[int, int]]) -> None:
        """Let a job join in each of some leaves, whose tasks need this of CPU and GPU, and place what can be."""
        for leaf, (cpu, gpu) in needs.items():
            self.join(leaf, cpu, gpu)
        self.tick()

    def join(self, leaf: str, cpu: int, gpu: int, tasks: int = ENDLESS) -> None:
        """Let a leaf's job begin to ask for tasks that each need so much."""
        if leaf not in self.jobs:
            self.jobs[leaf] = self.rm.application(self.leaves[leaf])
        self.rm.ask(self.jobs[leaf], 0, tasks, (1, 1, cpu, gpu))

    def leave(self, leaf: str) -> None:
        """Let a job ask for nothing more, and end its tasks."""
        self.rm.applications[self.jobs[leaf]].asks[0].count = 0
        self.rm.change(self.jobs[leaf])
        for at in reversed(range(len(self.rm.containers))):
            if self.rm.containers[at][0] == self.jobs[leaf]:
                self.rm.complete(at)

    def tick(self, limit: int = 10_000) -> int:
        """Let the engine place what it can, and the RM commit it; return how many containers there were."""
        return len(self.rm.turn(self.engine, 1000 * (self.rm.sequence + 1), limit))

    def churn(self, ends: int, seed: int = 1) -> None:
        """End tasks one by one, drawn at random; a job whose task ended asks for it again, and the engine decides."""
        rng = random.Random(seed)
        for _ in range(ends):
            self.end(rng.randrange(len(self.rm.containers)))
            self.tick()

    def end(self, container: int) -> None:
        """End one container; its job asks for it again."""
        application = self.rm.containers[container][0]
        self.rm.complete(container)
        self.rm.applications[application].asks[0].count += 1

    def tasks(self) -> dict[str, int]:
        """Return how many tasks of each leaf run."""
        running = Counter(application for application, _, _, _ in self.rm.containers)
        return {leaf: running[job] for leaf, job in self.jobs.items()}
