"""Options that many commands have, and the results' way to standard output, files and folders."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from treadle.config.trust import TRUST_OPTION
from treadle.errors import UserError, install_extra
from treadle.yarn.treadle_beans import silence

RmOption = Annotated[
    str,
    typer.Option(
        "--rm", envvar="TREADLE_RM", metavar="ADDRESS", help="The address of the ResourceManager's web pages."
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar="TREADLE_CA",
        help="Certificates (PEM) to trust over https instead of the machine's.",
        metavar="FILE",
    ),
]


class Output(StrEnum):
    """The form of a printed result."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Print a table, or JSON.")]

ConfigOption = Annotated[
    Path | None, typer.Option(help="The engine's treadle.yaml; without it the ResourceManager is asked.")
]
HadoopConfOption = Annotated[
    Path | None,
    typer.Option(
        envvar="HADOOP_CONF_DIR",
        help="The folder with the ResourceManager's yarn-site.xml and yarn-env.sh; else that of `treadle install`.",
    ),
]
PrefixOption = Annotated[
    Path | None,
    typer.Option(help="The folder of `treadle install`; default: the one found on this host, or /opt/treadle."),
]
YarnOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="Hadoop's `yarn`; else the one in the PATH or of HADOOP_HOME.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
ResultsOption = Annotated[Path | None, typer.Option("--out", help="A file for the results, as JSON.")]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="A folder for plots.")]
ProcessesOption = Annotated[
    int, typer.Option("--processes", min=0, max=1024, help="Processes that run at a time; 0: one a core.")
]
PlotFormatOption = Annotated[
    list[str] | None, typer.Option(help="png, pdf or svg; may be given several times.", show_default="png")
]

DEFAULT_RM: Final = "http://localhost:8088"

TrustOption = Annotated[
    bool,
    typer.Option(
        TRUST_OPTION,
        help="Run Python code that a recording, a scenario or a sweep names: only for files whose author you trust.",
    ),
]

KeepGoingOption = Annotated[
    bool,
    typer.Option(
        "--keep-going", help="A policy of which a part fails has no figures; go on with the others, then exit 1."
    ),
]


def json_text(document: object) -> str:
    """Return results as ``-o json`` prints them and ``--out`` writes them."""
    return json.dumps(document, indent=1, default=str)


def print_json(document: object) -> None:
    """Print the result of a command."""
    typer.echo(json_text(document))


def exit_if_silent(bean: Mapping[str, Any]) -> None:
    """Say so and exit with code 1 if no engine answers, by Treadle's bean.

    Raises:
        typer.Exit: none does.
    """
    if text := silence(bean):
        typer.echo(text, err=True)
        raise typer.Exit(1)


@contextmanager
def writing(option: str, place: Path, kind: Literal["file", "folder"]) -> Iterator[None]:
    """Convert an OSError inside into an error that names the option.

    Raises:
        UserError: the file or folder could not be written.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{option}: {place}: {error.strerror}; name a {kind} that can be written") from None


def check_writable(option: str, file: Path) -> None:
    """Check, before long work, that a file of results can be written; its content stays, and no empty file is left.

    Raises:
        UserError: it cannot be written.
    """
    with writing(option, file, "file"):
        make_folder_of(file)
        is_new = not file.exists() and not file.is_symlink()
        file.open("a", encoding="utf-8").close()
        if is_new:
            file.unlink()


def make_folder_of(file: Path) -> None:
    if not file.parent.exists():  # if the parent is not a folder, the write reports it more clearly
        file.parent.mkdir(parents=True)


def check_plotting() -> None:
    """See that plots can be drawn at all; before long work, and before a module that needs matplotlib is imported.

    Raises:
        UserError: matplotlib, an extra, is not installed.
    """
    try:
        with chdir("/"):  # as it is imported it follows a matplotlibrc of the current folder, which others may write
            importlib.import_module("matplotlib")
    except ImportError as error:
        raise UserError(f"--plot: needs matplotlib; {install_extra('plot')}, or leave --plot out") from error


def make_folder(folder: Path, option: str) -> None:
    """Make the folder that an option names before long work.

    Raises:
        UserError: it cannot be made.
    """
    with writing(option, folder, "folder"):
        folder.mkdir(parents=True, exist_ok=True)


def plot_formats(plot: Path | None, given: list[str] | None) -> tuple[str, ...]:
    """Return the formats of ``--plot-format``, each once; those of no plot are not looked at.

    Raises:
        UserError: one of them is none, or plots cannot be drawn.
    """
    if plot is None:
        return ()
    check_plotting()
    from treadle.plots import FORMATS

    for name in given or ():
        if name not in FORMATS:
            raise UserError(f"--plot-format: {name!r} is none of {', '.join(FORMATS)}")
    return tuple(dict.fromkeys(given or ("png",)))
