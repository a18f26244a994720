"""The ready-made policies in conf/policies."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from treadle.cli.policy import app

FILES = sorted((Path(__file__).parents[2] / "conf" / "policies").glob("*.yaml"))


def test_there_are_some() -> None:
    assert {"capacity", "drf", "hdrf"} <= {file.stem for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_is_right_beside_a_store_and_begins_with_what_it_is_for(file: Path, tmp_path: Path) -> None:
    whole = tmp_path / "treadle.yaml"
    whole.write_text(f"{file.read_text('utf-8')}profiles: {{store: {tmp_path}/profiles.db}}\n", "utf-8")
    result = CliRunner().invoke(app, ["check", str(whole)])
    assert result.exit_code == 0, result.output
    assert ": right: " in result.output
    assert file.read_text("utf-8").startswith("# ")
