"""The real engine on the same jobs and machines: Treadle's engine through the simulated ResourceManager.

A machine is a node with one slot, a job an application of one stage, its constraints what the stage requires and
prefers. The engine knows the mean duration of a job's tasks, as every system here does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import yaml

from treadle.admin.install import ready_made
from treadle.compiled.array_types import I64
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.constraints.expression import Conjunction, Predicate
from treadle.dag.dag import Dag, Stage
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.simulate.scenario import NOBODY
from treadle.simulator.loop import Run
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation, warm_up
from treadle.workload.job import Framework, Job, Workload
from treadle_lab.models.cores import Progress
from treadle_lab.models.workers.eligible import Eligible
from treadle_lab.models.workers.trace import Trace
from treadle_lab.models.workers.workers import Outcome
from treadle_lab.papers.phoenix.files import ANYTHING, Machines, Wanted

PREFIX: Final = "m/"
"""Of attributes, so that none is taken for a rack, a host, a partition or a resource type."""
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
        """Return what the engine follows."""
        register_parts()
        document = yaml.safe_load(ready_made()[self.policy].read_text("utf-8"))
        document["policy"]["estimate"] = {"kind": "hints"}
        document["limits"] = {"proposals_max": LIMIT}
        return parse_settings(self.name, yaml.safe_dump(document))


CENTRAL: Final = {
    one.name: one for one in (Central("central-srpt", "srpt", False), Central("central-phoenix", "phoenix", True))
}
"""By name; `central` means both."""


def warm_up_central(names: Iterable[str]) -> None:
    """Compile what the engine needs, or read what was compiled before."""
    for name in names:
        warm_up(CENTRAL[name].settings())


def simulate_central(
    central: Central,
    trace: Trace,
    slots: int,
    wanted: Wanted,
    eligible: Eligible,
    *,
    seed: int,
    relaxed_slowdown: float,
    progress: Progress | None = None,
) -> Outcome:
    """Run a trace to its end.

    Args:
        central: the engine's policy
        trace: the jobs
        slots: how many machines there are, each with one slot
        wanted: what machines have and jobs ask for
        eligible: the same as groups of machines
        seed: of the simulation and of the engine
        relaxed_slowdown: by how much longer a task runs where a soft constraint of it is not met
        progress: called with the part that is done

    Raises:
        UserError: jobs were left that nothing would ever serve.
    """
    machine_of, cluster = _cluster(slots, wanted.machines, relaxed_slowdown)
    scenario = Scenario.model_validate(
        {
            "cluster": cluster,
            "frameworks": {"heartbeat_ms": 0},
            "decision": {"tick_ms": TICK_MS, "limit": LIMIT},
            "report": {"window_s": 3600},
            "workload": NOBODY,
        }
    )
    settings = replace(central.settings(), seed=seed)
    jobs = _workload(trace, wanted, eligible, negotiates=central.negotiates)
    simulation = Simulation(scenario, jobs, settings, seed, check=False)
    done = simulation.run(None if progress is None else lambda ended, jobs, _: progress(ended, jobs))
    if done.unfinished:
        raise UserError(f"{done.unfinished} jobs have not ended; give them machines")
    return _outcome(done, trace, eligible, machine_of)


def _cluster(slots: int, machines: Machines, relaxed_slowdown: float) -> tuple[I64, dict[str, Any]]:
    """Return the machine of each node, and the cluster: machines that are alike stand together."""
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


def _workload(trace: Trace, wanted: Wanted, eligible: Eligible, *, negotiates: bool) -> Workload:
    """Return the jobs as applications."""
    durations = np.split((1000 * trace.duration_s).astype(np.int64), trace.first_task[1:-1])
    made = []
    for place, duration_ms in enumerate(durations):
        asked = wanted.asked.get(place, ANYTHING)
        # a soft constraint that nobody meets together with the hard ones is left out
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


def _outcome(done: Run, trace: Trace, eligible: Eligible, machine_of: I64) -> Outcome:
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
