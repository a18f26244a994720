"""`treadle bench cluster --backlog`: who places how many containers a second where nothing else bounds it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from treadle.cli._console import console_for_tables
from treadle_lab.bench.backlog import BacklogLoad, ModeRates, behind, best_stock, ratio, run_backlog
from treadle_lab.bench.table import figures_table
from treadle_lab.cli.bench._progress import RunProgress, Seen
from treadle_lab.sls.load import Mode
from treadle_lab.sls.run import Setting

_ROWS: Final = (
    ("containers_per_s", "containers/s", ",.0f"),
    ("scheduler_cpu_us", "scheduler CPU µs per container", ".1f"),
    ("link_cpu_us", "of it the link thread", ".1f"),
    ("frame_us", "of that frames, wall", ".1f"),
    ("commit_cpu_us", "of that commits with all checks", ".1f"),
    ("sidecar_cpu_us", "of it the sidecar", ".1f"),
    ("try_commit_cpu_us", "tryCommit alone, CPU µs", ".1f"),
    ("jvm_cpu_us", "RM and simulation, CPU µs per container", ".0f"),
    ("heartbeats_share", "heartbeats handled, of those due", ".0%"),
    ("heartbeat_p50_us", "heartbeat p50, µs", ",.0f"),
    ("heartbeat_p99_us", "heartbeat p99, µs", ",.0f"),
    ("decide_p50_us", "decide p50, µs", ",.0f"),
    ("decide_p99_us", "decide p99, µs", ",.0f"),
    ("decide_cpu_us", "sidecar CPU a decision, µs", ",.0f"),
    ("rejected", "rejected", ",.0f"),
    ("placed_natively", "placed natively", ",.0f"),
    ("least_free", "slots free, least", ".0%"),
)


def measure_backlog(
    modes: Sequence[Mode],
    setting: Setting,
    load: BacklogLoad,
    rounds: int,
    json_file: Path,
    keep: Path | None,
    profiles: Path | None,
) -> bool:
    """Run and show the benchmark; return whether every run came through."""
    console = Console(stderr=True)
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-")) if keep is None else keep.absolute()
    with console.status("starting") as status:
        shown = RunProgress(status, partial(_done, load))
        outcome = run_backlog(modes, setting, load, rounds, folder, json_file, shown.show, profiles)
    failures = [(each.mode.name, failure) for each in outcome for failure in each.failures]
    for name, failure in failures:
        console.print(f"[red]{name}[/]: {failure}", highlight=False)
    columns = {each.mode.name: each for each in outcome}
    console_for_tables().print(figures_table(_ROWS, columns, _figure, _ratios(outcome)))
    if late := behind(outcome):
        console.print(
            f"[yellow]{', '.join(late)}[/]: fewer than half of the heartbeats due were handled, so that nodes "
            "were silent for long and ends of containers came late: no result of "
            f"{load.nodes:,} nodes with a heartbeat every {load.heartbeat_ms:,} ms; try a longer --heartbeat-ms or "
            "--warm-s",
            highlight=False,
        )
    console.print(f"Results: {json_file}")
    if profiles is not None:
        console.print(f"Profiles: {profiles}")
    if keep is None and not failures:
        shutil.rmtree(folder)
    return not failures


def _figure(rates: ModeRates, name: str) -> float | None:
    return rates.median(name) if any(rates.rounds) else None


def _ratios(outcome: Sequence[ModeRates]) -> str:
    best = best_stock(outcome)
    lines = [f"best stock mode: {best or 'none ran'}; in brackets 95 % intervals over the rounds, if there are several"]
    for part, whole, figure, what in (
        ("treadle", best, "containers_per_s", "containers/s"),
        ("treadle", "floor", "containers_per_s", "containers/s"),
        ("floor", best, "containers_per_s", "containers/s"),
        ("treadle", best, "heartbeat_p99_us", "heartbeat p99"),
        ("treadle", best, "scheduler_cpu_us", "scheduler CPU"),
        ("observe", "sync", "containers_per_s", "containers/s"),
        ("observe", "sync", "jvm_cpu_us", "CPU of RM and simulation"),
    ):
        value = ratio(outcome, part, whole, figure)
        if value is not None:
            lines.append(f"{what}, {part} to {whole}: {value}")
    return "\n".join(lines)


def _done(load: BacklogLoad, seen: Seen) -> str:
    commits = seen.get("commits", {}).get("total", 0)
    if commits:
        return f"{commits:,} containers placed" + (", measuring" if seen.get("window") else ", warming up")
    return f"{seen.get('nodes', 0):,} of {load.nodes:,} nodes registered"
