"""`treadle reproduce`: run a paper's experiment, or jobs on a cluster and in the simulator, and compare."""

from __future__ import annotations

import typer

from treadle.cli._reproduce_agreement import agreement
from treadle.cli._reproduce_graphene import graphene
from treadle.cli._reproduce_graphene_cluster import graphene_cluster
from treadle.cli._reproduce_hdrf import hdrf
from treadle.cli._reproduce_slearn import slearn
from treadle.cli._reproduce_slearn_cluster import slearn_cluster

app = typer.Typer(no_args_is_help=True)
app.command()(agreement)
app.command()(graphene)
app.command("graphene-cluster")(graphene_cluster)
app.command()(hdrf)
app.command()(slearn)
app.command("slearn-cluster")(slearn_cluster)


@app.callback()
def reproduce() -> None:
    """Run a paper's experiment, or jobs on a cluster and in the simulator, and compare."""
