"""Runs of the testbed kept in a folder: what was stopped goes on, and further draws run only what is new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from treadle.sources import digest
from treadle.sweep.kept import Kept, result_bytes
from treadle_lab.harness.runs import digest_of
from treadle_lab.sls.jars import own_jars
from treadle_lab.sls.pace import Pace
from treadle_lab.sls.play import SUCCEEDED, Played, PlayedJob

__all__ = ["KeptPlays"]


class KeptPlays:
    """A folder as `treadle sweep` has one; a run is found by all that it depends on, code and jars among it."""

    def __init__(self, folder: Path | None, module: str, *about: object) -> None:
        """Use a folder; None keeps nothing.

        Args:
            folder: is made if it is not there
            module: the name of the module that plays
            about: what all runs have in common, as JSON takes it

        Raises:
            UserError: the folder cannot be made or written.
            BenchError: the jars cannot be built.
        """
        self._kept = None if folder is None else Kept(folder)
        self._module = module
        self._about = [*about, *_programs()] if folder is not None else []

    def get_or_play(self, play: Callable[[], Played], *about: object) -> Played:
        """Return a run that is kept, else that which ``play`` returns; ``about`` says which one it is.

        A run of which a job did not succeed is not kept for the next time.

        Raises:
            UserError: it cannot be written, or ``play`` does not come to an end.
        """
        if self._kept is None:
            return play()
        key = digest_of(self._module, *self._about, *about)
        found = self._kept.get(key)
        if found is not None:
            return _played(json.loads(found)["played"])
        played = play()
        failed = any(job.status != SUCCEEDED for job in played.jobs)
        self._kept.put(key, result_bytes({"key": key, "played": asdict(played)}), failed=failed)
        return played


def _programs() -> list[str]:
    code = digest("treadle.cli.sidecar")
    return [code, *(hashlib.sha256(jar.read_bytes()).hexdigest() for jar in own_jars())]


def _played(document: dict[str, Any]) -> Played:
    jobs = tuple(
        PlayedJob(**{**job, "tasks_ms": tuple((start, end) for start, end in job["tasks_ms"])})
        for job in document["jobs"]
    )
    pace = None if document["pace"] is None else Pace(**document["pace"])
    return Played(**{**document, "jobs": jobs, "pace": pace})
