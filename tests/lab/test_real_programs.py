"""The runner of real programs: a line for each part, and a failure that shows in line and exit code."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest
from tests.real_programs import __main__ as runner
from tests.real_programs import packages
from tests.real_programs.account import Account, ProgramError


def add_part(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception | None) -> None:
    module = ModuleType(f"tests.real_programs.{name}")

    def run(account: Account) -> None:
        account.treadle, account.before_lease = 14, 3
        account.compared += ["AM killed", "idle"]
        if error is not None:
            raise error

    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(runner.PARTS, name, runner.Part(f"{name}:run"))


def test_a_part_that_fails_is_named_with_its_reason_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_part(monkeypatch, "broken", ProgramError("books after AM killed:\nroot.default: 5 booked"))
    add_part(monkeypatch, "sound", None)

    assert runner.main(["--only", "broken", "sound"]) == 1

    failed, passed = capsys.readouterr().out.splitlines()
    assert failed.split()[:5] == ["broken", "14", "/", "3", "FAILED"]
    assert "books after AM killed: root.default: 5 booked; before that: AM killed, idle" in failed
    assert passed.split()[:5] == ["sound", "14", "/", "3", "ok"]
    assert "3 by the CapacityScheduler before the lease" in passed


def test_an_error_without_words_is_a_failure_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_part(monkeypatch, "broken", AssertionError())
    assert runner.main(["--only", "broken"]) == 1
    assert "FAILED  AssertionError" in capsys.readouterr().out


def test_every_part_has_its_function_and_the_lists_of_what_it_needs() -> None:
    for part in runner.PARTS.values():
        module, _, function = part.function.partition(":")
        assert callable(getattr(importlib.import_module(f"tests.real_programs.{module}"), function)), part
        assert not part.jars or (packages.HERE / "poms" / f"{part.jars}.xml").is_file(), part
        assert not part.python or (packages.HERE / "requirements" / f"{part.python}.txt").is_file(), part
