"""Tables of kept results, by the name that a page asks for them: figures of a command to Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from treadle.lab.harness.statistics import Interval

Figures = Mapping[str, Any]

SCHEMES: Final = {
    "slearn": "SLearn",
    "3sigma": "3Sigma",
    "3sigma-tl": "3SigmaTL",
    "point": "Point-Est",
    "3sigma-paper": "3Sigma by the paper's letter",
    "point-paper": "Point-Est by the paper's letter",
    "las": "LAS",
    "fifo": "FIFO",
    "oracle": "Oracle",
    "combined": "pilots and history (ours)",
    "drawn": "3Sigma with drawn errors as large as the paper's",
    "exact": "SLearn whose pilots tell the truth",
    "pilots": "pilots",
    "median": "median of earlier jobs",
}
"""How pages call schemes and estimators of SLearn's experiment."""


def _slearn_times(figures: Figures) -> str:
    """Mean completion times, over SLearn's."""
    intervals, papers = figures["intervals"], figures["paper"]
    heading = ("", "over SLearn's, all jobs", "paper", "by draw", "wide jobs alone", "median over jobs", "paper")
    rows = [
        (
            SCHEMES.get(name, name),
            _shown(intervals["speedup_mean"], name),
            _number(papers["speedup_mean"], name),
            _spread(figures["spread"], name),
            _shown(intervals["speedup_wide"], name),
            _shown(intervals["speedup_p50"], name),
            _number(papers["speedup_p50"], name),
        )
        for name in intervals["mean_s"]
        if name != "slearn"
    ]
    return markdown_table(heading, rows)


def _slearn_errors(figures: Figures) -> str:
    """How wrong estimates of wide jobs are."""
    intervals, papers = figures["intervals"], figures["paper"]
    kinds = {"error_p50": "error P50 (%)", "error_p90": "error P90 (%)", "right_queue": "in the right queue (%)"}
    heading = ["wide jobs"]
    for title in kinds.values():
        heading += [title, "paper"]
    rows = []
    for name in intervals["error_p50"]:
        row = [SCHEMES.get(name, name)]
        for kind in kinds:
            row += [_shown(intervals[kind], name), _number(papers[kind], name)]
        rows.append(row)
    return markdown_table(heading, rows)


def _slearn_settings(figures: Figures) -> str:
    """Other thin limits and ratios."""
    ours, papers = figures["intervals"]["over_3sigma"], figures["paper"]["over_3sigma"]
    rows = [(name, _shown(ours, name), _number(papers, name)) for name in ours]
    return markdown_table(("SLearn with", "speed-up over 3Sigma", "paper"), rows)


TABLES: Final[dict[str, Callable[[Figures], str]]] = {
    "slearn-times": _slearn_times,
    "slearn-errors": _slearn_errors,
    "slearn-settings": _slearn_settings,
}


def interval(found: Mapping[str, float]) -> Interval:
    """Return an interval as a command writes it."""
    return Interval(found["mean"], found["low"], found["high"])


def figure(value: float) -> str:
    """Return a number with three digits that count, noughts at its end too."""
    return f"{value:#.3g}".removesuffix(".")


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _shown(table: Mapping[str, Any], name: str) -> str:
    if name not in table:
        return ""
    found = interval(table[name])
    uncertain = "" if found.low == found.high else f" ({figure(found.low)} to {figure(found.high)})"
    return figure(found.mean) + uncertain


def _number(table: Mapping[str, float], name: str) -> str:
    return f"{table[name]:g}" if name in table else ""


def _spread(table: Mapping[str, Mapping[str, float]], name: str) -> str:
    found = table.get(name)
    return f"{found['least']:.2f} to {found['most']:.2f}, sd {found['deviation']:.2f}" if found else ""
