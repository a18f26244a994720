"""The two sides: this checkout, and a folder with the recorded commit and its jars."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from treadle_lab.minicluster.settings import gather

ROOT: Final = Path(__file__).resolve().parents[2]
KEPT: Final = ROOT / "build" / "speed"
"""Where recorded commits are put, one a folder; it may be deleted at any time."""


class SpeedError(Exception):
    """A side cannot be had, or a load gave no figures; the text says why."""


@dataclass(frozen=True)
class Side:
    """A version of Treadle that can be run with this checkout's Python and packages."""

    name: str
    root: Path

    def report(self, command: Sequence[str], sidecar: Path, folder: Path) -> Any:
        """Run a command of this version's and return what it wrote to a file of results; `folder` takes its output.

        Raises:
            SpeedError: it ended with an error.
        """
        folder.mkdir(parents=True, exist_ok=True)
        target, log = folder / "report.json", folder / "output.txt"
        if self._has_groups:
            words = ["lab", *command, "--out", str(target)]
        else:
            own = ["--sidecar", str(sidecar), "--runtime", str(gather(print))] if "cluster" in command else []
            words = [*command, *own, "--json", str(target)]
        self._run(words, log)
        return json.loads(target.read_text())

    @property
    def _has_groups(self) -> bool:
        """Are this version's commands in groups? The recorded commit's need not be."""
        return (self.root / "python/treadle_lab/cli/lab").is_dir()

    def compile(self, folder: Path) -> None:
        """Compile what is compiled at the first start, so that no figure has it; seconds if it was done before."""
        folder.mkdir(parents=True, exist_ok=True)
        self._run(["sidecar", "warm-up"] if self._has_groups else ["sidecar", "--warm-up"], folder / "warm-up.txt")

    def _run(self, command: Sequence[str], log: Path) -> None:
        with log.open("wb") as output:
            done = subprocess.run(
                [sys.executable, "-c", "from treadle.cli.main import main; main()", *command],
                env=os.environ | {"PYTHONPATH": str(self.root / "python")},
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        if done.returncode != 0:
            raise SpeedError(f"{self.name}: treadle {' '.join(command)} ended with code {done.returncode}; see {log}")

    def write_sidecar(self, folder: Path) -> Path:
        """Write a command that starts this version's sidecar."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"treadle-{self.name}"
        path.write_text(
            f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(self.root / 'python'))} exec {shlex.quote(sys.executable)} "
            '-c "from treadle.cli.main import main; main()" "$@"\n'
        )
        path.chmod(0o755)
        return path


def today() -> Side:
    """Return this checkout as it is, changes that are not committed included."""
    return Side("today", ROOT)


def recorded(commit: str) -> Side:
    """Return a commit, taken from the repository unless it is there already."""
    folder = KEPT / commit
    if not (folder / "python").is_dir():
        made = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
        if made.returncode != 0:
            why = made.stderr.decode(errors="replace").strip()
            raise SpeedError(f"commit {commit} of ranges.yaml is not in this repository (a shallow clone?): {why}")
        unpacking = folder.with_name(f"{commit}.part")
        with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
            archive.extractall(unpacking, filter="data")
        (folder.parent / f"{commit}.part").rename(folder)
    return Side("recorded", folder)
