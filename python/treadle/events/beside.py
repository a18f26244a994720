"""Events that no frame brings: what the sidecar, a profile store, a plan or a simulator's oracle adds to them."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.events.columns import F64, I32, I64


@dataclass(frozen=True, slots=True)
class TaskEstimates:
    """What somebody knows of the tasks behind request keys, absolute; -1 where a number is not known.

    Not on the wire: the sidecar, a profile store or a simulator's oracle adds it to a frame's events, before or after
    the keys' `Requests`, at any time. It holds until the next one for the same key or until the application is gone. A
    `Snapshot` gives out other keys; hints for asks are found again (`treadle.model.carry`), of those that there
    are no more only the duration.

    ``duration_ms`` is how long a task of the key is expected to run, ``deviation_ms`` the standard deviation of that.
    ``tasks`` is the width left: how many tasks of the key have not ended, those that run and those not asked for yet
    included.
    """

    application: I32
    key: I32
    duration_ms: I64
    deviation_ms: I64
    tasks: I32


@dataclass(frozen=True, slots=True)
class TaskClaims(TaskEstimates):
    """What an application itself says of the tasks behind its request keys: like `TaskEstimates`, and less believed.

    No claim counts below what the RM sees (`treadle.policy.work`).
    """


@dataclass(frozen=True, slots=True)
class PlanRanks:
    """How early a plan wants the tasks behind request keys (Graphene's tpriScore): 1 first, 0 last; 1 without one.

    -1 says that there is no plan for the key any more. Not on the wire; kept and forgotten like `TaskEstimates`.
    """

    application: I32
    key: I32
    score: F64


@dataclass(frozen=True, slots=True)
class StageInputs:
    """How much a task of the stage that is sampled reads in the mean of all tasks of the stage, absolute.

    Not on the wire; kept and forgotten like `TaskEstimates`. Where pilots' own inputs are known too (`TaskInputs`) what
    they say is scaled to the mean: a MapReduce job hands out its largest splits first.
    """

    application: I32
    mean_bytes: F64


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """Bytes that the tasks of running containers read; not on the wire."""

    application: I32
    container: I64
    bytes: F64


@dataclass(frozen=True, slots=True)
class Samples:
    """Where applications stand with the gate that samples tasks, and their pilots' measurements (SLearn, NSDI 2022).

    Not on the wire: the engine returns it (`treadle.engine.Engine.samples`), and a new engine gets it
    back after the snapshot, so that no pilot runs again. It replaces what the engine found out itself.

    ``sampling`` is a `treadle.policy.slearn.table.Sampling`, ``stage`` the stage that is sampled (``sampled_stage``
    there), ``width`` how many tasks that has, ``pilots`` how many of them are to be sampled, ``ended`` how many pilots
    have ended well, ``total_ms`` and ``squares`` the sum of their durations and of their squares, ``mean_ms`` and
    ``error`` what they said when the gate opened (-1: nothing yet), ``percent`` the sampling ratio, ``since_ms`` when
    they began to be wanted, ``container_ms`` the time that all containers have had. Of those pilots whose input is
    known (`TaskInputs`) ``sized_ms`` is the sum of durations, ``sized_bytes`` of inputs, ``sized_squares`` of the
    squares of inputs, ``sized_products`` of durations times inputs, ``sized_duration_squares`` of the squares of
    durations; ``sized`` is how many they are.
    """

    application: I32
    sampling: I32
    stage: I32
    width: I32
    pilots: I32
    ended: I32
    total_ms: F64
    squares: F64
    mean_ms: F64
    error: F64
    percent: F64
    since_ms: I64
    container_ms: F64
    sized: I32
    sized_ms: F64
    sized_bytes: F64
    sized_squares: F64
    sized_products: F64
    sized_duration_squares: F64


@dataclass(frozen=True, slots=True)
class PolicySwitch:
    """A part from a user's file failed or was stopped, and another policy took over in the middle of a decide.

    Not on the wire: the engine returns it (`treadle.engine.Engine.switches`), and a replay gives it back
    before the same decide. What makes a part take too long is no event, so without this a run could not be repeated.
    """

    sequence: int
    """The frame that the decide answered."""
    call: int
    """Which call to such a part in that decide it was, from 1; 0: the part could not be made."""
    policy: str
    """The policy that took over."""
    reason: str
