"""Plots: panels of lines side by side, and intervals of ratios. Files are the same bytes for the same figures.

matplotlib, an extra, is imported as something is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from treadle.simulate.comparison import verdict_of
from treadle_lab.rows import Row, figure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DASHES: Final = ("-", "--", ":", "-.")
"""Line styles of a panel, distinguishable in grey."""


class Line(NamedTuple):
    """A line, or single points where x has names."""

    x: Any
    """Numbers, or names; as many as y."""
    y: Any
    low: Sequence[float] = ()
    """With ``high``: the interval of each y."""
    high: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """Axes, and lines by their names."""

    lines: Mapping[str, Line]
    x: str
    y: str
    title: str = ""
    scales: tuple[str, str] = ("linear", "linear")
    """Scales of x and y, by matplotlib; symlog is for waits, some of which are 0."""
    x_range: tuple[float | None, float | None] = (None, None)
    marker: str = ""
    level: float | None = None
    """Where a thin line lies across, at a y."""


def share_up_to(values: Any) -> Line:
    """Return for each value the share of values that are no larger."""
    return Line(np.sort(values), np.arange(1, len(values) + 1) / max(len(values), 1))


def panels(shown: Sequence[Panel], file: Path, title: str = "") -> Path:
    """Draw panels side by side; return the file."""
    figure = _figure(4.6 * len(shown) + 1.4, 3.8)
    for axes, panel in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        _draw(axes, panel)
    figure.suptitle(title, fontsize=10)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
    return file


def _draw(axes: Any, panel: Panel) -> None:
    for place, (name, line) in enumerate(panel.lines.items()):
        named = len(line.x) > 0 and isinstance(line.x[0], str)
        dashes, marker = ("", "o") if named else (DASHES[place % len(DASHES)], panel.marker)
        (drawn,) = axes.plot(line.x, line.y, label=name, linestyle=dashes, marker=marker, linewidth=1, markersize=3)
        if len(line.low):
            axes.vlines(line.x, line.low, line.high, colors=drawn.get_color(), linewidth=1)
        if named:
            axes.tick_params(axis="x", labelrotation=60, labelsize=7)
    if panel.level is not None:
        axes.axhline(panel.level, color="0.6", linewidth=0.8)
    for scale, setter in zip(panel.scales, (axes.set_xscale, axes.set_yscale), strict=True):
        if scale != "linear":
            setter(scale, **({"linthresh": 0.01} if scale == "symlog" else {}))
    axes.set_xlim(*panel.x_range)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.set_title(panel.title, fontsize=9)
    if any(panel.lines):
        axes.legend(fontsize=7)


def lines(rows: Sequence[Row], file: Path) -> Path:
    """Draw the mean over draws by x, a line a series, with its 95 % interval; all rows have one figure.

    Times are on a logarithmic scale. Return the file.
    """
    from treadle.plots import styles

    places = list(dict.fromkeys(row.x for row in rows))
    figure = _figure(6.5, 3.6)
    panel = figure.subplots()
    for series, style in zip(dict.fromkeys(row.series for row in rows), styles(), strict=False):
        found = [figure_of([row for row in rows if (row.series, row.x) == (series, place)]) for place in places]
        low, mean, high = ([getattr(each, name) for each in found] for name in ("low", "mean", "high"))
        panel.plot(range(len(places)), mean, label=series, **style)
        panel.fill_between(range(len(places)), low, high, alpha=0.15, color=style["color"], linewidth=0)
    panel.set_xticks(range(len(places)), places, rotation=20, ha="right", fontsize=7)
    panel.set_ylabel(f"{rows[0].figure} ({rows[0].unit})")
    panel.set_yscale("log" if rows[0].unit == "s" else "linear")
    panel.grid(alpha=0.3)
    panel.legend(fontsize=7, ncols=2)
    return _write(figure, file)


def intervals(rows: Sequence[Row], file: Path) -> None:
    """Draw each series' change against its reference in per cent with its 95 % interval, a panel an x."""
    places = list(dict.fromkeys(row.x for row in rows))
    names = list(dict.fromkeys(row.series for row in rows))
    figure = _figure(1.5 + 1.7 * len(places), 1.0 + 0.24 * len(names))
    axes = figure.subplots(1, len(places), sharey=True, squeeze=False)[0]
    for panel, place in zip(axes, places, strict=True):
        for at, series in enumerate(names):
            pairs = [
                (row.value, np.nan if row.reference is None else row.reference)
                for row in rows
                if (row.x, row.series) == (place, series)
            ]
            verdict = verdict_of([mine for mine, _ in pairs], [other for _, other in pairs])
            panel.plot([verdict.low, verdict.high], [at, at], color="#0072B2", linewidth=1)
            panel.plot([verdict.change], [at], "o", color="#0072B2", markersize=3)
        panel.axvline(0.0, color="black", linewidth=0.6)
        panel.set_title(place, fontsize=7)
        panel.tick_params(labelsize=7)
    axes[0].set_yticks(range(len(names)), names, fontsize=7)
    axes[0].invert_yaxis()
    figure.supxlabel(f"{rows[0].figure}: change (%)", fontsize=8)
    _write(figure, file)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _write(figure: Figure, file: Path) -> Path:
    import matplotlib as mpl

    from treadle.plots import STYLE

    file.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
    return file
