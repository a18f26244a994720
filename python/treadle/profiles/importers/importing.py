"""Histories into a store: what is broken is named and passed, what is known already is not counted again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from treadle.profiles.importers.history import BrokenHistoryError, Source, UnfinishedError
from treadle.profiles.importers.history_server import HistoryServer
from treadle.profiles.importers.sources import Found, read_source
from treadle.profiles.store import ProfileStore

Tell = Callable[[str], None]


@dataclass(slots=True)
class Summary:
    """What an import came to."""

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

    def to_json(self) -> dict[str, Any]:
        """Return the summary as a document."""
        return {
            "sources": self.sources,
            "runs": self.runs,
            "profiles": self.profiles,
            "known": self.known,
            "left_out": self.left_out,
            "broken": self.broken,
        }


class Import:
    """One import into a store. What goes wrong with a source is told at once and in the summary."""

    def __init__(self, store: ProfileStore, now_ms: int, tell: Tell) -> None:
        self._store = store
        self._now_ms = now_ms
        self._tell = tell
        self.summary = Summary()

    def take(self, sources: Iterable[Source]) -> None:
        """Import files and folders.

        Raises:
            StoreError: the store cannot be used.
            UserError: a library that a source needs is missing.
        """
        for source in sources:
            self._take_one(source.name, partial(read_source, source))

    def take_server(self, server: HistoryServer, jobs: Iterable[str]) -> None:
        """Import jobs of a history server, by their ids. Raises as `take`."""
        for job in jobs:
            self._take_one(job, partial(_read_job, server, job))

    def _take_one(self, name: str, read: Callable[[], Found]) -> None:
        self.summary.sources += 1
        try:
            found = read()
        except UnfinishedError as why:
            self.summary.left_out.append(f"{name}: {why}")
            return
        except (BrokenHistoryError, OSError) as error:
            why_not = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.summary.broken.append(f"{name}: {why_not}")
            self._tell(self.summary.broken[-1])
            return
        self.summary.left_out += [f"{name}: {why}" for why in found.left_out]
        for run in found.runs:
            if self._store.put(run, self._now_ms):
                self.summary.runs += 1
            else:
                self.summary.known += 1
        for profile in found.profiles:
            if self._store.merge(profile, self._now_ms):
                self.summary.profiles += 1
            else:
                self.summary.known += 1


def _read_job(server: HistoryServer, job: str) -> Found:
    return Found([server.run(job)])
