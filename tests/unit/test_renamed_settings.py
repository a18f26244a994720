"""Settings under names of before: they mean the same, and whoever runs them reads the new name."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import run
from treadle.config.errors import ConfigError
from treadle.config.parts import PARTS
from treadle.config.reader import parse_settings
from treadle.config.renamed import KINDS, PARAMETERS
from treadle.engine import Engine
from treadle.policy.catalogue import register_parts

OLD = "policy:\n  estimate:\n    kind: combined\n    told_error: 0.5\n"
NEW = OLD.replace("told_error", "hint_error")
LINE = "t.yaml:4: policy.estimate.told_error: is called `hint_error` now; write that"


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (OLD, NEW, LINE),
        (
            "policy: {estimate: {kind: told, default_ms: 5}}\n",
            "policy: {estimate: {kind: hints, default_ms: 5}}\n",
            "t.yaml:1: policy.estimate.kind: 'told' is called 'hints' now; write that",
        ),
    ],
)
def test_an_old_name_means_what_the_new_one_means_and_is_warned_of(old: str, new: str, warning: str) -> None:
    before, now = parse_settings("t.yaml", old), parse_settings("t.yaml", new)
    assert before == now
    assert before.policy.name() == now.policy.name()
    assert (before.warnings, now.warnings) == ((warning,), ())
    assert warning in Engine(before).warnings(), "the status has what the engine warns of"


def test_every_new_name_is_one_of_a_part_and_no_old_one_is() -> None:
    register_parts()
    for (part, old), new in KINDS.items():
        assert PARTS.has(part, new)
        assert not PARTS.has(part, old)
    for (part, kind, old), new in PARAMETERS.items():
        keys = PARTS.kinds(part)[kind].parameters.keys()
        assert new in keys
        assert old not in keys


def test_a_wrong_value_under_an_old_name_is_refused_and_so_are_both_names_at_once() -> None:
    with pytest.raises(ConfigError, match="hint_error"):
        parse_settings("t.yaml", OLD.replace("0.5", "much"))
    with pytest.raises(ConfigError, match=r"t\.yaml:4: policy\.estimate\.told_error: 'told_error' is not one of"):
        parse_settings("t.yaml", OLD + "    hint_error: 0.4\n")


def test_a_check_says_which_names_have_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(OLD, encoding="utf-8")
    assert run(["policy", "check", str(file)]) == 0
    assert f"warning: {tmp_path}/{LINE}" in capsys.readouterr().err
    file.write_text(NEW, encoding="utf-8")
    assert run(["policy", "check", str(file)]) == 0
    assert "is called" not in capsys.readouterr().err
