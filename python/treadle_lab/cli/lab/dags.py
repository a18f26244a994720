"""`treadle lab dags`: generate DAGs to plan and to simulate."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._options import writing
from treadle.errors import UserError
from treadle_lab.dags import Instance, Shape, generate, write_instances

app = typer.Typer()
_DEFAULT = Shape()


@app.command()
def dags(
    seed: Annotated[str, typer.Option(help="One seed, or a range such as 1..100: a DAG each.")] = "1",
    machines: Annotated[int, typer.Option(help="Machines, with 1.0 of each resource.")] = _DEFAULT.machines,
    stages: Annotated[str, typer.Option(help="Stages of a DAG: a number or a range.")] = "20..50",
    tasks: Annotated[str, typer.Option(help="Tasks of a DAG, about: a number or a range.")] = "1000..3000",
    depth: Annotated[str, typer.Option(help="Layers of a DAG: a number or a range.")] = "5..9",
    out: Annotated[Path | None, typer.Option(help="A file instead of standard output.")] = None,
) -> None:
    """Write generated DAGs in the `dag` format, one a line; the same seed gives the same DAG."""
    shape = replace(
        _DEFAULT,
        machines=machines,
        stages=_range("--stages", stages),
        tasks=_range("--tasks", tasks),
        depth=_range("--depth", depth),
    )
    first, last = _range("--seed", seed, low=0)
    _write((generate(at, shape) for at in range(first, last + 1)), out)


def _write(instances: Iterable[Instance], out: Path | None) -> None:
    if out is None:
        write_instances(instances, sys.stdout)
        return
    with writing("--out", out, "file"), out.open("w", encoding="utf-8") as stream:
        write_instances(instances, stream)


def _range(option: str, text: str, low: int = 1) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", text)
    if match is None:
        raise UserError(f"{option}: {text!r}; give a number, or a range such as 1..100")
    first = int(match[1])
    last = int(match[2]) if match[2] is not None else first
    if not low <= first <= last:
        raise UserError(f"{option}: {text!r}; give numbers from {low} on, the lesser first")
    return first, last
