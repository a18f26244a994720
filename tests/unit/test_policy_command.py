"""`treadle policy`: list, parts, and use, against the pages of a ResourceManager and a `yarn` that are not real."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.pages import FakeManager, served

from treadle.admin import policy_use
from treadle.cli.main import run
from treadle.config.reader import parse_settings, read_settings
from treadle.config.text import History, default_yaml, with_absolute_paths
from treadle.shipped import find_policy, ready_made
from treadle.simulate import comparison
from treadle.simulate.batch import Outcome, RunSpec, run_lines

SHARE = "class Mine:\n    def keys(self, view):\n        return view.queue_used[:, 0]\n"
LARGEST = """
class Largest:
    def keys(self, view):
        return -1.0 * view.applications["pending"]
"""
SCHEDULES = {"Schedules": 1, "Mode": "enforce"}
HDRF = "gate=all share=hdrf order=queue fit=packing estimate=none"


KEY = "yarn.scheduler.treadle."
DOCS = Path(__file__).parents[2] / "docs"


class Page(FakeManager):
    """A ResourceManager whose pages may refuse to answer."""

    refuses: Mapping[str, int] = {}
    asked = 0

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path in self.refuses:
            return self.refuses[path], {}
        self.asked += path == "/jmx"
        if path == "/jmx" and self.asked == 1:
            return 200, {"beans": [{"Status": json.dumps({"LastError": "settings 6 refused, x"})}]}
        return super().answer(path, query)

    def shows(self, **bean: object) -> None:
        """Show another bean from now on."""
        self.beans["Treadle"] = bean


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Page]:
    monkeypatch.setattr(policy_use, "WAIT_S", 0.4)
    monkeypatch.setattr(policy_use, "SAME_S", 0.0)
    monkeypatch.setattr(policy_use, "REFUSED_S", 0.1)
    (tmp_path / "conf").mkdir()
    file = written(tmp_path / "conf" / "treadle.yaml", "seed: 1\n")
    file.chmod(0o640)
    bean = {"Policy": HDRF, "LastError": "", **SCHEDULES}
    with served(Page({"Treadle": bean}, {f"{KEY}config.file": str(file), f"{KEY}sidecar": "managed"})) as manager:
        yield manager


@pytest.fixture
def rm(page: Page) -> str:
    return page.url


def yarn(folder: Path, code: int = 0, said: str = "no such queue") -> str:
    command = folder / "yarn"
    (folder / "said").write_text(f"{said}\n")
    command.write_text(f'#!/bin/sh\necho "$@" > "{folder}/called"\ncat "{folder}/said" >&2\nexit {code}\n')
    command.chmod(0o755)
    return str(command)


def test_every_ready_made_policy_is_listed_in_the_order_to_try_them(cli: Cli) -> None:
    rows = json.loads(cli(["policy", "list", "-o", "json"]).out)
    assert sorted(row["name"] for row in rows) == sorted(ready_made())
    assert [row["name"] for row in rows if row["recommended"]] == ["fair-finish"]
    assert rows[0]["recommended"] is True
    for row in rows:
        assert row["title"] and row["use_when"] and row["requires"] and row["evidence"], row["name"]
        assert row["parts"].startswith("gate=")
    shown = cli(["policy", "list"])
    assert "recommended: fair-finish" in shown.out
    assert shown.err.count("preemption monitor") == 1


def test_the_policies_on_the_page_of_fair_finish_are_accepted(tmp_path: Path, cli: Cli) -> None:
    blocks = re.findall(r"^```yaml\n(policy:\n.*?)^```", (DOCS / "fair-finish.md").read_text(), re.M | re.S)
    found = [cli(["policy", "check", str(written(tmp_path / "page.yaml", block))]).out for block in blocks]
    assert ["share=capacity order=fair_finish" in each for each in found] == [True, False]
    assert "share=hdrf order=fair_finish fit=packing estimate=time_on_test" in found[1]
    shipped = read_settings(find_policy("fair-finish")).policy
    assert parse_settings("page", blocks[0]).policy == shipped


def test_a_policy_is_shown_or_every_setting(tmp_path: Path, cli: Cli) -> None:
    file = written(tmp_path / "mine.yaml", "policy: {order: {kind: srpt}}\n")
    assert cli(["policy", "show", str(file)]).out == file.read_text()
    assert cli(["policy", "show", "srpt"]).out == find_policy("srpt").read_text()
    assert cli(["policy", "show", "--defaults"]).out == default_yaml()
    assert json.loads(cli(["policy", "show", str(file), "-o", "json"]).out) == {"policy": {"order": {"kind": "srpt"}}}
    for words in ([], ["srpt", "--defaults"]):
        assert "give either a policy or --defaults" in cli(["policy", "show", *words], 2).err
    assert "no such" in cli(["policy", "show", str(tmp_path / "no.yaml")], 2).err.lower()


def test_a_policy_is_tried_against_fair_with_a_verdict_on_each_workload(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "TRIED_SEEDS", 8)
    shape = {"shape": "bag", "jobs": 16, "load": 1.1, "tasks": {"kind": "pareto", "low": 5, "high": 300, "tail": 0.6}}
    monkeypatch.setattr(comparison, "TRIED", {"one": shape, "two": shape | {"framework": "mapreduce"}})
    done: dict[tuple[str | None, str, int], Outcome] = {}

    def run_once(lines: Iterable[RunSpec]) -> Iterator[Outcome]:
        for line in lines:
            key = (line.scenario.text, line.policy, line.seed)
            if key not in done:
                (done[key],) = run_lines([line])
            yield done[key]

    monkeypatch.setattr("treadle.cli._simulate.run_lines", run_once)
    file = written(tmp_path / "largest.yaml", "policy: {order: {kind: file, path: largest.py, class: Largest}}\n")
    (tmp_path / "largest.py").write_text(LARGEST)
    said = cli(["policy", "try", str(file)])
    assert f"{file}: OK (gate=all share=capacity order=largest.py:Largest" in said.err
    assert "mean completion is slower on 2 of 2 workloads" in " ".join(said.out.split())
    results = json.loads(cli(["policy", "try", str(file), "-o", "json"]).out)
    assert [(each["workload"], each["verdict"]) for each in results] == [("one", "slower"), ("two", "slower")]
    monkeypatch.setattr(comparison, "TRIED_SEEDS", 2)
    assert "mean completion is undecided on 2 of 2 workloads" in " ".join(cli(["policy", "try", "fair"]).out.split())


NEED = {"slearn-history": "set history.store", "graphene": "set history.store or listener.address"}
"""What ready-made policies need that they do not set themselves."""


@pytest.mark.parametrize("name", sorted(ready_made()))
def test_a_ready_made_policy_is_checked_by_its_name_and_right_beside_a_store(
    name: str, tmp_path: Path, cli: Cli
) -> None:
    file = ready_made()[name]
    if name in NEED:
        said = cli(["policy", "check", name], 2)
        assert f"uses the history of earlier runs: {NEED[name]} in {file}" in said.err
        assert not said.out
        file = written(tmp_path / "t.yaml", f"{file.read_text()}history: {{store: {tmp_path}/profiles.db}}\n")
    said = cli(["policy", "check", str(file)])
    assert ": OK (" in said.out
    assert "warning" not in said.err


def test_an_entry_of_the_roster_whose_store_is_not_named_is_not_right(tmp_path: Path, cli: Cli) -> None:
    text = ready_made()["slearn-history"].read_text()
    lines = [f"    {line}\n" for line in text.splitlines() if not line.startswith("#") and line.strip()]
    file = written(tmp_path / "treadle.yaml", "engines:\n  a:\n" + "".join(lines))
    assert "uses the history of earlier runs" in cli(["policy", "check", str(file)], 2).err


@pytest.mark.parametrize(
    "where", ["record: {{folder: {}}}\n", "engines: {{one: {{record: {{folder: {}}}, fallback: two}}, two: {{}}}}\n"]
)
def test_a_folder_of_recordings_that_cannot_be_made_is_warned_of(where: str, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "treadle.yaml"
    for folder, warned in ((tmp_path / "no" / "rec", True), (tmp_path / "rec", False)):
        file.write_text(where.format(folder))
        error = cli(["policy", "check", str(file)]).err
        assert (f"record.folder: {folder.parent} is not there on this host" in error) == warned


def test_a_folder_of_recordings_that_a_sidecar_refuses_is_warned_of(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    file = tmp_path / "treadle.yaml"
    for name, said in (
        ("file", "is not a folder; name another one"),
        ("open", "may be written by everybody; take that"),
    ):
        file.write_text(f"record: {{folder: {tmp_path / name}}}\n")
        assert f"{tmp_path / name} {said}" in " ".join(cli(["policy", "check", str(file)]).err.split())


def test_a_folder_of_recordings_that_this_user_may_not_look_into_is_the_sidecars(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "rec").mkdir(0o700)
    file = written(tmp_path / "treadle.yaml", f"record: {{folder: {tmp_path / 'rec'}}}\n")
    monkeypatch.setattr("treadle.admin.policy_use.reason_against", refused)
    assert "record.folder" not in cli(["policy", "check", str(file)]).err


@pytest.mark.parametrize("estimate", ["", "  estimate: {kind: none}\n"])
def test_pilots_whose_durations_nobody_goes_by_are_not_right(estimate: str, tmp_path: Path, cli: Cli) -> None:
    file = written(tmp_path / "t.yaml", f"policy:\n  gate: {{kind: pilots}}\n  order: {{kind: srpt}}\n{estimate}")
    error = cli(["policy", "check", str(file)], 2).err
    assert "policy.gate (pilots) samples how long tasks take, and policy.estimate (none) knows no durations" in error
    assert "set policy.estimate" in error
    file.write_text("policy: {gate: {kind: pilots}, order: {kind: srpt}, estimate: {kind: observed}}\n")
    assert run(["policy", "check", str(file)]) == 0
    own = written(tmp_path / "mine.py", "")
    file.write_text(f"policy: {{gate: {{kind: pilots}}, estimate: {{kind: file, path: {own}, class: Mine}}}}\n")
    policy_use.refuse_missing(file)  # the class may know durations


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("order: {kind: srpt}", "policy.order (srpt) needs durations, and policy.estimate (none) has none"),
        ("fit: {kind: tetris}", "policy.fit (tetris) needs durations"),
        ("estimate: {kind: observed}", "policy.estimate (observed) has no effect: no other part uses durations"),
        (
            "order: {kind: srpt}, estimate: {kind: pilots}",
            "policy.estimate (pilots) needs pilots, and policy.gate (all) runs none",
        ),
    ],
)
def test_parts_that_do_little_together_are_warned_of(policy: str, said: str, tmp_path: Path, cli: Cli) -> None:
    file = written(tmp_path / "t.yaml", f"policy: {{{policy}}}\n")
    shown = cli(["policy", "check", str(file)])
    assert f"warning: {file}:1: {said}" in shown.err
    assert "OK (" in shown.out


def test_use_warns_of_what_check_warns_of(tmp_path: Path, cli: Cli) -> None:
    file, target = tmp_path / "t.yaml", tmp_path / "treadle.yaml"
    file.write_text("policy: {order: {kind: srpt}}\n")
    error = cli(["policy", "use", str(file), "--config", str(target), "--no-refresh"]).err
    assert f"warning: {file}:1: policy.order (srpt) needs durations" in error


def test_what_is_said_of_an_entrys_policy_names_its_field_and_line(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "t.yaml"
    first = "policy: {fit: {kind: tetris}}\nengines:\n  a:\n    select: {users: [x]}\n    policy:\n"
    file.write_text(f"{first}      order: {{kind: srpt}}\n  b: {{}}\n")
    told = cli(["policy", "check", str(file)]).err
    assert f"warning: {file}:6: engines.a.policy.order (srpt) needs durations, and engines.a.policy.estimate" in told
    assert f"warning: {file}:1: policy.fit (tetris) needs durations, and policy.estimate" in told, "b follows it"
    file.write_text(f"{first}      gate: {{kind: pilots}}\n  b: {{policy: {{}}}}\n")
    told = cli(["policy", "check", str(file)], 2).err
    assert f"{file}:6: engines.a.policy.gate (pilots) samples how long tasks take, and engines.a.policy.e" in told
    assert "set engines.a.policy.estimate in" in told
    assert "tetris" not in told, "nobody follows it"


def test_a_name_that_is_none_is_reported(cli: Cli) -> None:
    error = cli(["policy", "check", "hdfr"], 2).err
    assert error == (
        f"no file hdfr, and as a ready-made policy 'hdfr' is not one of {', '.join(ready_made())}; did you mean hdrf?\n"
    )
    assert find_policy("there/x.yaml") == Path("there/x.yaml")


def test_a_ready_made_name_is_never_a_file_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    """Another user may have put the file into a folder that several may write to."""
    monkeypatch.chdir(tmp_path)
    Path("fair").write_text("policy:\n  order: {kind: fifo}\n")
    Path("mine").write_text("policy:\n  order: {kind: fifo}\n")
    assert find_policy("fair") == ready_made()["fair"] == find_policy("fair", tmp_path)
    assert find_policy("./fair") == Path("fair")
    assert find_policy("mine") == Path("mine")
    assert "order=fair" in cli(["policy", "check", "fair"]).out
    assert "order=fifo" in cli(["policy", "check", "./fair"]).out


def test_paths_of_parts_are_written_out_and_nothing_else_changes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SHARE)
    text = "# mine\npolicy:\n  share: {kind: file, path: mine.py, class: Mine}  # so\n  order: {kind: fifo}\nseed: 3\n"
    moved = with_absolute_paths(text, tmp_path)
    assert moved == text.replace("path: mine.py", f'path: "{tmp_path}/mine.py"')
    assert with_absolute_paths(moved, Path("elsewhere")) == moved
    assert parse_settings("elsewhere/t.yaml", moved, trust_code=True).policy.name().count("mine.py:Mine") == 1


def test_use_replaces_the_file_that_the_resource_manager_names(
    rm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path)]) == 0
    target = tmp_path / "conf" / "treadle.yaml"
    assert read_settings(target).policy.name() == HDRF
    assert target.stat().st_mode & 0o777 == 0o640
    assert [version.text for version in History(target).versions()] == ["seed: 1\n"]
    assert (tmp_path / "called").read_text() == "rmadmin -refreshQueues\n"
    assert capsys.readouterr().out.endswith(f"the cluster runs {HDRF}\n")
    assert sorted(path.name for path in target.parent.iterdir()) == ["treadle.yaml", "treadle.yaml.history"]


def test_use_of_a_wrong_file_changes_nothing(rm: str, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "t.yaml").write_text("policy: {share: {kind: hdfr}}\n")
    error = cli(["policy", "use", str(tmp_path / "t.yaml"), "--rm", rm, "--yarn", yarn(tmp_path)], 2).err
    assert "did you mean hdrf?" in error
    assert (tmp_path / "conf" / "treadle.yaml").read_text() == "seed: 1\n"
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("code", "bean", "said"),
    [
        (255, {}, "rmadmin -refreshQueues failed: no such queue"),
        (0, {"Policy": "gate=all", "LastError": ""}, "the engine does not run it: gate=all runs; no error"),
        (0, {"Policy": HDRF, "LastError": "settings 7 refused, x"}, "refuses it: settings 7 refused, x"),
        (
            0,
            {"Policy": "gate=all", "LastError": "policy.order (my.py:My): stopped; gate=all runs instead"},
            "the engine took it over, and it failed at once: policy.order (my.py:My): stopped; gate=all runs instead",
        ),
        (
            0,
            {"Policy": HDRF, "Mode": "enforce", "Schedules": 0, "Refusal": "the monitor is on"},
            f"the cluster does not run {HDRF}: the monitor is on",
        ),
        (
            0,
            {"Policy": HDRF, "Mode": "enforce", "Schedules": 0, "LastError": "no answer"},
            "no engine holds the lease; no answer",
        ),
        (0, {"Policy": HDRF, "Mode": "off", "Schedules": 0}, "the mode is off"),
        (0, {"Policy": HDRF}, "use the jar of this version"),
    ],
)
def test_use_puts_the_old_file_back_if_it_is_refused(
    rm: str,
    page: Page,
    tmp_path: Path,
    cli: Cli,
    code: int,
    bean: dict[str, str],
    said: str,
) -> None:
    page.shows(**bean)
    error = cli(["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path, code)], 2).err
    assert said in error
    assert "is as it was before" in error
    assert ("the engine may not have read it again" in " ".join(error.split())) == (code != 0)
    assert (tmp_path / "conf" / "treadle.yaml").read_text() == "seed: 1\n"


def test_a_policy_that_is_used_already_makes_no_version(rm: str, tmp_path: Path, cli: Cli) -> None:
    use = ["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path)]
    assert "what it was is version 1" in " ".join(cli(use).out.split())
    assert "what it was is version" not in " ".join(cli(use).out.split())
    versions = History(tmp_path / "conf" / "treadle.yaml").versions()
    assert [version.text for version in versions] == ["seed: 1\n"]


def test_ctrl_c_while_use_waits_says_what_is_changed_and_how_to_take_it_back(
    rm: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(policy_use, "wait_until_runs", interrupted)
    said = " ".join(cli(["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path)], 130).err.split())
    file = tmp_path / "conf" / "treadle.yaml"
    assert f"stopped: {file} is changed, and the engine may follow it; `treadle policy rollback` takes it back" in said
    assert "hdrf" in file.read_text()


@pytest.mark.parametrize("command", ["history", "rollback"])
def test_a_missing_config_is_refused_before_the_resource_manager_is_asked(command: str, cli: Cli) -> None:
    error = cli(["policy", command, "--config", "/nonexistent/treadle.yaml", "--rm", "http://localhost:1"], 2).err
    assert "--config /nonexistent/treadle.yaml is not there" in " ".join(error.split())


def test_a_refused_refresh_is_reported_by_its_reason_not_by_what_was_printed_last(
    rm: str, tmp_path: Path, cli: Cli
) -> None:
    said = (
        "26/01/31 12:00:00 INFO client.DefaultNoHARMFailoverProxyProvider: Connecting to ResourceManager\n"
        "refreshQueues: java.io.IOException: Failed to re-init queues : yarn.scheduler.treadle.mode: fast is no mode\n"
        "\tat org.apache.hadoop.yarn.server.resourcemanager.AdminService.refreshQueues(AdminService.java:411)\n"
        "Caused by: java.lang.IllegalArgumentException\n"
        "\t... 11 more"
    )
    error = cli(["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path, 255, said)], 2).err
    assert "refreshQueues failed: java.io.IOException: Failed to re-init queues" in error
    assert "fast is no mode" in error
    assert "more" not in error.partition("\n")[0]


def test_use_in_mode_off_changes_nothing_and_says_why(rm: str, page: Page, tmp_path: Path, cli: Cli) -> None:
    page.shows(Policy="", Mode="off", Schedules=0)
    page.asked = 1
    error = cli(["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path)], 2).err
    assert "the mode is off, so that no engine runs" in error
    assert "--no-refresh" in error
    assert (tmp_path / "conf" / "treadle.yaml").read_text() == "seed: 1\n"
    assert not (tmp_path / "called").exists()
    assert not History(tmp_path / "conf" / "treadle.yaml").versions()


def test_use_refuses_a_file_that_the_engine_does_not_read(rm: str, page: Page, tmp_path: Path, cli: Cli) -> None:
    other = written(tmp_path / "other.yaml", "seed: 2\n")
    words = ["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path), "--config", str(other)]
    error = cli(words, 2).err
    assert f"reads {tmp_path}/conf/treadle.yaml, not {other}" in error
    assert other.read_text() == "seed: 2\n"
    assert not (tmp_path / "called").exists()

    page.properties.pop(f"{KEY}config.file")
    assert "reads no treadle.yaml" in cli(words, 2).err
    assert other.read_text() == "seed: 2\n"

    page.properties[f"{KEY}sidecar"] = "external"  # its unit names the file, the ResourceManager may not
    assert run(words) == 0


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [("/conf", 401, "/conf: HTTP 401"), ("/conf", 403, "/conf: HTTP 403"), ("/jmx", 401, "/jmx: HTTP 401")],
)
def test_use_names_the_page_that_refuses_it_and_changes_nothing(
    rm: str, page: Page, tmp_path: Path, cli: Cli, path: str, status: int, said: str
) -> None:
    page.refuses = {path: status}
    error = cli(["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path)], 2).err
    assert said in error
    assert "is it the address" not in error, "it is: that page wants somebody else"
    assert "set that key" not in error
    assert (tmp_path / "conf" / "treadle.yaml").read_text() == "seed: 1\n"
    assert not (tmp_path / "called").exists()


def test_use_without_a_resource_manager_is_an_error(tmp_path: Path, cli: Cli) -> None:
    error = cli(["policy", "use", "hdrf", "--rm", "127.0.0.1:1", "--yarn", yarn(tmp_path)], 2).err
    assert "http://127.0.0.1:1/conf: no answer" in error
    assert "set that key" not in error


def test_use_in_observe_only_says_that_nothing_is_scheduled_by_it(
    rm: str, page: Page, tmp_path: Path, cli: Cli
) -> None:
    page.shows(Policy=HDRF, Mode="observe_only", Schedules=0)
    said = cli(["policy", "use", "hdrf", "--rm", rm, "--yarn", yarn(tmp_path)]).out
    assert f"the engine proposes by {HDRF}; the mode is observe_only" in said
    assert "the cluster runs" not in said


def test_use_without_a_refresh_says_what_is_left_to_do(tmp_path: Path, cli: Cli) -> None:
    target = tmp_path / "treadle.yaml"
    digests = set()
    for _ in range(2):
        printed = cli(["policy", "use", "hdrf", "--config", str(target), "--no-refresh"]).out
        assert "run `yarn rmadmin -refreshQueues`" in printed
        digests.add(read_settings(target).digest)
    assert len(digests) == 2, "a policy that failed may be tried again"
    assert run(["policy", "use", str(target), "--config", str(target), "--no-refresh"]) == 0
    assert target.read_text().count("Taken over") == 1


def test_use_needs_to_know_the_file(rm: str, page: Page, cli: Cli) -> None:
    page.properties.pop(f"{KEY}config.file")
    assert "name the engine's treadle.yaml with --config" in cli(["policy", "use", "hdrf", "--rm", rm], 2).err


def test_who_answers_in_the_place_of_a_resource_manager_fills_no_memory(rm: str, page: Page, cli: Cli) -> None:
    page.properties[f"{KEY}config.file"] = " " * (17 << 20)
    assert "/conf answered more than 16777216 bytes" in cli(["policy", "use", "fifo", "--rm", rm], 2).err
