"""SLearn on the testbed: a real ResourceManager with 150 simulated nodes plays the draws of Google's trace.

The policy that ships (conf/policies/slearn.yaml) against 3Sigma, both baselines, and stock fair and FIFO. Durations and
gaps are compressed by `TIMES`, and with them SLearn's thresholds and time-outs. A node runs one task at a time. What
3Sigma expects of a job it says when the job comes, in a tag that a part from a file reads; its levels and its fit are
those of the policy that ships.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np
import yaml

from treadle.shipped import ready_made
from treadle_lab.papers.slearn.schemes import TITLES as SCHEME_TITLES
from treadle_lab.papers.slearn.trace import Trace
from treadle_lab.rows import Layout, Results, Row
from treadle_lab.sls.play import (
    Cluster,
    Draw,
    Player,
    Scheduling,
    Script,
    ScriptedJob,
    facts_of,
    map_reduce,
    pace_table,
)

TIMES: Final = 0.005
"""Durations in the testbed over those of the trace."""
GOAL: Final = 1.3
"""3Sigma's mean completion time, by the paper's letter, over SLearn's."""
OURS: Final = "slearn"
BASELINES: Final = ("3sigma-paper", "3sigma")
NAMES: Final = (OURS, *BASELINES, "fair", "fifo")
"""Names of all schemes."""
THRESHOLD_MS: Final = 1_000_000
PILOT_TIMEOUT_MS: Final = 600_000
HOLD_TIMEOUT_MS: Final = 1_800_000
"""Default time-out of the shipped policy, in ms."""

TASK: Final = {"memory-mb": 1024, "vcores": 100}
MASTER_MB: Final = 8
MASTERS: Final = 60
"""Additional application masters per node, next to its one task."""
TAG: Final = "treadle:told="
_PART: Final = f'''\
"""How long a job's tasks are expected to run, as its tag says; written by treadle lab reproduce slearn."""

import numpy as np


class Told:
    def __init__(self):
        self.known = {{}}

    def durations_ms(self, view):
        found = np.full(len(view.requests), np.nan)
        for at in np.flatnonzero(view.requests["application"] >= 0):
            number = int(view.requests["application"][at])
            key = (int(view.applications["cluster_timestamp"][number]), int(view.applications["id"][number]))
            if key not in self.known:
                said = [tag for tag in view.tags(number) if tag.startswith("{TAG}")]
                self.known[key] = float(said[0][{len(TAG)}:]) if said else np.nan
            found[at] = self.known[key]
        return found
'''


@dataclass(frozen=True, slots=True)
class WideDraw(Draw):
    """A draw of jobs, and which of them have three tasks or more."""

    wide: tuple[bool, ...]


def cluster_of(nodes: int) -> Cluster:
    """Return the testbed's nodes: a task takes what application masters have no use for."""
    memory_mb, vcores = TASK["memory-mb"] + MASTERS * MASTER_MB, TASK["vcores"] + MASTERS
    return Cluster(nodes, memory_mb, vcores, heartbeat_ms=200, least_mb=MASTER_MB)


def policies(folder: Path) -> list[Scheduling]:
    """Return the schemes; the part of a policy that reads tags is written into ``folder``."""
    shipped = yaml.safe_load(ready_made()["slearn"].read_text("utf-8"))
    policy = shipped["policy"]
    compressed = {"first_threshold_ms": round(TIMES * THRESHOLD_MS)}
    policy["order"] |= compressed
    policy["gate"] |= {
        "pilot_timeout_ms": round(TIMES * PILOT_TIMEOUT_MS),
        "hold_timeout_ms": round(TIMES * HOLD_TIMEOUT_MS),
    }
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "told.py"
    part.write_text(_PART, encoding="utf-8")
    estimate = {"kind": "file", "path": str(part.resolve()), "class": "Told", "default_ms": 1}
    by_history = {
        "policy": {
            "share": policy["share"],
            "order": {"kind": "mlfq", "size": "estimated_total", **compressed},
            "fit": policy["fit"],
            "estimate": estimate,
        }
    }
    return [
        Scheduling(OURS, yaml.safe_dump(shipped)),
        *(Scheduling(name, yaml.safe_dump(by_history)) for name in BASELINES),
        Scheduling("fair", ordering="fair"),
        Scheduling("fifo"),
    ]


def script_of(trace: Trace, estimator: str) -> Script:
    """Return a draw's jobs as the testbed plays them; tags have the estimates of ``estimator``, if it is not empty."""
    said = trace.hints[estimator].duration_ms if estimator else np.zeros(len(trace.workload.jobs))
    jobs = []
    for number, (job, expected_ms) in enumerate(zip(trace.workload.jobs, said.tolist(), strict=True)):
        durations = np.maximum(1, np.rint(TIMES * np.asarray(job.dag.stages[0].durations()))).astype(int)
        tags = (f"{TAG}{max(1, round(TIMES * expected_ms))}",) if estimator else ()
        stages = map_reduce(durations.tolist(), TASK)
        at_ms = round(TIMES * job.arrival_ms)
        jobs.append(ScriptedJob(f"job {number}", at_ms, stages, master_mb=MASTER_MB, tags=tags))
    return Script(tuple(jobs))


def run_draw(trace: Trace, nodes: int, names: Sequence[str], turn: int, player: Player) -> WideDraw:
    """Play a draw under schemes: see `Player.draw`.

    Raises:
        BenchError: a run gave no result.
    """
    schemes = [scheme for scheme in policies(player.folder) if scheme.name in names]

    def script(scheme: Scheduling) -> Script:
        return script_of(trace, scheme.name if scheme.name in BASELINES else "")

    runs = player.draw(schemes, script, cluster_of(nodes), trace.seed, turn)
    return WideDraw(trace.seed, runs, tuple(trace.wide.tolist()))


TITLES: Final = SCHEME_TITLES | {"fair": "stock, fair ordering", "fifo": "stock, FIFO"}
LAYOUTS: Final = {"slearn-testbed": Layout("Mean completion times of jobs on the testbed over SLearn's")}


def results_of(draws: Sequence[WideDraw], nodes: int) -> Results:
    """Return everything."""
    rows = [row for draw in draws for name in draw.runs if name != OURS for row in _rows(draw, name)]
    facts = facts_of(draws) | {"nodes": nodes, "times": TIMES, "goal": {f"{BASELINES[0]} over {OURS}": GOAL}}
    results = Results(LAYOUTS, {"slearn-testbed": rows}, facts, {"testbed-pace": pace_table(draws)})
    reached = results.figure("slearn-testbed", "all jobs", TITLES[BASELINES[0]])
    if reached.mean < GOAL:
        results.facts["shortfalls"].append(f"{BASELINES[0]} over SLearn: {reached}; expected: {GOAL}")
    return results


def _rows(draw: WideDraw, name: str) -> Iterator[Row]:
    for title, chosen in (("all jobs", [True] * len(draw.wide)), ("wide jobs alone", draw.wide)):
        theirs, ours = (
            list(compress((job.completion_ms for job in draw.runs[each].jobs), chosen)) for each in (name, OURS)
        )
        if ours:
            yield Row(title, TITLES[name], "", draw.seed, mean(theirs) / mean(ours), "1")
