"""`engines:` in a treadle.yaml: what it makes, what is refused, and that nobody ignores it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.optional import present
from tests.support.scenarios import scenario, simulation

from treadle.admin.policy_use import change_of, target_of
from treadle.cli import engines
from treadle.cli.main import run
from treadle.config.reader import parse_engines, parse_settings, peek_source, read_roster
from treadle.config.settings import Settings, Source, default_settings
from treadle.config.text import with_absolute_paths
from treadle.errors import ConfigError, UserError
from treadle.live.policies import LivePolicies, own_settings
from treadle.live.policy_memory import state_folder
from treadle.live.session import WaitMetrics
from treadle.policy.catalogue import register_parts
from treadle.replay.verify import recorded_settings
from treadle.sidecar.merge import REPORT_INTERVAL_MS
from treadle.simulator.simulation import Simulation
from treadle.wire.answer import Status
from treadle.wire.frames import FrameHeader
from treadle.yarn.treadle_beans import policy_in

register_parts()

WORKED = """
policy: {order: {kind: fifo}, fit: {kind: first_fit}}
engine_reservation: {nodes_max: 2}
seed: 5
engines:
  service:
    select: {queues: [root.prod], types: [spark], tasks_max: 100}
    policy: {order: {kind: srpt}}
    conflicts: coarse
    retry: {attempts_max: 7}
    decision_max_s: 2.5
    fallback: batch
  batch: {copies: 3, claim: 0.5, transactions: gang, precedence: -1, engine_reservation: {duration_ms: 1}}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_settings("conf/t.yaml", text)
    return caught.value.lines()


def test_copies_are_engines_and_sections_of_an_entry_replace_the_files() -> None:
    settings = parse_settings("conf/t.yaml", WORKED)
    assert [engine.name for engine in settings.engines] == ["service", "batch-1", "batch-2", "batch-3"]
    service, copy = settings.for_engine("service"), settings.for_engine("batch-2")
    assert service.policy.name() == "gate=all share=capacity order=srpt fit=packing estimate=none"
    assert copy.policy == settings.policy
    first, second = service.engine_reservation, copy.engine_reservation
    assert (first.nodes_max, second.nodes_max, second.duration_ms) == (2, 4, 1)
    assert [settings.for_engine(engine.name).seed for engine in settings.engines] == [5, 6, 7, 8]
    assert service.engines == () == copy.engines
    assert settings.warnings == ()
    with pytest.raises(UserError, match=r"'batch' is not one of batch-1, batch-2, batch-3, service"):
        settings.for_engine("batch")


@pytest.mark.parametrize("text", ["", "engines:\n", "engines: {}\n"])
def test_without_entries_there_is_one_engine(text: str) -> None:
    assert parse_settings("f", text) == default_settings()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "engines:\n  Service: {}\n",
            (
                "conf/t.yaml:2: engines.Service: 'Service' is not a name of an engine; write at most 32 of a-z"
                ", 0-9 and -, a letter first"
            ),
        ),
        (
            f"engines:\n  {'a' * 32}: {{copies: 2}}\n",
            (
                f"conf/t.yaml:2: engines.{'a' * 32}: '{'a' * 32}-1' is not a name of an engine; write at most 32 of a-z"
                ", 0-9 and -, a letter first"
            ),
        ),
        (
            "engines:\n  a:\n    copies: 9\n",
            "conf/t.yaml:3: engines.a.copies: 9: it must be less than or equal to 8 (default 1)",
        ),
        (
            "engines:\n  a: {copies: 5, select: {users: [x]}}\n  b: {copies: 4}\n",
            "conf/t.yaml:1: engines: 9 engines with copies; at most 8 may be on one cluster",
        ),
        (
            "engines:\n  a-1: {select: {users: [x]}}\n  a: {copies: 2}\n",
            "conf/t.yaml:3: engines.a: an engine of this entry and one of 'a-1' are called a-1; rename one",
        ),
        (
            "engines:\n  a:\n    select: {queues: [prod]}\n  b: {}\n",
            (
                "conf/t.yaml:3: engines.a.select.queues: ['prod']: 'prod' is not a path from the root; write it whole, "
                "as root.prod (default ())"
            ),
        ),
        (
            "engines:\n  a:\n    select:\n      types: SPARK\n  b: {}\n",
            "conf/t.yaml:4: engines.a.select.types: 'SPARK': it must be a list (default ())",
        ),
        (
            "engines:\n  a:\n    select: {users: [x]}\n",
            (
                "conf/t.yaml:3: engines.a.select: the last entry must serve what no other does; take its select out, "
                "or add an entry without one"
            ),
        ),
        (
            "engines:\n  a:\n    select: {tasks_min: 4, tasks_max: 3}\n  b: {}\n",
            "conf/t.yaml:3: engines.a.select.tasks_max: 3 is below tasks_min, 4; raise it, or write 0 for no bound",
        ),
        (
            "engines:\n  a:\n    fallback: batsh\n    select: {users: [x]}\n  batch: {}\n",
            "conf/t.yaml:3: engines.a.fallback: 'batsh' is not one of batch; did you mean batch?",
        ),
        ("engines:\n  a: {fallback: a}\n", "conf/t.yaml:2: engines.a.fallback: 'a' is not one of none"),
        (
            "engines:\n  a:\n    retry: {backoff_ms: 50000}\n",
            "conf/t.yaml:3: engines.a.retry.backoff_max_ms: 30000 is below backoff_ms, 50000; raise it",
        ),
        (
            "engines:\n  a:\n    policy:\n      fit: {kind: packng}\n",
            (
                "conf/t.yaml:4: engines.a.policy.fit.kind: 'packng' is not one of file, first_fit, packing, "
                "random_fit, tetris; did you mean packing?"
            ),
        ),
        (
            "engines:\n  a: {limits: {proposals_max: -1}}\n",
            "conf/t.yaml:2: engines.a.limits.proposals_max: -1: it must be greater than or equal to 1 (default 4096)",
        ),
        (
            "engines:\n  a: {seed: x}\n",
            "conf/t.yaml:2: engines.a.seed: 'x' is not a whole number from 0 to 9223372036854775807",
        ),
        ("engines: [a]\n", "conf/t.yaml:1: engines: ['a'] is not a mapping; write `key: value` lines"),
        ("engines: {a: 3}\n", "conf/t.yaml:1: engines.a: 3 is not a mapping; write `key: value` lines"),
        (
            "engines: {a: {claim: 0}}\n",
            "conf/t.yaml:1: engines.a.claim: 0: it must be greater than 0 (default 1.0)",
        ),
        (
            "engines: {a: {conflicts: rough}}\n",
            "conf/t.yaml:1: engines.a.conflicts: 'rough': it must be 'fine' or 'coarse' (default 'fine')",
        ),
    ],
)
def test_a_wrong_roster_is_reported_with_line_field_and_remedy(text: str, line: str) -> None:
    assert problems(text) == [line]


def test_a_misspelt_key_of_an_entry_is_reported_with_all_that_may_stand_there() -> None:
    (line,) = problems("engines:\n  a:\n    copys: 2\n")
    assert line.startswith("conf/t.yaml:3: engines.a.copys: 'copys' is not one of claim, conflicts, constraints,")
    assert line.endswith("; did you mean copies?")


@pytest.mark.parametrize("select", ["", "select: {}", "select: {types: []}", "select: {queues: [root]}"])
def test_an_entry_that_leaves_nothing_to_those_below_is_refused_unless_they_are_fallbacks(select: str) -> None:
    text = f"engines:\n  a: {{{select}}}\n  b: {{}}\n"
    (line,) = problems(text)
    assert line == (
        "conf/t.yaml:2: engines.a.select: matches everything, so that b below never serves anything; give it a "
        "selector, or put it last"
    )
    assert "so that b, c below never serve anything" in problems(f"{text}  c: {{}}\n")[0]
    standby = parse_settings("f", text.replace("a: {", "a: {fallback: b, "))
    assert [engine.name for engine in standby.engines] == ["a", "b"]
    assert standby.warnings == ()
    copies = problems(f"engines:\n  a: {{{select}}}\n  b: {{copies: 2, fallback: b}}\n")
    assert "so that b below never serves anything" in copies[0], "it stands in for nobody but itself"


CHANGE_ONE = "change what one of them selects, or leave b out"


@pytest.mark.parametrize(
    ("above", "below", "remedy"),
    [
        ("queues: [root.a]", "queues: [root.a]", CHANGE_ONE),
        ("queues: [root.a]", "queues: [root.a.b, root.a]", CHANGE_ONE),
        ("queues: [root.a]", "queues: [root.ab]", ""),
        ("queues: [root.a]", "queues: [root.a, root.b]", ""),
        ("queues: [root.a]", "users: [ann]", ""),
        ("queues: [root.a], users: [ann]", "queues: [root.a.b], users: [ann], types: [SPARK]", "put b above a"),
        ("types: [spark, TEZ]", "types: [Tez], tasks_min: 3", "put b above a"),
        ("tags: [x]", "tags: [x, y]", ""),
        ("tasks_min: 3", "tasks_min: 5", "put b above a"),
        ("tasks_min: 3", "users: [ann]", ""),
        ("tasks_max: 9", "tasks_max: 8, users: [ann]", "put b above a"),
        ("tasks_max: 9", "tasks_min: 5", ""),
    ],
)
def test_an_entry_of_which_one_above_matches_all_is_refused_unless_it_is_a_fallback(
    above: str, below: str, remedy: str
) -> None:
    text = f"engines:\n  a:\n    select: {{{above}}}\n  b:\n    select: {{{below}}}\n  c: {{}}\n"
    said = "conf/t.yaml:5: engines.b.select: a above matches all of it, so that b never serves anything; "
    if remedy:
        assert problems(text) == [said + remedy]
        text = text.replace("c: {}", "c: {fallback: b}")
    assert len(parse_settings("conf/t.yaml", text).engines) == 3


def test_a_queue_that_no_scenario_has_is_refused_by_the_check_and_warned_of_by_the_simulator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, scenario = tmp_path / "treadle.yaml", tmp_path / "scenario.yaml"
    policy.write_text("engines:\n  a:\n    select: {queues: [root.prd]}\n  b: {}\n", encoding="utf-8")
    scenario.write_text(
        "cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}\n"
        "queues: {prod: {children: {etl: {}, ads: {}}}}\n"
        "workload: {jobs: [{queue: etl, stages: [{tasks: 1, duration_s: 1, demand: {memory-mb: 1, vcores: 1}}]}]}\n",
        encoding="utf-8",
    )
    assert run(["policy", "check", str(policy), "--scenario", str(scenario)]) == 2
    told = "engines.a.select.queues: root.prd is not a queue of the scenario; did you mean root.prod?"
    assert f"{policy}:3: {told}" in capsys.readouterr().err
    assert run(["simulate", str(scenario), "--policy", str(policy)]) == 0
    shown = capsys.readouterr()
    assert told in " ".join((shown.out + shown.err).split())
    policy.write_text(policy.read_text().replace("root.prd", "root.prod, root.prod.etl"), encoding="utf-8")
    assert run(["policy", "check", str(policy), "--scenario", str(scenario)]) == 0


def test_a_listener_of_another_engine_than_the_first_is_warned_of(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "t.yaml"
    text = "engines:\n  a: {select: {users: [x]}, listener: {port: 8048}}\n  b:\n    listener: {port: 8049}\n"
    told = f"{file}:4: engines.b.listener: is not used: only the first engine has the plan listener"
    assert parse_settings(str(file), text).warnings == (told,)
    file.write_text(text, encoding="utf-8")
    assert cli(["policy", "check", str(file)]).err == f"warning: {told}\n"


def test_engines_of_another_text_follow_the_settings_given() -> None:
    base = parse_settings("f", "policy: {order: {kind: las}}\n")
    text = "cluster: {}\nengines:\n  a: {decision: {t_job_s: 1}, seed: 4}\n"
    settings = parse_engines("scenario.yaml", text, base, ("decision",))
    assert settings.for_engine("a").policy == base.policy
    assert settings.for_engine("a").seed == 4
    with pytest.raises(ConfigError, match=r"scenario\.yaml:3: engines\.a\.decision: 'decision' is not one of"):
        parse_engines("scenario.yaml", text, base)


@pytest.fixture
def treadle_yaml(tmp_path: Path) -> Path:
    file = tmp_path / "treadle.yaml"
    policy = "policy: {order: {kind: srpt}, estimate: {kind: observed}}"
    text = f"# two\nengines:\n  service:\n    select: {{users: [a]}}\n    {policy}\n  batch: {{}}\n"
    file.write_text(text, encoding="utf-8")
    return file


def test_policy_check_checks_the_roster_and_shows_it(treadle_yaml: Path, cli: Cli) -> None:
    printed = cli(["policy", "check", str(treadle_yaml)]).out
    assert printed == (
        f"{treadle_yaml}: OK (2 engines)\n"
        "engine service: gate=all share=capacity order=srpt fit=packing estimate=observed\n"
        "engine batch: gate=all share=capacity order=queue fit=packing estimate=none\n"
    )
    assert [engine.name for engine in read_roster(treadle_yaml)] == ["service", "batch"]
    treadle_yaml.write_text("engines:\n  service:\n    fallback: batch\n", encoding="utf-8")
    error = cli(["policy", "check", str(treadle_yaml)], 2).err
    assert f"{treadle_yaml}:3: engines.service.fallback: 'batch' is not one of none" in error
    treadle_yaml.write_text(
        "engines:\n  one: {policy: {order: {kind: srpt}, ignore_priority: true}}\n", encoding="utf-8"
    )
    assert cli(["policy", "check", str(treadle_yaml)]).out.endswith(" estimate=none ignore_priority\n")


def test_a_part_from_a_file_in_an_entry_is_tried_out_and_among_what_settings_were_read_from(
    treadle_yaml: Path, cli: Cli
) -> None:
    part = treadle_yaml.with_name("mine.py")
    part.write_text("class Mine:\n    def keys(self, view):\n        raise ValueError('no')\n", encoding="utf-8")
    order = "policy: {order: {kind: file, path: mine.py, class: Mine}}"
    treadle_yaml.write_text(f"engines:\n  one:\n    {order}\n", encoding="utf-8")
    source = present(peek_source(treadle_yaml))
    assert list(source.part_files) == [str(part)]
    error = cli(["policy", "check", str(treadle_yaml)], 2).err
    assert "engines.one.policy.order: tried out on a small cluster" in error


def test_who_has_one_engine_refuses_a_roster(treadle_yaml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = parse_settings(str(treadle_yaml), treadle_yaml.read_text())
    with pytest.raises(UserError, match="this simulation has one engine"):
        one_job(settings)


def one_job(settings: Settings) -> Simulation:
    return simulation(scenario([{"stages": [{"tasks": 1, "duration_s": 1}]}]), settings)


def test_policy_use_takes_a_roster_over_only_on_request(tmp_path: Path) -> None:
    found, target = tmp_path / "found.yaml", tmp_path / "treadle.yaml"
    roster = "engines:\n  a: {policy: {fit: {kind: random_fit}}}\n"
    found.write_text(f"policy: {{order: {{kind: srpt}}}}\n{roster}", encoding="utf-8")
    target.write_text("engine_reservation: {nodes_max: 2}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"found\.yaml: engines is given here and is another in .*treadle\.yaml"):
        change_of(found, target, [])
    text = change_of(found, target, ["engines"]).text
    assert [engine.name for engine in parse_settings("f", text).engines] == ["a"]
    target.write_text(text, encoding="utf-8")
    assert "kind: srpt" in change_of(found, target, []).text, "the same roster is there already"
    assert target_of(target, "") == target


def test_paths_of_parts_in_an_entry_are_written_out_too() -> None:
    text = "engines:\n  a:\n    policy: {order: {kind: file, path: mine.py, class: Mine}}\n"
    assert 'path: "/there/mine.py", class: Mine' in with_absolute_paths(text, Path("/there"))


# What a sidecar of one of several engines follows of a treadle.yaml.

register_parts()

TWO = """
history: {store: /var/lib/treadle/profiles.db}
listener: {address: 127.0.0.1}
engines:
  service:
    select: {queues: [root.prod]}
    policy: {order: {kind: srpt}}
    fallback: batch
  batch: {copies: 2, policy: {order: {kind: fifo}}, claim: 0.5, precedence: 3}
"""


def settings(text: str = TWO) -> Settings:
    return parse_settings("t.yaml", text)


def test_without_engines_everything_is_as_it_was() -> None:
    one = default_settings()
    assert own_settings(one, "", "t.yaml") is one
    assert "engines" not in json.loads(Status("p").changed())


def test_the_first_engine_has_the_files_store() -> None:
    own = own_settings(settings(), "service", "t.yaml")
    assert "order=srpt" in own.policy.name()
    assert own.history.store == "/var/lib/treadle/profiles.db"
    assert own.engines == ()


def test_a_recording_without_a_name_is_the_first_engines() -> None:
    for engine, order in (("", "srpt"), ("service", "srpt"), ("batch-1", "fifo")):
        found = recorded_settings(Source("t.yaml", TWO, {}), engine, Path("recording"), trust_code=False)
        assert f"order={order}" in found.policy.name()


def test_another_engine_has_its_own_policy_and_store() -> None:
    own = own_settings(settings(), "batch-2", "t.yaml")
    assert "order=fifo" in own.policy.name()
    assert own.history.store == "/var/lib/treadle/profiles-batch-2.db"
    assert own.engines == ()
    assert own.seed == 2


def test_an_engine_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no engine 'batch'; there is: service, batch-1, batch-2"):
        own_settings(settings(), "batch", "t.yaml")


def test_from_one_engine_to_several_and_back_needs_a_restart() -> None:
    with pytest.raises(ConfigError, match="names several engines now, which `treadle sidecar restart` follows"):
        own_settings(settings(), "", "t.yaml")
    with pytest.raises(ConfigError, match="names no engines any more, which `treadle sidecar restart` follows"):
        own_settings(default_settings(), "service", "t.yaml")


def test_each_engine_knows_its_entry_of_the_roster() -> None:
    assert own_settings(default_settings(), "", "t.yaml").engine is None
    first, other = (own_settings(settings(), engine, "t.yaml").engine for engine in ("service", "batch-2"))
    assert first is not None
    assert other is not None
    assert (first.name, other.name, other.entry.claim) == ("service", "batch-2", 0.5)


def test_engines_remember_policies_in_folders_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    assert state_folder(file, {}) == tmp_path / ".t.yaml.state"
    assert state_folder(file, {}, "batch") == tmp_path / ".t.yaml.batch.state"


def test_a_sidecar_follows_its_entry(tmp_path: Path) -> None:
    file = written(tmp_path / "t.yaml", TWO)
    assert "order=srpt" in LivePolicies(file, engine="service").start().policy.name()
    assert "order=fifo" in LivePolicies(file, engine="batch-1").start().policy.name()
    file.write_text("engines: {service: {}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="has no engine 'batch-1'"):
        LivePolicies(file, engine="batch-1").read()


# `treadle engines`: what it shows of the beans of several engines.

SERVICE = {
    "entry": "service",
    "alive": True,
    "served_by": "service",
    "applications": 2,
    "policy": "order=srpt",
    "error": "",
    "busy": 0.25,
    "transactions": 8,
    "conflicts": 4,
    "committed": 80,
    "wait_mean_ms": 1500,
    "wait_p99_ms": 7250,
    "retries": 11,
    "given_up": 13,
    "moved": 17,
    "not_owner": 5,
    "starts": 1,
}
BATCH = {"entry": "batch", "alive": False, "served_by": "service", "policy": "order=fifo", "error": "killed"}
APPLICATIONS = {
    "application_1_0001": ["service", "service", ""],
    "application_1_0002": ["batch", "service", ""],
    "application_1_0003": ["batch", "service", "given up"],
}


def of_bean(monkeypatch: pytest.MonkeyPatch, **bean: Any) -> None:
    monkeypatch.setattr("treadle.yarn.pages.read_bean", lambda rm, ca: bean)


@pytest.fixture(autouse=True)
def _rm(monkeypatch: pytest.MonkeyPatch) -> None:
    of_bean(monkeypatch, Engines=json.dumps({"engines": {"service": SERVICE, "batch": BATCH}}))
    monkeypatch.setattr(engines, "_owners", lambda rm, ca: APPLICATIONS)


def said(cli: Cli, *arguments: str) -> str:
    return cli(["engines", *arguments]).out


def test_each_engine_is_a_row(cli: Cli) -> None:
    text = said(cli)
    assert "2 applications" in text
    assert "nothing: service stands in" in text
    assert "25.0 %" in text
    assert "0.500" in text
    assert "killed" in text
    for figure in ("1.50", "7.25", "11", "13", "17"):
        assert figure in text


def test_figures_as_json(cli: Cli) -> None:
    service, batch = json.loads(said(cli, "--output=json"))["engines"]
    assert (service["busy"], service["conflicts"], service["conflict_fraction"], service["not_owner"]) == (
        0.25,
        4,
        0.5,
        5,
    )
    assert (batch["lives"], batch["served_by"], batch["conflict_fraction"]) == (False, "service", None)


@pytest.mark.parametrize(
    ("application", "text"),
    [
        ("application_1_0001", "is served by service, whose selector is the first that matches"),
        (
            "application_1_0002",
            "is served by service, because batch, whose it is, is dead or has not lived for 10 s again",
        ),
        (
            "application_1_0003",
            "is served by service, because batch, whose it is, has given it up after its conflicts",
        ),
    ],
)
def test_who_serves_an_application(cli: Cli, application: str, text: str) -> None:
    assert text in said(cli, "--app", application)
    home = APPLICATIONS[application][0]
    assert json.loads(said(cli, "--app", application, "--output=json"))["home"] == home


@pytest.mark.parametrize("given", ["0002", "1_0002"])
def test_an_application_may_be_named_by_the_end_of_its_id(given: str, cli: Cli) -> None:
    assert "application_1_0002 is served by service" in said(cli, "--app", given)
    assert json.loads(said(cli, "--app", given, "--output=json"))["application"] == "application_1_0002"


def test_an_application_that_nobody_serves_is_a_mistake(cli: Cli) -> None:
    assert "is not served by any engine" in cli(["engines", "--app", "application_1_0004"], 2).err


def test_one_engine(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    of_bean(monkeypatch, Schedules=1, Engines="")
    assert "one engine serves all applications" in said(cli)
    assert "one engine serves all applications" in said(cli, "--app", "application_1_0001")

    def no_bean(rm: str, ca: object) -> dict[str, Any]:
        raise UserError("it runs without Treadle")

    monkeypatch.setattr("treadle.yarn.pages.read_bean", no_bean)
    assert run(["engines"]) == 2
    assert run(["engines", "--app", "application_1_0001"]) == 2, "no engine serves it"


@pytest.mark.parametrize("arguments", [(), ("--app", "application_1_0001")])
def test_one_engine_that_does_not_schedule_serves_nobody(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    of_bean(monkeypatch, Schedules=0, Mode="off")
    text = said(cli, *arguments)
    assert "the one engine serves no application now: the mode is off" in text
    assert "serves all" not in text


@pytest.mark.parametrize("rubbish", ["no json", "[]", '{"engines": 1}', '{"engines": {"a": 1}}', "[" * 100_000])
def test_what_is_no_text_of_engines_is_a_mistake(rubbish: str, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    of_bean(monkeypatch, Engines=rubbish)
    assert "holds no figures of engines" in cli(["engines"], 2).err


def test_the_policy_that_runs_is_the_first_engines() -> None:
    several = {"Policy": "service: gate=all order=a.py:A; batch-1, batch-2: gate=pilots", "Engines": "{}"}
    assert policy_in(several) == "gate=all order=a.py:A"
    assert policy_in({"Policy": "gate=all", "Engines": ""}) == "gate=all"


# How long applications of one of several engines wait for a first attempt.


def header(at_ms: int) -> FrameHeader:
    return FrameHeader(0, 1, 1, at_ms, 0, 10, 2)


def asks(*counts: int) -> npt.NDArray[np.int64]:
    return np.array(counts, np.int64)


def test_from_an_ask_to_the_decision_that_takes_it_up() -> None:
    waits = WaitMetrics()
    waits.take(header(1000), asks(2))
    waits.take(header(1500), asks(3, 1))
    waits.take(header(1600), asks(3, 0))
    waits.attempted(3000)
    waits.attempted(9000)
    figures = waits.figures(9000, {"Retries": 7})
    assert figures == {"attempts": 1, "wait_mean_ms": 2000, "wait_p50_ms": 2000, "wait_p99_ms": 2000, "Retries": 7}
    assert waits.figures(9000 + REPORT_INTERVAL_MS - 1, {"Retries": 8}) is figures
    assert waits.figures(9000 + REPORT_INTERVAL_MS, {"Retries": 8})["Retries"] == 8


def test_who_asks_anew_waits_anew() -> None:
    waits = WaitMetrics()
    for at_ms, count in ((1000, 1), (1100, 0), (5000, 1)):
        waits.take(header(at_ms), asks(count))
    waits.attempted(5001)
    assert waits.figures(6000, {})["wait_p99_ms"] == 1
