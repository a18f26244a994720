"""Every command that reads a treadle.yaml knows all parts when nothing else was imported before it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from treadle.admin.install import ready_made
from treadle.config.parts import PartRegistry

ROOT = Path(__file__).resolve().parents[2]

MISSPELT = "policy: {share: {kind: hdfr}, order: {kind: srpt}, estimate: {kind: observed}}\n"
SAID = "policy.share.kind: 'hdfr' is not one of capacity, deficit, drf, file, hdrf, none; did you mean hdrf?"

SCENARIO = """\
cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}
workload: {jobs: [{stages: [{tasks: 1, duration_s: 1, demand: {memory-mb: 1024, vcores: 1}}]}]}
policies: [misspelt.yaml]
"""

COMMANDS = (
    "minicluster start --folder {folder}/cluster --policy {file}",
    "minicluster run --folder {folder}/cluster --policy {file} -- true",
    "policy check {file}",
    "policy check {file} --scenario {folder}/scenario.yaml",
    "policy use {file} --config {folder}/treadle.yaml --no-refresh",
    "policy list",
    "policy parts",
    "policy defaults",
    "simulate {folder}/scenario.yaml --policy {file}",
    "simulate {folder}/scenario.yaml",
    "sweep {folder}/sweep.yaml",
    "bench engine --policy {file}",
    "bench engine --policies {folder}/policies",
    "bench simulator --policy {file}",
    "sidecar --external --connection-file {folder}/connection --config {file}",
    "sidecar --warm-up --config {file}",
)
"""What reads a treadle.yaml, or lists what may stand in one."""


def treadle(command: str) -> tuple[int, str]:
    """Run a command in a process of its own; return its exit code and all that it said."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", *command.split()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_knows_all_parts(command: str, tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    (tmp_path / "sweep.yaml").write_text("scenarios: [scenario.yaml]\npolicies: [misspelt.yaml]\n")
    for file in (tmp_path / "misspelt.yaml", tmp_path / "policies" / "misspelt.yaml"):
        file.write_text(MISSPELT)
    code, said = treadle(command.format(folder=tmp_path, file=tmp_path / "misspelt.yaml"))
    if "misspelt" in command or "{file}" in command or "{folder}" in command:
        assert code != 0
        assert SAID in said
        assert said.count("is not one of") == 1, "the other parts are known"
    else:
        assert code == 0
        assert "hdrf" in said


@pytest.mark.parametrize(("command", "what"), [("start", ""), ("run", "-- true")])
def test_a_mini_cluster_takes_ready_made_policies(command: str, what: str, tmp_path: Path) -> None:
    file = ready_made()["slearn-history"]
    absent = tmp_path / "absent.xml"
    code, said = treadle(f"minicluster {command} --folder {tmp_path}/c --policy {file} --queues {absent} {what}")
    assert code == 2
    assert str(absent) in said
    assert str(file) not in said


def test_a_registry_that_nobody_filled_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="register_parts"):
        PartRegistry().kinds("share")
    with pytest.raises(RuntimeError, match="register_parts"):
        PartRegistry().default("share")
