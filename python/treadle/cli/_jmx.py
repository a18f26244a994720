"""Beans of a ResourceManager, read from its page /jmx.

Whether Treadle schedules a cluster now, by the bean of its ResourceManager; if not, why.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from treadle.errors import UserError
from treadle.yarn.treadle_beans import why_not

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


def read_bean(rm: str, ca: Path | None = None, attribute: str = "Status") -> dict[str, Any]:
    """Return what an attribute of Treadle's bean holds: by default all numbers and texts.

    Over https it has to show a certificate that those in ``ca`` vouch for, or without it the machine's.

    Raises:
        UserError: there is no ResourceManager, or it is on standby, or it runs without Treadle.
    """
    from treadle.yarn import pages

    found = pages.read_treadle(rm, attribute, ca)
    if found is None:
        raise UserError(_why_missing(rm, ca))
    return found


def _why_missing(rm: str, ca: Path | None) -> str:
    """Return why a ResourceManager that answers has no such bean, and what to do."""
    from treadle.yarn import pages
    from treadle.yarn.pages import active_of

    url = pages.address_of(rm)
    state = pages.state_of(rm, ca)
    if moving := pages.passing(state):
        said = f"the ResourceManager at {url} is {moving}: nothing is scheduled"
        return f"{said}; ask again, or look at its log if it stays so"
    if state != "STANDBY":
        return (
            f"the ResourceManager at {url} has no bean Treadle: it runs without Treadle; look at "
            "yarn.resourcemanager.scheduler.class in its yarn-site.xml (treadle install), and at its log"
        )
    active = active_of(rm, ca)
    ask = (
        f"ask the active one: --rm {active}"
        if active
        else "ask the active one with --rm (yarn rmadmin -getAllServiceState)"
    )
    return f"the ResourceManager at {url} is on standby, where nothing is scheduled and no engine runs; {ask}"


WAIT_S: Final = 30.0
REFUSED_S: Final = 1.0
"""A refusal that lasts longer than this concerns the new policy, not the one before."""

_POLL_S: Final = 0.2


def confirm(rm: str, policy: str, pause: Callable[[float], None] = time.sleep, ca: Path | None = None) -> str:
    """Wait until a cluster is scheduled by a policy that its engine runs, and return a sentence for the user.

    In mode ``observe_only`` nothing is scheduled by any policy; the sentence says that.

    Raises:
        UserError: the cluster is not scheduled by it; the text says why.
    """
    refused, looks, bean = 0, int(WAIT_S / _POLL_S), dict[str, Any]()
    for _ in range(looks):
        bean = read_bean(rm, ca)
        reason = why_not(bean)
        if not reason:
            return f"the cluster runs {policy}"
        if bean.get("Mode") == "observe_only":
            return f"the engine proposes by {policy}; {reason}"
        refused = refused + 1 if bean.get("Refusal") else 0
        if refused * _POLL_S > REFUSED_S or "Schedules" not in bean:
            break
        pause(_POLL_S)
    raise UserError(f"the cluster does not run {policy}: {why_not(bean)}")
