"""`treadle reproduce`: run a paper's experiment with the same engine, and show its figures beside the paper's."""

from __future__ import annotations

import typer

from treadle.cli._reproduce_hdrf import hdrf
from treadle.cli._reproduce_slearn import slearn
from treadle.cli._reproduce_slearn_cluster import slearn_cluster

app = typer.Typer(no_args_is_help=True)
app.command()(hdrf)
app.command()(slearn)
app.command("slearn-cluster")(slearn_cluster)


@app.callback()
def reproduce() -> None:
    """Run a paper's experiment with the same engine, and show its figures beside the paper's."""
