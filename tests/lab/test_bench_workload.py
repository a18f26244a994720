"""The benchmark's load and the configuration of its runs."""

from __future__ import annotations

import ipaddress
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import UserError
from treadle_lab.cli._experiments import chosen
from treadle_lab.sls.run import MODES, QUEUES, Workload, write_configuration


def properties(path: Path) -> dict[str, str]:
    root = ElementTree.parse(path).getroot()
    return {item.findtext("name", ""): item.findtext("value", "") for item in root.findall("property")}


def test_the_trace_is_the_same_each_time_and_says_what_was_asked() -> None:
    workload = Workload(nodes=100, jobs=20, tasks=240, task_ms=5_000, seed=7)
    trace = workload.trace()
    assert trace == Workload(100, 20, 240, 5_000, 7).trace()
    assert (trace["num_nodes"], trace["num_jobs"], trace["rand_seed"]) == (100, 20, 7)
    tasks = [job["tasks"] for share in trace["workloads"] for job in share["job_classes"]]
    assert [task["count"] for (task,) in tasks] == [{"val": 240}] * len(QUEUES)
    assert [task["time"] for (task,) in tasks] == [{"val": 5_000}] * len(QUEUES)


def test_sizes_follow_from_the_load() -> None:
    workload = Workload(nodes=5_000, jobs=1_000, tasks=240, task_ms=5_000)
    assert workload.containers == 241_000
    assert workload.slots == 50_000
    assert workload.ideal_span_ms == 25_000


@given(st.integers(1, 10_000), st.integers(1, 2_000), st.integers(1, 500), st.integers(1, 60_000))
def test_the_ideal_span_has_room_for_all_tasks_and_no_wave_too_many(n: int, jobs: int, tasks: int, ms: int) -> None:
    workload = Workload(n, jobs, tasks, ms)
    waves = workload.ideal_span_ms // ms
    assert (waves - 1) * workload.slots < jobs * tasks <= waves * workload.slots


def test_every_node_is_an_address_in_one_rack_of_the_file_that_the_simulator_reads(tmp_path: Path) -> None:
    workload = Workload(90, 2, 3, 1_000)
    files = workload.write(tmp_path)
    racks = [json.loads(line) for line in files.nodes.read_text().splitlines()]
    assert {rack["rack"]: [node["node"] for node in rack["nodes"]] for rack in racks} == workload.racks()
    sizes = [len(nodes) for nodes in workload.racks().values()]
    assert sizes == [30, 30, 30]
    names = [name for nodes in workload.racks().values() for name in nodes]
    assert len(set(names)) == 90
    assert all(ipaddress.ip_address(name).is_loopback for name in names)
    assert json.loads(files.trace.read_text())["num_nodes"] == 90
    assert "127.0.0.1 localhost" in files.hosts.read_text().splitlines()


def test_modes_differ_in_the_scheduler_only(tmp_path: Path) -> None:
    workload = Workload(20, 3, 10, 1_000)
    settings = {}
    for mode in MODES.values():
        folder = tmp_path / mode.name
        folder.mkdir()
        write_configuration(folder, mode, workload, tmp_path / "m.json", tmp_path / "rm.log", "/usr/bin/treadle")
        settings[mode.name] = {**properties(folder / "sls-runner.xml"), **properties(folder / "capacity-scheduler.xml")}
    assert settings["sync"]["yarn.scheduler.capacity.per-node-heartbeat.maximum-container-assignments"] == "100"
    assert settings["sync"]["yarn.scheduler.capacity.per-node-heartbeat.maximum-offswitch-assignments"] == "100"
    for name in ("treadle", "observe"):
        assert settings[name]["yarn.scheduler.treadle.python.command"] == "/usr/bin/treadle"
    of_queues = {key: value for key, value in settings["sync"].items() if key.startswith("yarn.scheduler.capacity.")}
    assert of_queues.items() <= settings["observe"].items()
    shared = {
        key
        for key in settings["sync"]
        if not key.startswith("yarn.scheduler.") or ".root." in key or "maximum-am" in key or "allocation-mb" in key
    } - {"yarn.resourcemanager.scheduler.class"}
    for name, values in settings.items():
        assert {key: values.get(key) for key in shared} == {key: settings["sync"][key] for key in shared}, name


def test_modes_run_in_their_order_and_unknown_ones_are_named() -> None:
    assert chosen(["floor", "sync"], MODES) == ["sync", "floor"]
    assert chosen(None, MODES) == list(MODES)
    with pytest.raises(UserError, match="--mode: fifo is none here"):
        chosen(["fifo"], MODES, option="--mode")
