"""Runs the seeds of Graphene's evaluation by the runner of sweeps, several at a time; each simulation is kept."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from treadle.errors import UserError
from treadle.sweep.kept import result_bytes
from treadle.sweep.local import run_locally
from treadle_lab.harness.runs import Asked
from treadle_lab.papers.graphene.experiment import Experiment, Outcome, Sizes


@dataclass(frozen=True, slots=True)
class SeedRun:
    """All simulations of a seed."""

    tpch: Path | None
    sizes: Sizes
    cache: Path | None
    seed: int

    @property
    def key(self) -> str:
        """What distinguishes it from other seeds; it is not kept as a whole, since each of its simulations is."""
        return f"seed {self.seed}"


@lru_cache(maxsize=1)
def _experiment(tpch: Path | None, sizes: Sizes, cache: Path | None) -> Experiment:
    return Experiment(tpch, sizes, keep=cache)


def _run(wanted: SeedRun) -> tuple[bytes, bool]:
    try:
        return pickle.dumps(_experiment(wanted.tpch, wanted.sizes, wanted.cache).run(wanted.seed)), False
    except UserError as error:
        return result_bytes({"failure": str(error)}), True


def run_seeds(
    tpch: Path | None,
    sizes: Sizes,
    seeds: Sequence[int],
    asked: Asked,
    progress: Callable[[float, int], None] | None = None,
) -> list[Outcome]:
    """Return the results of each seed.

    Args:
        tpch: the folder of TPC-H's measured DAGs; None leaves that workload out
        sizes: how much is run
        seeds: which
        asked: where results of simulations are kept, and how many seeds run at a time
        progress: called with the seeds that are done, fractions included, and their number

    Raises:
        UserError: seeds failed, each of which is named; the others have run.
    """
    _experiment(tpch, sizes, asked.cache)  # an error in the data or the folder is reported once
    tasks = [SeedRun(tpch, sizes, asked.cache, seed) for seed in seeds]

    def tell_all(done: float) -> None:
        if progress is not None:
            progress(done, len(tasks))

    found: dict[int, Outcome] = {}
    failed = []
    with closing(run_locally(tasks, _run, asked.processes or os.cpu_count() or 1, tell_all)) as running:
        for each in running:
            seed = tasks[each.number].seed
            if each.failed:
                failed.append(f"seed {seed}: {json.loads(each.result)['failure']}")
            else:
                found[seed] = pickle.loads(each.result)  # noqa: S301 (of a process of our own)
    if failed:
        raise UserError("\n".join([*failed, f"{len(failed)} of {len(tasks)} seeds failed"]))
    return [found[seed] for seed in seeds]
