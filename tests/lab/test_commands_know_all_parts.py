"""Every command of the laboratory that reads a treadle.yaml knows all parts when nothing was imported before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.fresh_process import knows_all_parts, treadle

from treadle.shipped import ready_made

COMMANDS = (
    "minicluster start --folder {folder}/cluster --policy {file}",
    "minicluster run --folder {folder}/cluster --policy {file} -- true",
    "lab bench engine --policy {file}",
    "lab bench engine --policies {folder}/policies",
    "lab bench simulator --policy {file}",
)
"""What reads a treadle.yaml."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_knows_all_parts(command: str, tmp_path: Path) -> None:
    knows_all_parts(command, tmp_path)


@pytest.mark.parametrize(("command", "what"), [("start", ""), ("run", "-- true")])
def test_a_mini_cluster_takes_ready_made_policies(command: str, what: str, tmp_path: Path) -> None:
    file = ready_made()["slearn-history"]
    absent = tmp_path / "absent.xml"
    code, said = treadle(f"minicluster {command} --folder {tmp_path}/c --policy {file} --queues {absent} {what}")
    assert code == 2
    assert str(absent) in said
    assert str(file) not in said
