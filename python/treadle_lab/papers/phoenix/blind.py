"""A sidecar whose engine does not know node constraints: it receives none, and tries any free node.

The ResourceManager rejects its proposals for other nodes. `write_command` creates the executable that a ResourceManager
starts in place of `treadle`.
"""

from __future__ import annotations

import runpy
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from treadle.engine.engine import Engine
from treadle.events import Event, Names

REQUIREMENT: Final = ("treadle:require=", "treadle:prefer=")
CONSTRAINT: Final = '{"and":['


def hidden(events: Sequence[Event]) -> list[Event]:
    """Return an engine's events with requirements and constraints in an unknown form."""
    return [
        replace(event, texts=tuple(map(_hidden, event.texts))) if isinstance(event, Names) else event
        for event in events
    ]


def _hidden(text: str) -> str:
    return f"hidden: {text}" if text.startswith((*REQUIREMENT, CONSTRAINT)) else text


def write_command(file: Path) -> Path:
    """Write the executable; returns its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {__name__} "$@"\n')
    file.chmod(0o700)
    return file


def main() -> None:
    """Run the command line with such an engine."""
    sighted = Engine.apply

    def apply(self: Engine, events: Sequence[Event]) -> None:
        sighted(self, hidden(events))

    Engine.apply = apply  # type: ignore[method-assign]
    runpy.run_module("treadle", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
