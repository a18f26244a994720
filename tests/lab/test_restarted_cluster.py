"""A cluster that is started again is asked at its new address."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle_lab.minicluster import ClusterSettings, MiniCluster
from treadle_lab.minicluster import cluster as clusters


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
