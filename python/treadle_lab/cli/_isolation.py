"""Clusters that other users of this machine cannot reach, or a warning that they can."""

from __future__ import annotations

import getpass

import typer
from rich.console import Console

from treadle_lab.harness import namespaces
from treadle_lab.minicluster.progress import saying
from treadle_lab.minicluster.runtime import gather


def isolate_if_possible() -> None:
    """Continue in a separate network namespace, or warn that there is none.

    Call it before a cluster starts and after all that needs a network: the command begins again in the namespace.
    """
    if failure := isolate():
        warn(f"a separate network namespace is not possible here: {failure}")


def isolate() -> str:
    """Continue in a separate network namespace; return why that is not possible, or nothing.

    The Hadoop runtime is gathered first, since Maven needs a network.
    """
    with saying(Console(stderr=True)) as say:
        gather(say)
    return namespaces.isolate()


def warn(reason: str) -> None:
    """Warn that other users can reach a cluster that starts, and say why or what helps."""
    text = f"warning: while this cluster runs, any local user can run commands as {getpass.getuser()}: {reason}"
    typer.echo(text, err=True)
