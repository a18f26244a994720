"""Histories that real jobs wrote give the runs that they were; broken ones are named and passed."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from requests.auth import AuthBase
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.pages import FakeManager, served
from tests.unit.history.conftest import NOW_MS

from treadle.errors import UserError, install_extra
from treadle.history.frameworks import Application, JobHistory, read_jhist, read_spark_log, read_tez_history
from treadle.history.importing import HistoryServer, Import, spread
from treadle.history.outcome import BrokenHistoryError, Source, UnfinishedError
from treadle.history.profile import DurationSketch, JobRun, Measured
from treadle.history.reader import HistoryReader, find_sources, read_source
from treadle.history.store import ProfileStore
from treadle.yarn import pages

DATA = Path(__file__).parents[2] / "data" / "histories"
(BINARY,) = DATA.glob("*_0001-*.jhist")
JSON = DATA / "as-json.jhist"
ADAPTIVE = DATA / "local-1795275822871"
ROLLED = DATA / "eventlog_v2_local-1795275846830"
TEZ = DATA / "history.txt.appattempt_1795276064014_0003_000001"


def _stages(run: JobRun) -> dict[str, tuple[int, int, tuple[str, ...]]]:
    return {stage.name: (stage.width, stage.durations.count, stage.parents) for stage in run.stages}


@pytest.mark.parametrize("path", [BINARY, JSON], ids=["binary", "json"])
def test_a_mapreduce_job_in_both_forms(path: Path) -> None:
    run = read_jhist(path)
    assert run.key == ("root", "default", "MAPREDUCE", "sleep job")
    assert run.id == "application_1795276064014_0001"
    assert _stages(run) == {"map": (10, 10, ()), "reduce": (2, 2, ("map",))}
    maps, reduces = run.stages
    # as the history server's own average: from the attempts' starts, not from the tasks'
    assert maps.durations.mean_ms == pytest.approx(11210.5)
    assert (maps.input_bytes, reduces.input_bytes) == (0, 480)
    assert run.ended_ms - run.started_ms == 23_446


def test_what_tasks_ask_for_is_in_the_configuration_beside(tmp_path: Path) -> None:
    assert read_jhist(BINARY).stages[0].demand == {"memory-mb": 256, "vcores": 1}
    shutil.copy(BINARY, tmp_path / "alone.jhist")
    assert read_jhist(tmp_path / "alone.jhist").stages[0].demand == {}


def test_of_speculative_and_failed_attempts_the_one_that_counts_is_measured() -> None:
    history = JobHistory()
    task = {"taskid": "task_1", "taskType": "MAP"}
    history.take("JOB_SUBMITTED", {"jobid": "job_1_1", "jobName": "x", "userName": "u", "jobQueueName": "q"})
    for attempt, start_ms in (("a0", 100), ("a1", 200), ("a2", 300)):
        history.take("MAP_ATTEMPT_STARTED", {**task, "attemptId": attempt, "startTime": start_ms})
    history.take("MAP_ATTEMPT_FAILED", {**task, "attemptId": "a0", "finishTime": 150, "status": "FAILED"})
    for attempt, end_ms in (("a1", 1200), ("a2", 9300)):
        finished = {**task, "attemptId": attempt, "finishTime": end_ms, "taskStatus": "SUCCEEDED"}
        history.take("MAP_ATTEMPT_FINISHED", finished)
    history.take("TASK_FINISHED", {**task, "status": "SUCCEEDED", "successfulAttemptId": "a1"})
    history.take("JOB_FINISHED", {"finishTime": 10_000})
    (stage,) = history.run({}).stages
    assert (stage.width, stage.durations.count, stage.durations.mean_ms) == (1, 1, 1000)


def test_adaptive_execution_is_merged_to_the_stages_that_ran() -> None:
    run = read_spark_log(ADAPTIVE)
    assert run.key.name == "nightly report plain"
    at = "collect at report.py:9"
    assert _stages(run) == {
        f"0 {at}": (3, 3, ()),
        f"1 {at}": (3, 3, ()),
        f"2 {at}": (1, 1, (f"1 {at}", f"0 {at}")),
        f"3 {at}": (1, 1, (f"0 {at}", f"1 {at}")),
        f"4 {at}": (1, 1, (f"3 {at}",)),
    }


def test_a_rolled_log_in_several_frames() -> None:
    run = read_spark_log(ROLLED)
    assert [stage.width for stage in run.stages] == [4, 2, 2, 2, 2]
    assert run.stages[4].parents == ("3 sortByKey at report.py:12",)
    assert run.stages[1].input_bytes == 593


def _ran(properties: dict[str, str], *more: dict[str, Any]) -> JobRun:
    """Return what a log of an application of executors of 8 GB tells, with more events before its end."""
    application = Application()
    told: list[dict[str, Any]] = [
        {"Event": "SparkListenerApplicationStart", "App Name": "n", "App ID": "application_1_1", "User": "u"},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.executor.memory": "8g"} | properties},
        {"Event": "SparkListenerExecutorAdded", "Executor ID": "1", "Timestamp": 1000},
        *more,
        {"Event": "SparkListenerApplicationEnd", "Timestamp": 9000},
    ]
    for event in told:
        application.take(event)
    return application.run()


def test_spark_on_yarn_has_a_stage_of_executors() -> None:
    run = _ran(
        {"spark.executor.cores": "4", "spark.yarn.queue": "root.etl", "spark.yarn.tags": "a,treadle:report"},
        {"Event": "SparkListenerExecutorAdded", "Executor ID": "driver", "Timestamp": 0},
        {"Event": "SparkListenerExecutorAdded", "Executor ID": "2", "Timestamp": 2000},
        {"Event": "SparkListenerExecutorRemoved", "Executor ID": "1", "Timestamp": 4000},
    )
    (executors,) = run.stages
    assert run.key == ("u", "etl", "SPARK", "treadle:report")
    assert (executors.name, executors.width, executors.measured) == ("executors", 2, Measured.CONTAINERS)
    assert (executors.durations.to_json()["min"], executors.durations.to_json()["max"]) == (3000, 7000)
    assert executors.demand == {"memory-mb": 8192 + 819, "vcores": 4}


@pytest.mark.parametrize(
    ("more", "memory_mb"),
    [
        ({"spark.executor.memory": "1g"}, 1024 + 384),
        ({"spark.executor.memoryOverheadFactor": "0.25"}, 8192 + 2048),
        ({"spark.executor.memoryOverhead": "1024", "spark.executor.memoryOverheadFactor": "0.25"}, 8192 + 1024),
        ({"spark.executor.memory": "1g", "spark.executor.minMemoryOverhead": "512m"}, 1024 + 512),
        ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"}, 8192 + 819 + 1024),
        ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "2g"}, 8192 + 819 + 2048),
        ({"spark.memory.offHeap.enabled": "false", "spark.memory.offHeap.size": "2g"}, 8192 + 819),
        ({"spark.executor.pyspark.memory": "512"}, 8192 + 819 + 512),
        ({"spark.executor.memoryOverheadFactor": "much"}, 8192 + 819),
    ],
)
def test_what_yarn_is_asked_for_follows_what_spark_was_set_to(more: dict[str, str], memory_mb: int) -> None:
    assert _ran(more).stages[0].demand["memory-mb"] == memory_mb


def test_attempts_of_spark_that_were_retried_or_speculative_are_distinguished() -> None:
    application = Application()
    application.take({"Event": "SparkListenerApplicationStart", "App Name": "n", "App ID": "local-1", "User": "u"})
    application.take({"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": 0, "Number of Tasks": 2}})
    for task, reason, copy, end_ms in (
        (0, "ExceptionFailure", False, 100),
        (0, "Success", False, 300),
        (1, "Success", True, 400),
        (1, "TaskKilled", False, 401),
        (0, "Success", False, 900),
    ):
        facts = {"Index": task, "Launch Time": 0, "Finish Time": end_ms, "Speculative": copy}
        end = {"Event": "SparkListenerTaskEnd", "Stage ID": 0, "Task End Reason": {"Reason": reason}}
        application.take({**end, "Task Info": facts})
    application.take({"Event": "SparkListenerApplicationEnd", "Timestamp": 9000})
    (stage,) = application.run().stages
    assert (stage.retried, stage.speculative) == (2, 1)
    assert stage.durations == DurationSketch([300, 400])


def test_a_tez_dag_with_its_edges() -> None:
    (run,), left_out = read_tez_history(TEZ)
    assert left_out == []
    assert (run.key, run.id) == (("root", "default", "TEZ", "mrrsleepjob"), "dag_1795276064014_0003_1")
    assert _stages(run) == {"map": (4, 4, ()), "ireduce1": (3, 3, ("map",)), "reduce": (2, 2, ("ireduce1",))}
    assert run.stages[0].durations.mean_ms == pytest.approx(990.75)


def test_vertices_of_a_large_dag_are_in_tez_s_order(tmp_path: Path) -> None:
    dag = {"entity": "dag_1_1_1", "entitytype": "TEZ_DAG_ID"}
    entities: list[dict[str, Any]] = [
        dag | {"events": [{"eventtype": "DAG_FINISHED"}], "otherinfo": {"status": "SUCCEEDED", "endTime": 9}},
        *(
            {"entity": f"vertex_1_1_1_{at:02}", "entitytype": "TEZ_VERTEX_ID", "otherinfo": {"vertexName": f"v{at}"}}
            for at in (9, 10, 99, 100, 101, 102)
        ),
    ]
    file = written(tmp_path / "history.txt.a", "".join(f"{json.dumps(entity)}\x01\n" for entity in entities))
    (run,), _ = read_tez_history(file)
    assert [stage.name for stage in run.stages] == ["v9", "v10", "v99", "v100", "v101", "v102"]


class _Served(requests.Session):
    """Answers as a JobHistoryServer once did."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, Any] = json.loads((DATA / "history-server.json").read_text())
        self.forbidden = ""
        """What answers 401, as of a job that the user may not see."""

    def get(self, url: str | bytes, **_: Any) -> requests.Response:
        path = str(url).partition("/ws/v1/history")[2].partition("?")[0]
        answer = requests.Response()
        answer.status_code = 200 if path in self.answers else 404
        if self.forbidden and path.endswith(self.forbidden):
            answer.status_code = 401
        answer.raw = io.BytesIO(json.dumps(self.answers.get(path)).encode())
        return answer


def test_the_history_server_tells_the_same_as_the_file() -> None:
    server = HistoryServer("localhost:19888", _Served())
    assert server.jobs()[0] == "job_1795276064014_0001"
    run, file = server.run("job_1795276064014_0001"), read_jhist(BINARY)
    assert (run.key, run.id, run.started_ms, run.ended_ms) == (file.key, file.id, file.started_ms, file.ended_ms)
    assert _stages(run) == _stages(file)
    assert [stage.durations for stage in run.stages] == [stage.durations for stage in file.stages]
    assert [stage.demand for stage in run.stages] == [stage.demand for stage in file.stages]
    assert run.stages[1].input_bytes == 480
    with pytest.raises(BrokenHistoryError, match="HTTP 404"):
        server.run("job_1_1")


@pytest.fixture
def importing(store: ProfileStore, reader: HistoryReader) -> Import:
    return Import(store, NOW_MS, print, reader=reader, trust_names=True)


def test_jobs_of_a_history_server_go_into_the_store(importing: Import) -> None:
    importing.take_server(HistoryServer("localhost:19888", _Served()), ["job_1795276064014_0001", "job_1_1"])
    summary = importing.summary
    assert (summary.sources, summary.runs, len(summary.broken)) == (2, 1, 1)
    assert summary.broken[0].startswith("job_1_1: HTTP 404")


def test_a_job_that_the_history_server_does_not_show_is_named_and_the_rest_goes_on(importing: Import) -> None:
    shown = _Served()
    shown.forbidden = "job_1_1"
    importing.take_server(HistoryServer("localhost:19888", shown), ["job_1_1", "job_1795276064014_0001"])
    assert importing.summary.runs == 1
    (broken,) = importing.summary.broken
    assert broken.startswith("job_1_1: HTTP 401")
    assert "import the .jhist files instead" in broken


def test_a_history_server_that_lets_nobody_in_says_what_to_do() -> None:
    shown = _Served()
    shown.forbidden = "jobs"
    with pytest.raises(UserError, match=r"HTTP 401 .* import the \.jhist files instead"):
        HistoryServer("http://localhost:1", shown).jobs()


def test_an_address_that_is_no_history_servers() -> None:
    with pytest.raises(UserError, match="write it as http"):
        HistoryServer("ftp://x")
    shown = _Served()
    shown.answers.clear()
    with pytest.raises(UserError, match="is it the address of a JobHistoryServer"):
        HistoryServer("http://localhost:1", shown).jobs()


def test_of_a_wide_stage_tasks_are_asked_for_evenly() -> None:
    tasks = [(f"t{at:05}", "") for at in range(100_000)]
    chosen = [int(task[1:]) for task, _ in spread(tasks, 100)]
    assert chosen == list(range(500, 100_000, 1000))
    assert spread(tasks[:7], 100) == tasks[:7]


def test_all_histories_of_a_folder_go_into_the_store_once(store: ProfileStore, reader: HistoryReader) -> None:
    told: list[str] = []
    for known in (0, 5):
        importing = Import(store, NOW_MS, told.append, reader=reader, trust_names=True)
        importing.take(find_sources([DATA]))
        summary = importing.summary
        assert (summary.sources, summary.runs + summary.known, summary.known) == (6, 5, known + (known == 0))
        assert ["job_1795276064014_0002 failed" in why for why in summary.left_out] == [True]
        assert (summary.broken, told) == ([], [])
    assert [(key.type, key.name) for key in (profile.key for profile in store.profiles())] == [
        ("MAPREDUCE", "sleep job"),
        ("SPARK", "nightly report plain"),
        ("SPARK", "nightly report rolling"),
        ("TEZ", "mrrsleepjob"),
    ]


@pytest.mark.parametrize("path", [BINARY, JSON, ADAPTIVE, TEZ], ids=["binary", "json", "spark", "tez"])
@pytest.mark.parametrize("share", [0.001, 0.35, 0.8, 0.999])
def test_a_history_that_is_cut_off_is_named_and_the_rest_goes_on(
    store: ProfileStore, reader: HistoryReader, tmp_path: Path, path: Path, share: float
) -> None:
    content = path.read_bytes()
    cut = tmp_path / f"a {path.name}"
    cut.write_bytes(content[: int(share * len(content))])
    told: list[str] = []
    importing = Import(store, NOW_MS, told.append, reader=reader, trust_names=True)
    sources = [Source(kind, str(at), at) for kind, at in ((next(find_sources([path])).kind, cut), ("jhist", JSON))]
    importing.take(sources)
    unread = importing.summary.broken + importing.summary.left_out
    assert len(unread) == 1
    assert str(cut) in unread[0]
    assert told == importing.summary.broken
    assert importing.summary.runs == 1


@pytest.mark.parametrize("byte", [0x00, 0x7B, 0xFF])
def test_a_history_with_bytes_changed_is_read_or_named(tmp_path: Path, byte: int) -> None:
    for path in (BINARY, JSON, ADAPTIVE, TEZ, next(ROLLED.glob("events_1*"))):
        kind = "spark" if path.parent == ROLLED else next(find_sources([path])).kind
        content = bytearray(path.read_bytes())
        for at in range(5, len(content), max(1, len(content) // 12)):
            broken = content[:]
            broken[at] = byte
            file = tmp_path / path.name
            file.write_bytes(broken)
            try:
                read_source(Source(kind, "", file))
            except (BrokenHistoryError, UnfinishedError) as error:
                assert str(error)


NOTHINGS = (
    b'{"type": "record", "name": "E", "fields": [{"name": "a", "type": {"type": "array", "items": {"type": "null"}}}]}'
)
"""The schema of a list whose items take no space: a few bytes expand to as many as one likes."""


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.jhist", b"", "begins with b''"),
        ("x.jhist", b"Avro-Json\n{}\n" + b"[" * 100_000, "line 3: no event"),
        ("x.jhist", b'Avro-Binary\n"null"\nxxxx', "not that of events"),
        ("x.jhist", b"Avro-Binary\n" + NOTHINGS + b"\n\xfe\xff\xff\xff\x0f\x00", "not that of events"),
        ("x.jhist", b"Avro-Binary\n" + b'{"type":' * 100_000 + b"\n", "no event at byte 0"),
        ("app.lz4", b"x", "compressed by lz4"),
        ("app.zstd", b"x" * 100, "zstd|frame|Unknown"),
        ("history.txt.a", b"", "empty"),
        ("anything", b"hello", "no history of MapReduce, Spark or Tez"),
        ("tez", b"SEQ\x06", "have Tez log by"),
        ("export", b'{"treadle_profiles": 2}\n{"key": 3}\n', "line 2: key: "),
        ("export", b'{"treadle_profiles": 7}\n', "another version"),
    ],
)
def test_what_is_no_history_is_reported(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    (source,) = find_sources([file])
    with pytest.raises(BrokenHistoryError, match=problem):
        read_source(source)


def test_a_rolled_log_of_which_a_part_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / ROLLED.name
    shutil.copytree(ROLLED, folder)
    next(folder.glob("events_1_*")).rename(folder / "events_3_local-1795275846830.zstd")
    with pytest.raises(BrokenHistoryError, match="missing"):
        read_spark_log(folder)


@pytest.mark.parametrize("share", [0.4, 0.9, 0.999])
def test_a_rolled_log_of_which_a_part_is_cut_off(tmp_path: Path, share: float) -> None:
    folder = tmp_path / ROLLED.name
    shutil.copytree(ROLLED, folder)
    first, last = sorted(folder.glob("events_*"))
    whole, end = first.read_bytes(), last.read_bytes()
    first.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(BrokenHistoryError, match=r"events_1_.* is cut off"):
        read_spark_log(folder)
    first.write_bytes(whole)
    last.write_bytes(end[: int(share * len(end))])
    with pytest.raises(UnfinishedError, match="has not ended"):
        read_spark_log(folder)


@pytest.mark.parametrize("why", ["Input/output error", "No such file or directory"])
def test_what_cannot_be_opened_in_a_folder_is_named_and_the_rest_goes_on(
    importing: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """A file of which no byte can be read, even by root, and one that vanishes while it is looked for."""
    for name in ("a", "b.jhist"):
        shutil.copy(JSON, tmp_path / name)
    opens = os.open

    def opened(path: Path, *more: int) -> int:
        if Path(path).name == "a" and why.startswith("No such"):
            Path(path).unlink(missing_ok=True)
        return opens("/proc/self/mem" if Path(path).name == "a" and why.startswith("Input") else path, *more)

    monkeypatch.setattr(os, "open", opened)
    importing.take(find_sources([tmp_path]))
    assert importing.summary.broken == [f"{tmp_path / 'a'}: {why}"]
    assert importing.summary.runs == 1


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="check the path"):
        list(find_sources([tmp_path / "nowhere"]))


# `treadle history import --history-server` where the server wants Kerberos.

TICKET = "Negotiate dGlja2V0"


@pytest.fixture
def address() -> Iterator[str]:
    """A server that shows no job to whoever has a ticket, and nothing to others."""
    secure = FakeManager({}, {})
    secure.ticket = TICKET
    with served(secure):
        yield secure.url


class _Ticket(AuthBase):
    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = TICKET
        return request


def _import(address: str, folder: Path) -> list[str]:
    return ["history", "import", "--store", str(folder / "profiles.db"), "--history-server", address]


def test_the_server_is_asked_with_the_user_s_tickets(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    def with_ticket(_: Path | None) -> requests.Session:
        session = requests.Session()
        session.auth = _Ticket()
        return session

    monkeypatch.setattr("treadle.history.importing.open_session", with_ticket)
    assert "0 histories" in cli(_import(address, tmp_path)).out


@pytest.mark.parametrize(("installed", "remedy"), [(False, install_extra("kerberos")), (True, "run kinit")])
def test_without_tickets_it_says_what_is_missing(
    address: str, installed: bool, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setattr(pages, "can_negotiate", lambda: installed)
    monkeypatch.setattr("treadle.history.importing.open_session", lambda _: requests.Session())
    said = " ".join(cli(_import(address, tmp_path), 2).err.split())
    assert "the server wants Kerberos" in said
    assert remedy in said
    assert "import the .jhist files instead" in said
