"""`treadle`: finds its commands among the modules next to this one.

A module ``treadle/cli/NAME.py`` is the command NAME: it has a Typer object called ``app``, and its docstring's first
line is "`treadle NAME` (PANEL PLACE): " and a summary; `treadle --help` shows it in that panel. A folder
``treadle/cli/NAME`` is a group of such commands, without panels; NAME_OF is NAME-OF on the command line.
``treadle_lab/cli`` has more commands, if it is next to this package. Only the module of the called command is imported,
so that no command loads numba or a plotting library for another one.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from traceback import format_exception
from typing import Annotated, Any, Final, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, ParameterInfo

from treadle import __version__
from treadle.errors import UserError, printable

EXIT_MISTAKE: Final = 2
FOLDER: Final = Path(__file__).parent
LABORATORY: Final = "treadle_lab"
"""The package of experiments: a checkout has it next to this package, the wheel does not."""
_HEAD: Final = re.compile(r'"""`[^`]+`(?: \(([^)]+) (\d+)\))?: (.*?)(?:""")?\n')


def main() -> None:
    """Run the command that the process's arguments name, and exit."""
    sys.exit(run(sys.argv[1:]))


@dataclass(slots=True)
class Switches:
    """The options that every command has."""

    quiet: bool = False
    verbose: bool = False


switches = Switches()


def run(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    switches.quiet = switches.verbose = False
    app = application(arguments)
    try:
        app(args=list(arguments), prog_name="treadle")
    except UserError as error:
        if switches.verbose:
            typer.echo("".join(format_exception(error)), err=True)
        typer.echo("\n".join(map(printable, str(error).split("\n"))), err=True)  # it may quote texts of other users
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
    """Flush standard output; return the exit code, which is not 0 if output was lost."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _give_up_output()
        if not isinstance(error, BrokenPipeError):
            typer.echo(f"treadle: the output cannot be written: {error.strerror}", err=True)
        return 1
    return 0


def _give_up_output() -> None:
    """Redirect standard output to nothing: Python would flush it again at exit, and print a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@cache
def commands(folder: Path = FOLDER) -> dict[str, tuple[str, str]]:
    """Return the panel and the summary of each command of a folder, in the help's order, without importing any."""
    found = []
    for module in [*folder.glob("[a-z]*.py"), *folder.glob("[a-z]*/__init__.py")]:
        if _name(module) != "main":
            with module.open(encoding="utf-8") as source:
                head = _HEAD.match(source.readline())
            panel, place, summary = head.groups("") if head else ("", "", "")
            found.append((panel, int(place or 0), _name(module), summary[:1].upper() + summary[1:]))
    return {name: (panel, summary) for panel, _, name, summary in sorted(found)}


def panels() -> dict[str, list[str]]:
    """Return the commands by panel, in the order in which `treadle --help` shows them."""
    found: dict[str, list[str]] = {}
    for folder in sources().values():
        for name, (panel, _) in commands(folder).items():
            found.setdefault(panel, []).append(name)
    return found


def _name(module: Path) -> str:
    stem = module.parent.name if module.stem == "__init__" else module.stem
    return stem.replace("_", "-")


class Command(TyperCommand):
    """A command whose help shows no Python types."""

    def get_help(self, ctx: Any) -> str:
        """Return the help; the replacement of a type has its width, since the columns are already laid out."""
        text = re.sub(r"(?<=\S) <([\w .\[\]|-]+)>(?=  |$)", _plain, super().get_help(ctx), flags=re.MULTILINE)
        return re.sub(r"\bx>=([\d.]+)", r"at least \1", re.sub(r"([\d.]+)<=x<=([\d.]+)", r"\1 to \2", text))


def _plain(found: re.Match[str]) -> str:
    return f" {found[1]}  " if "|" in found[1] else " " * len(found[0])


class Group(TyperGroup):
    """A group of commands whose help shows the first sentence of each, whole; at the top they are in panels."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, as click's method of this name does."""
        for title, names in (panels() if ctx.parent is None else {"Commands": list(self.commands)}).items():
            with formatter.section(title):
                formatter.write_dl([(name, _first_sentence(self.commands[name].help or "")) for name in names])


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s+(?=[A-Z])", text.partition("\n\n")[0], maxsplit=1)[0]


def application(arguments: Sequence[str]) -> typer.Typer:
    """Return the commands; in a group, only the called command is imported, the others are listed."""
    app = typer.Typer(
        cls=Group,
        help="Schedule Hadoop clusters with Python.",
        epilog="`treadle COMMAND --help` describes a command. Exit codes: 0, success; 1, a check or a part of the work "
        "failed, or no engine answers; 2, wrong usage, a wrong file, or a server that does not answer; 130, Ctrl-C.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_with_shared(_root))
    completed = os.environ.get("_TYPER_COMPLETE_ARGS", os.environ.get("COMP_WORDS", "")).split()[1:]
    words = [word for word in arguments or completed if not word.startswith("-")]
    for package, folder in sources().items():
        _fill(app, folder, package, words)
    return app


def sources() -> dict[str, Path]:
    """Return the packages with commands, and their folders.

    The laboratory counts only next to this package: never a folder of that name somewhere else.
    """
    beside = FOLDER.parent.parent / LABORATORY / "cli"
    return {"treadle.cli": FOLDER} | ({f"{LABORATORY}.cli": beside} if beside.is_dir() else {})


def _fill(app: typer.Typer, folder: Path, package: str, words: Sequence[str]) -> None:
    """Add a folder's commands; that which is called, the first of ``words``, is imported, others only listed."""
    for name, (_, summary) in commands(folder).items():
        module = name.replace("-", "_")
        if name not in words[:1]:
            app.command(name, help=summary)(_not_called)
        elif (folder / module).is_dir():
            group = typer.Typer(help=summary, no_args_is_help=True)
            group.callback()(_group)
            _fill(group, folder / module, f"{package}.{module}", words[1:])
            app.add_typer(group, name=name, cls=Group)
        else:
            _add(app, name, import_module(f"{package}.{module}").app)


def _group() -> None:
    """Make a folder a group, even if it has a single command."""


def _add(app: typer.Typer, name: str, command: typer.Typer) -> None:
    """Add a command: a single function without a callback as a command, anything else as a group."""
    for each in command.registered_commands:
        if each.cls is Command:
            continue  # from an earlier run of this process
        each.cls = Command
        if "ignore_unknown_options" not in (each.context_settings or {}):  # those run commands that have options too
            each.callback = _with_shared(each.callback)
        _name_values(each.callback)
    if len(command.registered_commands) == 1 and command.registered_callback is None:
        function: Any = command.registered_commands[0].callback
        app.command(name, cls=Command)(function)
    else:
        app.add_typer(command, name=name, cls=Group)


def _name_values(function: Any) -> None:
    """Name the values of options by words in the help, instead of Python's types, if an option does not name them."""
    function.__annotations__ = get_type_hints(function, include_extras=True)  # evaluated once, for Typer too
    for name, annotation in function.__annotations__.items():
        kind, *facts = get_args(annotation) or (None,)
        for fact in facts:
            if isinstance(fact, ParameterInfo) and fact.metavar is None:
                is_argument = isinstance(fact, ArgumentInfo)
                fact.metavar = name.upper() if is_argument else _word(str(kind), fact.help or "")


def _word(kind: str, text: str) -> str | None:
    """Return the word for a value of a type; None for switches and for options with a few fixed words."""
    if "Path" in kind:
        return "FOLDER" if re.match(r"(A|The) folder\b", text) else "FILE"
    words = {"int": "NUMBER", "float": "NUMBER", "str": "TEXT"}
    return next((word for name, word in words.items() if re.search(rf"\b{name}\b", kind)), None)


def _not_called() -> None:
    """A placeholder for a command that only the help lists."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"treadle {__version__}")
        raise typer.Exit


def _shared(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show details, and the origin of an error.")] = False,
) -> None:
    """Take the options that `treadle` and every command have."""
    switches.quiet |= quiet
    switches.verbose |= verbose


def _with_shared(function: Any) -> Any:
    """Return a command's function that takes the shared options too."""
    shared = signature(_shared, eval_str=True).parameters

    def run(**given: Any) -> None:
        _shared(**{name: given.pop(name) for name in shared})
        function(**given)

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    options = [*signature(function, eval_str=True).parameters.values(), *shared.values()]
    run.__annotations__ = {each.name: each.annotation for each in options}
    run.__signature__ = Signature([each.replace(kind=Parameter.KEYWORD_ONLY) for each in options])  # type: ignore[attr-defined]
    return run


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Schedule Hadoop clusters with Python."""
