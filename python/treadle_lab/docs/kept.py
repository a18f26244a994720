"""A kept result: the figures that a command wrote, with its command line, the day, the machine and the seeds."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from treadle import __version__
from treadle.errors import UserError
from treadle.files import write_whole

FOLDER: Final = "kept"
"""Of kept results, beside the pages that show them."""


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The result of a command."""

    name: str
    command: str
    """As it was called, without ``--json``."""
    day: str
    """The day on which it ended, UTC."""
    machine: str
    version: str
    """Of Treadle."""
    note: str
    """What a reader of the figures should know, as that the machine was busy."""
    figures: Mapping[str, Any]
    """What the command wrote with ``--json``."""

    @property
    def seeds(self) -> str:
        """The seeds, as a page says them; empty if the figures name none."""
        seeds = self.figures.get("seeds")
        if not isinstance(seeds, list) or not seeds:
            return ""
        whole = seeds == list(range(seeds[0], seeds[0] + len(seeds)))
        return f"{seeds[0]} to {seeds[-1]}" if whole and len(seeds) > 1 else ", ".join(map(str, seeds))

    def origin(self) -> str:
        """Return where the figures come from, in Markdown, for a page beside the folder of kept results."""
        facts = [f"seeds {self.seeds}" if self.seeds else "", self.day, self.machine, self.note]
        facts_text = "; ".join(fact for fact in facts if fact)
        return f"`{self.command}`: {facts_text} ([figures]({FOLDER}/{self.name}.json))."


def run_and_keep(name: str, arguments: Sequence[str], folder: Path, note: str = "") -> KeptResult:
    """Run a command of ``treadle`` that has ``--json``, and keep what it writes.

    Args:
        name: of the kept result
        arguments: the command, without ``--json``
        folder: of the pages; the result is in ``kept`` below it
        note: see `KeptResult.note`

    Raises:
        UserError: the command fails, writes no figures, or they cannot be kept; nothing is then changed.
    """
    if not name.replace("-", "").isalnum():
        raise UserError(f"{name!r}: a result is named by letters, digits and -, as slearn-model")
    if "--json" in arguments:
        raise UserError("leave --json out: the figures are kept in a file of their own")
    with tempfile.TemporaryDirectory(prefix="treadle-results-") as work:
        figures = Path(work, "figures.json")
        done = subprocess.run([sys.executable, "-P", "-m", "treadle", *arguments, "--json", str(figures)], check=False)
        if done.returncode != 0:
            raise UserError(f"treadle {' '.join(arguments)} ended with exit code {done.returncode}; nothing was kept")
        if not figures.is_file():
            raise UserError(f"treadle {' '.join(arguments)} wrote no figures; nothing was kept")
        document = json.loads(figures.read_text("utf-8"))
    if not isinstance(document, dict):
        document = {"rows": document}
    command = " ".join(["treadle", *arguments])
    day = datetime.now(UTC).date().isoformat()
    result = KeptResult(name, command, day, machine(), __version__, note, document)
    _write(folder / FOLDER / f"{name}.json", result)
    return result


def read_kept(folder: Path, name: str) -> KeptResult:
    """Return a kept result of the pages in a folder.

    Raises:
        UserError: it is not there, or is none.
    """
    file = folder / FOLDER / f"{name}.json"
    try:
        document = json.loads(file.read_text("utf-8"))
        return KeptResult(name, **document)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{file}: no kept result ({error}); treadle results keep {name} -- COMMAND writes one"
        ) from None


def machine() -> str:
    """Return what figures may depend on, without the name of the machine."""
    cores = len(os.sched_getaffinity(0))
    return f"{platform.machine()}, {cores} cores, Python {platform.python_version()}"


def _write(file: Path, result: KeptResult) -> None:
    document = asdict(result)
    del document["name"]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(document, indent=1) + "\n", lambda opened: os.fchmod(opened, 0o644))
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; name a folder that can be written") from None
