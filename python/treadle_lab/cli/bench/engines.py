"""`treadle bench engines`: what a slow engine costs the jobs of a fast one next to it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables
from treadle.cli._options import check_results, write_json
from treadle_lab.bench import engines
from treadle_lab.bench.engines import PacedLoad
from treadle_lab.cli.bench.cluster import RunProgress, Seen, heap_mb_for, stall_allowed_s
from treadle_lab.rows import show
from treadle_lab.sls.load import BenchError, Workload, class_path
from treadle_lab.sls.run import Setting

app = typer.Typer()

QUICK_ROUNDS, QUICK_JOBS = 1, 150


@app.command()
def engines_command(
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One round of 150 jobs, or small loads of --sls.")] = False,
    sls: Annotated[bool, typer.Option("--sls", help="Copies of one engine instead: 1, 2 and 4.")] = False,
    rounds: Annotated[int, typer.Option(help="How often the modes take turns.")] = 5,
    jobs: Annotated[int, typer.Option(help="Short jobs that count in each run; 2,000 in five rounds.")] = 400,
    per_s: Annotated[float, typer.Option(help="How many of them come in a second, at random.")] = 5.0,
    warm_s: Annotated[float, typer.Option(help="Those that come before do not count.")] = 10.0,
    decision_s: Annotated[float, typer.Option(help="How long the slow engine decides.")] = 5.0,
    nodes: Annotated[int, typer.Option(help="Nodes of 10 GB and 10 cores; 0: 60, with --sls 1,000.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the load.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="Keep configuration, logs and measurements in this folder.")] = None,
) -> None:
    """What a slow engine costs the jobs of a fast one next to it, or what copies of an engine gain (--sls).

    Hadoop's load simulator with a real ResourceManager and real sidecars. Waits are from an ask to the first container
    that is committed for it, by the ResourceManager's clock.
    """
    if rounds < 1 or jobs < 10 or not 0 < decision_s <= 50 or warm_s < 0:
        raise BenchError("--rounds must be at least 1, --jobs 10, --warm-s 0; --decision-s above 0 and at most 50")
    check_results(json_file, None)
    if quick:
        rounds, jobs = QUICK_ROUNDS, min(jobs, QUICK_JOBS)
    size = nodes or (60 if not sls else 200 if quick else 1_000)
    load = PacedLoad(size, jobs + round(warm_s * per_s), 3, 2_000, seed, per_s)
    setting = Setting(load, [], 0, stall_allowed_s(180.0, load))
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-")) if keep is None else keep.absolute()
    console = Console(stderr=True)
    with console.status("starting") as status:
        shown = RunProgress(status, _done)
        if sls:
            found, failed = _copies(size, quick, seed, setting, folder, shown)
        else:
            plan = engines.Plan(load, decision_s, rounds, 1000 * warm_s)
            found, failed = _beside(plan, setting, folder, shown)
    if json_file is not None:
        write_json(json_file, found)
        console.print(f"Results: {json_file}")
    for failure in failed:
        console.print(f"[red]failed[/]: {failure}", highlight=False)
    if failed:
        raise typer.Exit(1)
    if keep is None:
        shutil.rmtree(folder)


def _ready(setting: Setting, load: Workload) -> Setting:
    """Return the setting with heap and class path; last, since it may build for a minute."""
    return replace(setting, heap_mb=heap_mb_for(load, 0), class_path=class_path())


def _beside(plan: engines.Plan, setting: Setting, folder: Path, shown: RunProgress) -> tuple[dict[str, Any], list[str]]:
    outcome = engines.run_engines(plan, _ready(setting, plan.load), folder, shown.show)
    if failures := engines.failures_of(outcome):
        return engines.report(plan, outcome, [], {}), failures
    sides, ratios = engines.figures(plan, outcome)
    show(engines.sides_table(plan, sides, ratios), console_for_tables())
    return engines.report(plan, outcome, sides, ratios), []


def _copies(
    nodes: int, quick: bool, seed: int, setting: Setting, folder: Path, shown: RunProgress
) -> tuple[dict[str, Any], list[str]]:
    plan = engines.plan(nodes, quick, seed)
    found = engines.run_copies(plan, _ready(setting, plan.span), folder, shown.show)
    rows, out = [row for row in found if row.failure is None], console_for_tables(140)
    show(engines.copies_table(rows), out)
    for text in engines.shortfalls(rows):
        out.print(text, style="red", highlight=False)
    return engines.copies_report(plan, found), [f"{row.name}: {row.failure}" for row in found if row.failure]


def _done(seen: Seen) -> str:
    return f"{seen.get('attempts_ended', 0):,} jobs ended"
