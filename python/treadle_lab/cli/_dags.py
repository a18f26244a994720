"""What `treadle dags import` and `treadle dags predict` do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import track

from treadle.cli._console import say
from treadle.dag import Dag, DagError
from treadle.errors import UserError, counted
from treadle.history.outcome import BrokenHistoryError, RefusedError, Source, UnfinishedError
from treadle.history.profile import JobProfile
from treadle.history.reader import HistoryReader
from treadle.history.sources import find_sources
from treadle.history.store import Selection, open_store
from treadle_lab.dags import Instance
from treadle_lab.dags_of_jobs import dag_of_profile, dag_of_run, dag_of_tez_plan, read_tez_plan, runs_alike


@dataclass(frozen=True)
class Cluster:
    """What histories do not contain: the machines, and the demands of tasks where none are given."""

    machines: int
    capacity: Mapping[str, float]
    demand: Mapping[str, float]

    def instance(self, dag: Dag) -> Instance:
        """Return a DAG on these machines.

        Raises:
            DagError: a task fits on no machine.
        """
        return Instance(dag, self.capacity, self.machines)


@dataclass
class Importing:
    """One import: a source's error is reported at once, and the import goes on."""

    cluster: Cluster
    duration_ms: int | None
    store: str | None
    user: str | None
    queue: str | None
    sources: int = 0
    dags: int = 0
    left_out: int = 0
    wrong: int = 0
    _console: Console = field(default_factory=lambda: Console(stderr=True))

    def take(self, paths: list[Path]) -> Iterator[Instance]:
        """Yield the DAGs of files and folders.

        Raises:
            UserError: a path is not there, or the store or a library that is needed cannot be used.
        """
        plans = [path for path in paths if path.suffix == ".pb"]
        sources = list(find_sources(path for path in paths if path.suffix != ".pb"))
        for path in plans:
            yield from self._checked(str(path), self._submitted(path))
        shown = track(
            sources, "importing", console=self._console, transient=True, disable=not self._console.is_terminal
        )
        with HistoryReader() as reader:
            for source in shown:
                yield from self._checked(source.name, self._of_source(reader, source))

    def tell(self) -> None:
        """Print the import's result on standard error."""
        typer.echo(
            f"{counted(self.sources, 'source')}: {counted(self.dags, 'DAG')}, "
            f"{self.left_out} of jobs that did not succeed, {self.wrong} that could not be used",
            err=True,
        )

    def _checked(self, name: str, makers: Iterator[Callable[[], Dag]]) -> Iterator[Instance]:
        """Yield the DAGs of one source; jobs without a DAG and sources that cannot be read are reported."""
        self.sources += 1
        try:
            for make in makers:
                try:
                    made = self.cluster.instance(make())
                except DagError as error:
                    self._wrong(name, str(error))
                    continue
                self.dags += 1
                yield made
        except UnfinishedError:
            self.left_out += 1
        except (BrokenHistoryError, RefusedError, DagError) as error:
            self._wrong(name, str(error))
        except OSError as error:
            self._wrong(name, error.strerror or str(error))

    def _wrong(self, name: str, why: str) -> None:
        self.wrong += 1
        text = why if why.startswith(name) else f"{name}: {why}"
        say(self._console, text, "red")

    def _of_source(self, reader: HistoryReader, source: Source) -> Iterator[Callable[[], Dag]]:
        found = reader.read(source)
        self.left_out += len(found.left_out)
        for run in found.runs:
            yield partial(dag_of_run, run, self.cluster.demand)
        for profile in found.profiles:
            yield partial(dag_of_profile, profile, self.cluster.demand)

    def _submitted(self, path: Path) -> Iterator[Callable[[], Dag]]:
        plan = read_tez_plan(path)
        profile = None
        if self.store:
            with open_store(self.store, read_only=True) as opened:
                known = opened.profiles(Selection(self.user, self.queue, "TEZ", plan.name))
            if len(known) > 1:
                raise DagError(f"{len(known)} recurring jobs are called {plan.name!r}; choose one by --user or --queue")
            profile = known[0] if known else None
        yield partial(dag_of_tez_plan, plan, profile, self.duration_ms)


def profiles_of(
    store: str | None, user: str | None, queue: str | None, type_: str | None, name: str
) -> list[JobProfile]:
    """Return what a store knows of the recurring jobs of a name.

    Raises:
        UserError: there is none, or the store cannot be used.
    """
    if not store:
        raise UserError("which store? --store FILE, or TREADLE_PROFILES in the environment")
    with open_store(store, read_only=True) as opened:
        found = opened.profiles(Selection(user, queue, type_, name))
        if not found:
            raise UserError(f"{opened.name} knows no job {name!r}; `treadle profiles list` shows the names")
    return found


def predicted(profile: JobProfile, cluster: Cluster, input_bytes: int | None) -> Instance:
    """Return the DAG of a job's next run; says on standard error how many earlier runs speak for it.

    Raises:
        DagError: too little is known of it, or a task fits on no machine.
    """
    made = cluster.instance(dag_of_profile(profile, cluster.demand, input_bytes))
    alike = runs_alike(profile)
    warning = "" if alike > 1 else "; two would be better: names may be equal by chance"
    typer.echo(f"{profile.key.name}: of {counted(profile.runs, 'run')} {alike} alike{warning}", err=True)
    return made
