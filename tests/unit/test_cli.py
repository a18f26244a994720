"""The command line: what a mistake looks like, and what the commands print."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from rich.table import Table
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.fresh_process import knows_all_parts
from tests.support.pages import answering, as_shown

from treadle import __version__, shipped
from treadle.cli import _console, main
from treadle.cli._console import console_for_tables
from treadle.cli.main import commands, run
from treadle.config.parts import PartRegistry
from treadle.errors import UserError, counted, nearest
from treadle.processes import PrintableFormatter, log_to_stderr
from treadle.shipped import requirements_jar, shim_jar, spark_jar, tez_jar
from treadle.yarn.treadle_beans import why_not

TREADLE = {
    "Mode": "observe_only",
    "Policy": "fit=packing",
    "LeaseHeld": 1,
    "Rejected": 2,
    "RejectedNodeFull": 2,
}
AGREEMENT = {
    "same_node": 3,
    "other_node": 1,
    "capacity_scheduler_only": 2,
    "earlier": 3,
    "earlier_ms": 4500,
    "later": 1,
    "later_ms": 200,
    "waiting": 5,
}
OBSERVATION = {
    "since_ms": 1_700_000_000_000,
    "window_ms": 1000,
    "would_reject": {"NODE_FULL": 2, "QUEUE_MAXIMUM": 7},
    "stock_placements": 6,
    "forgotten": 0,
    "interruptions": 0,
    "interrupted_ms": 0,
    "warnings": [],
    "total": AGREEMENT,
    "by_queue": {"root.a": AGREEMENT},
    "by_framework": {"TEZ": AGREEMENT},
}


class Page(BaseHTTPRequestHandler):
    """A ResourceManager's page /jmx."""

    beans: ClassVar[dict[str, Any]] = {}
    body: ClassVar[bytes | None] = None

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        asked = query.get("qry", query.get("get", [""]))[0].partition("::")[0]
        bean = as_shown(self.beans).get(asked.removeprefix("Hadoop:service=ResourceManager,name="))
        body = self.body or json.dumps({"beans": [bean] if bean else []}).encode()
        self.send_response(404 if body == b"404" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (as the base class calls it)
        """Say nothing."""


@pytest.fixture
def rm(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Page, "beans", {"Treadle": dict(TREADLE)})
    monkeypatch.setattr(Page, "body", None)
    found_in_sidecar(monkeypatch)
    with answering(Page) as address:
        yield address


def found_in_sidecar(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let a sidecar show an observation."""
    monkeypatch.setattr("treadle.cli.explain.ask_sidecar_of", lambda *_: OBSERVATION | changes)


def mistake(cli: Cli, *arguments: str) -> str:
    """Return what is said of a mistake: one line, and nothing on standard output."""
    captured = cli(arguments, 2)
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err.strip()


def test_help_lists_every_command_and_what_it_does(cli: Cli) -> None:
    out = cli(["--help"]).out
    titles = ["Cluster", "Evaluate", "In a checkout"][: 1 + len(main.sources())]  # a wheel has no laboratory
    assert re.findall(r"\n(.+):\n", out.partition("\nOptions:")[2])[: len(titles)] == titles
    for folder in main.sources().values():
        for name, (panel, summary) in commands(folder).items():
            assert summary, f"the first line of cli/{name}.py is no summary"
            assert panel in titles, f"the first line of cli/{name}.py names no panel"
            assert f"  {name} " in out


def test_help_imports_nothing_heavy_and_no_command_s_help_the_engine() -> None:
    """Nor does what commands on a cluster or a workload need."""
    light = ["--help", *(f"{name} --help" for name in ("engines", "paths", "policy", "sidecar", "status"))]
    code = (
        "import sys\n"
        "from treadle.cli.main import run\n"
        "heavy = {'numba', 'numpy', 'requests', 'yaml', 'matplotlib', 'py4j', 'treadle_lab'}\n"
        f"for words in {light}:\n"
        "    assert run(words.split()) == 0 and not heavy & set(sys.modules), words\n"
        f"for name in {sorted(commands())}:\n"
        "    assert run([name, '--help']) == 0 and 'numba' not in sys.modules, name\n"
        "import treadle.admin.doctor, treadle.admin.policy_use, treadle.admin.sidecars, treadle.plots\n"
        "assert 'numba' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""


def test_version(cli: Cli) -> None:
    assert cli(["--version"]).out == f"treadle {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [["nothing"], ["paths", "--x"], ["policy", "check"], ["policy", "nothing"], ["lab", "reproduce", "nothing"]],
)
def test_a_wrong_command_line_is_a_mistake(cli: Cli, arguments: list[str]) -> None:
    assert "Error" in mistake(cli, *arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "choose one of --managed and --external"),
        (["--managed", "--external"], "choose one of --managed and --external"),
        (["--external"], "--external and --connection-file FILE belong together"),
        (["--managed", "--connection-file", "f"], "--external and --connection-file FILE belong together"),
        (["--managed", "--connection-group", "g"], "--connection-group belongs to --external"),
    ],
)
def test_a_sidecar_needs_one_mode(cli: Cli, arguments: list[str], said: str) -> None:
    assert mistake(cli, "sidecar", "run", *arguments) == said


def test_a_policy_is_checked(cli: Cli, tmp_path: Path) -> None:
    file = written(tmp_path / "treadle.yaml", "policy: {fit: {kind: packing}}\n")
    assert cli(["policy", "check", str(file)]).out.startswith(f"{file}: OK (gate=all ")
    file.write_text("policy:\n  fit:\n    kind: packng\n")
    assert mistake(cli, "policy", "check", str(file)).startswith(f"{file}:3: policy.fit.kind: 'packng' is not one of")


def test_the_jar_is_found_where_it_was_built_or_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "python" / "treadle"
    package.mkdir(parents=True)
    monkeypatch.setattr(shipped, "_PACKAGE", package)
    monkeypatch.setattr(shipped, "__version__", "1.2")
    with pytest.raises(UserError, match="carries no jar"):
        shim_jar()
    (tmp_path / "java-shim" / "shim" / "target").mkdir(parents=True)
    (tmp_path / "java-shim" / "pom.xml").touch()
    with pytest.raises(UserError, match="make build"):
        shim_jar()
    built = tmp_path / "java-shim" / "shim" / "target" / "treadle-shim-1.2.jar"
    built.touch()
    assert shim_jar() == built
    carried = package / "java" / "treadle-shim-1.2.jar"
    carried.parent.mkdir()
    carried.touch()
    assert shim_jar() == carried
    jars = [package / "java" / f"treadle-{name}-1.2.jar" for name in ("requirements", "tez", "spark")]
    for jar in jars:
        jar.touch()
    found = [jar_of() for jar_of in (shim_jar, requirements_jar, tez_jar, spark_jar)]
    assert found == [carried, *jars]
    (package / "java" / "treadle-shim-1.1.jar").touch()
    with pytest.raises(UserError, match="2 jars instead of one"):
        shim_jar()


def test_status_is_shown(cli: Cli, rm: str) -> None:
    out = cli(["status", "--rm", rm]).out
    for text in ("observe_only", "lease held", "rejected, node full", "places containers"):
        assert text in out
    assert json.loads(cli(["status", "--rm", f"http://{rm}/", "--output=json"]).out) == TREADLE


def test_status_does_not_count_proposals_that_observing_repeats(cli: Cli, rm: str) -> None:
    Page.beans["Treadle"]["Observed"] = 8
    assert "8" not in cli(["status", "--rm", rm]).out


@pytest.mark.parametrize(
    ("bean", "said"),
    [
        (
            {"Schedules": 0, "Mode": "enforce", "SidecarStarts": 1, "LeaseFlips": 0},
            "no engine holds the lease; the sidecar is starting",
        ),
        ({"Warnings": "jobs are not remembered: /store: no space"}, "jobs are not remembered: /store: no space"),
    ],
)
def test_a_sidecar_that_starts_or_warns_is_no_error(bean: dict[str, Any], said: str, cli: Cli, rm: str) -> None:
    Page.beans["Treadle"] |= bean
    assert said in " ".join(cli(["status", "--rm", rm]).out.split())


@pytest.mark.parametrize(
    "command", [["status"], ["status", "--output=json"], ["engines"], ["engines", "--output=json"]]
)
@pytest.mark.parametrize("mode", ["enforce", "observe_only", "off"])
def test_that_no_engine_answers_is_an_error(
    capsys: pytest.CaptureFixture[str], rm: str, command: list[str], mode: str
) -> None:
    Page.beans["Treadle"] |= {"Schedules": 0, "Mode": mode, "SidecarStarts": 1, "LeaseFlips": 2, "LeaseHeld": 0}
    assert run([*command, "--rm", rm]) == (mode != "off")
    said = "no engine answers: the sidecar has stopped answering\n"
    assert capsys.readouterr().err == ("" if mode == "off" else said)


@pytest.mark.parametrize("kind", ["Refusal", "LastError"])
def test_why_it_does_not_schedule_is_said_once(cli: Cli, rm: str, kind: str) -> None:
    why = "the engine places nothing"
    Page.beans["Treadle"] |= {"Schedules": 0, "Mode": "enforce", f"{kind}": why}
    if kind == "Refusal":
        Page.beans["Treadle"]["LastError"] = why
    Page.beans["Treadle"]["LastErrorTime"] = "2026-01-31T12:00:00Z"
    shown = cli(["status", "--rm", rm]).out
    assert shown.count(why) == 1
    assert "YARN's CapacityScheduler: " in shown
    assert "2026-01-31T12:00:00Z" in shown
    Page.beans["Treadle"]["LastError"] = "settings 3 refused"
    assert cli(["status", "--rm", rm]).out.count("settings 3 refused") == 1


@pytest.mark.parametrize(
    ("bean", "reason"),
    [
        ({"Schedules": 1, "LeaseHeld": 1}, ""),
        ({"Schedules": 0, "Mode": "observe_only"}, "the mode is observe_only"),
        (
            {"Schedules": 0, "Mode": "enforce", "LeaseHeld": 1, "Refusal": "the monitor is on"},
            "the monitor is on",
        ),
        ({"Schedules": 0, "Mode": "enforce", "LastError": "no Python"}, "no engine holds the lease; no Python"),
        ({"LeaseHeld": 1}, "does not report it"),
    ],
)
def test_one_line_says_whether_treadle_schedules(bean: dict[str, Any], reason: str) -> None:
    assert why_not(bean).startswith(reason) or reason in why_not(bean)
    assert bool(why_not(bean)) == bool(reason)


def test_an_observation_is_shown(cli: Cli, rm: str) -> None:
    captured = cli(["observe", "--rm", rm])
    for text in (
        "Since 2023-11-14 22:13:20 UTC the CapacityScheduler has placed 6 containers.",
        "queue root.a",
        "type TEZ",
        "Proposed by Treadle now, and not placed yet: 5.",
        "Would have been rejected: queue maximum 7, node full 2.",
    ):
        assert text in captured.out
    assert not re.search(r"[a-z]_[a-z]|[A-Z]_[A-Z]", captured.out.replace("observe_only", "")), "no names of fields"
    assert captured.err == ""
    assert json.loads(cli(["observe", "--rm", rm, "--output=json"]).out) == {"mode": "observe_only", **OBSERVATION}


@pytest.mark.parametrize("name", ["root.a", "TEZ"])
def test_each_container_is_in_one_column_of_an_observation(name: str, cli: Cli, rm: str) -> None:
    row = next(line for line in cli(["observe", "--rm", rm]).out.splitlines() if name in line)
    # of 6 placements by the stock scheduler 3 agreed, 1 went to another node, 2 were not proposed
    for text in ("3 (50 %)", "1 (17 %)", "2 (33 %)", "3, by 1.5 s", "1, by 0.2 s"):
        assert text in row


def test_losses_are_said_where_the_figures_are(cli: Cli, rm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = "earlier figures are lost: /f: damaged"
    found_in_sidecar(monkeypatch, warnings=[lost], interruptions=2, interrupted_ms=65_400, forgotten=4)
    printed = cli(["observe", "--rm", rm])
    out = " ".join(printed.out.split())
    assert printed.err == f"warning: {lost}\n"
    missed = (
        "The sidecar did not follow the cluster for 65 s in 2 interruptions: containers placed then are not counted."
    )
    assert missed in out
    assert "Not compared, too many at once: 4." in out


def test_nothing_placed_is_one_sentence(cli: Cli, rm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found_in_sidecar(monkeypatch, stock_placements=0)
    assert cli(["observe", "--rm", rm]).out == "The CapacityScheduler has placed nothing yet.\n"


def test_placements_that_are_not_compared_yet_have_no_percentages(
    cli: Cli, rm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = dict.fromkeys(AGREEMENT, 0)
    found_in_sidecar(monkeypatch, total=none, by_queue={"root.a": none}, by_framework={})
    assert "%" not in cli(["observe", "--rm", rm]).out


def test_an_observation_of_another_version_is_refused(cli: Cli, rm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found_in_sidecar(monkeypatch, total={"agreed": 3})
    assert "of another release" in mistake(cli, "observe", "--rm", rm)


def test_status_names_the_ready_made_policy(cli: Cli, rm: str) -> None:
    kinds = "gate=all share=hdrf order=srpt fit=packing estimate=observed"
    Page.beans["Treadle"]["Policy"] = kinds
    assert f"as hdrf-srpt: {kinds}" in cli(["status", "--rm", rm]).out
    Page.beans["Treadle"]["Policy"] = "gate=pilots share=capacity order=mlfq fit=packing estimate=pilots"
    assert "as slearn or slearn-history: gate=pilots" in cli(["status", "--rm", rm]).out, (
        "they differ in parameters alone"
    )
    Page.beans["Treadle"]["Policy"] = "gate=all share=none order=mine.py:Mine fit=packing estimate=none"
    shown = cli(["status", "--rm", rm]).out
    assert "gate=all share=none" in shown
    assert "as " not in shown


@pytest.mark.parametrize("mode", ["enforce", "off"])
def test_in_another_mode_observe_is_one_sentence(mode: str, cli: Cli, rm: str) -> None:
    Page.beans["Treadle"]["Mode"] = mode
    sentence = f"The mode is {mode}: treadle observe compares only in mode observe_only.\n"
    assert cli(["observe", "--rm", rm]) == (sentence, "")
    assert "compared" not in cli(["status", "--rm", rm]).out


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"404", "HTTP 404; is it the address"),
        (b"<html>", "is no ResourceManager's page; check --rm"),
        (b"[" * 100_000, "is no ResourceManager's page; check --rm"),
        (b"[]", "is no ResourceManager's page; check --rm"),
        (b'{"beans": [1]}', "is no ResourceManager's page; check --rm"),
        (b'{"beans": []}', "has no bean Treadle: it runs without Treadle"),
    ],
)
def test_a_page_of_something_else_is_a_mistake(cli: Cli, rm: str, body: bytes, said: str) -> None:
    Page.body = body
    assert said in mistake(cli, "observe", "--rm", rm)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "no answer"),
        ("ftp://x", "write it as http://HOST:PORT"),
        ("http://", "write it as http://HOST:PORT"),
        ("http://[::1", "write it as http://HOST:PORT"),
        ("http://rm:none", "write it as http://HOST:PORT"),
    ],
)
def test_an_address_of_nothing_is_a_mistake(cli: Cli, address: str, said: str) -> None:
    assert said in mistake(cli, "status", "--rm", address)


# Every command that reads a treadle.yaml knows all parts when nothing else was imported before it.

COMMANDS = (
    "policy check {file}",
    "policy check {file} --scenario {folder}/scenario.yaml",
    "policy use {file} --config {folder}/treadle.yaml --no-refresh",
    "policy list",
    "policy show --defaults",
    "simulate {folder}/scenario.yaml --policy {file}",
    "simulate {folder}/scenario.yaml",
    "sweep {folder}/sweep.yaml",
    "sidecar run --external --connection-file {folder}/connection --config {file}",
    "sidecar warm-up --config {file}",
)
"""What reads a treadle.yaml, or lists what may stand in one."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_knows_all_parts(command: str, tmp_path: Path) -> None:
    knows_all_parts(command, tmp_path)


def test_a_registry_that_nobody_filled_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="register_parts"):
        PartRegistry().kinds("share")
    with pytest.raises(RuntimeError, match="register_parts"):
        PartRegistry().default("share")


# Words of messages to a user.


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 histories"), (1, "1 history"), (2, "2 histories"), (1000, "1000 histories")]
)
def test_one_is_not_several(number: int, said: str) -> None:
    assert counted(number, "history", "histories") == said
    assert counted(number, "job") == f"{number} job{'' if number == 1 else 's'}"


def test_the_word_that_was_meant_is_named() -> None:
    assert nearest("wieght", ["weight", "tasks"]) == "; did you mean weight?"
    assert nearest("xyz", ["weight", "tasks"]) == ""
    assert nearest("x", []) == ""


# What others call their jobs forges no line of a sidecar's log, and commands no terminal that shows it.

EVIL = "x\n2026-11-22 09:00:00,000 ERROR treadle: forged \x1b[2J\x1b]0;title\x07\r\u202ey"


def record(message: str, *arguments: object, error: Exception | None = None) -> logging.LogRecord:
    trace = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("treadle.x", logging.WARNING, "x.py", 1, message, arguments, trace)


def test_only_the_first_line_of_a_record_begins_at_the_margin() -> None:
    try:
        raise ValueError(EVIL)
    except ValueError as caught:
        said = PrintableFormatter().format(record("a DAG called %s", EVIL, error=caught))
    first, *rest = said.split("\n")
    assert first.endswith("WARNING treadle.x: a DAG called x")
    assert all(line.startswith("    ") for line in rest)
    assert any("Traceback" in line for line in rest), "a trace may still be read"
    assert said.replace("\n", "").isprintable()


def test_a_sidecar_logs_such_lines(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        log_to_stderr()
        logging.getLogger("treadle.x").warning("%s", EVIL)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    said = capsys.readouterr().err
    assert "forged" in said
    assert [line for line in said.splitlines() if line.startswith("2026-11-22 09")] == []
    assert "\x1b" not in said


def test_tables_show_only_what_is_printable(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    console = console_for_tables()
    monkeypatch.setattr(console, "file", out)
    table = Table(EVIL, title=EVIL)
    table.add_row(EVIL)
    console.print(table, markup=False)
    console.print(EVIL, markup=False)
    _console.say(console, EVIL)
    shown = out.getvalue()
    assert shown.count("forged") == 5, "title, header, cell and two lines"
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(shown)


def test_errors_that_quote_others_are_printable(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    def application(_: object) -> object:
        def fail(**_: object) -> None:
            raise UserError(f"first line\n{EVIL}")

        return fail

    monkeypatch.setattr(main, "application", application)
    said = cli(["status"], 2).err
    assert said.startswith("first line\n")
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(said)


def test_quiet_leaves_notes_and_results(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(main.switches, "quiet", True)
    _console.say(_console.progress_console(), "progress")
    _console.note("a note")
    assert capsys.readouterr() == ("", "a note\n")
    _console.say(_console.console_for_tables(), "a result")
    assert capsys.readouterr() == ("a result\n", "")
