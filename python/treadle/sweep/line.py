"""A run of a sweep: a function of its line, of the code and of nothing else.

A line holds texts; files that it names lie in folders named by the digest of what is in them. Wherever it runs, the
result is the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.simulate import batch
from treadle.simulate.comparison import FIGURES
from treadle.simulate.run import Run, Scenario
from treadle.simulator.engines_simulation import with_engines
from treadle.simulator.results import FailedRun
from treadle.simulator.scenario import parse_scenario
from treadle.sources import digest
from treadle.sweep.runs import result_bytes
from treadle.sweep.worker import RUNS, libraries


@dataclass(frozen=True, slots=True)
class Line:
    """All that a run depends on, besides the code."""

    scenario: str
    """The scenario's text; paths in it begin at the folder of the sweep's files."""
    policy: str
    """The text of the treadle.yaml; as the scenario's."""
    seed: int
    check: bool = True
    allow_impossible: bool = False
    code: str = ""
    """A digest of entry points that the scenario names."""

    @property
    def key(self) -> str:
        """The digest of the line, the code and the libraries."""
        text = json.dumps([asdict(self), engine_digest()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def text(self) -> str:
        """Return the line as it is sent."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Line:
        """Return the line of a text."""
        return cls(**json.loads(text))


@cache
def engine_digest() -> str:
    """Return a digest of the code that runs are made of, and of the versions of the libraries below it."""
    return hashlib.sha256(f"{digest(RUNS)} {libraries()}".encode()).hexdigest()


def run_line(line: Line, files: Path) -> tuple[bytes, bool]:
    """Run a line; return its result, and whether it failed. Python files that it names are run: its plan trusted them.

    Args:
        line: what to run
        files: where the folders with its files are
    """
    files = files.absolute()  # as errors have it
    try:
        scenario = Scenario(_scenario(line.scenario), files, "scenario", line.scenario, trust_code=True)
        settings = _settings(line.policy, files)
        file = str(files / "scenario.yaml")
        settings = with_engines(scenario.model, settings, file, scenario.text, trust_code=True)
        wanted = batch.Line(scenario, "policy", settings, line.seed, line.check, line.allow_impossible, tasks=False)
        document = _of_outcome(batch.run_line(wanted))
    except UserError as error:
        document = {"failure": str(error).replace(f"{files}/", "")}
    except Exception as error:
        document = {"failure": raised(error)}
    failed = document["failure"] is not None
    return result_bytes({"key": line.key, **document}), failed


def raised(error: Exception) -> str:
    """Return what was raised, and where, in one line of a kept result."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


@lru_cache(maxsize=8)
def _scenario(text: str) -> Any:
    return parse_scenario("scenario", text, trust_code=True)


@lru_cache(maxsize=256)
def _settings(text: str, files: Path) -> Settings:
    register_parts()
    return parse_settings(str(files / "treadle.yaml"), text, trust_code=True)


def _of_outcome(outcome: batch.Outcome) -> dict[str, Any]:
    run = outcome.result
    if isinstance(run, FailedRun):
        return {"failure": run.failure}
    if outcome.stuck:
        return {"failure": "\n".join(outcome.notes).partition(": ")[2]}
    return {"failure": None, "figures": figures_of(run), "warnings": run.warnings}


def figures_of(run: Run) -> dict[str, float | None]:
    """Return the figures of a run by name; None: there is none."""
    slow = run.slowdown[np.isfinite(run.slowdown)]
    found = {name: float(getattr(run.summary, name)) for name in FIGURES if name != "ended"}
    found |= {
        "slowdown_mean": float(slow.mean()) if len(slow) else float("nan"),
        "slowdown_p99": float(np.quantile(slow, 0.99)) if len(slow) else float("nan"),
    }
    found |= {f"used {name}": float(value) for name, value in run.summary.utilisation.items()}
    return {name: value if np.isfinite(value) else None for name, value in found.items()}
