"""A scenario with where its paths begin, and perhaps with jobs of the caller's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from treadle.config.yaml_nodes import text_of
from treadle.errors import UserError
from treadle.simulator.jobs import jobs_of
from treadle.simulator.scenario import Scenario as Model
from treadle.simulator.scenario import parse_scenario
from treadle.workload.job import Workload

NOBODY: Final[dict[str, Any]] = {"jobs": [{"stages": []}]}
"""Placeholder for the workload of a scenario whose jobs the caller has."""


@dataclass(frozen=True)
class Scenario:
    """A cluster, its queues, what goes wrong, and the jobs (docs/scenarios.md)."""

    model: Model
    """Every field of the file, as `treadle.simulator.scenario` has them."""
    folder: Path = Path()
    """Where paths in it begin."""
    file: str = "scenario"
    """What errors call it."""
    text: str | None = None
    """What is in the file; None: it was made in Python."""
    source: Workload | Callable[[int], Workload] | None = None
    """The caller's jobs, or what makes them from a seed; None: the scenario's own."""
    trust_code: bool = False
    """May Python files be run that it names?"""

    @classmethod
    def read(cls, file: str | Path, *, trust_code: bool = False) -> Scenario:
        """Read a file.

        Args:
            file: its path
            trust_code: whether Python files may be run that it names, for jobs or in policies

        Raises:
            ConfigError: it cannot be read, or it has errors: the message names line, field and remedy.
        """
        path = Path(file)
        text = text_of(path)
        model = parse_scenario(str(path), text, trust_code=trust_code)
        return cls(model, path.parent, str(path), text, trust_code=trust_code)

    @classmethod
    def of(cls, document: Mapping[str, Any], folder: str | Path = ".", *, trust_code: bool = False) -> Scenario:
        """Return the scenario that a mapping is, as if it stood in a YAML file in ``folder`` (see `read`).

        ``workload`` may be left out where `with_jobs` follows.

        Raises:
            ConfigError: something in it is wrong.
        """
        text = json.dumps({"workload": NOBODY} | dict(document), indent=1, default=float)
        model = parse_scenario("scenario", text, trust_code=trust_code)
        return cls(model, Path(folder), text=text, trust_code=trust_code)

    def with_jobs(self, source: Workload | Callable[[int], Workload]) -> Scenario:
        """Return the same scenario with other jobs: a workload, or a function that makes one from a seed.

        A function must give equal jobs for equal seeds. To run on several cores it must be importable from a module.

        Raises:
            UserError: it is neither.
        """
        if not callable(source):
            _check_jobs(source)
        return replace(self, source=source)

    def jobs(self, seed: int) -> Workload:
        """Return the jobs of a seed.

        Raises:
            UserError: a file cannot be read, a generator refuses its parameters, or a function gives something else.
        """
        if self.source is None:
            return jobs_of(self.model, self.folder, seed)
        return _check_jobs(self.source if isinstance(self.source, Workload) else self.source(seed))


def _check_jobs(found: object) -> Workload:
    if not isinstance(found, Workload):
        raise UserError(
            f"with_jobs: {type(found).__name__} is no treadle.simulate.Workload, nor a function of a seed that gives "
            "one; arranged(jobs) makes one of a list of jobs"
        )
    return found
