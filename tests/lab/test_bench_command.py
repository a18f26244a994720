"""`treadle lab bench cluster`: what it says of options that cannot be used."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from tests.support.cli import Cli

from treadle_lab.cli.lab.bench.cluster import heap_mb_for, stall_allowed_s
from treadle_lab.sls.run import Workload

SMALL = Workload(20, 3, 40, 1_000)
MACHINE_MB = psutil.virtual_memory().total // 2**20
SIZES = ("--nodes", "--jobs", "--tasks", "--task-ms")


def test_the_heap_grows_with_the_load_up_to_half_of_the_machine() -> None:
    assert heap_mb_for(SMALL) < heap_mb_for(Workload(1_000, 100, 100, 1_000))
    assert heap_mb_for(Workload(100_000, 100_000, 240, 1_000)) == MACHINE_MB // 2


def test_patience_outlasts_a_few_tasks() -> None:
    assert stall_allowed_s(10, Workload(1, 1, 1, 60_000)) == 180
    assert stall_allowed_s(10, SMALL) == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *(([option, "0"], f"{option} is 0: it must lie between 1 and") for option in SIZES),
        (["--rounds", "0"], "--rounds is 0"),
        (["--mode", "foo"], "--mode: foo is none here"),
        *((["--stall-s", patience], "--stall-s is") for patience in ("0", "-1", "nan", "inf")),
        (["--nodes", "100000000"], "--nodes is 100000000"),
        (["--seed", "1" * 23], "'--seed': Input should be less than"),
        (["--backlog", "--mode", "async-9"], "--mode: async-9 is none here"),
        (["--backlog", "--heartbeat-ms", "99"], "--heartbeat-ms is 99"),
        (["--backlog", "--queues", "401"], "--queues is 401: there must be as many jobs"),
        (["--backlog", "--preferred-nodes", "101"], "--preferred-nodes is 101"),
        (["--backlog", "--slots-per-node", "10001"], "--slots-per-node is 10001"),
        (["--backlog", "--window-s", "nan"], "--window-s is nan"),
        (["--backlog", "--jobs", "1000", "--tasks", "1000000"], "at most 100,000,000 containers"),
        (["--preferred-nodes", "3"], "--preferred-nodes: goes with --backlog only"),
        (["--warm-s", "3"], "--warm-s: goes with --backlog only"),
        (["--mode", "async-4"], "--mode: async-4 is none here"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_built(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: Cli,
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.setattr("treadle_lab.sls.run.class_path", lambda: pytest.fail("built first"))
    assert said in " ".join(
        cli(["lab", "bench", "cluster", "--out", str(tmp_path / "r.json"), *arguments], 2).err.split()
    )
