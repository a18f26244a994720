"""A history counts for the user that it names if the files are that user's; an export, if it was named itself."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.optional import present
from tests.unit.history.conftest import NOW_MS, make_run
from tests.unit.history.test_importers import JSON, _Served

from treadle.cli.main import run
from treadle.history.documents import compact, profile_json
from treadle.history.importing import REPORTED_MAX, HistoryServer, Import
from treadle.history.profile import predicted
from treadle.history.reader import (
    HistoryReader,
    SourceContent,
    export_warning,
    find_sources,
    name_of,
    ownership_warning,
)
from treadle.history.store import ProfileStore

ME = pwd.getpwuid(os.geteuid()).pw_name
MINUTE_MS = 60_000
KEY = make_run(name="nightly load", user="alice").key._replace(queue="etl", type="SPARK")


def spark_log(user: str, application: str, took_ms: int) -> str:
    """Return a Spark event log of one executor."""
    events: list[dict[str, Any]] = [
        {
            "Event": "SparkListenerApplicationStart",
            "App ID": application,
            "User": user,
            "App Name": "nightly load",
            "Timestamp": 1,
        },
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.yarn.queue": "etl"}},
        {"Event": "SparkListenerExecutorAdded", "Executor ID": "1", "Timestamp": 0},
        {"Event": "SparkListenerExecutorRemoved", "Executor ID": "1", "Timestamp": took_ms},
        {"Event": "SparkListenerApplicationEnd", "Timestamp": NOW_MS + 10**9},
    ]
    return "".join(f"{json.dumps(event, separators=(',', ':'))}\n" for event in events)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture
def importing(store: ProfileStore, reader: HistoryReader) -> Import:
    """An import that goes by the owners of files."""
    return Import(store, NOW_MS, print, reader=reader)


def expected_ms(store: ProfileStore, user: str = "alice") -> int:
    profile = present(store.get(KEY._replace(user=user)))
    prediction = present(predicted(profile.stages[0], {}))
    return prediction.duration_ms


def test_forged_logs_do_not_change_what_is_known_of_another_user(
    store: ProfileStore, reader: HistoryReader, logs: Path
) -> None:
    # whoever runs the tests owns the files, and is not alice
    (logs / "own").write_text(spark_log(ME, "application_1_1", MINUTE_MS))
    told: list[str] = []
    trusting = Import(store, NOW_MS, print, reader=reader, trust_names=True)
    (logs / "real").write_text(spark_log("alice", "application_1_2", MINUTE_MS))
    trusting.take(find_sources([logs / "real"]))
    assert expected_ms(store) == MINUTE_MS
    (logs / "real").unlink()
    for number in range(30):
        (logs / f"forged-{number}").write_text(spark_log("alice", f"application_2_{number}", 10**12))
    importing = Import(store, NOW_MS, told.append, reader=reader)
    importing.take(find_sources([logs]))
    assert expected_ms(store) == MINUTE_MS
    assert (importing.summary.runs, len(importing.summary.refused), importing.summary.broken) == (1, 30, [])
    assert told == importing.summary.refused
    assert f"forged-0 is {ME}'s, and is of a job of alice" in told[0]
    assert "--trust-names" in told[0]
    assert expected_ms(store, ME) == MINUTE_MS


def test_the_command_says_what_it_refused_and_ends_with_1(logs: Path, tmp_path: Path, cli: Cli) -> None:
    (logs / "forged").write_text(spark_log("alice", "application_2_1", 10**12))
    (logs / "own").write_text(spark_log(ME, "application_1_1", MINUTE_MS))
    store = ["--store", str(tmp_path / "p.db")]
    said = cli(["history", "import", *store, str(logs)], 1)
    assert "2 histories: 1 new run," in said.out
    assert "0 broken, 1 refused" in said.out
    assert "and is of a job of alice" in " ".join(said.err.split())
    (logs / "forged").unlink()
    assert run(["history", "import", *store, str(logs)]) == 0


def test_a_file_that_every_user_may_write_speaks_for_nobody(importing: Import, logs: Path) -> None:
    (logs / "own").write_text(spark_log(ME, "application_1_1", MINUTE_MS))
    (logs / "own").chmod(0o666)
    importing.take(find_sources([logs]))
    (refused,) = importing.summary.refused
    assert "every user may write own" in refused


def test_every_file_of_a_history_must_be_its_user_s() -> None:
    made = make_run(user=name_of(0))
    assert ownership_warning(SourceContent(owners={0: "events_1"}), made) == ""
    assert "events_2 is" in ownership_warning(SourceContent(owners={0: "events_1", 1: "events_2"}), made)
    assert "events_1 is uid 4294967294's" in ownership_warning(SourceContent(owners={2**32 - 2: "events_1"}), made)
    assert ownership_warning(SourceContent(), made) == "its files are not known"
    assert export_warning(SourceContent(owners={os.geteuid(): "x"})) == ""
    assert "copy it if you trust it" in export_warning(SourceContent(owners={2**32 - 2: "x"}))
    assert "every user may write x" in export_warning(SourceContent(owners={os.geteuid(): "x"}, open_to_all="x"))


def test_what_begins_as_an_export_is_read_only_if_it_is_named(
    store: ProfileStore, importing: Import, logs: Path
) -> None:
    store.put(make_run(user="alice"), NOW_MS)
    (profile,) = store.profiles()
    forged = profile_json(profile) | {"runs": 2**50}
    export = written(logs / "application_y", f'{{"treadle_profiles":2}}\n{compact(forged)}\n')
    importing.take(find_sources([logs]))
    assert [profile.runs for profile in store.profiles()] == [1]
    (refused,) = importing.summary.refused
    assert "taken in only if the file itself is named" in refused
    # named, but of another user, or open to all: as a pattern of the shell would name it
    export.chmod(0o646)
    importing.take(find_sources([export]))
    assert [profile.runs for profile in store.profiles()] == [1]
    assert "copy it to where only you may write" in importing.summary.refused[-1]
    export.chmod(0o600)
    importing.take(find_sources([export]))
    assert [profile.runs for profile in store.profiles()] == [2**50]


def test_the_history_server_tells_of_a_job_whose_file_is_not_its_user_s(
    store: ProfileStore, reader: HistoryReader, logs: Path
) -> None:
    served = _Served()
    job = "/mapreduce/jobs/job_1795276064014_0001"
    served.answers[job]["job"]["user"] = "alice"
    # the file says something else of how long its tasks took
    forged = JSON.read_bytes().replace(b'"finishTime":1795276', b'"finishTime":1895276').replace(b'"root"', b'"alice"')
    (logs / "x.jhist").write_bytes(forged)
    importing = Import(store, NOW_MS, print, reader=reader, server=HistoryServer("http://localhost:1", served))
    importing.take(find_sources([logs]))
    (profile,) = store.profiles()
    assert importing.summary.refused == []
    assert profile.key.user == "alice"
    assert profile.stages[0].durations.mean_ms == pytest.approx(11210.5), "as the server tells it"


def test_a_job_that_the_history_server_does_not_know_is_refused(
    store: ProfileStore, reader: HistoryReader, logs: Path
) -> None:
    (logs / "x.jhist").write_bytes(JSON.read_bytes().replace(b'"root"', b'"alice"'))
    (logs / "own").write_text(spark_log("alice", "application_1_1", MINUTE_MS))
    served = _Served()
    served.answers.clear()
    server = HistoryServer("http://localhost:1", served)
    importing = Import(store, NOW_MS, print, reader=reader, server=server)
    importing.take(find_sources([logs]))
    spark, mapreduce = importing.summary.refused
    assert "--trust-names" in spark
    assert "the history server does not confirm it: HTTP 404" in mapreduce
    assert store.profiles() == []


def test_of_very_many_that_are_refused_some_are_reported_and_all_are_listed(
    store: ProfileStore, reader: HistoryReader, logs: Path
) -> None:
    for number in range(REPORTED_MAX + 5):
        os.mkfifo(logs / f"{number:03}")
    told: list[str] = []
    importing = Import(store, NOW_MS, told.append, reader=reader)
    importing.take(find_sources([logs]))
    assert len(importing.summary.refused) == REPORTED_MAX + 5
    assert len(told) == REPORTED_MAX + 1
    assert "-o json lists all" in told[-1]
