"""What a frame costs through the hub: one load, decided in one process, and by 1, 2 and 4 engines behind the hub.

`python -m tests.speed.hub_frames`: modes take turns, each run in a process of its own. Latency is from a frame to its
answer; CPU is of hub and engines, without the simulated ResourceManager's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Condition
from typing import Any, Final

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table
from tests.support.framed_rm import ANSWER_BYTES, ANSWER_ROWS, FramedRM

from treadle.config.reader import read_roster
from treadle.config.settings import RosterEngine
from treadle.live.question_socket import Close, close_all
from treadle.sidecar.child import ChildProcess
from treadle.sidecar.hub import Hub
from treadle.simulator.scenario import ScenarioModel
from treadle.wire.answer import Answer, decode_answer

MODES: Final = (0, 1, 2, 4)
"""Engines behind the hub; 0: one engine without a hub."""
NODES, QUEUES, FRAME_S = 1000, 4, 0.02
WARM_S: Final = 10.0

Decide = Callable[[bytes, int], bytes]


def scenario(seconds: float) -> ScenarioModel:
    """Return a cluster with a steady load of 800 containers a second: three fifths of what there is."""
    stage = {"tasks": 200, "duration_s": 3, "demand": {"memory-mb": 1024, "vcores": 1}}
    job = {"stages": [stage], "count": round(seconds) + 60, "gap_s": 1}
    return ScenarioModel.model_validate(
        {
            "cluster": {"nodes": [{"count": NODES, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "queues": {f"q{number}": {"capacity": 100 // QUEUES} for number in range(QUEUES)},
            "workload": {"jobs": [job | {"queue": f"q{at}", "arrival_s": at / QUEUES} for at in range(QUEUES)]},
        }
    )


def settings_of(engines: int) -> str:
    """Return treadle.yaml: each engine serves as many queues as the others."""
    if engines == 0:
        return "policy: {}\n"
    served = [[f"root.q{queue}" for queue in range(at, QUEUES, engines)] for at in range(engines - 1)]
    entries = {f"e{at}": {"select": {"queues": queues}} for at, queues in enumerate(served)}
    return json.dumps({"engines": entries | {"rest": {}}})


def direct(config: Path, closing: list[Close]) -> tuple[Decide, Callable[[], bool]]:
    """Return an engine without a hub."""
    from treadle.live.policies import open_session

    return open_session(config, closing).decide, lambda: True


def through_hub(config: Path, closing: list[Close]) -> tuple[Decide, Callable[[], bool]]:
    """Return a hub and its engines' processes, and whether all are alive."""

    def make(row: RosterEngine, changed: Condition) -> ChildProcess:
        command = (sys.executable, "-P", "-m", "treadle.live.engine_child", str(config), row.name, "alone")
        child = ChildProcess(row.name, command, changed)
        closing.append(lambda _: child.close())
        return child

    hub = Hub(read_roster(config), make, clock_ns=time.monotonic_ns, read_roster=Future[Any])
    return hub.decide, lambda: all(each["alive"] for each in hub.roster_json()["engines"].values())


def run(engines: int, seconds: float, folder: Path) -> dict[str, float]:
    """Run a load, and return the figures of its frames after WARM_S."""
    config, closing = folder / "treadle.yaml", list[Close]()
    config.write_text(settings_of(engines), encoding="utf-8")
    manager = FramedRM(scenario(seconds), folder, {"batch-size": "48"})
    decide, ready = (through_hub if engines else direct)(config, closing)
    while not ready():
        manager.commit(_answer(decide, manager.frame()))
        time.sleep(FRAME_S)
    waits_us, cpu_s, others_s, committed = list[float](), 0.0, 0.0, 0
    begin_s = time.monotonic()
    while (now_s := time.monotonic() - begin_s) < WARM_S + seconds:
        manager.rm.advance(round(1000 * now_s))
        if now_s > WARM_S and not waits_us:
            others_s = children_cpu_s()
        content = manager.frame()
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        answer = _answer(decide, content)
        wait_us, used_s = 1e6 * (time.perf_counter() - began_s), time.process_time() - began_cpu_s
        containers = manager.commit(answer)
        if now_s > WARM_S:
            waits_us.append(wait_us)
            cpu_s += used_s
            committed += containers
        time.sleep(max(0.0, begin_s + now_s + FRAME_S - time.monotonic()))
    cpu_s += children_cpu_s() - others_s
    close_all(closing, "the run has ended")
    return {
        "p50_us": float(np.quantile(waits_us, 0.5)),
        "p99_us": float(np.quantile(waits_us, 0.99)),
        "cpu_us_per_container": 1e6 * cpu_s / committed,
        "containers_per_s": committed / seconds,
    }


def _answer(decide: Decide, content: bytes) -> Answer:
    return decode_answer(decide(content, ANSWER_BYTES), ANSWER_ROWS)


def children_cpu_s() -> float:
    """Return the CPU time of the engines' processes."""
    used = [each.cpu_times() for each in psutil.Process().children() if "engine_child" in " ".join(each.cmdline())]
    return sum(each.user + each.system for each in used)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed.hub_frames", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--run", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.run is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(run(chosen.run, chosen.seconds, Path(folder))))
        return
    rows: dict[int, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for number in range(chosen.rounds):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            print(f"round {number + 1} of {chosen.rounds}: {mode} engines", file=sys.stderr, flush=True)
            command = [sys.executable, "-m", "tests.speed.hub_frames", "--run", str(mode)]
            done = subprocess.run(
                [*command, "--seconds", str(chosen.seconds)], stdout=subprocess.PIPE, check=True, text=True
            )
            rows[mode].append(json.loads(done.stdout))
    table = Table(title=f"Frames of {NODES:,} nodes, median of {chosen.rounds} rounds (of no hub's)")
    figures = tuple(rows[0][0])
    for title in ("engines behind a hub", *figures):
        table.add_column(title, justify="right")
    for mode in MODES:
        shown = []
        for figure in figures:
            value = statistics.median(row[figure] for row in rows[mode])
            ratio = statistics.median(row[figure] / one[figure] for row, one in zip(rows[mode], rows[0], strict=True))
            shown.append(f"{value:,.0f} ({ratio:.2f})")
        table.add_row(str(mode or "no hub"), *shown)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
