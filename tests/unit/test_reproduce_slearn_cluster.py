"""`treadle reproduce slearn-cluster`: everything but the clusters."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from treadle.cli.main import run
from treadle.lab.minicluster import Scheduler
from treadle.lab.reproduce.slearn_cluster.experiment import (
    BLOCK_BYTES,
    MAP_MS_MAX,
    SCHEMES,
    TASKS_MAX,
    Ended,
    Round,
    Settings,
    arrivals,
    cluster_settings,
    queues,
    write_words,
)
from treadle.lab.reproduce.slearn_cluster.report import document, plot_completions, ratio, shortfalls, table, types_of
from treadle.lab.reproduce.slearn_cluster.simulated import MASTER_START_MS, TASK_START_MS
from treadle.live.live_settings import read_live_settings

SAMPLE = Path(__file__).parents[1] / "data" / "workload" / "swim.tsv"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Twelve jobs in SWIM's format, from a few bytes to some terabytes."""
    file = tmp_path / "sample.tsv"
    lines = [
        "\t".join(map(str, (f"job{at}", 30 * at, 30, 20 * 10**at, 10**at if at % 2 else 0, 10**at // 2)))
        for at in range(12)
    ]
    file.write_text("\n".join(lines) + "\n")
    return file


def job(maps: int, completion_s: float, work_s: float = 10, status: str = "SUCCEEDED", again: bool = False) -> Ended:
    return Ended(f"j{maps}", "user0", maps, round(1000 * work_s), maps == 8, status, round(1000 * completion_s), again)


def rounds(factor: float = 2.0) -> list[Round]:
    own = (job(1, 10), job(8, 20), job(24, 60, 300))
    found = []
    for seed in (1, 2):
        for scheme, times in (("slearn", 1.0), ("fifo", factor), ("fair", factor)):
            jobs = tuple(replace(one, completion_ms=round(one.completion_ms * times)) for one in own)
            found.append(Round(seed, scheme, jobs, {"treadle": 40, "native": 0} if scheme == "slearn" else {}))
    return found


def test_a_draw_depends_on_its_seed_alone_and_has_two_users(sample: Path) -> None:
    settings = Settings(jobs=10)
    drawn = arrivals(sample, 3, settings)
    assert drawn == arrivals(sample, 3, settings)
    assert drawn != arrivals(sample, 4, settings)
    assert {one.job.user for one in drawn} == {"user0", "user1"}
    assert [one.at_ms for one in drawn] == sorted(one.at_ms for one in drawn)
    assert max(one.job.maps for one in drawn) == TASKS_MAX
    assert max(one.job.map_ms for one in drawn) == MAP_MS_MAX
    assert len({one.job.settings["mapreduce.job.tags"] for one in drawn}) == 10, "none is taken for a run of another"


def test_about_half_of_a_draw_counts_words_in_files_of_unequal_sizes(sample: Path, tmp_path: Path) -> None:
    drawn = [one for seed in range(6) for one in arrivals(sample, seed, Settings(jobs=10))]
    counting = [one for one in drawn if one.files]
    assert 20 <= len(counting) <= 40
    assert all(len(one.files) == one.job.maps and min(one.files) > 0 for one in counting)
    wide = [one.files for one in counting if one.job.maps == TASKS_MAX]
    assert wide
    for files in wide:
        assert abs(sum(files) - TASKS_MAX * BLOCK_BYTES) < 0.01 * sum(files)
        assert max(files) > 3 * sorted(files)[TASKS_MAX // 2], "skewed"
    words = tmp_path / "words"
    written = write_words(words, wide[0], 1)
    sizes = [file.stat().st_size for file in sorted(words.iterdir())]
    assert all(0 <= asked - size < 200 for asked, size in zip(wide[0], sizes, strict=True)), "to the line"
    assert sum(len(file.read_text().split()) for file in words.iterdir()) == written


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_each_scheme_has_its_queue_and_treadle_its_policy(scheme: object, tmp_path: Path) -> None:
    found = cluster_settings(scheme, Settings(), tmp_path / "place" / "cluster")  # type: ignore[arg-type]
    assert found.queues is not None
    assert (found.policy is not None) == (found.scheduler is Scheduler.TREADLE)
    if found.policy is not None:
        settings = read_live_settings(found.policy)
        assert "gate=pilots" in settings.policy.name()
        assert settings.profiles.store.startswith(str(tmp_path))
    assert queues("fair")["yarn.scheduler.capacity.root.default.ordering-policy"] == "fair"


def test_types_and_ratios() -> None:
    assert [types_of(one) for one in rounds()[0].jobs] == [
        ("thin", "sleep"), ("wide, small", "count words"), ("wide, large", "sleep")
    ]  # fmt: skip
    assert ratio(rounds(), "fifo") == (2.0, 2.0, 2.0)
    assert shortfalls(rounds()) == []


def test_what_is_missed_is_said() -> None:
    found = rounds(0.8)
    failed = replace(found[0], jobs=(job(1, 10, status="FAILED"), job(8, 20, again=True), *found[0].jobs[2:]))
    said = shortfalls([failed, *found[1:]])
    assert "seed 1, slearn: j1 of user0 ended as FAILED" in said
    assert "seed 1: the master of j8 killed reduces of its own" in said
    assert "jobs take 0.80 times as long under stock, FIFO; the goal is 1.5" in said
    assert "thin jobs take 1.25 times as long as under stock, FIFO" in said


def test_table_json_and_plot(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(table(rounds()))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "60.0 (2)" in shown
    assert "wide, large" in shown
    written = json.loads(json.dumps(document(rounds(), Settings(), SAMPLE)))
    assert written["speedup_mean"]["fair"]["mean"] == 2.0
    assert written["mean_ms"]["thin"] == {"slearn": 10_000, "fifo": 20_000, "fair": 20_000}
    assert written["rounds"][0]["placed"]["native"] == 0
    plot_completions(rounds(), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_the_same_draws_run_in_the_simulator(sample: Path, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    arguments = ["reproduce", "slearn-cluster", "--sample", str(sample), "--jobs", "8", "--rounds", "2", "--simulated"]
    assert run([*arguments, "--json", str(file)]) == 0
    figures = json.loads(file.read_text())
    assert [(one["seed"], one["scheme"]) for one in figures["rounds"]] == [
        (1, "slearn"), (1, "fifo"), (1, "fair"), (2, "fifo"), (2, "fair"), (2, "slearn")
    ]  # fmt: skip
    jobs = figures["rounds"][0]["jobs"]
    assert len(jobs) == 8
    least_ms = MASTER_START_MS + TASK_START_MS
    assert all(each["completion_ms"] > least_ms + each["work_ms"] / 24 for each in jobs)


def test_a_sample_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sample.tsv"
    file.write_text("job0\t1\n")
    assert run(["reproduce", "slearn-cluster", "--sample", str(file)]) == 2
    assert "sample.tsv: line 1" in capsys.readouterr().err
    assert run(["reproduce", "slearn-cluster", "--sample", str(tmp_path / "none.tsv")]) == 2
    assert "none.tsv" in capsys.readouterr().err
