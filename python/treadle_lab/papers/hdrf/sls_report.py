"""What `treadle reproduce hdrf --section 5.2 --on sls` found, beside the simulator on the same draws and the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.table import Table

from treadle.tables import empty_table
from treadle_lab.papers.hdrf.comparison import HDRF
from treadle_lab.papers.hdrf.comparison_report import (
    PAPER_GAIN,
    PAPER_GAIN_STOCK,
    PAPER_STOCK,
    PAPER_TASKS,
    Comparison,
    by_leaf,
    shown,
)
from treadle_lab.papers.hdrf.facebook import LEAVES
from treadle_lab.papers.hdrf.sls import HEARTBEAT_MS, NAIVE, SCHEMES, STOCK, TIMES, Draw
from treadle_lab.sls import pace

__all__ = ["SIMULATED", "PlayedComparison"]

SIMULATED: Final[Mapping[str, str]] = {HDRF: HDRF, NAIVE: NAIVE, STOCK: "capacity"}
"""The simulator's schemes beside those of the testbed. Its `capacity` orders queues alone (`comparison.SHARES`)."""
TITLES: Final = {HDRF: "H-DRF (as: paper)", NAIVE: "naive H-DRF (Pareto CS)", STOCK: "stock capacity scheduler"}
_PAPER_TASKS: Final = {**PAPER_TASKS, STOCK: PAPER_STOCK}
_PAPER_GAIN: Final = {NAIVE: PAPER_GAIN, STOCK: PAPER_GAIN_STOCK}


class PlayedComparison:
    """Figures by scheme and leaf on the testbed, and the simulator's for the same draws."""

    def __init__(self, draws: Sequence[Draw], simulated: Comparison) -> None:
        """Take draws and what the simulator makes of them."""
        self._draws = draws
        pairs = [(scheme, draw.seed) for draw in draws for scheme in SCHEMES]
        self._played = Comparison(pairs, [draw.figures[scheme] for draw in draws for scheme in SCHEMES])
        self._simulated = simulated

    def as_json(self) -> dict[str, Any]:
        """Return everything for ``--json``; times are uncompressed but those of the machine's pace."""
        beside = self._simulated.by_scheme()
        papers: dict[str, Mapping[str, tuple[int, ...]]] = {
            "median_tasks": _PAPER_TASKS,
            "gain_percent_over": _PAPER_GAIN,
        }
        return {
            "section": "5.2",
            "seeds": self._played.seeds,
            "times": TIMES,
            "heartbeat_ms": HEARTBEAT_MS,
            "schemes": self._played.by_scheme() | {f"simulator-{name}": found for name, found in beside.items()},
            "paper": {name: {scheme: list(row) for scheme, row in rows.items()} for name, rows in papers.items()},
            "shortfalls": self.shortfalls(),
            "runs": self._played.runs(),
            "simulated_runs": self._simulated.runs(),
            "played": [
                {"seed": draw.seed, "scheme": scheme, **run.as_json()}
                for draw in self._draws
                for scheme, run in draw.runs.items()
            ],
        }

    def tables(self) -> list[Table]:
        """Return what is printed."""
        tasks = by_leaf("Tasks that run at a time: median while leaves with large jobs have jobs")
        responses = by_leaf("Mean response time of jobs over that under H-DRF")
        for scheme in SCHEMES:
            beside = SIMULATED[scheme]
            tasks.add_row(TITLES[scheme], *(shown(self._played.median_tasks(scheme, leaf)) for leaf in LEAVES))
            tasks.add_row("  simulator", *(shown(self._simulated.median_tasks(beside, leaf)) for leaf in LEAVES))
            tasks.add_row("  paper", *map(str, _PAPER_TASKS[scheme]))
            if scheme == HDRF:
                continue
            responses.add_row(TITLES[scheme], *(shown(self._played.response_ratio(scheme, leaf)) for leaf in LEAVES))
            responses.add_row("  simulator", *(shown(self._simulated.response_ratio(beside, leaf)) for leaf in LEAVES))
            responses.add_row("  paper: gain of H-DRF (%)", *(f"{gain:+d}" for gain in _PAPER_GAIN[scheme]))
        return [tasks, responses, self._machine()]

    def _machine(self) -> Table:
        table = empty_table(
            "The machine: heartbeats handled, latest submission",
            ("",),
            ("pace", "containers placed by the stock scheduler"),
        )
        for scheme in SCHEMES:
            runs = [draw.runs[scheme] for draw in self._draws]
            natively = "" if scheme == STOCK else str(sum(run.placed_natively for run in runs))
            table.add_row(TITLES[scheme], pace.shown([run.pace for run in runs]), natively)
        return table

    def shortfalls(self) -> list[str]:
        """Say what is not as it should be: native placements, and a machine that was too slow."""
        runs = {f"seed {draw.seed}, {scheme}": run for draw in self._draws for scheme, run in draw.runs.items()}
        found = [
            f"{title}: the stock scheduler placed {run.placed_natively} containers in Treadle's stead"
            for title, run in runs.items()
            if run.placed_natively
        ]
        return found + pace.behind({title: run.pace for title, run in runs.items()})
