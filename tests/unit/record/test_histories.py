"""`treadle replay --history`: jobs of which there are histories only, on the cluster of a scenario."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from treadle.cli.main import run
from treadle.history.documents import run_from_json, run_json
from treadle.history.importers.mapreduce import read_jhist
from treadle.history.run import DurationSketch
from treadle.replay.model import Histories, cluster_of, reduce_histories

HISTORIES = Path(__file__).parents[2] / "data" / "histories"
SLEEP = next(HISTORIES.glob("job_*_0001-*Sleep*.jhist"))

CLUSTER = """
cluster: {nodes: [{count: 3, resources: {memory-mb: 8192, vcores: 8}}]}
frameworks: {master: {memory-mb: 1536, vcores: 1}, master_start_ms: 6000, launch_ms: 1500}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    return file


def test_what_reduces_waited_for_maps_is_not_their_time() -> None:
    maps, reduces = read_jhist(SLEEP).stages
    assert maps.alone is None
    assert reduces.alone is not None
    assert reduces.alone.count == reduces.width
    assert 0 < reduces.alone.mean_ms < reduces.durations.mean_ms
    again = run_from_json(json.loads(json.dumps(run_json(read_jhist(SLEEP)))))
    assert again.stages[1].alone == reduces.alone


def test_jobs_are_those_of_the_histories(cluster: Path) -> None:
    found = Histories()
    found.read([HISTORIES])
    reduced = reduce_histories(found, cluster_of(cluster, trust_code=False))
    assert [job.framework.value for job in reduced.jobs] == ["spark", "spark", "mapreduce"]
    sleep = reduced.jobs[2]
    history = read_jhist(SLEEP)
    assert [(stage.tasks, stage.parents) for stage in sleep.dag.stages] == [(10, ()), (2, (0,))]
    assert sleep.dag.stages[0].demand == history.stages[0].demand
    for stage, own in zip(sleep.dag.stages, (history.stages[0].durations, history.stages[1].alone), strict=True):
        assert isinstance(own, DurationSketch)
        assert stage.durations().mean() == pytest.approx(own.mean_ms, rel=0.001)
        assert stage.durations().max() == pytest.approx(own.quantile_ms(1.0), rel=0.02)
    assert sleep.arrival_ms == history.started_ms - min(each.started_ms for each in found.runs.values())
    assert not np.array_equal(np.sort(sleep.dag.stages[0].durations()), sleep.dag.stages[0].durations())
    assert any("do not say what their tasks ask for" in note for note in reduced.notes)


def test_policies_are_compared_on_the_cluster_that_is_named(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["replay", "--history", str(HISTORIES), "--cluster", str(cluster), "--policy", "fifo", "--policy", "srpt"]
    assert run([*words, "--seeds", "1"]) == 1
    assert "is far off of what there was: do not go by it" in capsys.readouterr().out.replace("\n", " ")
    assert run([*words, "--json", "--seeds", "2"]) == 1, "the jobs ran on another cluster, one after the other"
    found = json.loads(capsys.readouterr().out)
    assert (found["of"], found["compared"], found["broken"], found["fits"]) == ("histories", 3, 0, False)
    assert [policy["policy"] for policy in found["policies"]] == ["fifo", "srpt"]
    groups = {(each["by"], each["group"]): each["mean_s"] for each in found["recorded"]["groups"]}
    own = {(each["by"], each["group"]): each["mean_s"][0] for each in found["policies"][0]["groups"]}
    assert own["type", "MAPREDUCE"] == pytest.approx(groups["type", "MAPREDUCE"], rel=0.1)
    broken = tmp_path / "broken"
    broken.mkdir()
    shutil.copy(SLEEP, broken / "whole.jhist")
    (broken / "cut.jhist").write_bytes(SLEEP.read_bytes()[:-100])
    words[2] = str(broken)
    assert run([*words, "--seeds", "1"]) == 1, "a history that cannot be read is not passed over"
    said = capsys.readouterr().out
    assert "cut.jhist" in said
    assert "If that is the one under which the jobs ran" in said.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a recording, or --history and --cluster"),
        (["--history", str(HISTORIES), "--policy", "srpt"], "--history goes with --cluster SCENARIO and --policy"),
        (["--history", str(HISTORIES), "--cluster", "{cluster}"], "--history goes with --cluster"),
        (
            ["--history", "{empty}", "--cluster", "{cluster}", "--policy", "srpt"],
            "empty: no history is there",
        ),
        (["--history", "{empty}", "--cluster", "{empty}/no.yaml", "--policy", "srpt"], "no.yaml: cannot be read"),
    ],
)
def test_what_is_missing_is_reported(
    words: list[str], said: str, cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(["replay", *(word.format(cluster=cluster, empty=empty) for word in words)]) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")
