"""SLearn's evaluation, draw by draw and scheme by scheme, each run by itself: on several cores, and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from treadle_lab.harness.runs import Asked, digest_of, run_all, tell
from treadle_lab.papers.slearn.experiment import Outcome, run_model, run_scheme
from treadle_lab.papers.slearn.schemes import Scheme
from treadle_lab.papers.slearn.trace import Choices, Source, Trace


@dataclass(frozen=True, slots=True)
class Draws:
    """Where draws come from."""

    folder: Path
    jobs: int
    nodes: int
    choices: Choices

    def trace(self, seed: int) -> Trace:
        """Return a draw, which a process makes once.

        Raises:
            WorkloadError: the extract is missing or wrong.
        """
        return _trace(self, seed)


@lru_cache(maxsize=1)
def _source(draws: Draws) -> Source:
    return Source(draws.folder, draws.jobs, draws.nodes, draws.choices)


@lru_cache(maxsize=64)
def _trace(draws: Draws, seed: int) -> Trace:
    return _source(draws).draw(seed)


@lru_cache(maxsize=1)
def _content(folder: Path) -> str:
    """Return a digest of the extract."""
    digest = hashlib.sha256()
    for file in sorted(each for each in folder.iterdir() if each.is_file()):
        digest.update(f"\n{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class SchemeRun:
    """A draw under a scheme."""

    draws: Draws
    seed: int
    scheme: Scheme
    model: bool
    """By the plain model, not by the engine."""

    @property
    def title(self) -> str:
        """What it is called when it fails."""
        return f"seed {self.seed}, {self.scheme.name}"

    @property
    def key(self) -> str:
        """The digest of all that it depends on."""
        own = asdict(self.draws) | {"folder": _content(self.draws.folder)}
        return digest_of(__name__, own, self.seed, asdict(self.scheme), self.model)


def run_one(wanted: SchemeRun) -> dict[str, Any]:
    """Run a draw under a scheme; return each job's completion and waiting time, and how long the simulation took."""
    run = run_model if wanted.model else run_scheme
    trace, nodes = wanted.draws.trace(wanted.seed), wanted.draws.nodes
    found = run(trace, wanted.scheme, nodes, lambda _, done, total: tell(done / max(total, 1)))
    waits_ms = None if found.wait_ms is None else found.wait_ms.tolist()
    return {"completion_ms": found.completion_ms.tolist(), "wall_s": found.wall_s, "wait_ms": waits_ms}


def run_draws(
    draws: Draws,
    seeds: Sequence[int],
    schemes: Sequence[Scheme],
    *,
    model: bool = False,
    asked: Asked | None = None,
    progress: Callable[[float, int], None] | None = None,
) -> list[Outcome]:
    """Run each draw under all schemes, on the engine in the simulator or, with ``model``, on the plain model.

    Args:
        draws: where they come from
        seeds: which
        schemes: what is compared
        model: takes the plain model
        asked: where results are kept, and how many run at a time; None: one at a time, in this process
        progress: called with the runs that are done, fractions included, and their number

    Raises:
        UserError: the extract is missing or wrong, or runs failed.
    """
    draws.trace(seeds[0])  # an error in the extract is reported once
    tasks = [SchemeRun(draws, seed, scheme, model) for seed in seeds for scheme in schemes]
    found = run_all(tasks, run_one, Asked(processes=1) if asked is None else asked, progress)
    outcomes = []
    for at, seed in enumerate(seeds):
        own = dict(zip((scheme.name for scheme in schemes), found[at * len(schemes) :], strict=False))
        completion_ms = {name: np.asarray(each["completion_ms"], np.float64) for name, each in own.items()}
        wall_s = {name: each["wall_s"] for name, each in own.items()}
        wait_ms = {name: np.asarray(each["wait_ms"], np.float64) for name, each in own.items() if each["wait_ms"]}
        outcomes.append(Outcome(draws.trace(seed), completion_ms, wall_s, wait_ms))
    return outcomes
