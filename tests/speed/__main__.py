"""Compare this checkout's speed with a recorded commit's: pairs in one run, ratios only.

`python -m tests.speed [--only LOAD ...]`. The exit code is 1 if a ratio is beyond its bound in ranges.yaml, 2 if
something could not be measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.speed.ranges import FILE, Load, Ranges, figure_at, read
from tests.speed.sides import Side, SpeedError, recorded, today

from treadle.simulate.comparison import interval_of_ratio

WORSE = 1
FAILED = 2


def arguments(texts: Sequence[str] | None, ranges: Ranges) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=tuple(ranges.loads), metavar="LOAD", help=f"of {', '.join(ranges.loads)}"
    )
    parser.add_argument("--rounds", type=int, default=ranges.rounds, help="how often each load runs on each side")
    parser.add_argument("--same", action="store_true", help="the recorded commit with itself: what differs is noise")
    return parser.parse_args(texts)


def measure(
    name: str, load: Load, sides: Sequence[Side], rounds: int, folder: Path
) -> dict[str, tuple[list[float], ...]]:
    """Return for each figure its values on both sides.

    Both run at the same time on one core, where what slows the machine slows both, or every other round in the opposite
    order.
    """
    sidecars = [side.write_sidecar(folder / str(number)) for number, side in enumerate(sides)]
    values: dict[str, tuple[list[float], ...]] = {path: ([], []) for path in load.figures}
    core = max(os.sched_getaffinity(0))

    def report(number: int, which: int) -> Any:
        if load.one_core:
            os.sched_setaffinity(0, {core})  # of this thread and what it starts
        return sides[which].report(load.command, sidecars[which], folder / f"{name}-{number}-{which}")

    for number in range(rounds):
        print(f"{name}: round {number + 1} of {rounds}", flush=True)
        order = (0, 1) if number % 2 == 0 else (1, 0)
        with ThreadPoolExecutor(2 if load.one_core else 1) as threads:
            reports = dict(zip(order, threads.map(partial(report, number), order), strict=True))
        for path, of in values.items():
            for which in (0, 1):
                of[which].append(figure_at(reports[which], path))
    return values


def compare(name: str, load: Load, values: dict[str, tuple[list[float], ...]]) -> bool:
    """Print the ratios of a load; return whether one is beyond its bound."""
    worse = False
    for path, bound in load.figures.items():
        now, before = values[path]
        ratio = interval_of_ratio(now, before)
        verdict = "as before"
        if bound.is_worse(ratio.mean):
            worse, verdict = True, "WORSE"
        elif bound.is_better(ratio.mean):
            verdict = f"better: record this commit in {FILE.name}"
        print(f"{name}, {path}: {ratio}, {bound}: {verdict}", flush=True)
    return worse


def main(texts: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit code."""
    ranges = read()
    asked = arguments(texts, ranges)
    if asked.rounds < 1:
        print("--rounds must be at least 1", file=sys.stderr)
        return FAILED
    folder = Path(tempfile.mkdtemp(prefix="treadle-speed-"))
    worse = False
    try:
        kept = recorded(ranges.commit)
        sides = (kept, kept) if asked.same else (today(), kept)
        print(f"this checkout against {ranges.commit[:12]}; logs: {folder}", flush=True)
        for number, side in enumerate(sides):
            print(f"compiling: {side.name}", flush=True)
            side.compile(folder / str(number))
        for name in asked.only or ranges.loads:
            values = measure(name, ranges.loads[name], sides, asked.rounds, folder / name)
            worse = compare(name, ranges.loads[name], values) or worse
    except (SpeedError, KeyError) as error:
        print(error.args[0], file=sys.stderr)
        return FAILED
    return WORSE if worse else 0


if __name__ == "__main__":
    sys.exit(main())
