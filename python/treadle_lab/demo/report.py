"""What the demo says at its end: tables, build/demo.json, and whether all is as it should be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from treadle.words import counted
from treadle_lab.demo.watch import RunningJob

_REJECTED = "Rejected"


@dataclass(frozen=True)
class JobResult:
    """A job's end.

    `containers` is counted from the RM's audit log; `placed_natively` is what anyone but the committer committed.
    """

    name: str
    framework: str
    state: str
    seconds: float
    containers: int
    placed_by_treadle: int
    placed_natively: int
    phase: str
    queue: str
    engine: str = ""
    """Of several engines the one that served it."""

    @classmethod
    def of(cls, running: RunningJob) -> JobResult:
        """Make the result of a job that has ended."""
        return cls(
            running.job.name,
            running.job.framework,
            running.state,
            round(running.seconds, 1),
            running.containers,
            running.placed.get("treadle", 0),
            running.placed.get("native", 0),
            running.job.phase,
            running.job.queue,
            running.engine,
        )

    @property
    def fault(self) -> str:
        """Say what is not as it should be; empty if all is."""
        if self.state != "SUCCEEDED":
            return f"{self.name} ended as {self.state}"
        if self.containers == 0:
            return f"{self.name} has no container in the RM's audit log"
        if self.phase != "kill" and self.containers != self.placed_by_treadle:
            containers = counted(self.containers, "container")
            return f"{self.name}: {containers}, of which Treadle placed {self.placed_by_treadle}"
        return ""


@dataclass(frozen=True)
class Report:
    """The whole demo's end."""

    jobs: list[JobResult]
    rejected: int
    rejected_by_reason: dict[str, int]
    commits: int
    decide_ms: dict[str, float]
    lease_flips: int
    faults: list[str]
    engines: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of several engines: what each follows and how much it has committed, by name."""

    @classmethod
    def of(
        cls, jobs: list[RunningJob], bean: dict[str, Any], faults: list[str], engines: Mapping[str, dict[str, Any]] = {}
    ) -> Report:
        """Put the report together from the jobs, Treadle's metrics and those of several engines."""
        results = [JobResult.of(running) for running in jobs]
        reasons = {
            key.removeprefix(_REJECTED): int(value)
            for key, value in bean.items()
            if key.startswith(_REJECTED) and key != _REJECTED and value
        }
        own = [result.fault for result in results if result.fault]
        return cls(
            jobs=results,
            rejected=int(bean.get(_REJECTED, 0)),
            rejected_by_reason=reasons,
            commits=int(bean.get("Committed", 0)),
            decide_ms={name: bean.get(f"Decide{name.upper()}Us", 0) / 1000 for name in ("p50", "p99")},
            lease_flips=int(bean.get("LeaseFlips", 0)),
            faults=own + faults,
            engines={
                name: {"policy": str(each.get("policy", "")), "committed": int(each.get("committed", 0))}
                for name, each in engines.items()
            },
        )

    def write(self, file: Path) -> None:
        """Write the report as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        document = asdict(self)
        if not self.engines:
            del document["engines"]
            for job in document["jobs"]:
                del job["engine"]
        file.write_text(json.dumps(document, indent=2) + "\n")

    def show(self, console: Console) -> None:
        """Print the report."""
        table = Table("job", "framework", "queue", "state", box=SIMPLE)
        for title in ("seconds", "containers", "by Treadle", "natively"):
            table.add_column(title, justify="right")
        table.add_column("engine" if self.engines else "phase")
        for job in self.jobs:
            counts = (job.containers, job.placed_by_treadle, job.placed_natively)
            table.add_row(
                *(job.name, job.framework, job.queue, job.state, f"{job.seconds:.1f}", *map(str, counts)),
                job.engine if self.engines else job.phase,
            )
        console.print(table)
        for name, engine in self.engines.items():
            said = f"engine {name}: {counted(engine['committed'], 'commit')}; {engine['policy']}"
            console.print(said, highlight=False, soft_wrap=True)
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(self.rejected_by_reason.items()))
        console.print(
            f"decide p50 {self.decide_ms['p50']:.2f} ms, p99 {self.decide_ms['p99']:.2f} ms; "
            f"{counted(self.commits, 'commit')}, {self.rejected} rejected{f' ({reasons})' if reasons else ''}; "
            f"lease flips {self.lease_flips}",
            highlight=False,
            soft_wrap=True,
        )
        for fault in self.faults:
            console.print(fault, style="red", highlight=False, soft_wrap=True)
