"""Results of Graphene's factorial: a row a point and setting, and what each level of a factor does in the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treadle_lab.harness.statistics import Interval, interval_of
from treadle_lab.papers.graphene import paper
from treadle_lab.papers.graphene.factorial import COMPARED, Found, Wanted, base_of, plain_variation, shown_range
from treadle_lab.papers.graphene.online import Result, gaps_percent, shorter_percent

PERCENTILES: Final = (10, 25, 50, 75, 90)
FACTORS: Final = ("workload", "size", "load", "tick_ms", "wrong", "usage", "candidates", "srpt_weight", "overbook")
FIGURES: Final = ("median_shorter", "mean_shorter", "throughput_higher")


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of a scheme at a point; intervals are over seeds, percentages draw by draw."""

    factors: dict[str, Any]
    """The level of each of `FACTORS`; None where it does not concern the scheme."""
    title: str
    """The point's."""
    scheme: str
    times_s: dict[str, Interval]
    """median, mean, batch (the makespan of all jobs at once): those that were run."""
    by_seed: dict[str, dict[str, list[float]]]
    """By figure and what the scheme is compared with: percent, of each seed."""
    gains: dict[str, dict[str, float]]
    """By what it is compared with: percentiles over jobs of the paper's gap in completion time, percent, all draws."""

    def interval(self, figure: str, base: str) -> Interval | None:
        """Return a figure over seeds; None if it was not run."""
        values = self.by_seed[figure].get(base)
        return interval_of(values) if values else None

    def as_json(self) -> dict[str, Any]:
        """Return the row as JSON takes it."""
        figures = {
            figure: {base: interval_of(values).as_json() for base, values in bases.items()}
            for figure, bases in self.by_seed.items()
        }
        times = {f"{name}_s": each.as_json() for name, each in self.times_s.items()}
        return {**self.factors, "scheme": self.scheme, **times, **figures, "gains": self.gains}


def rows_of(found: Sequence[Found]) -> list[Row]:
    """Return a row for each scheme at each point, as it was set."""
    return [_row(found, each) for each in found]


def _row(found: Sequence[Found], own: Found) -> Row:
    times: dict[str, Interval] = {}
    if own.online:
        times["median"] = interval_of([result.median_s for result in own.online])
        times["mean"] = interval_of([result.mean_s for result in own.online])
    if own.batch:
        times["batch"] = interval_of([result.makespan_ms / 1000.0 for result in own.batch])
    by_seed: dict[str, dict[str, list[float]]] = {figure: {} for figure in FIGURES}
    gains: dict[str, dict[str, float]] = {}
    for name in COMPARED:
        base = base_of(found, own, name)
        if base is None or base is own:
            continue
        if own.online:
            by_seed["median_shorter"][name] = _each(own.online, base.online, _median_shorter)
            by_seed["mean_shorter"][name] = _each(own.online, base.online, _mean_shorter)
            gaps = np.concatenate(
                [gaps_percent(ours, theirs) for ours, theirs in zip(own.online, base.online, strict=True)]
            )
            gains[name] = {f"p{part}": float(np.percentile(gaps, part)) for part in PERCENTILES}
        if own.batch:
            by_seed["throughput_higher"][name] = _each(own.batch, base.batch, _higher)
    point = own.point
    given = {"workload": point.workload, "size": str(point.size), "load": point.load}
    given |= {"tick_ms": point.tick_ms, "wrong": point.wrong, "usage": shown_range(point.usage)}
    return Row({**given, **plain_variation(own.variation)}, point.title, own.scheme, times, by_seed, gains)


def _each(ours: Sequence[Result], theirs: Sequence[Result], figure: Callable[[Result, Result], float]) -> list[float]:
    return [figure(mine, other) for mine, other in zip(ours, theirs, strict=True)]


def _median_shorter(ours: Result, base: Result) -> float:
    return shorter_percent(ours.median_s, base.median_s)


def _mean_shorter(ours: Result, base: Result) -> float:
    return shorter_percent(ours.mean_s, base.mean_s)


def _higher(ours: Result, base: Result) -> float:
    return 100.0 * (base.makespan_ms / ours.makespan_ms - 1.0)


def effects_of(rows: Sequence[Row], scheme: str) -> dict[str, dict[str, dict[str, dict[str, Interval]]]]:
    """Return a scheme's figures by factor, level, figure and what it is compared with: the mean over all other factors.

    The mean is taken seed by seed; intervals are over seeds. Factors of one level are left out.
    """
    own = [row for row in rows if row.scheme == scheme]
    found: dict[str, dict[str, dict[str, dict[str, Interval]]]] = {}
    for factor in FACTORS:
        levels = list(dict.fromkeys(row.factors[factor] for row in own))
        if len(levels) > 1:
            found[factor] = {
                str(level): _mean_of([row for row in own if row.factors[factor] == level]) for level in levels
            }
    return found


def _mean_of(rows: Sequence[Row]) -> dict[str, dict[str, Interval]]:
    return {
        figure: {
            base: interval_of(np.mean([row.by_seed[figure][base] for row in rows], axis=0).tolist())
            for base in rows[0].by_seed[figure]
        }
        for figure in FIGURES
    }


def as_json(wanted: Wanted, rows: Sequence[Row]) -> dict[str, Any]:
    """Return all of it as JSON takes it: intervals have mean, low and high."""
    schemes = dict.fromkeys(row.scheme for row in rows)
    effects = {scheme: effects_of(rows, scheme) for scheme in schemes}
    return {
        "seeds": list(wanted.seeds),
        "factors": list(FACTORS),
        "rows": [row.as_json() for row in rows],
        "effects": _plain(effects),
        "paper": {
            "median_shorter": paper.MEDIAN_SHORTER_PERCENT,
            "throughput_higher": paper.THROUGHPUT_HIGHER_PERCENT,
            "half_of_jobs_shorter": paper.HALF_SHORTER_PERCENT,
        },
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return value.as_json()
    return {str(key): _plain(each) for key, each in value.items()}
