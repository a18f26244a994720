"""Commands in processes of their own, where nothing was imported before them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MISSPELT = "policy: {share: {kind: hdfr}, order: {kind: srpt}, estimate: {kind: observed}}\n"

SCENARIO = """\
cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}
workload: {jobs: [{stages: [{tasks: 1, duration_s: 1, demand: {memory-mb: 1024, vcores: 1}}]}]}
policies: [misspelt.yaml]
"""


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


def shares() -> list[str]:
    """Return the kinds of shares, by name."""
    from treadle.policy.catalogue import BUILTIN_PARTS  # only here: it imports numba

    return sorted(each.kind for each in BUILTIN_PARTS if each.part == "share")


def knows_all_parts(command: str, folder: Path) -> None:
    """Let a command read a policy with a misspelt part; it must name all that there are."""
    (folder / "policies").mkdir()
    (folder / "scenario.yaml").write_text(SCENARIO)
    (folder / "sweep.yaml").write_text("scenarios: [scenario.yaml]\npolicies: [misspelt.yaml]\n")
    for file in (folder / "misspelt.yaml", folder / "policies" / "misspelt.yaml"):
        file.write_text(MISSPELT)
    code, said = treadle(command.format(folder=folder, file=folder / "misspelt.yaml"))
    if "misspelt" in command or "{file}" in command or "{folder}" in command:
        assert code != 0
        assert f"policy.share.kind: 'hdfr' is not one of {', '.join(shares())}; did you mean hdrf?" in said
        assert said.count("is not one of") == 1, "the other parts are known"
    else:
        assert code == 0
        assert "hdrf" in said
