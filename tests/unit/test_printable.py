"""What others call their jobs forges no line of a sidecar's log, and commands no terminal that shows it."""

from __future__ import annotations

import io
import logging

import pytest
from rich.table import Table

from treadle.cli import _console, main
from treadle.cli._console import console_for_tables
from treadle.errors import UserError
from treadle.log_lines import PrintableFormatter, log_to_stderr

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


def test_errors_that_quote_others_are_printable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def application(_: object) -> object:
        def fail(**_: object) -> None:
            raise UserError(f"first line\n{EVIL}")

        return fail

    monkeypatch.setattr(main, "application", application)
    assert main.run(["status"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("first line\n")
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(said)
