"""`treadle replay --policy`: jobs of a recording on a model of its cluster, beside what there was."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.make_recordings import POLICIES, SCENARIO, record
from tests.support.optional import present

from treadle.cli import _what_if
from treadle.cli.main import run
from treadle.history.documents import run_from_json, run_json
from treadle.history.frameworks import read_jhist
from treadle.history.profile import DurationSketch
from treadle.history.stages import Framework, StageId
from treadle.record.files import segments
from treadle.record.reader import summarise
from treadle.replay.model import Histories, _early, cluster_of, parents_of, reduce, reduce_histories
from treadle.replay.seen import RecordedCluster, RecordedContainer, RecordedJob, RecordedStage, read_recorded
from treadle.replay.verify import counted_to
from treadle.replay.what_if import (
    OBSERVED,
    as_recorded,
    first_difference,
    modelled,
    open_recording,
    outcomes_of,
    replayed,
)
from treadle.simulator.cluster import tables
from treadle.simulator.scenario import jobs_of, parse_scenario
from treadle.simulator.simulation import Simulation
from treadle.wire.frames import FrameHeader

RECORDING = Path(__file__).parents[2] / "data" / "recordings" / "default"


def test_jobs_are_those_that_ran_and_tasks_last_as_long_as_they_would() -> None:
    seen = read_recorded(segments(RECORDING))
    found = reduce(seen)
    assert found.notes == []
    assert (len(seen.nodes), len(found.compared)) == (6, 8)
    true = jobs_of(parse_scenario("scenario.yaml", SCENARIO), Path(), 1)
    assert [len(job.dag.stages) for job in found.jobs] == [len(job.dag.stages) for job in true.jobs]
    for mine, own in zip(found.jobs, true.jobs, strict=True):
        assert (mine.arrival_ms, mine.queue.rpartition(".")[2]) == (own.arrival_ms, own.queue.rpartition(".")[2])
        for at, (stage, there) in enumerate(zip(mine.dag.stages, own.dag.stages, strict=True)):
            assert stage.tasks == there.tasks
            assert stage.parents == ((0,) if at else ())
            assert stage.demand == there.demand
            # known to the heartbeats of AM and node, and to a tick; what reduces waited for maps is far more
            assert abs(np.sort(stage.durations()) - np.sort(there.durations())).max() <= 1500


def test_what_is_made_of_the_recorded_policy_is_what_there_was() -> None:
    seen = read_recorded(segments(RECORDING))
    found = reduce(seen)
    own = open_recording(segments(RECORDING), trust_code=False).settings
    (modelled,) = outcomes_of(found, [own], 1).values()
    there = as_recorded(found)
    assert modelled[0].mean_s == pytest.approx(there.mean_s, rel=0.03)
    assert modelled[0].makespan_s == pytest.approx(there.makespan_s, rel=0.03)
    assert [each.jobs for each in modelled[0].groups] == [each.jobs for each in there.groups]


def test_another_seed_deals_out_the_times_of_a_stage_anew() -> None:
    found = reduce(read_recorded(segments(RECORDING)))
    one, other, again = (found.workload(seed) for seed in (1, 2, 2))
    pairs = [
        (job.dag.stages[0].durations(), dealt.dag.stages[0].durations())
        for job, dealt in zip(one.jobs, other.jobs, strict=True)
    ]
    assert all(np.array_equal(np.sort(a), np.sort(b)) for a, b in pairs)
    assert not all(np.array_equal(a, b) for a, b in pairs)
    for a, b in zip(other.jobs, again.jobs, strict=True):
        assert np.array_equal(a.dag.stages[0].durations(), b.dag.stages[0].durations())


def test_what_began_before_or_ends_after_a_recording_is_reported_and_not_compared(tmp_path: Path, cli: Cli) -> None:
    record(tmp_path / "rec", POLICIES["default"], every=60)
    files = segments(tmp_path / "rec")
    late = reduce(read_recorded(files[1:]))
    whole = reduce(read_recorded(files))
    assert (len(late.compared), len(whole.compared)) == (0, 8)
    assert "no job came and ended within the recording" in cli(["replay", str(files[-1]), "--policy", "srpt"], 2).err
    assert any("were there when the recording began" in note for note in late.notes)
    tasks = sum(len(stage.containers) for job in read_recorded(files).jobs.values() for stage in job.stages.values())
    assert tasks == summarise(files).containers
    cut = reduce(read_recorded(files[:-1]))
    assert any("containers had not ended" in note for note in cut.notes)
    gap = reduce(read_recorded([files[0], files[2]]))
    assert any("frames are missing before it" in note for note in gap.notes)


def stage(first_ask_ms: int, *spans: tuple[int, int]) -> RecordedStage:
    containers = [RecordedContainer(begin, at, end, with_job=False) for at, (begin, end) in enumerate(spans)]
    return RecordedStage((1,), containers, first_ask_ms)


def test_a_stage_waits_for_those_that_were_well_under_way_when_it_was_asked_for() -> None:
    first, second, beside, third = (StageId(at, str(at)) for at in range(4))
    stages = {
        first: stage(0, (0, 10_000), (0, 20_000)),
        second: stage(12_000, (12_000, 30_000)),
        beside: stage(0, (0, 90_000)),
        third: stage(31_000, (31_000, 40_000)),
    }
    assert parents_of(stages, Framework.TEZ) == {first: [], second: [first], beside: [], third: [first, second]}


@pytest.mark.parametrize(("asked_ms", "jobs", "fraction"), [(21_000, 3, 1.0), (21_000, 2, None), (12_000, 3, None)])
def test_a_stage_is_asked_for_when_all_jobs_showed_that_it_was(
    asked_ms: int, jobs: int, fraction: float | None
) -> None:
    first, second = StageId(20, "20"), StageId(10, "10")
    seen = RecordedCluster()
    for number in range(jobs):
        stages = {first: stage(0, (0, 10_000), (0, 20_000)), second: stage(asked_ms, (asked_ms, 40_000))}
        id_ = (1, number)
        seen.jobs[id_] = RecordedJob(id_, "", "YARN", "", "", 0, 0, before=False, stages=stages)
    wanted = {} if fraction is None else {"tez_min_fraction": fraction, "tez_max_fraction": fraction}
    assert _early(seen) == wanted


def test_what_would_have_happened_is_shown_beside_what_there_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["replay", str(RECORDING), "--policy", "srpt", "--seeds", "2"]
    assert run([*words, "--output=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["compared"], found["fits"]) == (8, True)
    (srpt,) = found["policies"]
    assert (len(srpt["makespan_s"]), len(srpt["of_recorded"]["makespan_s"])) == (2, 2)
    assert (srpt["switch"]["ticks"], srpt["switch"]["after_s"]) == (43, 53.5)
    groups = {(each["by"], each["group"]): each["jobs"] for each in found["recorded"]["groups"]}
    assert groups["all", "all"] == 8
    for kind in ("queue", "user", "type", "size"):
        assert sum(jobs for (by, _), jobs in groups.items() if by == kind) == 8
    assert 0.3 < found["policies"][0]["utilisation"]["memory-mb"] <= 1.0
    monkeypatch.setattr(_what_if, "OFF", 0.0)
    assert run(words) == 1, "a model that does not fit is no result"
    said = "".join(capsys.readouterr())
    assert "simulated from 53.5 s" in said
    assert "srpt makes the recorded decisions for 53.5 s (42 frames), then diverges" in said
    assert "do not rely on it" in said


def test_the_recorded_policy_gives_the_recording_itself(tmp_path: Path, cli: Cli) -> None:
    file = written(tmp_path / "the-same.yaml", POLICIES["default"])
    found = json.loads(cli(["replay", str(RECORDING), "--policy", str(file), "--output=json"]).out)
    (same,) = found["policies"]
    assert (same["switch"], same["error"]) == (None, {"makespan": 0.0, "completion_mean": 0.0})
    assert same["makespan_s"] == [found["recorded"]["makespan_s"]]
    assert same["seeds"][0]["groups"] == found["recorded"]["groups"]
    said = cli(["replay", str(RECORDING), "--policy", str(file)]).out
    assert "the-same makes the recorded decisions to the end: its result is the recording itself" in said
    assert "Ratios" not in said


def test_another_policy_is_given_the_recording_up_to_its_first_different_decision() -> None:
    recording = open_recording(segments(RECORDING), trust_code=False)
    (found,) = replayed(recording, ["srpt"], 1)
    assert found.switch is not None
    then = read_recorded(recording.files, found.switch.ticks)
    assert then.end_ms == found.switch.at_ms
    ended = {id_ for id_, job in then.jobs.items() if job.end_ms >= 0}
    assert 0 < len(ended) < len(recording.cluster.jobs)
    reduced = reduce(recording.cluster, then)
    fewer = replace(reduced, compared=[job for job in reduced.compared if job.end_ms <= found.switch.at_ms])
    assert len(fewer.compared) == len(ended)
    (outcome,) = modelled(fewer, "srpt", recording.settings, 1)
    assert outcome.groups == as_recorded(fewer).groups, "what had ended is as it was"


@pytest.mark.parametrize("ticks", [1, 20, 43, 70, 100])
def test_the_model_goes_on_from_what_there_was(ticks: int) -> None:
    recording = open_recording(segments(RECORDING), trust_code=False)
    then = read_recorded(recording.files, ticks)
    reduced = reduce(recording.cluster, then)
    assert reduced.situation is not None
    workload = reduced.workload(2)
    simulation = Simulation(
        reduced.scenario.model, workload, recording.settings, 2, check=True, situation=reduced.situation
    )
    running = sum(each.runs for job in then.jobs.values() for stage in job.stages.values() for each in stage.containers)
    masters = sum(job.master_ms >= 0 and job.end_ms < 0 for job in then.jobs.values())
    assert int(simulation.rm.state.clock[tables.CONTAINERS]) == running + masters
    asked = sum(stage.asked for job in then.jobs.values() for stage in job.stages.values())
    waiting = sum(job.awaits_master and not job.waits and job.end_ms < 0 for job in then.jobs.values())
    assert int(simulation.rm.state.clock[tables.PENDING]) == asked + waiting
    run_ = simulation.run()
    assert run_.unfinished == 0
    whole = as_recorded(reduced)
    (again,) = modelled(reduced, "recorded", recording.settings, 1)
    assert again.mean_s == pytest.approx(whole.mean_s, rel=0.03)
    assert again.makespan_s == pytest.approx(whole.makespan_s, rel=0.03)


def test_a_recording_that_was_only_observed_begins_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FrameHeader, "observe", property(lambda _: True))
    recording = open_recording(segments(RECORDING), trust_code=False)
    switch = present(first_difference(recording.files, recording.cluster, None, "own", trust_code=False))
    assert (switch.ticks, switch.why) == (1, OBSERVED)


def test_a_recorded_policy_with_code_is_not_run_unless_it_is_trusted(tmp_path: Path, cli: Cli) -> None:
    mark = tmp_path / "mark"
    (tmp_path / "part.py").write_text(
        f"""
from pathlib import Path
Path({str(mark)!r}).touch()
class Part:
    def keys(self, view):
        return [0.0] * len(view.applications)
"""
    )
    record(tmp_path / "rec", f"policy: {{order: {{kind: file, path: {tmp_path}/part.py, class: Part}}}}")
    mark.unlink()
    words = ["replay", str(tmp_path / "rec"), "--policy", "capacity", "--seeds", "1"]
    said = cli(words, 2).err
    assert f"treadle.yaml:1: policy.order.path: '{tmp_path}/part.py' is Python code" in said
    assert "--trust-code" in said
    assert segments(tmp_path / "rec")[0].name in said
    assert not mark.exists()
    assert run([*words, "--trust-code"]) in (0, 1)
    assert mark.exists()


def test_a_recording_without_its_beginning_says_that_what_was_learned_is_missing() -> None:
    assert read_recorded(segments(RECORDING)).notes == []
    (note,) = [note for note in read_recorded(segments(RECORDING)[1:]).notes if "the engine had learned" in note]
    assert note.startswith(segments(RECORDING)[1].name)


@pytest.mark.parametrize("harm", ["missing", "unreadable"])
def test_a_recording_of_which_a_part_is_missing_is_no_whole_result(harm: str, tmp_path: Path, cli: Cli) -> None:
    for file in segments(RECORDING):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    second = segments(tmp_path)[1]
    if harm == "missing":
        second.unlink()
    else:
        second.write_bytes(second.read_bytes()[:100])
    said = " ".join("".join(cli(["replay", str(tmp_path), "--policy", "capacity", "--seeds", "1"], 1)).split())
    assert "the segment that it follows is missing" in said
    assert "Part of the recording is missing" in said
    assert "makes the recorded decisions where there are frames" in said


def test_how_far_it_is_stands_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(RECORDING), "--policy", "srpt", "--seeds", "2", "--output=json"]) in (0, 1)
    shown = capsys.readouterr()
    json.loads(shown.out)
    lines = shown.err.splitlines()
    assert lines[:2] == [
        "looking through 3 segments",
        "srpt: following the recording up to the first different decision",
    ]
    assert "srpt: the model, run 2 of 2" in lines
    assert run(["replay", str(RECORDING), "--verify"]) == 0
    assert "deciding again: segment 3 of 3" in capsys.readouterr().err


def test_of_many_runs_a_line_now_and_then() -> None:
    said: list[str] = []
    count = counted_to(said.append, 1000, "run")
    for number in range(1, 1001):
        count(number)
    assert (len(said), said[:2]) == (10, ["run 1 of 1000", "run 101 of 1000"])


def test_ctrl_c_says_that_there_is_no_result(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_what_if, "replayed", interrupted)
    assert "stopped; there is no result" in cli(["replay", str(RECORDING), "--policy", "srpt"], 130).err


# `treadle replay --history`: jobs of which there are histories only, on the cluster of a scenario.

HISTORIES = Path(__file__).parents[2] / "data" / "histories"
SLEEP = next(HISTORIES.glob("job_*_0001-*Sleep*.jhist"))

CLUSTER = """
cluster: {nodes: [{count: 3, resources: {memory-mb: 8192, vcores: 8}}]}
frameworks: {master: {memory-mb: 1536, vcores: 1}, master_start_ms: 6000, launch_ms: 1500}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return written(tmp_path / "cluster.yaml", CLUSTER)


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
    assert "differs too much from the histories: do not rely on it" in capsys.readouterr().err
    assert run([*words, "--output=json", "--seeds", "2"]) == 1, "the jobs ran on another cluster, one after the other"
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
    said = "".join(capsys.readouterr())
    assert "cut.jhist" in said
    assert "If the jobs ran under it, the simulation error is" in said.replace("\n", " ")


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
def test_what_is_missing_is_reported(words: list[str], said: str, cluster: Path, tmp_path: Path, cli: Cli) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    error = cli(["replay", *(word.format(cluster=cluster, empty=empty) for word in words)], 2).err
    assert said in error.replace("\n", " ")
