"""Common to experiments: options, clusters isolated from other users, the testbed (`--on sls`), output of results."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from rich.console import Console

from treadle.cli._console import COMPILING, INTERRUPTED, OutputPaths, counted_progress, note, say, steps
from treadle.errors import UserError
from treadle_lab.harness import namespaces
from treadle_lab.minicluster.processes import terminable
from treadle_lab.minicluster.settings import build_folder, gather

if TYPE_CHECKING:
    from treadle.config.settings import Settings
    from treadle_lab.rows import Results
    from treadle_lab.sls.play import Player
    from treadle_lab.sls.run import Setting


CacheOption = Annotated[
    Path | None,
    typer.Option(help="A folder for the results of runs: those found there do not run again. None is kept without it."),
]
SeedOption = Annotated[int, typer.Option(min=0, max=2**20, help="The first draw's seed; the next ones follow.")]
FolderOption = Annotated[Path | None, typer.Option(help="A folder that keeps configuration, logs and measurements.")]


def seeds_option(default: str) -> Any:
    """Return the option `--seeds`, whose help has the default in words."""
    return typer.Option(min=1, max=1000, help=f"How many draws; default: {default}.")


@contextmanager
def going_on(cache: Path | None) -> Iterator[None]:
    """End with exit code 130 on Ctrl-C, and report whether completed runs are stored."""
    try:
        yield
    except KeyboardInterrupt:
        kept = (
            f"what ran is kept in {cache}: the same command goes on" if cache else "--cache FOLDER keeps what has run"
        )
        note(f"stopped; {kept}", "red")
        raise typer.Exit(INTERRUPTED) from None


Command = Callable[..., None]


def with_options(**makers: Callable[..., Any]) -> Callable[[Command], Command]:
    """Add the options of functions to a command; each parameter named here gets the result of its function.

    The options take the place of the parameter. Typer reads them from the signature and the annotations.
    """

    def decorate(command: Command) -> Command:
        options: list[Parameter] = []
        of_maker: dict[str, list[str]] = {}
        for each in _parameters(command, makers):
            found = [each]
            if each.name in makers:
                found = _parameters(makers[each.name], ("return",))
                of_maker[each.name] = [option.name for option in found]
            options += [option.replace(kind=Parameter.KEYWORD_ONLY) for option in found]

        def run(**given: Any) -> None:
            made = {
                name: makers[name](**{option: given.pop(option) for option in names})
                for name, names in of_maker.items()
            }
            command(**given, **made)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {each.name: each.annotation for each in options}
        run.__signature__ = Signature(options)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameters(function: Callable[..., Any], made: Iterable[str]) -> list[Parameter]:
    """Return a function's parameters, without annotations of ``made`` ones, which may be imported only for mypy."""
    for name in made:
        function.__annotations__.pop(name, None)
    return list(signature(function, eval_str=True).parameters.values())


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
    with steps() as step:
        gather(step)
    return namespaces.isolate()


def warn(reason: str) -> None:
    """Warn that other users can reach a cluster that starts, with the reason or the remedy."""
    note(f"warning: while this cluster runs, any local user can run commands as {getpass.getuser()}: {reason}")


D = TypeVar("D")
S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentPaths(OutputPaths):
    """Destinations of an experiment's results, of the testbed's logs, and of completed runs."""

    logs: Path | None
    """None: in the checkout's build folder."""
    cache: Path | None
    """Runs found there are not repeated; None stores none."""


STALL_S: Final = 180.0
"""A run without any event for this time is aborted."""
HEAP_MB: Final = 2_048


class SimulatorKind(StrEnum):
    """Where an experiment with simulations runs."""

    SIMULATOR = "simulator"
    SLS = "sls"


OnOption = Annotated[
    SimulatorKind, typer.Option("--on", help="Treadle's simulator, or Hadoop's with a real ResourceManager.")
]
LogsOption = Annotated[
    Path | None, typer.Option("--folder", help="A folder for the logs of --on sls; default: build/reproduce-PAPER-sls.")
]


def chosen(wanted: Sequence[str] | None, known: Collection[str], *always: str, option: str = "--scheme") -> list[str]:
    """Return the names that an option gives, and those that always run; all if it gives none.

    Raises:
        UserError: a name is unknown.
    """
    for name in wanted or ():
        if name not in known:
            raise UserError(f"{option}: {name} is none here; give one of {', '.join(known)}")
    return [name for name in known if not wanted or name in (*wanted, *always)]


def refuse(why: str, **options: object) -> None:
    """Refuse options that the others exclude.

    Raises:
        UserError: one is given; says ``why`` it is excluded.
    """
    for name, value in options.items():
        if value:
            raise UserError(f"--{name.rstrip('_').replace('_', '-')}: {why}; leave it out")


def setting_of_testbed() -> Setting:
    """Return the testbed's class path and heap; may gather Hadoop's jars and build for a minute.

    Raises:
        BenchError: a requirement is missing; the text says how to get it.
    """
    from treadle_lab.sls.run import Setting, Workload, class_path

    return Setting(Workload(1, 1, 1, 1), class_path(), HEAP_MB, STALL_S)


@contextmanager
def simulating(
    cache: Path | None, settings: Iterable[Settings] = (), what: str = "simulating"
) -> Iterator[Callable[[int, int], None]]:
    """Show the number of completed runs; code for ``settings`` is compiled before the first run.

    Args:
        cache: a folder that stores completed runs, if there is one
        settings: those of the engine, if it runs
        what: the words next to the bar
    """
    with going_on(cache), counted_progress("runs") as bar:
        if not bar.console.is_terminal:
            say(bar.console, COMPILING)
        task = bar.add_task("compiling, or reading compiled code", total=None)
        for each in settings:
            from treadle.simulator.simulation import warm_up  # only here: it imports numba

            warm_up(each)
        yield lambda done, total: bar.update(task, description=what, completed=done, total=total)


@contextmanager
def playing(package: str, folder: Path | None, cache: Path | None) -> Iterator[Player]:
    """Yield a player of an experiment's draws on the testbed, and show its progress.

    Args:
        package: of the laboratory, such as ``papers.hdrf``; its module ``sls`` plays
        folder: of logs; None: one in the checkout's build folder
        cache: of runs that need not be played again; None stores nothing

    Raises:
        BenchError: a requirement is missing; the text says how to get it.
    """
    from treadle_lab.sls.play import KeptPlays, Player

    where = (folder or build_folder() / f"reproduce-{package.rpartition('.')[2]}-sls").resolve()
    setting, kept = setting_of_testbed(), KeptPlays(cache, f"treadle_lab.{package}.sls")
    with going_on(cache), terminable(), steps() as tell:
        yield Player(setting, where, kept, tell)


def play_draws(
    package: str,
    wanted: Iterable[S],
    places: ExperimentPaths,
    play: Callable[[int, S, Player], D],
    results: Callable[[list[D]], Results],
) -> None:
    """Play an experiment's draws on the testbed; print tables and shortfalls.

    Args:
        package: see `playing`
        wanted: the draws, such as their seeds
        places: destinations of logs and results; the results are written after each draw
        play: plays a draw, given its turn, an element of ``wanted`` and the player
        results: returns the results of the draws so far, with ``shortfalls`` among their facts

    Raises:
        BenchError: a requirement is missing, or a run gave no result.
    """
    draws: list[D] = []
    with playing(package, places.logs, places.cache) as player:
        for turn, each in enumerate(wanted):
            draws.append(play(turn, each, player))
            places.write(results(draws).as_json())
    publish(results(draws), places)


def publish(results: Results, places: OutputPaths, draw: Callable[[Path], Iterable[Path]] | None = None) -> None:
    """Print the tables and the shortfalls of an experiment, or its document; write its document and its plots."""
    from treadle_lab.rows import show

    def show_all(console: Console) -> None:
        for table in results.tables.values():
            show(table, console)
        for text in results.facts.get("shortfalls", ()):
            say(console, text, "red")

    places.publish(results.as_json(), show_all)
    if draw is not None:
        places.draw(draw)


def note_seeds(seeds: Sequence[int], *more: str) -> None:
    """Note the seeds of results, and whether they are too few for meaningful intervals."""
    from treadle.simulate.comparison import FEW

    few = f"; use at least {FEW} seeds" if len(seeds) < FEW else ""
    text = "; ".join((f"seeds {seeds[0]} to {seeds[-1]}", "95 % intervals over seeds by Student's t", *more))
    note(f"{text}{few}")
