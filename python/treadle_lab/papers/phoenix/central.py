"""Treadle's engine on a trace, in one process or several."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import yaml

from treadle.compiled.array_types import I64
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.constraints import Conjunction, Predicate
from treadle.dag import Dag, Stage
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.shipped import ready_made
from treadle.simulate.batch import NOBODY
from treadle.simulator.scenario import ScenarioModel
from treadle.simulator.simulation import SimulatedRun, Simulation, warm_up
from treadle.workload.job import Framework, Job, Workload
from treadle_lab.harness.runs import RunSettings, digest_of, run_all
from treadle_lab.models.kernels import Progress
from treadle_lab.models.worker_state import Trace
from treadle_lab.models.workers import Eligible, Outcome
from treadle_lab.papers.phoenix.constraints import ANYTHING, Machines, TraceConstraints

PREFIX: Final = "m/"
"""Prefix of attributes, so that none is mistaken for a rack, a host, a partition or a resource type."""
SLOT: Final = {"vcores": 1.0}
TICK_MS: Final = 1_000
"""The engine decides once a second; durations are whole seconds."""
LIMIT: Final = 1_000_000
"""Proposals in an answer: no bound, since an answer takes no time here."""


@dataclass(frozen=True, slots=True)
class Central:
    """The engine under one of its ready-made policies.

    Attributes:
        name: as in tables of results.
        policy: the ready-made one, with the estimate `hints`.
        negotiates: whether soft constraints are preferences, which the policy's gate may give up; else they are hard.
    """

    name: str
    policy: str
    negotiates: bool

    def settings(self) -> Settings:
        """Return the engine's settings."""
        register_parts()
        document = yaml.safe_load(ready_made()[self.policy].read_text("utf-8"))
        document["policy"]["estimate"] = {"kind": "hints"}
        document["limits"] = {"proposals_max": LIMIT}
        return parse_settings(self.name, yaml.safe_dump(document))


CENTRAL: Final = {
    one.name: one for one in (Central("central-srpt", "srpt", False), Central("central-phoenix", "phoenix", True))
}
"""By name; `central` means both."""


def simulate_central(run: CentralRun) -> Outcome:
    """Run a trace to its end.

    Raises:
        UserError: jobs were left that nothing would ever serve.
    """
    central, trace = CENTRAL[run.name], run.trace
    machine_of, cluster = _cluster(run.slots, run.wanted.machines, run.relaxed_slowdown)
    scenario = ScenarioModel.model_validate(
        {
            "cluster": cluster,
            "frameworks": {"heartbeat_ms": 0},
            "decision": {"tick_ms": TICK_MS, "limit": LIMIT},
            "report": {"window_s": 3600},
            "workload": NOBODY,
        }
    )
    settings = replace(central.settings(), seed=run.seed)
    jobs = _workload(trace, run.wanted, run.eligible, negotiates=central.negotiates)
    simulation = Simulation(scenario, jobs, settings, run.seed, check=False)
    done = simulation.run()
    if done.unfinished:
        raise UserError(f"{done.unfinished} jobs have not ended; give them machines")
    return _outcome(done, trace, run.eligible, machine_of)


def _cluster(slots: int, machines: Machines, relaxed_slowdown: float) -> tuple[I64, dict[str, Any]]:
    """Return the machine of each node, and the cluster: identical machines are adjacent."""
    names, codes = machines.names, machines.codes
    alike = np.zeros(slots, np.int64)
    if names:
        alike = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
    machine_of = np.argsort(alike, kind="stable")
    firsts = np.flatnonzero(np.diff(alike[machine_of], prepend=-1))
    counts = np.diff(np.append(firsts, slots))
    nodes = [
        {"count": int(count), "resources": SLOT, "attributes": _attributes(machines, int(machine_of[first]))}
        for first, count in zip(firsts, counts, strict=True)
    ]
    cluster = {
        "resources": [{"name": "vcores"}],
        "nodes": nodes,
        "heartbeat_ms": 0,
        "relaxed_slowdown": relaxed_slowdown,
    }
    return machine_of, cluster


def _attributes(machines: Machines, machine: int) -> dict[str, str]:
    """Return what a machine has."""
    return {PREFIX + name: value for name, value in machines.of(machine).items() if value}


def _workload(trace: Trace, wanted: TraceConstraints, eligible: Eligible, *, negotiates: bool) -> Workload:
    """Return the jobs as applications."""
    durations = np.split((1000 * trace.duration_s).astype(np.int64), trace.first_task[1:-1])
    made = []
    for place, duration_ms in enumerate(durations):
        asked = wanted.asked.get(place, ANYTHING)
        # a soft constraint that cannot be met together with the hard ones is omitted
        soft = asked.soft if eligible.full[place] != eligible.hard[place] else Conjunction()
        hard = asked.hard if negotiates else asked.hard & soft
        stage = Stage(0, len(duration_ms), round(1000 * float(trace.mean_s[place])), SLOT, durations_ms=duration_ms)
        name = f"job{place}"
        job = Job(name, round(1000 * float(trace.arrival_s[place])), Dag(name, (stage,)), Framework.MAPREDUCE)
        requires = {0: _text(hard)} if hard.predicates else {}
        prefers = {0: _text(soft)} if negotiates and soft.predicates else {}
        made.append(replace(job, requires=requires, prefers=prefers))
    return Workload(tuple(SLOT), tuple(made))


def _text(wanted: Conjunction) -> str:
    """Return a requirement on the nodes' attributes."""
    return ";".join(Predicate(PREFIX + one.name, one.op, one.values).text() for one in wanted.predicates)


def _outcome(done: SimulatedRun, trace: Trace, eligible: Eligible, machine_of: I64) -> Outcome:
    """Return when tasks ran and jobs ended, as the other systems have it."""
    state = done.built.state
    tasks, apps = state.tasks, state.apps
    job = np.repeat(np.arange(len(trace)), trace.tasks)
    relaxed = ~eligible.workers[eligible.full[job], machine_of[tasks["node"]]]
    return Outcome(
        apps["finish_ms"] / 1000 - trace.arrival_s,
        tasks["begin_ms"] / 1000 - trace.arrival_s[job],
        np.bincount(job[relaxed], minlength=len(trace)).astype(np.int32),
        None,
        done.cpu_s,
    )


@dataclass(frozen=True, slots=True)
class CentralRun:
    """All that a run depends on.

    Attributes:
        name: of the engine's policy, in `CENTRAL`.
        trace: the jobs.
        slots: how many machines there are, each with one slot.
        wanted: what machines have and jobs ask for.
        eligible: the same as groups of machines.
        seed: of the simulation and of the engine.
        relaxed_slowdown: by how much longer a task runs where a soft constraint of it is not met.
    """

    name: str
    trace: Trace
    slots: int
    wanted: TraceConstraints
    eligible: Eligible
    seed: int
    relaxed_slowdown: float

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"{self.name}, seed {self.seed}"

    @property
    def key(self) -> str:
        """The digest of all that it depends on."""
        trace, wanted = self.trace, self.wanted
        arrays = (trace.arrival_s, trace.tasks, trace.duration_s, trace.mean_s)
        jobs = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
        asked = [[place, each.hard.text(), each.soft.text()] for place, each in sorted(wanted.asked.items())]
        own = [self.name, jobs, trace.cutoff_s, trace.long_percent, self.slots, self.seed, self.relaxed_slowdown]
        own.append(repr(CENTRAL[self.name].settings()))  # a ready-made policy's, which is a file
        return digest_of(__name__, own, asked, wanted.machines.as_lists())


def run_central(
    runs: Sequence[CentralRun], progress: Progress | None = None, settings: RunSettings | None = None
) -> list[Outcome]:
    """Run all; results do not depend on how many run at a time.

    Raises:
        UserError: a run ended with jobs that nothing would ever serve.
    """
    if not runs:
        return []
    # once, so that the processes find compiled code
    for name in dict.fromkeys(run.name for run in runs):
        warm_up(CENTRAL[name].settings())
    return [_outcome_of(each) for each in run_all(runs, _run, settings or RunSettings(), progress)]


def _run(run: CentralRun) -> dict[str, Any]:
    outcome = simulate_central(run)
    return {
        "response_s": outcome.response_s.tolist(),
        "queued_s": outcome.queued_s.tolist(),
        "relaxed": outcome.relaxed.tolist(),
        "cpu_s": outcome.cpu_s,
    }


def _outcome_of(document: dict[str, Any]) -> Outcome:
    return Outcome(
        np.asarray(document["response_s"], np.float64),
        np.asarray(document["queued_s"], np.float64),
        np.asarray(document["relaxed"], np.int32),
        None,
        document["cpu_s"],
    )
