"""Beans of a ResourceManager, read from its page /jmx."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from treadle.errors import UserError

RmOption = Annotated[str, typer.Option("--rm", envvar="TREADLE_RM", help="Address of the ResourceManager's web pages.")]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar="TREADLE_CA",
        help="Certificates (PEM) to trust over https instead of the machine's.",
        metavar="FILE",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON instead of a table.")]

DEFAULT_RM: Final = "http://localhost:8088"


def read_bean(rm: str, name: str, ca: Path | None = None) -> dict[str, Any]:
    """Return the attributes of the bean ``Hadoop:service=ResourceManager,name=NAME``.

    Over https it has to show a certificate that those in ``ca`` vouch for, or without it the machine's.

    Raises:
        UserError: there is no ResourceManager, or it is on standby, or it runs without Treadle.
    """
    from treadle.yarn import pages

    found = pages.read_beans(rm, name, ca)
    if not found:
        raise UserError(_why_missing(rm, name, ca))
    return found[0]


def _why_missing(rm: str, name: str, ca: Path | None) -> str:
    """Return why a ResourceManager that answers has no such bean, and what to do."""
    from treadle.yarn import pages
    from treadle.yarn.pairs import active_of

    url = pages.address_of(rm)
    state = pages.state_of(rm, ca)
    if moving := pages.passing(state):
        said = f"the ResourceManager at {url} is {moving}: nothing is scheduled"
        return f"{said}; ask again, or look at its log if it stays so"
    if state != "STANDBY":
        return (
            f"the ResourceManager at {url} has no bean {name}: it runs without Treadle; look at "
            "yarn.resourcemanager.scheduler.class in its yarn-site.xml (treadle install), and at its log"
        )
    active = active_of(rm, ca)
    ask = (
        f"ask the active one: --rm {active}"
        if active
        else "ask the active one with --rm (yarn rmadmin -getAllServiceState)"
    )
    return f"the ResourceManager at {url} is on standby, where nothing is scheduled and no engine runs; {ask}"
