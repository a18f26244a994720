"""`treadle workload show`: the figures of small files, as a table, as JSON, as a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cli import Cli

from treadle.cli.main import run
from treadle.plots import plot_workload
from treadle.workload.generate import poisson
from treadle.workload.job import Workload, summarise, weighted

DATA = Path(__file__).parents[2] / "data" / "workload"
PNG = b"\x89PNG"


def shown(cli: Cli, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli(("workload", "show", *arguments, "--output=json")).out)
    return found


def test_the_figures_of_a_file(cli: Cli) -> None:
    found = shown(cli, str(DATA / "sls.json"), "--capacity", "vcores=2", "--capacity", "memory-mb=4096")
    assert (found["format"], found["jobs"], found["stages"], found["tasks"]) == ("sls", 3, 6, 12)
    assert (found["first_arrival_ms"], found["last_arrival_ms"]) == (1000, 4000)
    # Maps 5 and 3 s, two reduces of 7 s, twice three tasks of 0.5 s and one of 0.9 s, each on one core.
    work = 5000 + 3000 + 2 * 7000 + 2 * (3 * 500 + 900)
    assert found["resources"]["vcores"] == {"work_ms": work, "mean_held": work / 4000}
    assert found["loads"]["vcores"] == pytest.approx(work / 4000 / 2)
    assert found["resources"]["gpu"]["work_ms"] == 14_000
    widths = found["distributions"]["job_tasks"]
    assert (widths["p0"], widths["p50"], widths["p100"], widths["mean"]) == (4, 4, 4, 4)
    tasks = found["distributions"]["task_ms"]
    assert (tasks["p0"], tasks["p50"], tasks["p90"], tasks["mean"]) == (500, 500, 7000, work / 12)
    assert (found["frameworks"], found["queues"], found["users"]) == ({"mapreduce": 1, "tez": 2}, {"etl": 1}, 2)
    assert len(found["notes"]) == 1


@pytest.mark.parametrize("name", ["sls.json", "synth.json", "rumen.json", "google", "tpch", "swim.tsv"])
def test_the_table_says_how_much_there_is(name: str, cli: Cli) -> None:
    figures = shown(cli, str(DATA / name))
    printed = cli(("workload", "show", str(DATA / name)))
    assert f"{figures['tasks']:,}" in printed.out
    assert "vcores" in printed.out
    assert ("Note:" in printed.err) == bool(figures["notes"])


def test_a_seed_draws_other_jobs(cli: Cli) -> None:
    file = str(DATA / "synth.json")
    assert shown(cli, file) == shown(cli, file, "--seed", "7")
    assert shown(cli, file) != shown(cli, file, "--seed", "8")


def test_a_plot(tmp_path: Path, cli: Cli) -> None:
    assert run(("workload", "show", str(DATA / "swim.tsv"), "--plot", str(tmp_path / "new"))) == 0
    assert (tmp_path / "new" / "swim-workload.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize("jobs", [0, 1, 50])
def test_any_number_of_jobs_can_be_drawn(jobs: int, tmp_path: Path) -> None:
    workload = poisson(1, jobs) if jobs else Workload((), ())
    target = tmp_path / "a.png"
    plot_workload(workload, summarise(workload), "a", target)
    assert target.read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("none.json",), "none.json: there is no such file"),
        ((str(DATA / "README.md"),), "none of the formats known"),
        ((str(DATA / "sls.json"), "--format", "slss"), "no format 'slss'"),
        ((str(DATA / "sls.json"), "--format", "rumen"), "line 1: jobID: Field required"),
        ((str(DATA / "sls.json"), "--capacity", "vcores"), "--capacity: 'vcores' is not like vcores=150"),
        ((str(DATA / "sls.json"), "--capacity", "vcores=0"), "capacity of vcores is 0"),
        ((str(DATA / "sls.json"), "--plot", str(DATA / "sls.json")), "name a folder that can be written"),
    ],
)
def test_a_mistake_is_answered_in_words(arguments: tuple[str, ...], expected: str, cli: Cli) -> None:
    said = cli(("workload", "show", *arguments), 2).err
    assert expected in said
    assert "Traceback" not in said


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1), st.floats(0, 1))
def test_a_weighted_quantile_is_that_of_all_values(pairs: list[tuple[int, int]], share: float) -> None:
    values, counts = zip(*pairs, strict=True)
    found = weighted(values, np.array(counts, np.float64))
    each = np.repeat(values, counts)
    assert found.quantile(share) == np.quantile(each, share, method="inverted_cdf")
    assert found.mean == pytest.approx(each.mean())
