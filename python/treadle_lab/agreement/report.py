"""How well a mini cluster and the simulator agree: shares while they are settled, and when jobs are done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.box import SIMPLE
from rich.table import Table

from treadle.tables import empty_table
from treadle_lab.agreement.experiment import Both
from treadle_lab.agreement.trace import Trace
from treadle_lab.agreement.workload import JOBS, LEAVES, LONGEST_S

__all__ = ["COMPLETION_BOUND", "TOLERANCE", "Phase", "completion_errors", "document", "misses", "phases", "table"]

TOLERANCE: Final = 1.0
"""How many containers a leaf's shares may differ by."""
COMPLETION_BOUND: Final = 0.15
"""By what part of a job's completion time on the cluster the simulator's may differ."""
SETTLING_S: Final = LONGEST_S + 4.0
"""After this long every task that ran when a job came has ended, and its container has its new owner."""
GRID_S: Final = 0.1


@dataclass(frozen=True)
class Phase:
    """A stretch of time in which the same jobs want more than they have.

    `real` and `simulated` have the median number of containers of each leaf.
    """

    title: str
    real: dict[str, float]
    simulated: dict[str, float]

    @property
    def difference(self) -> float:
        """The largest difference of any leaf."""
        return max(abs(self.real[leaf] - self.simulated[leaf]) for leaf in LEAVES)


def windows(trace: Trace) -> list[tuple[float, float]]:
    """Return when shares are settled: before the late jobs come, and until one of them is given its last container."""
    early = [trace.jobs[job.name] for job in JOBS if not job.late]
    late = [trace.jobs[job.name] for job in JOBS if job.late]
    come, there = min(job.begin_s for job in late), max(job.begin_s for job in late)
    satisfied = min(job.all_given_s for job in trace.jobs.values())
    return [(max(job.begin_s for job in early) + SETTLING_S, come), (there + SETTLING_S, satisfied)]


def phases(both: Both) -> list[Phase]:
    """Return the shares in each settled stretch; the two are each cut at their own events."""
    titles = ("a1 alone", "a1, a2, b1 and c1")
    found = zip(titles, windows(both.real), windows(both.simulated), strict=True)
    return [
        Phase(title, _medians(both.real, *real), _medians(both.simulated, *simulated))
        for title, real, simulated in found
    ]


def _medians(trace: Trace, begin_s: float, end_s: float) -> dict[str, float]:
    steps = max(int((end_s - begin_s) / GRID_S), 1)
    seconds = [begin_s + GRID_S * step for step in range(steps)]
    return {leaf: float(median(trace.containers(leaf, seconds))) for leaf in LEAVES}


def completion_errors(both: Both) -> dict[str, float]:
    """Return for each job by what part the simulator's completion time is longer (or shorter) than the cluster's."""
    real, simulated = both.real.jobs, both.simulated.jobs
    return {name: simulated[name].completion_s / job.completion_s - 1 for name, job in real.items()}


def mean_difference(both: Both) -> float:
    """Return by how many containers a leaf differs on average, over the whole run, transitions included."""
    steps = int(max(both.real.end_s, both.simulated.end_s) / GRID_S) + 1
    seconds = [GRID_S * step for step in range(steps)]
    pairs = ((both.real.containers(leaf, seconds), both.simulated.containers(leaf, seconds)) for leaf in LEAVES)
    return sum(abs(a - b) for real, simulated in pairs for a, b in zip(real, simulated, strict=True)) / (
        steps * len(LEAVES)
    )


def misses(both: Both) -> list[str]:
    """Say in what the two do not agree."""
    found = [
        f"{both.policy}, {phase.title}: {leaf} has {phase.real[leaf]:g} containers, {phase.simulated[leaf]:g} simulated"
        for phase in phases(both)
        for leaf in LEAVES
        if abs(phase.real[leaf] - phase.simulated[leaf]) > TOLERANCE
    ]
    found += [
        f"{both.policy}: the completion time of {name} is off by {error:+.1%}"
        for name, error in completion_errors(both).items()
        if abs(error) > COMPLETION_BOUND
    ]
    return found


def table(runs: Sequence[Both]) -> Table:
    """Return shares and completion times of both, side by side."""
    shown = empty_table(
        "Mini cluster and simulator", ("policy", "what"), ("cluster", "simulator", "difference"), box=SIMPLE
    )
    for both in runs:
        policy = both.policy
        for phase in phases(both):
            counts = (", ".join(f"{each[leaf]:g}" for leaf in LEAVES) for each in (phase.real, phase.simulated))
            what = f"containers of {', '.join(LEAVES)}: {phase.title}"
            shown.add_row(policy, what, *counts, f"{phase.difference:g}")
            policy = ""
        for name, error in completion_errors(both).items():
            times = (f"{trace.jobs[name].completion_s:.1f} s" for trace in (both.real, both.simulated))
            shown.add_row("", f"completion of {name}", *times, f"{error:+.1%}")
        shown.add_row(
            "",
            "containers of a leaf, whole run, mean difference",
            "",
            "",
            f"{mean_difference(both):.2f}",
            end_section=True,
        )
    return shown


def document(runs: Sequence[Both]) -> dict[str, Any]:
    """Return everything for `--json`."""
    return {
        "tolerance": TOLERANCE,
        "completion_bound": COMPLETION_BOUND,
        "runs": [
            {
                "policy": both.policy,
                "master_start_s": both.master_start_s,
                "launch_ms": both.launch_ms,
                "placed": both.placed,
                "phases": [asdict(phase) for phase in phases(both)],
                "completion_errors": completion_errors(both),
                "mean_difference": mean_difference(both),
                "cluster": {name: asdict(job) for name, job in both.real.jobs.items()},
                "simulator": {name: asdict(job) for name, job in both.simulated.jobs.items()},
            }
            for both in runs
        ],
    }


STEP_S = 0.1


def plot_agreement(runs: Sequence[Both], target: Path) -> None:
    """Write one chart: a panel for each policy, lines for the cluster, dotted ones for the simulator."""
    from matplotlib.figure import Figure  # only here: matplotlib is an extra

    figure = Figure(figsize=(9, 3.2 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for panel, both in zip(panels, runs, strict=True):
        steps = int(max(both.real.end_s, both.simulated.end_s) / STEP_S) + 2
        seconds = [STEP_S * step for step in range(steps)]
        for place, leaf in enumerate(LEAVES):
            real, simulated = both.real.containers(leaf, seconds), both.simulated.containers(leaf, seconds)
            panel.plot(seconds, real, color=f"C{place}", linewidth=1.2, label=f"{leaf}, cluster")
            panel.plot(seconds, simulated, color=f"C{place}", linewidth=1.2, linestyle=":", label=f"{leaf}, simulator")
        panel.set_title(both.policy, fontsize=10, loc="left")
        panel.set_ylabel("containers of tasks")
        panel.set_ylim(bottom=-0.3)
    panels[-1].set_xlabel("seconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    figure.savefig(target, dpi=150)
