from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.optional import present

from treadle.config.reader import read_settings
from treadle.policy.catalogue import register_parts
from treadle_lab.demo.run import (
    ENGINES,
    DemoJob,
    Report,
    RunningJob,
    cluster_of_engines,
    of_two_engines,
    read_counts,
    write_input,
)

BEAN = {
    "Committed": 12,
    "Rejected": 3,
    "RejectedNodeFull": 2,
    "RejectedUserLimit": 1,
    "RejectedLocality": 0,
    "DecideP50Us": 250,
    "DecideP99Us": 1500,
    "LeaseFlips": 2,
}


def ended(containers: int, treadle: int, native: int = 0, phase: str = "run", state: str = "SUCCEEDED") -> RunningJob:
    client = subprocess.Popen([sys.executable, "-c", ""])
    client.wait()
    job = DemoJob("job", "Tez", "research", lambda _: [], phase=phase)
    placed = {"treadle": treadle, "native": native}
    return RunningJob(job, client, Path("log"), state=state, seconds=1.26, containers=containers, placed=placed)


def test_the_report_has_the_fields_that_it_promises() -> None:
    report = Report.of([ended(4, 4)], BEAN, [])
    values = json.loads(json.dumps(report.as_json()))
    assert values["jobs"] == [
        {
            "name": "job",
            "framework": "Tez",
            "state": "SUCCEEDED",
            "seconds": 1.3,
            "containers": 4,
            "placed_by_treadle": 4,
            "placed_by_capacity_scheduler": 0,
            "phase": "run",
            "queue": "research",
        }
    ]
    assert (values["rejected"], values["rejected_by_reason"]) == (3, {"NodeFull": 2, "UserLimit": 1})
    assert (values["decide_ms"], values["lease_flips"], values["faults"]) == ({"p50": 0.25, "p99": 1.5}, 2, [])


@pytest.mark.parametrize(
    ("job", "fault"),
    [
        (ended(4, 3, 1), "4 containers, of which Treadle placed 3"),
        (ended(4, 5), "4 containers, of which Treadle placed 5"),
        (ended(0, 0), "no container"),
        (ended(4, 4, state="FAILED"), "FAILED"),
        (ended(4, 2, 2, phase="kill", state="KILLED"), "KILLED"),
    ],
)
def test_what_is_not_as_it_should_be_is_a_fault(job: RunningJob, fault: str) -> None:
    assert fault in Report.of([job], BEAN, []).faults[0]


def test_of_several_engines_the_report_says_who_served_each_job() -> None:
    job = ended(4, 4)
    job.engine = "rest"
    report = Report.of([job], BEAN, [], {"rest": {"policy": "gate=pilots", "committed": 4}})
    values = json.loads(json.dumps(report.as_json()))
    assert values["jobs"][0]["engine"] == "rest"
    assert values["engines"] == {"rest": {"policy": "gate=pilots", "committed": 4}}
    console = Console(width=200, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with console.file:
        report.show(console)
        assert "engine rest: 4 commits; gate=pilots" in console.export_text()


def test_two_engines_follow_policies_that_treadle_takes(tmp_path: Path) -> None:
    register_parts()
    file = present(cluster_of_engines(tmp_path / "demo").policy)
    read = read_settings(file)
    assert [engine.name for engine in read.engines] == list(ENGINES)
    assert {job.engine for job in of_two_engines()} == set(ENGINES)
    described = [read.for_engine(name).policy for name in ENGINES]
    assert [policy.share.kind.name for policy in described] == ["hdrf", "capacity"]
    assert [policy.gate.kind.name for policy in described] == ["all", "pilots"]


def test_native_placements_are_no_fault_while_the_engine_is_killed() -> None:
    assert Report.of([ended(4, 2, 2, phase="kill")], BEAN, []).faults == []


def test_the_tables_name_jobs_reasons_and_faults() -> None:
    console = Console(width=200, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with console.file:
        Report.of([ended(4, 3)], BEAN, ["something else"]).show(console)
        text = console.export_text()
    for part in ("research", "NodeFull 2, UserLimit 1", "p99 1.50 ms", "something else"):
        assert part in text


def test_counting_gives_what_was_written(tmp_path: Path) -> None:
    counts = write_input(tmp_path / "in", files=2)
    assert counts == write_input(tmp_path / "again", files=2)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-r-00000").write_text("".join(f"{word}\t{count}\n" for word, count in counts.items()))
    assert read_counts(tmp_path / "out") == counts


@pytest.mark.parametrize(
    ("state", "final", "seen"),
    [
        ("RUNNING", "UNDEFINED", "RUNNING"),
        ("FINISHED", "SUCCEEDED", "SUCCEEDED"),
        ("FINISHED", "FAILED", "FAILED"),
        ("KILLED", "KILLED", "KILLED"),
        ("FAILED", "FAILED", "FAILED"),
    ],
)
def test_a_job_has_ended_when_its_application_has(state: str, final: str, seen: str) -> None:
    job = ended(0, 0, state="SUBMITTING")
    job.update({"id": "a", "progress": 1, "elapsedTime": 1500, "diagnostics": "", "state": state, "finalStatus": final})
    assert (job.state, job.ended, job.seconds) == (seen, seen != "RUNNING", 1.5)
