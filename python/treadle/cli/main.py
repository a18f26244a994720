"""`treadle`: finds its commands among the modules next to this one.

A module ``treadle/cli/NAME.py`` is the command NAME: it has a Typer object called ``app``, and the first line of its
docstring is "`treadle NAME`: what it does". A folder ``treadle/cli/NAME`` is a group of such commands, NAME_OF is
NAME-OF on the command line. ``treadle_lab/cli`` has more of them, if it lies beside this package. Only the module of
the command that is called is imported, so that none pays for numba or for a plotting library that another needs.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from treadle import __version__
from treadle.errors import UserError, printable

EXIT_MISTAKE: Final = 2
FOLDER: Final = Path(__file__).parent
LABORATORY: Final = "treadle_lab"
"""The package of experiments: a checkout has it beside this package, the wheel does not."""


def main() -> None:
    """Run the command that the process's arguments name, and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    app = application(arguments)
    try:
        app(args=list(arguments), prog_name="treadle")
    except UserError as error:
        typer.echo("\n".join(map(printable, str(error).split("\n"))), err=True)  # it may quote what others wrote
        return EXIT_MISTAKE
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except BrokenPipeError:  # as in `treadle observe | head`
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        _give_up_output()
        typer.echo(f"treadle: the output cannot be written: {error.strerror}", err=True)
        return 1
    return _flushed()


def _flushed() -> int:
    """Write what waits on standard output; return the exit code: what is lost must not look as if it were there."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _give_up_output()
        if not isinstance(error, BrokenPipeError):
            typer.echo(f"treadle: the output cannot be written: {error.strerror}", err=True)
        return 1
    return 0


def _give_up_output() -> None:
    """Let nothing write to standard output any more: Python would try again as it exits, and print a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def commands(folder: Path = FOLDER) -> dict[str, str]:
    """Return the commands of a folder and what each does, without importing any."""
    found = {}
    for module in sorted([*folder.glob("[a-z]*.py"), *folder.glob("[a-z]*/__init__.py")], key=_name):
        if _name(module) != "main":
            with module.open(encoding="utf-8") as source:
                summary = source.readline().strip().rpartition("`: ")[2].removesuffix('"""')
            found[_name(module)] = summary[:1].upper() + summary[1:]
    return found


def _name(module: Path) -> str:
    stem = module.parent.name if module.stem == "__init__" else module.stem
    return stem.replace("_", "-")


def application(arguments: Sequence[str]) -> typer.Typer:
    """Return the commands; of a group only what the arguments call is imported, the rest is listed."""
    app = typer.Typer(
        help="Hadoop clusters scheduled by Python.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    words = [word for word in arguments if not word.startswith("-")]
    for package, folder in sources().items():
        _fill(app, folder, package, words)
    return app


def sources() -> dict[str, Path]:
    """Return the packages with commands, and their folders.

    The laboratory counts only where it lies beside this package: never a folder of that name somewhere else.
    """
    beside = FOLDER.parent.parent / LABORATORY / "cli"
    return {"treadle.cli": FOLDER} | ({f"{LABORATORY}.cli": beside} if beside.is_dir() else {})


def _fill(app: typer.Typer, folder: Path, package: str, words: Sequence[str]) -> None:
    """Add a folder's commands; that which is called, the first of ``words``, is imported, others only listed."""
    for name, summary in commands(folder).items():
        module = name.replace("-", "_")
        if name not in words[:1]:
            app.command(name, help=summary)(_not_called)
        elif (folder / module).is_dir():
            group = typer.Typer(help=summary, no_args_is_help=True)
            group.callback()(_group)
            _fill(group, folder / module, f"{package}.{module}", words[1:])
            app.add_typer(group, name=name)
        else:
            _add(app, name, import_module(f"{package}.{module}").app)


def _group() -> None:
    """Of a folder: makes it a group though it may have one command."""


def _add(app: typer.Typer, name: str, command: typer.Typer) -> None:
    """Add a command; what has a single function and no callback is that function, else a group."""
    if len(command.registered_commands) == 1 and command.registered_callback is None:
        function: Any = command.registered_commands[0].callback
        app.command(name)(function)
    else:
        app.add_typer(command, name=name)


def _not_called() -> None:
    """A placeholder for a command that only the help lists."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"treadle {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Hadoop clusters scheduled by Python."""
