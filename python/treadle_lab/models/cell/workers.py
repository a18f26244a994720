"""The workers of MapReduce jobs, by what is idle when a scheduler picks the job: Omega, section 6."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.policy.mapreduce_workers import GLOBAL_CAP_PERCENT, finish_s, useful_workers, workers_for
from treadle_lab.models.cell.state import Mode, Total
from treadle_lab.models.kernels import inner

if TYPE_CHECKING:
    from treadle_lab.models.cell.state import CellState


@inner
def give_workers(cell: CellState, job: int) -> None:
    """Let a job have as many workers as the policy says, and last as long as is predicted then."""
    totals, cpu, memory = cell.totals, cell.cpu[job], cell.memory[job]
    idle = min(totals[Total.FREE_CPU] // cpu, totals[Total.FREE_MEMORY] // memory)
    used = totals[Total.ALL_CPU] - totals[Total.FREE_CPU]
    below_cap = max(0, totals[Total.ALL_CPU] * GLOBAL_CAP_PERCENT // 100 - used) // cpu
    maps, reduces = cell.maps[job], cell.reduces[job]
    useful = useful_workers(maps, reduces)
    workers = workers_for(cell.mode[Mode.WORKERS], cell.tasks[job], useful, idle, below_cap)
    cell.tasks[job] = workers
    cell.left[job] = workers
    cell.duration_s[job] = finish_s(workers, maps, cell.map_s[job], reduces, cell.reduce_s[job])
