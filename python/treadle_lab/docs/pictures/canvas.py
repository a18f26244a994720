"""How pictures look, and how they are written: SVG whose text stays text, the same bytes for the same figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

BLUE: Final = "#6baed6"
PALE: Final = "#c6dbef"
RED: Final = "#de2d26"
ORANGE: Final = "#fd8d3c"
GREY: Final = "#bdbdbd"
DARK: Final = "#252525"


def pyplot() -> Any:
    """Return matplotlib's pyplot, set up for pictures of docs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plot

    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "treadle",
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "savefig.facecolor": "white",
        }
    )
    return plot


def write(figure: Any, path: Path) -> None:
    """Write a figure as SVG, without the day on which it was drawn."""
    figure.savefig(path, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot().close(figure)
    # matplotlib ends lines with blanks
    path.write_text("".join(f"{line.rstrip()}\n" for line in path.read_text("utf-8").splitlines()), "utf-8")
