"""A cluster's folder is made anew at each start; files of others are not touched."""

from __future__ import annotations

import itertools
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.files import written

from treadle_lab.minicluster import ClusterError, ClusterSettings, MiniCluster
from treadle_lab.minicluster import cluster as clusters
from treadle_lab.minicluster.site import free_ports, recreate


def test_what_an_earlier_cluster_left_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cluster"
    recreate(folder)
    (folder / "logs").mkdir()
    (folder / "logs" / "rm.log").write_text("old")
    (folder / "link").symlink_to(tmp_path)
    recreate(folder)
    assert [entry.name for entry in folder.iterdir()] == [".treadle-minicluster"]
    assert tmp_path.is_dir()


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    recreate(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == [".treadle-minicluster"]
    recreate(tmp_path)


def test_the_files_of_somebody_else_stay(tmp_path: Path) -> None:
    file = written(tmp_path / "thesis.txt", "years")
    with pytest.raises(ClusterError, match="was not made by a mini cluster: nothing was touched"):
        MiniCluster(ClusterSettings(nodes=1), tmp_path).start()
    assert file.read_text() == "years"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(ClusterError, match="cannot be a cluster's folder"):
        recreate(file)
    with pytest.raises(ClusterError, match="cannot be a cluster's folder"):
        recreate(file / "below")


def test_ports_that_were_chosen_a_moment_ago_are_not_chosen_again() -> None:
    choices = [set(free_ports(30)) for _ in range(20)]
    for before, after in itertools.pairwise(choices):
        assert not before & after


CHOOSES = """
import os, sys
from treadle_lab.minicluster.site import SLICE, free_ports
os.getpid = lambda: 7
print({port // SLICE for port in free_ports(20)}, flush=True)
sys.stdin.read()
"""


def test_processes_that_run_at_a_time_choose_ports_of_different_slices() -> None:
    with ExitStack() as processes:
        shown = []
        for _ in range(2):
            command = [sys.executable, "-c", CHOOSES]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            processes.enter_context(process)
            assert process.stdout is not None
            shown.append(process.stdout.readline())
    assert "{" in shown[0]
    assert shown[0] != shown[1]


def test_a_cluster_that_is_started_again_is_asked_at_its_new_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "gather", lambda *_: tmp_path)
    monkeypatch.setattr(clusters, "write_configuration", lambda *_: None)
    monkeypatch.setattr(clusters, "put_labels", lambda *_: None)
    for name in ("start_rm", "start_node", "wait_ready"):
        monkeypatch.setattr(MiniCluster, name, lambda *_: None)
    cluster = MiniCluster(ClusterSettings(nodes=1), tmp_path / "cluster")
    addresses = set()
    for _ in range(3):
        with cluster:
            assert cluster.rm.url == cluster.layout.rm_url
            addresses.add(cluster.rm.url)
    assert len(addresses) > 1
