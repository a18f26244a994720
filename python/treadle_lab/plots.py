"""The two kinds of plots: lines over x, and intervals of ratios. Files are the same bytes for the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from treadle.simulate.plots import STYLE, styles
from treadle.simulate.statistics import interval_of
from treadle.simulate.verdicts import verdict_of
from treadle_lab.rows import Row


def lines(rows: Sequence[Row], file: Path) -> None:
    """Draw the mean over draws by x, a line a series, with its 95 % interval; all rows have one figure."""
    places = list(dict.fromkeys(row.x for row in rows))
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    panel = figure.subplots()
    for series, style in zip(dict.fromkeys(row.series for row in rows), styles(), strict=False):
        found = [interval_of([row.value for row in rows if (row.series, row.x) == (series, place)]) for place in places]
        low, mean, high = ([getattr(each, name) for each in found] for name in ("low", "mean", "high"))
        panel.plot(range(len(places)), mean, label=series, **style)
        panel.fill_between(range(len(places)), low, high, alpha=0.15, color=style["color"], linewidth=0)
    panel.set_xticks(range(len(places)), places, rotation=20, ha="right", fontsize=7)
    panel.set_ylabel(f"{rows[0].figure} ({rows[0].unit})")
    panel.set_yscale("log")
    panel.grid(alpha=0.3)
    panel.legend(fontsize=7, ncols=2)
    _write(figure, file)


def intervals(rows: Sequence[Row], file: Path) -> None:
    """Draw each series' change against its reference in per cent with its 95 % interval, a panel an x."""
    places = list(dict.fromkeys(row.x for row in rows))
    names = list(dict.fromkeys(row.series for row in rows))
    figure = Figure(figsize=(1.5 + 1.7 * len(places), 1.0 + 0.24 * len(names)), layout="constrained")
    panels = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for panel, place in zip(panels, places, strict=True):
        for at, series in enumerate(names):
            pairs = [
                (row.value, np.nan if row.reference is None else row.reference)
                for row in rows
                if (row.x, row.series) == (place, series)
            ]
            found = verdict_of([mine for mine, _ in pairs], [other for _, other in pairs])
            panel.plot([found.low, found.high], [at, at], color="#0072B2", linewidth=1)
            panel.plot([found.change], [at], "o", color="#0072B2", markersize=3)
        panel.axvline(0.0, color="black", linewidth=0.6)
        panel.set_title(place, fontsize=7)
        panel.tick_params(labelsize=7)
    panels[0].set_yticks(range(len(names)), names, fontsize=7)
    panels[0].invert_yaxis()
    figure.supxlabel(f"{rows[0].figure}: change (%)", fontsize=8)
    _write(figure, file)


def _write(figure: Figure, file: Path) -> None:
    with mpl.rc_context(STYLE):
        figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
