"""Jobs that run when a cell's run starts: how they are given, and how they are placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.compiled.array_types import F64, I32, I64
from treadle.simulator.event_queue import schedule
from treadle_lab.models.cell.placing import add_to_claim, begin_claim, first_fit, use
from treadle_lab.models.cell.state import EventKind, Total
from treadle_lab.models.kernels import kernel

if TYPE_CHECKING:
    from treadle_lab.models.cell.state import CellState


@dataclass(frozen=True, slots=True)
class RunningJobs:
    """Jobs that run at the start, each with tasks that are alike.

    Attributes:
        tasks: at least 1.
        left_s: how long each task still runs; infinite if beyond any run.
        cpu: of a task, in thousandths of a CPU.
        memory: of a task, in MB.
    """

    tasks: I32
    left_s: F64
    cpu: I64
    memory: I64

    def __len__(self) -> int:
        return len(self.tasks)


NOTHING_RUNS: Final = RunningJobs(
    np.empty(0, np.int32), np.empty(0, np.float64), np.empty(0, np.int64), np.empty(0, np.int64)
)


@kernel
def place_running(cell: CellState, random: int) -> int:
    """Place the jobs that run at the start, of which nobody is the scheduler; return how many tasks had no room.

    Args:
        cell: of the run, empty
        random: of the choice of machines, odd; the schedulers' own choices do not depend on it
    """
    kept = cell.random[0]
    cell.random[0] = random
    without = 0
    for job in range(len(cell.arrival_s), len(cell.tasks)):
        cell.epoch[0] += 1
        cpu, memory = cell.cpu[job], cell.memory[job]
        found = first_fit(cell, 0, cell.totals[Total.FREE_CPU], 0, job)
        claim = begin_claim(cell, job)
        for at in range(found):
            machine = cell.chosen[at]
            cell.free_cpu[0, machine] -= cpu
            cell.free_memory[0, machine] -= memory
            add_to_claim(cell, claim, machine)
        cell.totals[Total.FREE_CPU] -= found * cpu
        cell.totals[Total.FREE_MEMORY] -= found * memory
        cell.left[job] -= found
        without += cell.left[job]
        use(cell, found * cpu)
        if found > 0 and cell.duration_s[job] < np.inf:
            schedule(cell, cell.duration_s[job], EventKind.ENDED, claim)
    cell.epoch[0] += 1
    cell.random[0] = kept
    cell.totals[Total.SAMPLES] = 0
    return without
