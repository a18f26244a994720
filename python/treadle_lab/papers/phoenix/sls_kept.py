"""Rounds that have run, kept in a folder: what was stopped goes on, and more rounds run only what is new."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from treadle.admin.jars import shim_jar
from treadle.sources import digest
from treadle.sweep.kept import Kept, result_bytes
from treadle_lab.harness.runs import digest_of
from treadle_lab.papers.phoenix.sls_schemes import Ended, Round

__all__ = ["KeptRounds"]


class KeptRounds:
    """A folder as `treadle sweep` has one; a round is found by all that it depends on, code and jar among it."""

    def __init__(self, folder: Path | None, *about: object) -> None:
        """Use a folder; None keeps nothing.

        Args:
            folder: is made if it is not there
            about: what all rounds have in common, as JSON takes it

        Raises:
            UserError: the folder cannot be made or written.
        """
        self._kept = None if folder is None else Kept(folder)
        self._about = [*about, *_programs()] if folder is not None else []

    def get_or_run(self, run: Callable[[], Round], *about: object) -> Round:
        """Return a round that is kept, else that which ``run`` returns; ``about`` says which one it is.

        A round of which a job did not succeed is not kept for the next time.

        Raises:
            UserError: it cannot be written, or `run` does not come to an end.
        """
        if self._kept is None:
            return run()
        key = digest_of(__name__, *self._about, *about)
        found = self._kept.get(key)
        if found is not None:
            return _round(json.loads(found)["round"])
        ended = run()
        failed = any(job.status != "SUCCEEDED" for job in ended.jobs)
        self._kept.put(key, result_bytes({"key": key, "round": asdict(ended)}), failed=failed)
        return ended


def _programs() -> list[str]:
    """Return digests of the Python code and of the jar that a ResourceManager runs."""
    code = digest("treadle.cli.sidecar")
    return [code, hashlib.sha256(shim_jar().read_bytes()).hexdigest()]


def _round(document: dict[str, Any]) -> Round:
    return Round(**{**document, "jobs": tuple(Ended(**job) for job in document["jobs"])})
