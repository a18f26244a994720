from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.files import written

from treadle_lab.minicluster import ClusterError, ClusterSettings, NodeAttribute, NodeLabel, Scheduler, processes, site
from treadle_lab.minicluster.cluster import allocated_containers
from treadle_lab.minicluster.settings import (
    SHIM_CLASS,
    STOCK_CLASS,
    gather,
    parse_assignments,
    parse_resources,
    runtime_folder,
)
from treadle_lab.minicluster.site import Layout, ProcessRecord, read_site, write_configuration


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "treadle_command", lambda: Path("/opt/treadle/bin/treadle"))
    monkeypatch.setattr(site, "java_home", lambda: Path("/opt/jdk"))


def configured(tmp_path: Path, settings: ClusterSettings) -> Layout:
    layout = Layout.create(tmp_path / "cluster", settings.nodes, settings.named_nodes)
    layout.folder.mkdir()
    write_configuration(layout, settings, Path("/opt/runtime/lib"))
    return layout


def test_every_address_is_loopback_and_no_port_is_given_twice(tmp_path: Path) -> None:
    layout = configured(tmp_path, ClusterSettings(nodes=3))
    files = [layout.conf / "yarn-site.xml", *(layout.node_folder(n) / "conf" / "yarn-site.xml" for n in (1, 2, 3))]
    own = "yarn.nodemanager."
    seen: list[str] = []
    for file in files:
        entries = read_site(file)
        addresses = {key: value for key, value in entries.items() if key.endswith("address")}
        assert all(value.startswith("127.0.0.1:") for value in addresses.values())
        first = file == files[0]
        seen += [value for key, value in addresses.items() if first or key.startswith(own)]
    assert len(seen) == len(set(seen)) == 5 + 3 * 3


@pytest.mark.parametrize(
    ("scheduler", "name"),
    [(Scheduler.TREADLE, SHIM_CLASS), (Scheduler.CAPACITY, STOCK_CLASS), (Scheduler.CAPACITY_ASYNC, STOCK_CLASS)],
)
def test_the_scheduler_decides_on_class_and_thread(tmp_path: Path, scheduler: Scheduler, name: str) -> None:
    layout = configured(tmp_path, ClusterSettings(scheduler=scheduler))
    yarn, queues = read_site(layout.conf / "yarn-site.xml"), read_site(layout.conf / "capacity-scheduler.xml")
    assert yarn["yarn.resourcemanager.scheduler.class"] == name
    assert ("yarn.scheduler.treadle.mode" in yarn) == (scheduler is Scheduler.TREADLE)
    asynchronous = queues.get("yarn.scheduler.capacity.schedule-asynchronously.enable")
    assert asynchronous == ("true" if scheduler is Scheduler.CAPACITY_ASYNC else None)


def test_overrides_win_in_every_file(tmp_path: Path) -> None:
    settings = ClusterSettings(nodes=1, overrides={"yarn.nodemanager.resource.memory-mb": "77", "my.key": "<&>"})
    layout = configured(tmp_path, settings)
    for file in (layout.conf / "yarn-site.xml", layout.node_folder(1) / "conf" / "yarn-site.xml"):
        entries = read_site(file)
        assert (entries["yarn.nodemanager.resource.memory-mb"], entries["my.key"]) == ("77", "<&>")


def test_resource_types_are_declared_and_offered(tmp_path: Path) -> None:
    layout = configured(tmp_path, ClusterSettings(nodes=1, resources={"gpu": 4, "fpga": 1}))
    assert read_site(layout.conf / "resource-types.xml") == {"yarn.resource-types": "gpu,fpga"}
    offered = read_site(layout.node_folder(1) / "conf" / "node-resources.xml")
    assert offered == {"yarn.nodemanager.resource-type.gpu": "4", "yarn.nodemanager.resource-type.fpga": "1"}


def test_nodes_with_attributes_have_names_and_addresses_of_their_own(tmp_path: Path) -> None:
    """Attributes go by host name, and reach the scheduler only if it knows nodes by that alone."""
    layout = configured(tmp_path, ClusterSettings(nodes=2, attributes=(NodeAttribute("zone", "a", (2,)),)))
    assert read_site(layout.conf / "yarn-site.xml")["yarn.scheduler.include-port-in-node-name"] == "false"
    node = read_site(layout.node_folder(2) / "conf" / "yarn-site.xml")
    assert node["yarn.nodemanager.hostname"] == "127.0.1.2"
    assert node["yarn.nodemanager.address"] == f"127.0.1.2:{layout.nm_ports[1][0]}"
    assert layout.node_id(2) == f"node2:{layout.nm_ports[1][0]}"
    lines = (layout.folder / "hosts").read_text().splitlines()
    assert lines[0].startswith("127.0.0.1 localhost")
    assert lines[1:] == ["127.0.1.1 node1", "127.0.1.2 node2"]
    layout.save()
    assert Layout.load(layout.folder) == layout


def test_two_clusters_share_no_folder(tmp_path: Path) -> None:
    """Hadoop's default of the node attributes is one folder of the user's: two RMs that start together break it."""
    layout = configured(tmp_path, ClusterSettings(nodes=1))
    entries = read_site(layout.conf / "yarn-site.xml")
    assert entries["yarn.node-attribute.fs-store.root-dir"].startswith(f"file://{layout.folder}/")


def test_the_given_queues_are_the_clusters(tmp_path: Path) -> None:
    file = tmp_path / "queues.xml"
    site.write_site(file, {"yarn.scheduler.capacity.root.queues": "a,b"})
    layout = configured(tmp_path, ClusterSettings(queues=file))
    assert read_site(layout.conf / "capacity-scheduler.xml") == {"yarn.scheduler.capacity.root.queues": "a,b"}


@pytest.mark.parametrize("text", ["", "no xml", "<queues/>"])
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str) -> None:
    file = written(tmp_path / "queues.xml", text)
    with pytest.raises(ClusterError, match=r"queues\.xml"):
        read_site(file)


def test_labels_and_attributes_are_parsed() -> None:
    assert NodeLabel.parse("gpu=1,3") == NodeLabel("gpu", (1, 3))
    assert NodeLabel.parse("big:shared=2") == NodeLabel("big", (2,), exclusive=False)
    assert NodeAttribute.parse("kernel=4.18:1,3") == NodeAttribute("kernel", "4.18", (1, 3))


WRONG: dict[Any, list[str]] = {
    NodeLabel: ["gpu", "gpu=", "=1", "gpu=x", "gpu:mine=1", "g pu=1"],
    NodeAttribute: ["zone", "zone=a", "zone=a:", "zone=:1", "=a:1", "zone=a:1,", "zone=a:x", "z=a b:1"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in WRONG.items() for text in texts])
def test_a_wrong_label_or_attribute_is_refused_with_an_example(kind: Any, text: str) -> None:
    with pytest.raises(ClusterError, match="gpu=1,2" if kind is NodeLabel else "as in zone=a:1,2"):
        kind.parse(text)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"nodes": 0}, "nodes"),
        ({"nodes": 65}, "nodes"),
        ({"memory_mb": 1}, "memory-mb"),
        ({"vcores": 0}, "vcores"),
        ({"mode": "on"}, "mode"),
        ({"resources": {"memory-mb": 1}}, "resource"),
        ({"labels": (NodeLabel("gpu", (4,)),)}, "gpu"),
        ({"labels": (NodeLabel("a", (1,)), NodeLabel("b", (1,)))}, "node 1 has two labels"),
        ({"labels": (NodeLabel("a", (1,)), NodeLabel("a", (2,)))}, "label a is given twice"),
        ({"attributes": (NodeAttribute("zone", "a", (4,)),)}, "attribute zone: there is no node 4"),
        ({"attributes": (NodeAttribute("z", "a", (1,)), NodeAttribute("z", "b", (1,)))}, "node 1 has two values"),
        ({"queues": Path("missing.xml")}, r"missing\.xml"),
        ({"policy": Path("missing.yaml")}, r"missing\.yaml"),
    ],
)
def test_settings_that_could_not_start_are_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ClusterError, match=named):
        ClusterSettings(**wrong)  # type: ignore[arg-type]


def test_assignments_keep_what_follows_the_first_equals_sign() -> None:
    assert parse_assignments(["a=b=c", " d = e "], "--set") == {"a": "b=c", "d": "e"}


def test_a_resource_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ClusterError, match="gpu is given twice"):
        parse_resources(["gpu=1", "gpu=2"])
    with pytest.raises(ClusterError, match="NAME=AMOUNT"):
        parse_resources(["gpu"])


@pytest.mark.parametrize("text", ["a", "=b", " =b"])
def test_an_assignment_without_key_or_sign_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match="KEY=VALUE"):
        parse_assignments([text], "--set")


def test_an_amount_must_be_a_whole_number() -> None:
    assert parse_resources(["gpu=2", "fpga=1"]) == {"gpu": 2, "fpga": 1}
    with pytest.raises(ClusterError, match="whole number"):
        parse_resources(["gpu=two"])
    with pytest.raises(ClusterError, match="whole number"):
        parse_resources(["gpu=²"])


def test_a_layout_is_remembered(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path, 2)
    layout.processes = [ProcessRecord("rm", 1, 2.5)]
    layout.save()
    assert Layout.load(tmp_path) == layout
    assert Layout.load(tmp_path / "elsewhere") is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"processes": [], "unknown": 1}'])
def test_a_damaged_memory_is_refused_with_a_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ClusterError, match="remove the folder"):
        Layout.load(tmp_path)


def test_containers_are_counted_once_each_from_the_audit_log(tmp_path: Path) -> None:
    line = (
        "2026-11-21 13:00:00,000 USER=u\tOPERATION={}\tTARGET=SchedulerApp\tRESULT=SUCCESS\t"
        "APPID=application_1_0001\tCONTAINERID=container_1_0001_01_00000{}\tRESOURCE=<memory:1, vCores:1>\n"
    )
    log = tmp_path / "audit.log"
    steps = [("AM Allocated Container", 1), ("AM Allocated Container", 2), ("AM Released Container", 1)]
    log.write_text("".join(line.format(*step) for step in [*steps, steps[0]]))
    assert allocated_containers(log) == {
        "application_1_0001": {"container_1_0001_01_000001", "container_1_0001_01_000002"}
    }
    assert allocated_containers(tmp_path / "none") == {}


def test_everything_that_carries_the_mark_is_ended(tmp_path: Path) -> None:
    layout = Layout.create(tmp_path, 1)
    # ignores SIGTERM and starts a process of its own
    inner = "print('ready', flush=True); input()"
    start = f"subprocess.Popen([sys.executable, '-c', {inner!r}])"
    script = f"import signal,subprocess,sys; signal.signal(15, 1); {start}; input()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={processes.MARK: str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        layout.processes = [processes.record("stubborn", child)]
        assert len(processes.members(layout)) == 2
        assert processes.end(layout, grace_s=0.1) >= 1
        child.wait(timeout=300)
        assert processes.members(layout) == []


def test_a_process_id_that_was_given_again_is_not_the_same_process() -> None:
    me = psutil.Process()
    assert processes.find(ProcessRecord("me", me.pid, me.create_time())) == me
    assert processes.find(ProcessRecord("another", me.pid, me.create_time() - 100)) is None


def test_a_runtime_is_complete_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pom = tmp_path / "pom.xml"
    pom.write_text("<project/>")
    folder = runtime_folder(pom, tmp_path / "cache")
    (folder / "lib").mkdir(parents=True)  # what an interrupted attempt might have left
    maven = tmp_path / "mvn"
    maven.write_text(
        "#!/bin/sh\nfor a; do case $a in -DoutputDirectory=*) d=${a#*=};; esac; done\nmkdir -p $d; touch $d/a.jar\n"
    )
    maven.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(maven))
    said: list[str] = []
    lib = gather(said.append, pom, tmp_path / "cache")
    assert [jar.name for jar in lib.iterdir()] == ["a.jar"]
    assert gather(said.append, pom, tmp_path / "cache") == lib
    assert len(said) == 1


def test_a_failing_maven_is_quoted_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pom = tmp_path / "pom.xml"
    pom.write_text("<project/>")
    maven = written(tmp_path / "mvn", "#!/bin/sh\necho '[ERROR] no such artifact'; exit 1\n")
    maven.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(maven))
    with pytest.raises(ClusterError, match="no such artifact"):
        gather(pom=pom, cache=tmp_path / "cache")
    assert not runtime_folder(pom, tmp_path / "cache").exists()
