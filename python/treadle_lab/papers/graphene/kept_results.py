"""Results kept in a folder, so that an evaluation that was stopped goes on and one of more seeds runs only the new."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treadle.config.settings import Settings
from treadle.dag.dag import Dag
from treadle.simulator.scenario import Scenario
from treadle.sweep.kept import Kept, result_bytes
from treadle.workload.job import Workload
from treadle_lab.harness.runs import digest_of
from treadle_lab.papers.graphene.online import Result


class KeptResults:
    """A folder as `treadle sweep` has one, of results by a digest of all that they depend on.

    That is the jobs, what is believed of them, the cluster, the engine's settings, and the code.
    """

    def __init__(self, folder: Path | None) -> None:
        """Use a folder; None keeps nothing.

        Raises:
            UserError: it cannot be made or written.
        """
        self._kept = None if folder is None else Kept(folder)

    def key(
        self,
        name: str,
        workload: Workload,
        believed: Sequence[Dag | None] | None,
        scenario: Scenario,
        settings: Settings,
    ) -> str:
        """Return what a result is found by (`key_of`); empty if nothing is kept."""
        return "" if self._kept is None else key_of(name, workload, believed, scenario, settings)

    def read(self, key: str) -> Result | None:
        """Return the result that is kept, if any; one that is damaged counts as none."""
        found = None if self._kept is None else self._kept.get(key)
        return None if found is None else result_of(json.loads(found))

    def write(self, key: str, result: Result) -> None:
        """Keep a result.

        Raises:
            UserError: it cannot be written.
        """
        if self._kept is None:
            return
        document = {"key": key} | document_of(result)
        self._kept.put(key, result_bytes(document), failed=False)


def key_of(
    name: str, workload: Workload, believed: Sequence[Dag | None] | None, scenario: Scenario, settings: Settings
) -> str:
    """Return the digest of all that a result depends on. ``name`` is the scheme's, with the seed."""
    return digest_of(
        __name__,
        name,
        [[job.arrival_ms, job.queue, job.framework, _plain(job.dag)] for job in workload.jobs],
        None if believed is None else [None if dag is None else _plain(dag) for dag in believed],
        scenario.model_dump_json(),
        repr(settings),
    )


def document_of(result: Result) -> dict[str, Any]:
    """Return a result as JSON takes it."""
    return {
        "completion_ms": result.completion_ms.tolist(),
        "makespan_ms": result.makespan_ms,
        "jain": {str(seconds): value for seconds, value in result.jain.items()},
        "replans": result.replans,
        "wall_s": result.wall_s,
    }


def result_of(document: Mapping[str, Any]) -> Result:
    """Return a result from what `document_of` wrote."""
    return Result(
        completion_ms=np.asarray(document["completion_ms"], np.float64),
        makespan_ms=int(document["makespan_ms"]),
        jain={int(seconds): float(value) for seconds, value in document["jain"].items()},
        replans=int(document["replans"]),
        wall_s=float(document["wall_s"]),
    )


def _plain(dag: Dag) -> list[Any]:
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
