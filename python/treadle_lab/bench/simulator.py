"""Tasks a second that the simulator runs, and their report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from treadle.config.settings import Settings
from treadle.errors import percent
from treadle.simulator.scenario import ScenarioModel, jobs_of
from treadle.simulator.simulation import Simulation, warm_up
from treadle_lab.bench.engine import Result, measure_all
from treadle_lab.rows import Table

SLOTS: Final = 40
NODES: Final = (20, 200, 2000)
QUICK: Final = (20, 200)
TASKS_PER_SLOT: Final = 25
LOADS: Final[Mapping[str, tuple[int, bool]]] = {"containers": (200, False), "reuse": (8, True), "jobs": (0, False)}
"""By load: number of jobs, 0 for jobs of 40 tasks, and whether containers are reused."""
SHORT_JOBS_MAX: Final = 5000
"""Jobs of the load `jobs`: a table of applications is never emptied, so more of them measure that alone."""


def scenario_of(load: str, nodes: int) -> ScenarioModel:
    """Return the load on this many nodes."""
    jobs, reuse = LOADS[load]
    tasks = SLOTS * TASKS_PER_SLOT * nodes
    each = tasks // jobs if jobs else SLOTS
    jobs = jobs or min(tasks // SLOTS, SHORT_JOBS_MAX)
    span_s = 10.0 * jobs * each / (SLOTS * nodes)
    return ScenarioModel.model_validate(
        {
            "cluster": {
                "nodes": [
                    {
                        "count": nodes,
                        "resources": {"memory-mb": 4096 * SLOTS, "vcores": SLOTS},
                        "racks": max(nodes // 40, 1),
                    }
                ]
            },
            "queues": {"a": {"capacity": 50}, "b": {"capacity": 50}},
            "workload": {
                "generator": {
                    "jobs": jobs,
                    # they come somewhat faster than they can be served
                    "mean_gap_s": 0.8 * span_s / jobs,
                    "tasks": {"kind": "constant", "mean": each},
                    "duration_s": {"kind": "constant", "mean": 10},
                    "demand": {"memory-mb": 4096, "vcores": 1},
                }
            },
            "frameworks": {"tez_reuse": reuse},
            "decision": {"limit": 4096},
        }
    )


def measure(name: str, settings: Settings, load: str, nodes: int, seed: int = 1) -> Result:
    """Run one configuration without checks; kernels must be compiled.

    Rates are over CPU time, that of the only thread; ``parts`` are its fractions by component. ``events`` are those of
    the simulated cluster, such as ends of tasks and heartbeats with news.

    Raises:
        PolicyFailedError: a part of the policy failed.
    """
    scenario = scenario_of(load, nodes)
    run = Simulation(scenario, jobs_of(scenario, Path(), seed), settings, seed, check=False).run()
    tasks, containers = run.counts["tasks_done"], run.counts["containers"]
    total = max(sum(vars(run.profile).values()), 1e-9)
    return {
        "policy": name,
        "load": load,
        "nodes": nodes,
        "jobs": len(run.built.workload.jobs) - run.unfinished,
        "tasks": tasks,
        "containers": containers,
        "events": run.counts["events"],
        "decides": run.decides,
        "simulated_s": run.end_ms / 1000,
        "wall_s": run.wall_s,
        "cpu_s": run.cpu_s,
        "completions_per_s": tasks / max(run.cpu_s, 1e-9),
        "placements_per_s": containers / max(run.cpu_s, 1e-9),
        "parts": {part: spent / total for part, spent in vars(run.profile).items()},
        "warnings": run.warnings,
    }


def run_grid(
    policies: Mapping[str, Settings],
    loads: Sequence[str],
    nodes: Sequence[int],
    progress: Callable[[str], None],
    *,
    keep_going: bool = False,
) -> list[Result]:
    """Measure every policy under every load on every number of nodes.

    Raises:
        BenchError: a part of a policy failed and ``keep_going`` is not set.
    """

    def measured(name: str, settings: Settings, sizes: Mapping[str, Any]) -> Result:
        warm_up(settings)  # compiles once a version
        return measure(name, settings, **sizes)

    configurations = [{"load": load, "nodes": count} for load in loads for count in nodes]
    return measure_all(policies, configurations, measured, progress, keep_going=keep_going)


SHOWN: Final = 0.005
"""A part of the CPU time that is less in all runs has no column."""


def figures_table(results: Sequence[Result]) -> Table:
    """Return a table with a row for each run: its work, its speed, and its time by component."""
    measured = [result["parts"] for result in results if result["failure"] is None]
    parts = [name for name in (measured[0] if measured else ()) if any(of[name] >= SHOWN for of in measured)]
    figures = ("nodes", "tasks", "CPU s", "completions/s", "placements/s", "events/task", "decides", *parts)
    rows = [_row(result, parts) for result in results]
    return Table("the simulator: per second of CPU time, and where that went", ("policy", "load", *figures), rows, 2)


def _row(result: Result, parts: Sequence[str]) -> tuple[str, ...]:
    of = (result["policy"], result["load"], f"{result['nodes']:,}")
    if result["failure"] is not None:
        return (*of, "failed", *["-"] * (5 + len(parts)))
    return (
        *of,
        f"{result['tasks']:,}",
        f"{result['cpu_s']:.2f}",
        f"{result['completions_per_s']:,.0f}",
        f"{result['placements_per_s']:,.0f}",
        f"{result['events'] / max(result['tasks'], 1):.2f}",
        f"{result['decides']:,}",
        *(percent(result["parts"][name]) for name in parts),
    )
