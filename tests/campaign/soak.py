"""Part soak: applications come and go in Hadoop's load simulator, and RM and sidecar must not grow.

The oracle: the RM's live heap (what a class histogram counts, which collects first), the sidecar's resident memory,
and threads and open files of both, each a straight line over the number of applications that ended, after the first
tenth. Slope and correlation are kept. A sidecar that is replaced would hide what the one before it had lost, so that is
a finding too. The simulator's own objects are in the RM's heap, all of them from the start.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
from tests.campaign.clusters import folder
from tests.campaign.slices import Slice
from tests.campaign.trend import trend

from treadle_lab.minicluster.settings import java_home
from treadle_lab.sls.run import MODES, Run, Setting, Workload, class_path, simulate

NODES = 40
TASKS = 4
TASK_MS = 1000
APPLICATIONS_PER_S = 8
"""Well below what the nodes can run, so that none waits for long."""

LOOK_EVERY_S = 5.0
HEAP_MB = 2048
COMPLETED_KEPT = 100
"""Applications that the RM remembers after their end: fewer than the first tenth."""


@dataclass(frozen=True)
class Stream(Workload):
    """Jobs that come one after another, not all at once."""

    def trace(self) -> dict[str, Any]:
        """Return the trace with the submissions spread evenly."""
        told = super().trace()
        seconds = max(1, self.jobs // APPLICATIONS_PER_S)
        for share in told["workloads"]:
            share["time_distribution"] = [{"time": second, "weight": 1} for second in range(1, seconds + 1)]
        return told


@dataclass(frozen=True)
class Planted:
    """A defect planted in one of the processes: what the JVM gets beside its own, or what runs as the sidecar."""

    jvm_options: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()
    sidecar: Path | None = None


@dataclass
class Watch:
    """Looks at both processes from time to time."""

    work: Slice
    looked_s: float = 0.0
    sidecar_pid: int = 0
    series: dict[str, list[float]] = field(default_factory=dict)

    def look(self, seen: dict[str, Any]) -> None:
        """Measure if it is time; called several times a second."""
        now = time.monotonic()
        if now - self.looked_s < LOOK_EVERY_S or seen.get("state") != "running":
            return
        java = [child for child in psutil.Process().children() if "SLSRunner" in " ".join(child.cmdline()[-12:])]
        sidecars = [child for each in java for child in each.children(recursive=True)]
        if not java or not sidecars:
            return
        self.looked_s = now
        rm, sidecar = java[0], max(sidecars, key=lambda each: each.memory_info().rss)
        if self.sidecar_pid not in (0, sidecar.pid):
            self.work.find(f"sidecar {self.sidecar_pid} was replaced by {sidecar.pid}: {seen.get('shim')}")
        self.sidecar_pid = sidecar.pid
        ended = float(seen.get("attempts_ended", 0))
        values = {
            "applications": ended,
            "rm_heap_mb": live_heap_mb(rm.pid),
            "rm_threads": rm.num_threads(),
            "rm_files": rm.num_fds(),
            "sidecar_mb": sidecar.memory_info().rss / 2**20,
            "sidecar_threads": sidecar.num_threads(),
            "sidecar_files": sidecar.num_fds(),
        }
        for name, value in values.items():
            self.series.setdefault(name, []).append(float(value))
        shown = ", ".join(f"{name} {value:.0f}" for name, value in values.items())
        self.work.say(f"{self.work.elapsed_s:5.0f} s  {shown}")


def live_heap_mb(pid: int) -> float:
    """Return what is alive in a JVM's heap, MB: counting it collects first."""
    jcmd = str(java_home() / "bin" / "jcmd")
    done = subprocess.run([jcmd, str(pid), "GC.class_histogram"], capture_output=True, text=True, timeout=120)
    total = next((line for line in reversed(done.stdout.splitlines()) if line.startswith("Total")), "")
    return int(total.split()[2]) / 2**20 if total else float("nan")


def judge(series: dict[str, list[float]], work: Slice) -> None:
    """Note the line of each series, and find those that grow."""
    x = series.get("applications", [])
    for name, values in series.items():
        if name == "applications":
            continue
        try:
            line = trend(x, values)
        except ValueError as error:
            work.find(f"{name}: {error}")
            continue
        work.sample(f"{name}_slope_per_1000", line.slope_per_thousand)
        work.sample(f"{name}_r", line.r)
        work.sample(f"{name}_last", values[-1])
        if not line.flat:
            work.find(
                f"{name} grows by {100 * line.growth:.0f} % (r {line.r:.2f}): {[round(value) for value in values]}"
            )


NOTHING = Planted()


def stream(work: Slice, jobs: int, planted: Planted = NOTHING) -> Run:
    """Run one stream of applications, and judge what was measured meanwhile."""
    settings = {"yarn.resourcemanager.max-completed-applications": str(COMPLETED_KEPT)}
    treadle = MODES["treadle"]
    mode = replace(treadle, yarn_settings={**treadle.yarn_settings, **settings})
    setting = Setting(
        Stream(nodes=NODES, jobs=jobs, tasks=TASKS, task_ms=TASK_MS, seed=work.seed),
        [*class_path(), *planted.jars],
        HEAP_MB,
        stall_s=120.0,
        jvm_options=planted.jvm_options,
        sidecar=planted.sidecar,
    )
    watch = Watch(work)
    done = simulate(mode, setting, folder(work.part, work.seed) / str(int(time.time())), watch.look)
    if done.failure:
        work.find(done.failure)
    judge(watch.series, work)
    return done


def run(work: Slice) -> None:
    """Run one stream of applications, no longer than the slice."""
    done = stream(work, min(int(work.options["applications"]), int(APPLICATIONS_PER_S * work.left_s * 0.7)))
    measured = done.measurements
    work.add("applications", int(measured.get("attempts_ended", 0)))
    work.add("containers", int(measured.get("commits", {}).get("total", 0)))
    shim = measured.get("shim") or {}
    for what, number in (
        ("applications did not finish", int(measured.get("attempts_not_finished", 0))),
        ("throwables escaped into overrides of the scheduler", int(shim.get("CaughtExceptions", 0))),
        ("proposals ended as INTERNAL_ERROR", int(shim.get("RejectedInternalError", 0))),
    ):
        if number:
            work.find(f"{number} {what}: {shim.get('LastError')}")
