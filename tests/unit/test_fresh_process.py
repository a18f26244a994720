"""Every command that reads a treadle.yaml knows all parts when nothing else was imported before it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.fresh_process import knows_all_parts

from treadle.config.parts import PartRegistry

COMMANDS = (
    "policy check {file}",
    "policy check {file} --scenario {folder}/scenario.yaml",
    "policy use {file} --config {folder}/treadle.yaml --no-refresh",
    "policy list",
    "policy parts",
    "policy defaults",
    "simulate {folder}/scenario.yaml --policy {file}",
    "simulate {folder}/scenario.yaml",
    "sweep {folder}/sweep.yaml",
    "sidecar --external --connection-file {folder}/connection --config {file}",
    "sidecar --warm-up --config {file}",
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
