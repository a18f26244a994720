"""The points of the paper's figures, and of how cost grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from treadle_lab.models.cell.cell import ARCHITECTURES
from treadle_lab.papers.omega.points import Point

_T_JOB_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_T_TASK_S = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0)
_MODES = ("omega", "omega-seq", "omega-aon", "omega-seq-aon")
_SHORT = (0.1, 1.0, 10.0, 100.0)
_BATCH_S = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 25.0, 30.0, 40.0)
_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
GROWTH: Final = "growth"
_GROWING = (500, 1_000, 2_000, 5_000, 10_000, 20_000)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper, or `GROWTH`.

    Attributes:
        number: of it.
        title: what it shows.
        points: what is run for it.
        quick: what of it `--quick` runs.
    """

    number: str
    title: str
    points: tuple[Point, ...]
    quick: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Sweeps:
    """What the sweeps of a workload run on.

    Attributes:
        machines: of the cell.
        large: machines of the cell of the sweeps of rates and of batch decisions, where much more has to have room.
        factors: of the sweep of rates.
    """

    machines: int
    large: int
    factors: tuple[int, ...] = _FACTORS

    def figures(self) -> dict[str, Figure]:
        """Return the figures by number."""
        paths = ("mono1", "mono2", "omega")
        made = (
            Figure("5", "wait against t_job", self._over_t_job(paths, _T_JOB_S), self._over_t_job(paths, _SHORT)),
            Figure("6", "busyness against t_job", self._over_t_job(paths, _T_JOB_S), self._over_t_job(paths, _SHORT)),
            Figure(
                "7",
                "two levels (Mesos)",
                self._over_t_job(("mesos",), _T_JOB_S),
                self._over_t_job(("mesos",), _SHORT),
            ),
            Figure(
                "8",
                "rate of batch jobs, 1 to 32 batch schedulers",
                self._rates((1, 2, 4, 8, 16, 32), self.factors),
                self._rates((1, 4), (1, 4, 10)),
            ),
            Figure(
                "10",
                "busyness against t_job and t_task",
                self._surface(_T_JOB_S, _T_TASK_S),
                self._surface((0.1, 10.0), (0.005, 0.5)),
            ),
            Figure(
                "13",
                "batch jobs dealt among three schedulers",
                self._balanced(_BATCH_S),
                self._balanced((4.0, 10.0, 20.0, 30.0)),
            ),
            Figure(
                "14",
                "coarse conflicts, gang transactions",
                self._over_t_job(_MODES, _T_JOB_S[:-2]),
                self._over_t_job(_MODES, (10.0,)),
            ),
            Figure(
                GROWTH,
                "cost of a simulated day",
                _growth(_GROWING, (1, 2, 5, 10)),
                _growth((500, 5_000), (1,)),
            ),
        )
        return {one.number: one for one in made}

    def _over_t_job(self, architectures: Sequence[str], t_job_s: Sequence[float]) -> tuple[Point, ...]:
        return tuple(Point(name, self.machines, 1.0, t_s) for name in architectures for t_s in t_job_s)

    def _rates(self, counts: Sequence[int], factors: Sequence[int]) -> tuple[Point, ...]:
        return tuple(Point(_omega(count), self.large, float(factor), 0.1) for count in counts for factor in factors)

    def _surface(self, t_job_s: Sequence[float], t_task_s: Sequence[float]) -> tuple[Point, ...]:
        names = ("mono1", "mono2", "mesos", "omega", "omega-seq-aon")
        return tuple(
            Point(name, self.machines, 1.0, job, task) for name in names for job in t_job_s for task in t_task_s
        )

    def _balanced(self, t_job_s: Sequence[float]) -> tuple[Point, ...]:
        return tuple(Point(_omega(n), self.large, 1.0, 0.1, t_job_batch_s=t_s) for n in (1, 3) for t_s in t_job_s)


def _growth(machines: Sequence[int], factors: Sequence[int]) -> tuple[Point, ...]:
    """Return cells that grow, then in the largest of them jobs that become more."""
    cells = [Point(name, count, 1.0, 1.0) for name in ARCHITECTURES for count in machines]
    rates = [Point(name, machines[-1], float(factor), 1.0) for name in ARCHITECTURES for factor in factors[1:]]
    return (*cells, *rates)


def _omega(batch_schedulers: int) -> str:
    return "omega" if batch_schedulers == 1 else f"omega{batch_schedulers}"


REFERENCE_SWEEPS: Final = Sweeps(500, 5_000)
"""Of the original simulator's workload: with 500 machines ten times its batch jobs have no room."""
GOOGLE_SWEEPS: Final = Sweeps(12_500, 12_500, (*_FACTORS, 16, 24, 32))
FIGURES: Final = REFERENCE_SWEEPS.figures()
GOOGLE_FIGURES: Final = GOOGLE_SWEEPS.figures()
NOT_BY_DEFAULT: Final = frozenset({GROWTH})


def figures_of(workload: str) -> dict[str, Figure]:
    """Return the figures of a workload, "reference" or "google"."""
    return GOOGLE_FIGURES if workload == "google" else FIGURES
