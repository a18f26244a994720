"""Results kept in a folder, so that an evaluation that was stopped goes on and one of more seeds runs only the new."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treadle import __version__
from treadle.config.settings import Settings
from treadle.dag.dag import Dag
from treadle.errors import UserError
from treadle.files import write_whole
from treadle.lab.reproduce.graphene.online import Result
from treadle.simulator.scenario import Scenario
from treadle.workload.job import Workload


class KeptResults:
    """A folder with a JSON file a result, named by scheme and a digest of all that the result depends on.

    That is the jobs, what is believed of them, the cluster and the engine's settings, but not the code: a folder is
    for one state of it.
    """

    def __init__(self, folder: Path | None) -> None:
        """Use a folder, made when there is something to keep; None keeps nothing."""
        self._folder = folder

    def place(
        self,
        name: str,
        workload: Workload,
        believed: Sequence[Dag | None] | None,
        scenario: Scenario,
        settings: Settings,
    ) -> Path | None:
        """Return where a result belongs; None if nothing is kept."""
        if self._folder is None:
            return None
        known = [
            __version__,
            [[job.arrival_ms, job.queue, job.framework, _told(job.dag)] for job in workload.jobs],
            None if believed is None else [None if dag is None else _told(dag) for dag in believed],
            scenario.model_dump_json(),
            repr(settings),
        ]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
        return self._folder / f"{name}-{digest[:24]}.json"

    def read(self, place: Path | None) -> Result | None:
        """Return the result that is kept there, if any.

        Raises:
            UserError: the file cannot be read or is no result.
        """
        if place is None or not place.exists():
            return None
        try:
            return _result(json.loads(place.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"--keep: {place}: no result can be read ({error}); delete the file") from None

    def write(self, place: Path | None, result: Result) -> None:
        """Keep a result; a file is whole or not there.

        Raises:
            UserError: it cannot be written.
        """
        if place is None:
            return
        document = {
            "completion_ms": result.completion_ms.tolist(),
            "makespan_ms": result.makespan_ms,
            "jain": {str(seconds): value for seconds, value in result.jain.items()},
            "replans": result.replans,
            "wall_s": result.wall_s,
        }
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, json.dumps(document) + "\n", lambda file: os.fchmod(file, 0o644))
        except OSError as error:
            raise UserError(f"--keep: {place}: {error.strerror}; name a folder that can be written") from None


def _result(document: Mapping[str, Any]) -> Result:
    return Result(
        completion_ms=np.asarray(document["completion_ms"], np.float64),
        makespan_ms=int(document["makespan_ms"]),
        jain={int(seconds): float(value) for seconds, value in document["jain"].items()},
        replans=int(document["replans"]),
        wall_s=float(document["wall_s"]),
    )


def _told(dag: Dag) -> list[Any]:
    """Return a DAG as JSON takes it; every task's duration counts."""
    return [
        [
            stage.id,
            stage.tasks,
            _numbers(stage.durations()) if stage.durations_ms is not None else stage.duration_ms,
            sorted(stage.demand.items()),
            list(stage.parents),
            sorted(stage.one_to_one),
        ]
        for stage in dag.stages
    ]


def _numbers(values: Iterable[Any]) -> list[int]:
    return [int(value) for value in values]
