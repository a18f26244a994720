"""`treadle engines`: what it shows of the beans of several engines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.cli import engines
from treadle.cli.main import run
from treadle.errors import UserError
from treadle.yarn.treadle_beans import policy_in

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
    monkeypatch.setattr(engines, "read_bean", lambda rm, ca: bean)


@pytest.fixture(autouse=True)
def _rm(monkeypatch: pytest.MonkeyPatch) -> None:
    of_bean(monkeypatch, Engines=json.dumps({"engines": {"service": SERVICE, "batch": BATCH}}))
    monkeypatch.setattr(engines, "_owners", lambda rm, ca: APPLICATIONS)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["engines", *arguments]) == 0
    return capsys.readouterr().out


def test_each_engine_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys)
    assert "2 applications" in text
    assert "nothing: service stands in" in text
    assert "25.0 %" in text
    assert "0.500" in text
    assert "killed" in text
    for figure in ("1.50", "7.25", "11", "13", "17"):
        assert figure in text


def test_figures_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    service, batch = json.loads(said(capsys, "--json"))["engines"]
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
def test_who_serves_an_application(capsys: pytest.CaptureFixture[str], application: str, text: str) -> None:
    assert text in said(capsys, "--app", application)
    home = APPLICATIONS[application][0]
    assert json.loads(said(capsys, "--app", application, "--json"))["home"] == home


@pytest.mark.parametrize("given", ["0002", "1_0002"])
def test_an_application_may_be_named_by_the_end_of_its_id(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "application_1_0002 is served by service" in said(capsys, "--app", given)
    assert json.loads(said(capsys, "--app", given, "--json"))["application"] == "application_1_0002"


def test_an_application_that_nobody_serves_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["engines", "--app", "application_1_0004"]) == 2
    assert "is not served by any engine" in capsys.readouterr().err


def test_one_engine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    of_bean(monkeypatch, Schedules=1, Engines="")
    assert "one engine serves all applications" in said(capsys)
    assert "one engine serves all applications" in said(capsys, "--app", "application_1_0001")

    def no_bean(rm: str, ca: object) -> dict[str, Any]:
        raise UserError("it runs without Treadle")

    monkeypatch.setattr(engines, "read_bean", no_bean)
    assert run(["engines"]) == 2
    assert run(["engines", "--app", "application_1_0001"]) == 2, "no engine serves it"


@pytest.mark.parametrize("arguments", [(), ("--app", "application_1_0001")])
def test_one_engine_that_does_not_schedule_serves_nobody(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_bean(monkeypatch, Schedules=0, Mode="off")
    text = said(capsys, *arguments)
    assert "which serves nobody now: the mode is off" in text
    assert "serves all" not in text


@pytest.mark.parametrize("rubbish", ["no json", "[]", '{"engines": 1}', '{"engines": {"a": 1}}', "[" * 100_000])
def test_what_is_no_text_of_engines_is_a_mistake(
    rubbish: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_bean(monkeypatch, Engines=rubbish)
    assert run(["engines"]) == 2
    assert "holds no figures of engines" in capsys.readouterr().err


def test_the_policy_that_runs_is_the_first_engines() -> None:
    several = {"Policy": "service: gate=all order=a.py:A; batch-1, batch-2: gate=pilots", "Engines": "{}"}
    assert policy_in(several) == "gate=all order=a.py:A"
    assert policy_in({"Policy": "gate=all", "Engines": ""}) == "gate=all"
