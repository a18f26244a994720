"""`treadle bench claims`: its options, and what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from treadle.cli._console import console_for_tables
from treadle.cli._results import check_results, write_json

if TYPE_CHECKING:
    from treadle.lab.bench.claims_run import ClaimsResult

app = typer.Typer()


@app.command()
def claims_command(
    masters: Annotated[int, typer.Option(help="Hostile application masters.")] = 50,
    users: Annotated[int, typer.Option(help="Their users; 0: one each.")] = 0,
    pairs: Annotated[int, typer.Option(help="Slices without and with hostile masters, in turn.")] = 20,
    seconds: Annotated[float, typer.Option(help="How long a slice is measured.")] = 3.0,
    policy: Annotated[Path | None, typer.Option(help="A treadle.yaml; graphene's if not given.")] = None,
    address: Annotated[str, typer.Option(help="Where the plan listener listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Its port.")] = 18047,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
) -> None:
    """How long decides take while hostile application masters send all they can, over how long without.

    The AMs share this machine's processors, at the lowest priority.
    """
    from treadle.admin.install import ready_made
    from treadle.config.reader import read_settings, refuse_engines
    from treadle.config.settings import Listener
    from treadle.lab.bench import claims_run
    from treadle.lab.bench.sls_load import BenchError
    from treadle.policy.catalogue import register_parts

    if min(masters, pairs, seconds) <= 0 or users < 0 or masters > 1_000:
        raise BenchError("--masters (at most 1000), --pairs and --seconds must be above 0")
    check_results(json_file, None)
    register_parts()
    settings = read_settings(policy or ready_made()["graphene"])
    refuse_engines(settings, "this benchmark")
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console) as shown:
        task = shown.add_task("starting", total=None)
        result = claims_run.run_claims(
            settings,
            Listener(address=address, port=port),
            masters,
            users or masters,
            pairs,
            seconds,
            lambda text: shown.update(task, description=text),
        )
    _print(result)
    if json_file is not None:
        write_json(json_file, claims_run.report(result))
        console.print(f"Results: {json_file}")


def _print(result: ClaimsResult) -> None:
    out = console_for_tables()
    for name, side in (("none", result.quiet), (str(result.masters), result.hostile)):
        out.print(
            f"{name} hostile: {side.decides:,} decides, p50 {side.p50_ms:.2f} ms, p99 {side.p99_ms:.2f} ms; "
            f"CPU of the thread p50 {side.p50_cpu_ms:.2f} ms, p99 {side.p99_cpu_ms:.2f} ms",
            highlight=False,
        )
    out.print(
        f"ratio: p50 {result.p50_ratio:.3f}, p99 {result.p99_ratio:.3f} (median of pairs "
        f"{result.p99_ratio_of_pairs:.3f}), p99 by CPU time {result.p99_cpu_ratio:.3f}",
        highlight=False,
    )
    became = ", ".join(f"{count:,} {name}" for name, count in sorted(result.requests.items()))
    out.print(
        f"requests: {became}; {result.told:,} request keys sent; listener {result.listener_mb:.0f} MB, "
        f"{result.listener_cpu:.2f} processors",
        highlight=False,
    )
    out.print(
        "The hostile masters run on this machine, at the lowest priority: those of a cluster run on other machines.",
        highlight=False,
    )
