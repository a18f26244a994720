"""Histories into a store: what is broken is named and passed, what is known already is not counted again.

A history says itself whose job it describes. It is believed if its files are that user's, or if the JobHistoryServer,
which had the job from the user's own application master, describes the job in its stead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from treadle.history.database import MIB, Retention
from treadle.history.importers.history_server import HistoryServer
from treadle.history.importers.outcome import BrokenHistoryError, RefusedError, Source, UnfinishedError
from treadle.history.importers.reader import HistoryReader, doubt, doubt_of_export
from treadle.history.importers.sources import Found
from treadle.history.run import JobRun
from treadle.history.store import ProfileStore

Report = Callable[[str], None]
T = TypeVar("T")

REPORTED_MAX: Final = 100
"""Broken or refused sources that are reported one by one at once; the summary counts the others."""

BYTES_WITHOUT_BOUNDS: Final = Retention().size_mb * MIB
"""Of a store into which is imported by somebody who does not know how much it may keep: then nothing more goes in."""

_REMEDY: Final = (
    "give --history-server too, for MapReduce; or --trust-names if no user can write where the files come from"
)


@dataclass(slots=True)
class Summary:
    """The result of an import."""

    sources: int = 0
    runs: int = 0
    """Runs that were new to the store."""
    profiles: int = 0
    """Exported profiles that changed something."""
    known: int = 0
    """Runs and profiles that the store had already."""
    left_out: list[str] = field(default_factory=list)
    """Jobs that have not ended, or not well."""
    broken: list[str] = field(default_factory=list)
    """Sources that could not be read, each with the reason."""
    refused: list[str] = field(default_factory=list)
    """Sources that were not read, and jobs that were not believed, each with the reason."""

    def to_json(self) -> dict[str, Any]:
        """Return the summary as a document."""
        return {
            "sources": self.sources,
            "runs": self.runs,
            "profiles": self.profiles,
            "known": self.known,
            "left_out": self.left_out,
            "broken": self.broken,
            "refused": self.refused,
        }


class Import:
    """One import into a store. A source's error is reported at once and in the summary."""

    def __init__(
        self,
        store: ProfileStore,
        now_ms: int,
        report: Report,
        *,
        reader: HistoryReader,
        server: HistoryServer | None = None,
        trust_names: bool = False,
        bytes_max: int | None = None,
    ) -> None:
        """Import into a store.

        Args:
            store: where runs and profiles go
            now_ms: nothing has ended later
            report: is given what is wrong with a source
            reader: reads files
            server: is asked for jobs of MapReduce whose files are not their user's
            trust_names: believe files whosever they are
            bytes_max: nothing more goes into a store that uses this many bytes; None: it removes what is beyond
                its bounds
        """
        self._store = store
        self._now_ms = now_ms
        self._report = report
        self._reader = reader
        self._server = server
        self._trust_names = trust_names
        self._bytes_max = bytes_max
        self.summary = Summary()

    def take(self, sources: Iterable[Source]) -> None:
        """Import files and folders.

        Raises:
            StoreError: the store cannot be used.
            UserError: a library that a source needs is missing.
        """
        for source in sources:
            found = self._read(source.name, partial(self._reader.read, source))
            if found is not None:
                self._keep(source.name, found)

    def take_server(self, server: HistoryServer, jobs: Iterable[str]) -> None:
        """Import jobs of a history server, by their ids. Raises as `take`."""
        for job in jobs:
            run = self._read(job, partial(server.run, job))
            if run is not None:
                self._put(run)

    def _full(self, name: str) -> bool:
        """Refuse a source if the store has room for no more."""
        full = self._bytes_max is not None and self._store.used_bytes() >= self._bytes_max
        if full:
            self._refuse(name, f"the store has {self._bytes_max} bytes or more; --config says how much it keeps")
        return full

    def _read(self, name: str, read: Callable[[], T]) -> T | None:
        """Return what is read of a source, which counts; None if it cannot be read or there is no room for it."""
        self.summary.sources += 1
        if self._full(name):
            return None
        try:
            return read()
        except UnfinishedError as why:
            self.summary.left_out.append(f"{name}: {why}")
        except RefusedError as error:
            self._refuse(name, str(error))
        except (BrokenHistoryError, OSError) as error:
            why_not = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.summary.broken.append(f"{name}: {why_not}")
            self._say(self.summary.broken)
        return None

    def _keep(self, name: str, found: Found) -> None:
        self.summary.left_out += [f"{name}: {why}" for why in found.left_out]
        if found.profiles:
            why = doubt_of_export(found)
            if why:
                self._refuse(name, why)
                return
        for run in found.runs:
            why = "" if self._trust_names else doubt(found, run)
            believed = self._by_server(name, run, why) if why else run
            if believed is not None:
                self._put(believed)
        for profile in found.profiles:
            if self._store.merge(profile, self._now_ms):
                self.summary.profiles += 1
            else:
                self.summary.known += 1

    def _by_server(self, name: str, run: JobRun, why: str) -> JobRun | None:
        """Return the history server's run of a job whose files are not its user's; None if it has none."""
        if self._server is None or run.key.type != "MAPREDUCE":
            self._refuse(name, f"{why}; {_REMEDY}")
            return None
        try:
            return self._server.run(run.id.replace("application_", "job_", 1))
        except (BrokenHistoryError, UnfinishedError) as error:
            self._refuse(name, f"{why}, and the history server does not confirm it: {error}")
        return None

    def _put(self, run: JobRun) -> None:
        if self._store.put(run, self._now_ms):
            self.summary.runs += 1
        else:
            self.summary.known += 1

    def _refuse(self, name: str, why: str) -> None:
        self.summary.refused.append(f"{name}: {why}")
        self._say(self.summary.refused)

    def _say(self, reasons: list[str]) -> None:
        if len(reasons) <= REPORTED_MAX:
            self._report(reasons[-1])
        elif len(reasons) == REPORTED_MAX + 1:
            self._report("... and more; --json lists all")
