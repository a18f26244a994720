"""`treadle history` lists, shows, exports, imports and forgets."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest
from tests.support.cli import Cli
from tests.support.files import written
from tests.unit.history.conftest import NOW_MS, make_run

from treadle.cli.main import run
from treadle.config.settings import JobHistory
from treadle.history import importing
from treadle.history.store import open_store

DATA = Path(__file__).parents[2] / "data" / "histories"


@pytest.fixture(autouse=True)
def store_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "profiles.db"
    monkeypatch.setenv("TREADLE_HISTORY", str(file))
    return file


def test_import_list_show_export_forget(tmp_path: Path, cli: Cli) -> None:
    printed = cli(["history", "import", "--trust-names", str(DATA)]).out
    counts = "6 histories: 4 new runs, 0 profiles, 1 known already, 1 of jobs that did not succeed, 0 broken, 0 refused"
    assert counts in printed
    (listed,) = json.loads(cli(["history", "list", "--type", "mapreduce", "--output=json"]).out)
    assert (listed["name"], listed["runs"], listed["stages"], listed["tasks"]) == ("sleep job", 1, 2, 12)
    assert "mrrsleepjob" in cli(["history", "list"]).out
    assert "11.2 s" in cli(["history", "show", "Sleep Job #4"]).out
    (shown,) = json.loads(cli(["history", "show", "sleep job", "--output=json"]).out)
    assert [stage["name"] for stage in shown["stages"]] == ["map", "reduce"]

    exported = tmp_path / "export.jsonl"
    assert run(["history", "export", "--out", str(exported)]) == 0
    assert "4 profiles deleted" in cli(["history", "delete", "--user", "root"]).out
    assert json.loads(cli(["history", "import", str(exported), "--output=json"]).out)["profiles"] == 4
    assert json.loads(cli(["history", "show", "sleep job", "--output=json"]).out) == [shown]


def test_where_nothing_is_found_a_line_says_so(tmp_path: Path, cli: Cli) -> None:
    assert "no history is there; MapReduce's end in .jhist" in cli(["history", "import", str(tmp_path)]).err
    assert "no profile is there, or none matches" in cli(["history", "list"]).err


def test_an_export_that_fails_leaves_the_one_before(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["history", "import", "--trust-names", str(DATA / "as-json.jhist")]) == 0
    exported = tmp_path / "folder" / "export.jsonl"
    exported.parent.mkdir()
    assert run(["history", "export", "--out", str(exported)]) == 0
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600, "as the store: names of users' jobs"
    before = exported.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    assert "No space left on device" in cli(["history", "export", "--out", str(exported)], 2).err
    assert [path.name for path in exported.parent.iterdir()] == ["export.jsonl"]
    assert exported.read_bytes() == before


def test_an_export_goes_to_what_is_no_file_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "import", "--trust-names", str(DATA / "as-json.jhist")]) == 0
    assert run(["history", "export", "--out", "/dev/stdout"]) == 0
    assert '"name":"sleep job"' in capfd.readouterr().out


def profiles_in(file: Path) -> int:
    with open_store(str(file), read_only=True) as store:
        return len(store.profiles())


def test_an_import_removes_what_treadle_yaml_does_not_allow_and_nothing_else(
    tmp_path: Path, store_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(store_file), JobHistory(rows_per_user=100_000, age_days=36_500)) as store:
        for number in range(60):
            store.put(make_run(number, name=f"job {chr(97 + number % 26) * (1 + number // 26)}", stages=100), NOW_MS)
        store.put(make_run(99, name="of long ago", ended_ms=1_000_000_000_000), NOW_MS)
    config = tmp_path / "treadle.yaml"
    config.write_text(
        f"policy: {{order: {{kind: of_nobody}}}}\nhistory: {{store: {store_file}, rows_per_user: 6000}}\n"
    )
    history = ["history", "import", "--trust-names", str(DATA / "as-json.jhist")]
    assert run(history) == 0
    assert profiles_in(store_file) == 62, "nobody has said how much may be kept"
    monkeypatch.delenv("TREADLE_HISTORY")
    assert run([*history, "--config", str(config)]) == 0
    assert profiles_in(store_file) == 61, "6,000 rows may be, of the last 180 days"


def test_a_treadle_yaml_that_is_wrong_imports_nothing(tmp_path: Path, store_file: Path, cli: Cli) -> None:
    config = written(tmp_path / "treadle.yaml", "history:\n  rows_per_user: many\n")
    error = cli(["history", "import", str(DATA / "as-json.jhist"), "--config", str(config)], 2).err
    assert f"{config}:2: history.rows_per_user" in "".join(error.splitlines())
    assert not store_file.exists()


def test_broken_histories_are_named(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "\x1b[2Jx.jhist").write_text("hello")
    said = cli(["history", "import", str(tmp_path)], 1)
    assert "1 broken" in said.out
    assert "[2Jx.jhist: begins with" in " ".join(said.err.split())
    assert "not with Avro-Binary" in " ".join(said.err.split())
    assert "\x1b" not in said.err, "names of files command no terminal"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["list"], "it is not there"),
        (["list", "--store", ""], "--store FILE"),
        (["import"], "name files or folders"),
        (["import", "--history-server", "ftp://x"], "write it as http"),
        (["import", "--history-server", "http://[::1"], "write it as http"),
        (["import", "--history-server", "http://x", "--since-days", "inf"], "--since-days"),
        (["import", "--history-server", "http://x", "--since-days", "nan"], "--since-days"),
        (["delete"], "say which profiles"),
        (["delete", "--all", "--user", "x"], "say which profiles"),
    ],
)
def test_mistakes_are_reported(arguments: list[str], problem: str, cli: Cli) -> None:
    assert problem in cli(["history", *arguments], 2).err


def test_names_cannot_command_the_terminal(store_file: Path, cli: Cli) -> None:
    with open_store(str(store_file)) as store:
        store.put(make_run(name="[red]x\x1b[2J" + "日" * 900), NOW_MS)
    said = cli(["history", "list"]).out
    assert "[red]x" in said
    assert "\x1b" not in said


def test_an_unknown_job(cli: Cli, store_file: Path) -> None:
    open_store(str(store_file)).close()
    assert "knows no job 'nobody'" in cli(["history", "show", "nobody"], 2).err


def test_without_bounds_a_store_does_not_grow_beyond_the_default(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli(["history", "import", "--trust-names", str(DATA / "as-json.jhist")])
    monkeypatch.setattr(importing, "BYTES_WITHOUT_BOUNDS", 4096)
    said = cli(["history", "import", "--trust-names", str(DATA), "--output=json"], 1)
    summary = json.loads(said.out)
    assert (summary["runs"], len(summary["refused"])) == (0, 6)
    assert "the store has 4096 bytes or more; --config says how much it keeps" in " ".join(said.err.split())
    config = written(tmp_path / "treadle.yaml", f"history: {{store: {tmp_path}/profiles.db, size_mb: 64}}\n")
    assert (
        json.loads(
            cli(["history", "import", "--trust-names", "--config", str(config), str(DATA), "--output=json"]).out
        )["runs"]
        == 3
    )
