"""`treadle paths` (Cluster 12): show the paths of templates, policies and jars."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle.cli._console import print_result
from treadle.cli._options import Output, OutputOption
from treadle.errors import UserError, unknown
from treadle.tables import facts_table

app = typer.Typer()


@app.command()
def paths(
    name: Annotated[str, typer.Argument(help="Print only this path, for a script.")] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the paths of templates, policies and jars of this installation.

    conf: a folder with the lines for yarn-site.xml, a treadle.yaml and systemd's units. policies: the ready-made
    policies. shim: the ResourceManager's jar. requirements: the jar with TreadlePlacementAllocator. tez, spark: the
    jars for Tez application masters and Spark drivers.
    """
    from treadle import shipped

    places = {
        "conf": shipped.templates,
        "policies": shipped.policies_folder,
        "shim": shipped.shim_jar,
        "requirements": shipped.requirements_jar,
        "tez": shipped.tez_jar,
        "spark": shipped.spark_jar,
    }
    if name and name not in places:
        raise UserError(unknown(name, places))
    found = {each: str(place()) for each, place in places.items() if name in ("", each)}
    print_result(output, found, found[name] if name else facts_table(found.items()))
