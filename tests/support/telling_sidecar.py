"""The real sidecar, which also writes down what the gate `parallelism` says of each MapReduce job.

usage: telling_sidecar.py FILE sidecar run --managed [--config FILE]
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any, Final

from treadle.policy.mapreduce import ParallelismGate

LINES_MAX: Final = 20_000


def write_command(file: Path, target: Path) -> Path:
    """Write the executable that a ResourceManager starts instead of `treadle`; what is said goes to ``target``."""
    root = Path(__file__).parents[2]
    file.write_text(
        f"#!/bin/sh\nPYTHONPATH={shlex.quote(f'{root}:{root}/python')} "
        f'exec {shlex.quote(sys.executable)} -m {__name__} {shlex.quote(str(target))} "$@"\n'
    )
    file.chmod(0o755)
    return file


def told(target: Path, application_id: str) -> list[dict[str, Any]]:
    """Return what was said of an application, the first first."""
    lines = target.read_text("utf-8").splitlines() if target.is_file() else []
    found = [json.loads(line) for line in lines]
    return [each for each in found if each["application_id"] == application_id]


def main() -> None:
    """Let the gate write, and run the real sidecar."""
    target = Path(sys.argv[1])
    original = ParallelismGate.open
    before: dict[str, dict[str, Any]] = {}
    lines = 0

    def open_(self: ParallelismGate, cluster: Any, view: Any, now_ms: int, rows: Any) -> None:
        nonlocal lines
        original(self, cluster, view, now_ms, rows)
        for job in self.jobs:
            app = view.apps[job.application]
            said: dict[str, Any] = {
                "application_id": f"application_{app['cluster_timestamp']}_{app['id']:04d}",
                "running": job.running,
                "workers": job.workers,
                "maps": job.maps,
                "reduces": job.reduces,
                "left_s": job.left_s(job.workers),
            }
            if before.get(said["application_id"]) != said and lines < LINES_MAX:
                before[said["application_id"]] = said
                lines += 1
                with target.open("a", encoding="utf-8") as stream:
                    # one write a line: each engine has a process of its own
                    stream.write(json.dumps({**said, "now_ms": now_ms}) + "\n")

    patched: Any = ParallelismGate
    patched.open = open_
    from treadle.cli.main import main as treadle

    sys.argv = ["treadle", *sys.argv[2:]]
    treadle()


if __name__ == "__main__":
    main()
