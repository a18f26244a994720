"""The tables of a cell: machines, jobs, schedulers with what each believes, claims, and events.

Omega (EuroSys 2013), section 4: each scheduler has a private copy of the cell, synchronised when it picks a job. Here a
private copy is kept as its difference from the cell: a machine's entry counts if its stamp is the copy's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from treadle.compiled.array_types import F64, I32, I64
from treadle.compiled.structs import tables
from treadle.simulator.event_queue import Queued


class EventKind(IntEnum):
    """What happens at an instant."""

    NOTHING = -1
    """Nothing more until the run ends."""
    ENDED = 0
    """The tasks of a claim have ended; the subject is the claim."""
    DECIDED = 1
    """A scheduler has decided on its job; the subject is the scheduler."""
    RETRY = 2
    """A job with tasks left joins the end of its queue; the subject is the job."""
    OFFER = 3
    """Mesos' allocator looks for whom to offer what is free."""
    OFFERED = 4
    """An offer has reached its scheduler; the subject is the offer."""
    ANSWERED = 5
    """A scheduler answers an offer; the subject is the offer."""
    ARRIVED = 6
    """A job arrives; the subject is the job. It stands in no queue of events: the workload has the times."""


class Mode(IntEnum):
    """Places of what holds for a whole run, in `CellState.mode`."""

    PRIVATE = 0
    """1: a scheduler decides on the cell as it was when it picked the job; 0: as it is when the decision ends."""
    COARSE = 1
    """1: a claim conflicts if its machine's sequence number has changed; 0: if its resources are gone."""
    GANG = 2
    """1: all claims of a transaction or none."""
    WORKERS = 3
    """How many workers MapReduce jobs get, of `treadle.policy.mapreduce_workers.WorkerPolicy`."""


class Total(IntEnum):
    """Places of counters in `CellState.totals`."""

    EVENTS = Queued.EVENTS
    ORDER = Queued.ORDER
    CLAIMS = 2
    CLAIMED_MACHINES = 3
    USED_CPU = 4
    FREE_CPU = 5
    """Of what is neither used nor locked in an offer."""
    FREE_MEMORY = 6
    ALL_CPU = 7
    ALL_MEMORY = 8
    OFFER_PENDING = 9
    """1 if the allocator is going to look."""
    REQUESTS = 10
    """How often a scheduler has begun to ask for offers."""
    SAMPLES = 11
    """How many samples of the cell's use have been taken."""


@tables
class CellState(NamedTuple):
    """Everything of a run. J jobs, R that run at the start, M machines, S schedulers, O offers, T tasks in all.

    CPU in thousandths of one, memory in MB, times in seconds from the start of the run.
    """

    mode: I32
    totals: I64
    clock_s: F64  # now; until when use is summed, and that sum in thousandths of CPU seconds; between two samples of it
    used: I64  # samples of the CPU that is used

    free_cpu: I64  # (1 + O, M): the cell's, then what is in each offer
    free_memory: I64

    arrival_s: F64  # (J)
    scheduler: I32  # (J + R), as all below; -1 of one that runs at the start
    tasks: I32
    duration_s: F64
    cpu: I64  # of a task
    memory: I64
    decision_s: F64  # of a decision on the job, and for each of its tasks
    decision_task_s: F64
    left: I32
    attempts: I32
    waited_s: F64  # from arrival to the first attempt; below 0 before
    next: I32  # in its scheduler's queue
    maps: I32  # of a MapReduce job, its map activities; 0 of any other
    reduces: I32
    map_s: F64  # of one activity
    reduce_s: F64

    head: I32  # (S)
    tail: I32
    deciding: I32  # the job, or -1
    took_s: F64  # the decision that goes on
    random: I64
    pool: I32  # (S, M): machines, in any order
    epoch: I32  # of the private copy
    stamp: I32  # (S, M)
    more_cpu: I64  # (S, M): what the cell has more than the copy
    more_memory: I64
    more_cpu_in_all: I64  # (S): of all machines
    raised: I32  # (S, M): by how much others have raised the machine's sequence number since
    useful_s: F64  # (S): decision time without a conflict, and with one
    wasted_s: F64
    successes: I64
    failures: I64
    failed_claims: I64
    empty: I64
    abandoned: I64

    chosen: I32  # machines that a decision has chosen
    claim_start: I32  # (T): into claim_machines
    claim_count: I32
    claim_job: I32
    claim_next: I32  # of the same offer
    claim_machines: I32  # (T)

    event_s: F64
    event_order: I64
    event_kind: I32
    event_subject: I32

    held_cpu: I64  # (S): of the tasks that run, for Mesos' dominant shares
    held_memory: I64
    requested: I64  # (S): the number of its request for offers, or -1
    offer_scheduler: I32  # (O): or -1, of one that is not used
    offer_cpu: I64  # (O): what of it is free
    offer_memory: I64
    offer_claims: I32  # (O): the first claim of its answer, or -1
