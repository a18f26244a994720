"""Write down what Treadle does, or compare it with what was written down before.

`python -m tests.baseline keep FOLDER` before a change that should change nothing, `compare FOLDER` after it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.baseline.outputs import difference
from tests.baseline.parts import PARTS, ROOT, Output

SOURCES: Final = ("python/treadle", "conf/policies", "docs/examples", "tests/baseline", "tests/data")
"""What outputs depend on: with the same content of all of them a run that was broken off goes on."""

STATE: Final = "state.txt"
NOW: Final = "now"
"""The folder in a baseline's folder for the outputs that are compared with it."""


class BaselineError(Exception):
    """The folder does not have what is asked for."""


def arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.baseline", description=__doc__)
    parser.add_argument("action", choices=("keep", "compare"))
    parser.add_argument("folder", type=Path, help="where the baseline is kept, outside the repository")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    return parser.parse_args(texts)


def digest() -> str:
    """Return a digest of all files that outputs depend on."""
    found = hashlib.sha256()
    for source in SOURCES:
        for file in sorted((ROOT / source).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def outputs(chosen: Sequence[str], kept: Path) -> Iterator[Output]:
    """Return the files of parts."""
    for part in chosen:
        yield from PARTS[part](kept)


def make(wanted: Sequence[Output], folder: Path) -> None:
    """Make the files that a folder has not yet, and show how far it is."""
    for number, output in enumerate(wanted, 1):
        target = folder / output.name
        if target.exists():
            continue
        print(f"{number} of {len(wanted)}: {output.name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="treadle-baseline-") as scratch:
            text = output.make(Path(scratch)).replace(scratch, "SCRATCH").replace(str(ROOT), "ROOT")
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(target.name + ".part")
        beside.write_text(text, "utf-8")
        beside.replace(target)


def keep(folder: Path, chosen: Sequence[str]) -> None:
    """Write down what this state of the sources does.

    Raises:
        BaselineError: the folder keeps what another state does.
    """
    state = folder / STATE
    if state.exists() and state.read_text("utf-8") != digest():
        raise BaselineError(f"{folder} keeps what other sources do; name another folder, or remove this one")
    folder.mkdir(parents=True, exist_ok=True)
    state.write_text(digest(), "utf-8")
    make(list(outputs(chosen, folder)), folder)


def compare(folder: Path, chosen: Sequence[str]) -> list[str]:
    """Return what this state of the sources does otherwise than what was kept: for each file name, line and texts.

    Raises:
        BaselineError: the folder keeps nothing, or not these parts.
    """
    wanted = list(outputs(chosen, folder))
    _check_kept(folder, wanted)
    now = folder / NOW
    state = now / STATE
    if not state.exists() or state.read_text("utf-8") != digest():
        shutil.rmtree(now, ignore_errors=True)
        now.mkdir(parents=True)
        state.write_text(digest(), "utf-8")
    made = [output for output in wanted if not output.given]
    make(made, now)
    found = []
    for output in made:
        before, after = ((place / output.name).read_text("utf-8") for place in (folder, now))
        if not output.compared:
            print("\n".join([output.name, *beside_each_other(before, after)]))
        elif (where := difference(before, after)) is not None:
            found.append(f"{output.name}: {where}")
    return found


def _check_kept(folder: Path, wanted: Sequence[Output]) -> None:
    missing = [output.name for output in wanted if not (folder / output.name).exists()]
    if missing:
        raise BaselineError(
            f"{folder} has no {missing[0]} and {len(missing) - 1} more; run `keep` to its end on the sources before "
            "the change, with the same tests/baseline"
        )


def beside_each_other(before: str, after: str) -> Iterator[str]:
    """Return a line for each configuration that was measured: what it is, its speed before and now, and their ratio."""
    speeds = [_speeds(text) for text in (before, after)]
    for name, old in speeds[0].items():
        new = speeds[1].get(name)
        yield f"  {name}: {old:,.0f} before, " + ("none now" if new is None else f"{new:,.0f} now, {new / old:.3f}")


def _speeds(text: str) -> dict[str, float]:
    """Return placements or completions a second of CPU time by configuration."""
    document: dict[str, Any] = json.loads(text)
    return {
        " ".join(str(row[name]) for name in ("policy", "load", "nodes", "rows", "leaves") if name in row): float(
            row.get("placements_per_s_cpu") or row["completions_per_s"]
        )
        for row in document.get("results", document.get("runs", ()))
    }


def main(texts: Sequence[str] | None = None) -> int:
    """Return 0 if all is as it was, 1 if something differs, 2 if the folder does not have what is asked for."""
    chosen = arguments(texts)
    parts = chosen.only or tuple(PARTS)
    try:
        if chosen.action == "keep":
            keep(chosen.folder, parts)
            return 0
        found = compare(chosen.folder, parts)
    except BaselineError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(found) if found else f"{', '.join(parts)}: as before")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
