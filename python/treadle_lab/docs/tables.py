"""Tables of results by name: a page shows those of kept results, a command those of what it has just found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from rich.console import Console

from treadle.simulate.comparison import Interval
from treadle_lab.rows import Table, show

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
    "shipped": "SLearn as it ships",
    "shipped-history": "SLearn with a store of profiles, as it ships",
    "pilot-timeout": "SLearn, pilots are replaced after 10 min",
    "hold-timeout": "SLearn, jobs are held back for 30 min at most",
    "timeouts": "SLearn, both time-outs",
    "packing": "SLearn, packing",
    "combined-stored": "pilots and the store of profiles (ours)",
    "pilots": "pilots",
    "median": "median of earlier jobs",
}
"""How pages call schemes and estimators of SLearn's experiment."""


HDRF_SCHEMES: Final = {
    "naive": "naive H-DRF (Pareto CS)",
    "hdrf": "H-DRF (as: paper)",
    "repaired": "H-DRF, repaired",
    "capacity": "capacity share",
    "naive-headroom": "naive H-DRF, headroom",
    "hdrf-headroom": "H-DRF (as: paper), headroom",
    "stock": "capacity scheduler of Hadoop 2.0.2",
    "capacity-scheduler": "stock capacity scheduler",
}
"""How pages call shares of H-DRF's experiment."""
TESTBED: Final = {"fair": "stock, fair ordering", "fifo": "stock, FIFO"}
"""How pages call what SLearn is compared with on the testbed alone."""
GRAPHENE_FIGURES: Final = {"median_shorter": "median shorter than", "throughput_higher": "throughput over"}


def _slearn_times(figures: Figures) -> Table:
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
    return Table("Completion times of jobs over SLearn's", heading, rows)


def _slearn_errors(figures: Figures) -> Table:
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
    return Table("Estimates of wide jobs", heading, rows)


def _slearn_settings(figures: Figures) -> Table:
    ours, papers = figures["intervals"]["over_3sigma"], figures["paper"]["over_3sigma"]
    rows = [(name, _shown(ours, name), _number(papers, name)) for name in ours]
    return Table(
        "SLearn with other settings: mean speed-up over 3Sigma", ("SLearn with", "speed-up over 3Sigma", "paper"), rows
    )


def _hdrf_title(scheme: str) -> str:
    share = scheme.removeprefix("simulator-")
    return HDRF_SCHEMES.get(share, share) + (", in the simulator" if share != scheme else "")


def _hdrf_rows(figures: Figures, figure_name: str) -> list[tuple[str, ...]]:
    return [
        (_hdrf_title(scheme), *(_shown(leaf, figure_name) for leaf in leaves.values()))
        for scheme, leaves in figures["schemes"].items()
    ]


def _hdrf_tasks(figures: Figures) -> Table:
    papers = figures["paper"]["median_tasks"]
    rows = _hdrf_rows(figures, "median_tasks")
    rows += [(f"paper, {_hdrf_paper(name)}", *map(str, row)) for name, row in papers.items()]
    return Table(
        "Tasks that run at a time: median while leaves with large jobs have jobs",
        ("", *next(iter(figures["schemes"].values()))),
        rows,
    )


def _hdrf_responses(figures: Figures) -> Table:
    own = {_hdrf_title("hdrf"), _hdrf_title("simulator-hdrf")}
    rows = [row for row in _hdrf_rows(figures, "response_over_hdrf") if row[0] not in own]
    papers = figures["paper"].get("gain_percent_over", {})
    rows += [(f"paper, gain of H-DRF over {_hdrf_paper(name)} (%)", *map(str, row)) for name, row in papers.items()]
    return Table(
        "Mean response time of jobs over that under H-DRF", ("", *next(iter(figures["schemes"].values()))), rows
    )


def _hdrf_paper(scheme: str) -> str:
    """Return what the paper's row of a scheme is of: its stock scheduler is an old one."""
    return HDRF_SCHEMES["stock" if scheme == "capacity-scheduler" else scheme].removesuffix(" (as: paper)")


def _hdrf_test(figures: Figures) -> Table:
    rows = []
    for test in figures["tests"]:
        for number, title in enumerate(test["steps"]):
            for leaf, expected in test["expected"]["hdrf"][number].items():
                naive = test["expected"]["drf-naive"][number][leaf]
                reached = [_reached(run["steps"][number], leaf) for run in test["runs"]]
                shown = title if leaf == next(iter(test["expected"]["hdrf"][number])) else ""
                rows.append((shown, leaf, f"{expected:g}", f"{naive:g}", *reached))
    schedulers = {"treadle": "Treadle", "capacity": "stock"}
    runs = figures["tests"][0]["runs"]
    return Table(
        "Containers of each leaf at the end of each step, beside exact shares",
        ("", "leaf", "H-DRF", "naive DRF", *(schedulers[run["scheduler"]] for run in runs)),
        rows,
    )


def _reached(step: Mapping[str, Any], leaf: str) -> str:
    least, most = step["least"][leaf], step["most"][leaf]
    return f"{step['tasks'][leaf]:g}" + (f" ({least} to {most})" if least != most else "")


def _hdrf_slots(figures: Figures) -> Table:
    papers, rows = figures["paper"], []
    sizes = next(list(each["gain_percent"]) for each in figures["schemes"].values() if each["gain_percent"])
    for scheme, found in figures["schemes"].items():
        title = HDRF_SCHEMES.get(scheme, scheme.replace("slots-", "slots, "))
        gains = [_shown(found["gain_percent"], size) for size in sizes]
        over = "" if scheme == "hdrf" else _shown(found, "total_over_hdrf")
        rows.append([title, _shown(found, "total_s"), over, *gains])
        paper_s = papers["total_s"]
        paper_over = "" if scheme == "hdrf" else f"{paper_s[scheme] / paper_s['hdrf']:.2f}"
        gains = [str(gain) for gain in papers["gain_percent"].get(scheme, [""] * len(sizes))]
        rows.append([f"paper, {title}", f"{paper_s[scheme]:,}", paper_over, *gains])
    heading = ("", "all jobs (s)", "over H-DRF's", *(f"gain of H-DRF, jobs of {size} tasks (%)" for size in sizes))
    return Table("H-DRF beside schedulers of slots", heading, rows)


def _hdrf_large(figures: Figures) -> Table:
    rows = []
    papers = figures["paper"]["gain_percent"]
    sizes = next(
        list(each["gain_percent"]) for each in next(iter(figures["loads"].values())).values() if each["gain_percent"]
    )
    for load, schemes in figures["loads"].items():
        for scheme, found in schemes.items():
            gains = [_shown(found["gain_percent"], size) for size in sizes]
            title = HDRF_SCHEMES.get(scheme, scheme.replace("slots-", "slots, "))
            rows.append([load, title, _shown(found, "at_a_time"), _shown(found, "ended_percent"), *gains])
    for scheme, row in papers.items():
        rows.append(["paper", scheme.replace("slots-", "slots, "), "", "", *map(str, row)])
    gains = [f"gain of H-DRF, jobs of {size} tasks (%)" for size in sizes]
    return Table(
        "H-DRF beside schedulers of slots on 1,200 servers, by load",
        ("load", "", "tasks at a time", "jobs ended (%)", *gains),
        rows,
    )


def _level(value: Any) -> str:
    return "" if value is None else str(value)


def _graphene_rows(figures: Figures) -> Table:
    found = figures["rows"]
    factors = [
        each for each in figures["factors"] if len({_level(row[each]) for row in found if _level(row[each])}) > 1
    ]
    columns = [
        (name, base)
        for name in GRAPHENE_FIGURES
        for base in ("bfs", "bfs-cores", "tetris-all")
        if any(base in row[name] for row in found)
    ]
    heading = [*factors, "scheme", *(f"{GRAPHENE_FIGURES[name]} {base} (%)" for name, base in columns)]
    if any("batch_s" in row for row in found):
        heading.append("batch (s)")
    rows = []
    for row in found:
        cells = [_level(row[each]) for each in factors] + [row["scheme"]]
        cells += [_shown(row[name], base) for name, base in columns]
        rows.append(cells + ([_shown(row, "batch_s")] if "batch (s)" in heading else []))
    return Table("Each point and setting", heading, rows)


def _graphene_effects(figures: Figures) -> Table:
    rows = []
    columns: list[tuple[str, str]] = []
    for scheme, factors in figures["effects"].items():
        for factor, levels in factors.items():
            for level, found in levels.items():
                columns = columns or [
                    (name, base) for name in GRAPHENE_FIGURES for base in ("bfs", "bfs-cores") if base in found[name]
                ]
                rows.append((scheme, factor, level, *(_shown(found[name], base) for name, base in columns)))
    heading = ("scheme", "factor", "level", *(f"{GRAPHENE_FIGURES[name]} {base} (%)" for name, base in columns))
    return Table("Each level of a factor: the mean over all other factors", heading, rows)


def _graphene_gains(figures: Figures) -> Table:
    rows = [
        (row["scheme"], base, *map(figure, row["gains"][base].values()))
        for row in figures["rows"]
        for base in ("bfs", "bfs-cores", "tetris-all")
        if base in row["gains"]
    ]
    percentiles = next(gains for row in figures["rows"] for gains in row["gains"].values())
    return Table(
        "Jobs are shorter by: percentiles over the jobs of all draws",
        ("scheme", "against", *(f"{part.upper()} (%)" for part in percentiles)),
        rows,
    )


def _graphene_online(figures: Figures) -> Table:
    titles = {
        "median_shorter": "median shorter than",
        "gap_median": "median gap to",
        "mean_shorter": "mean shorter than",
    }
    return _by_workload("Completion times against each baseline", figures, titles)


def _graphene_batch(figures: Figures) -> Table:
    return _by_workload(
        "Throughput of batches against each baseline, and what is possible",
        figures,
        {"throughput_higher": "throughput over", "throughput_possible": "throughput over"},
    )


def _by_workload(title: str, figures: Figures, titles: Mapping[str, str]) -> Table:
    """Return a row for each workload and each of what has figures there; a column for each title and baseline."""
    columns = list(dict.fromkeys((words, base) for name, words in titles.items() for base in figures[name]))
    rows: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for name, words in titles.items():
        for base, workloads in figures[name].items():
            for workload, found in workloads.items():
                for scheme in found:
                    rows.setdefault((workload, scheme), {})[words, base] = (
                        "" if scheme == base else _shown(found, scheme)
                    )
    heading = ("workload", "", *(f"{words} {base} (%)" for words, base in columns))
    return Table(title, heading, [(*row, *(cells[each] for each in columns)) for row, cells in rows.items()])


def _graphene_testbed(figures: Figures) -> Table:
    columns = {
        "median_s": "median (s)",
        "median_shorter": "shorter than stock (%)",
        "median_shorter_than_tetris": "shorter than Tetris (%)",
        "mean_s": "mean (s)",
        "mean_shorter": "shorter than stock (%)",
        "span_s": "all jobs (s)",
    }
    rows = []
    for scheme, found in figures["schemes"].items():
        own = {"bfs": ("median_shorter", "mean_shorter"), "tetris": ("median_shorter_than_tetris",)}.get(scheme, ())
        cells = ["" if name in own else _shown(found, name) for name in columns]
        rows.append([found["title"], *cells, f"{found['gap_median']:.0f}", str(found["planned"])])
    return Table(
        "Completion times of DAGs on the testbed, in its seconds",
        ("", *columns.values(), "median gap of jobs (%)", "jobs by a plan"),
        rows,
    )


def _testbed_pace(figures: Figures) -> Table:
    runs = [(run["seed"], run["scheme"], run["pace"]) for run in figures.get("played", ())]
    runs += [
        (draw["seed"], name, run["pace"]) for draw in figures.get("draws", ()) for name, run in draw["runs"].items()
    ]
    rows = []
    for seed, scheme, pace in runs:
        if pace is None:
            continue
        decide = [figure(pace[part]) if pace[part] is not None else "" for part in ("decide_p50_ms", "decide_p99_ms")]
        beats, held = f"{100 * pace['heartbeats_share']:.1f}", f"{pace['held_over_work']:.2f}"
        rows.append((str(seed), scheme, beats, f"{pace['late_ms']:.0f}", held, *decide))
    heading = ("seed", "scheme", "heartbeats handled (%)", "latest submission (ms)", "containers held over tasks' time")
    return Table("Whether the machine kept up with each run", (*heading, "decide P50 (ms)", "P99 (ms)"), rows)


def _slearn_testbed(figures: Figures) -> Table:
    rows = []
    for name, found in figures["over_slearn"].items():
        if name != "slearn":
            by_draw = [f"{over:.2f}" for over in found["by_draw"]]
            rows.append(
                (
                    TESTBED.get(name, SCHEMES.get(name, name)),
                    _shown(found, "all"),
                    ", ".join(by_draw),
                    _shown(found, "wide"),
                )
            )
    return Table(
        "Completion times of jobs on the testbed over SLearn's",
        ("over SLearn's, mean completion", "all jobs", "draw by draw", "wide jobs alone"),
        rows,
    )


def _of_rows(title: str, figures: Figures, part: str, columns: Mapping[str, str]) -> Table:
    rows = [(name, *(_shown(found, each) for each in columns)) for name, found in figures[part].items()]
    return Table(title, ("", *columns.values()), rows)


def _slearn_bins(figures: Figures) -> Table:
    columns = {"jobs": "jobs (%)", "work": "task time (%)"}
    columns |= {"over_slearn": "3Sigma by the letter over SLearn", "faster": "jobs that SLearn makes faster (%)"}
    return _of_rows("Bins of jobs by width and size", figures, "bins", columns)


def _slearn_waiting(figures: Figures) -> Table:
    columns = {"slearn": "with SLearn (%)", "3sigma-paper": "with 3Sigma by the letter (%)"}
    columns |= {"both": "with both (%)", "lower_with_slearn": "of these lower with SLearn (%)"}
    return _of_rows("Normalised waiting times by segment", figures, "waiting", columns)


def _slearn_variation(figures: Figures) -> Table:
    return _of_rows("Coefficients of variation of task durations", figures, "variation", {"p50": "P50", "p90": "P90"})


def _slearn_loads(figures: Figures) -> Table:
    loads = figures["loads"]
    found = {load: each["intervals"]["speedup_mean"] for load, each in loads.items()}
    names = [name for name in next(iter(found.values())) if name in SCHEMES]
    rows = [(SCHEMES[name], *(_shown(each, name) for each in found.values())) for name in names]
    return Table("Mean completion times over SLearn's by load", ("over SLearn's, mean load", *loads), rows)


TABLES: Final[dict[str, Callable[[Figures], Table]]] = {
    "slearn-times": _slearn_times,
    "slearn-errors": _slearn_errors,
    "slearn-settings": _slearn_settings,
    "hdrf-tasks": _hdrf_tasks,
    "hdrf-responses": _hdrf_responses,
    "hdrf-slots": _hdrf_slots,
    "hdrf-large": _hdrf_large,
    "hdrf-test": _hdrf_test,
    "graphene-rows": _graphene_rows,
    "graphene-effects": _graphene_effects,
    "graphene-gains": _graphene_gains,
    "graphene-online": _graphene_online,
    "graphene-batch": _graphene_batch,
    "graphene-testbed": _graphene_testbed,
    "testbed-pace": _testbed_pace,
    "slearn-bins": _slearn_bins,
    "slearn-waiting": _slearn_waiting,
    "slearn-variation": _slearn_variation,
    "slearn-loads": _slearn_loads,
    "slearn-testbed": _slearn_testbed,
}


def show_tables(figures: Figures, names: Sequence[str], console: Console) -> None:
    """Print the tables of some names that have rows, and for each run of a testbed whether the machine kept up."""
    for name in names:
        table = TABLES[name](figures)
        if table.rows:
            show(table, console)


def interval(found: Mapping[str, float]) -> Interval:
    """Return an interval as a command writes it."""
    return Interval(found["mean"], found["low"], found["high"])


def figure(value: float) -> str:
    """Return a number with three digits that count, noughts at its end too; from 1,000 on a whole one."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.3g}".removesuffix(".")


def _shown(table: Mapping[str, Any], name: str) -> str:
    if name not in table:
        return ""
    found = interval(table[name])
    if found.mean is None or not isfinite(found.mean):
        return "-"
    uncertain = "" if found.low == found.high else f" ({figure(found.low)} to {figure(found.high)})"
    return figure(found.mean) + uncertain


def _number(table: Mapping[str, float], name: str) -> str:
    return f"{table[name]:g}" if name in table else ""


def _spread(table: Mapping[str, Mapping[str, float]], name: str) -> str:
    found = table.get(name)
    return f"{found['least']:.2f} to {found['most']:.2f}, sd {found['deviation']:.2f}" if found else ""
