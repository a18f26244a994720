"""Experiments on a cluster do not wait for ever; a cluster that is started again is asked at its new address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from treadle_lab.harness.waiting import wait_ended
from treadle_lab.minicluster import ClusterError, ClusterSettings, MiniCluster, readiness
from treadle_lab.minicluster import cluster as clusters


class Pages:
    """A cluster whose applications are what a list of looks says, the last for ever."""

    def __init__(self, *looks: dict[str, str]) -> None:
        self.looks = looks
        self.looked = 0
        self.rm = self
        self.layout = self
        self.logs = Path("logs")

    def applications(self) -> list[dict[str, Any]]:
        look = self.looks[min(self.looked, len(self.looks) - 1)]
        self.looked += 1
        return [
            {"id": id_, "finalStatus": status, "state": "RUNNING" if status == "UNDEFINED" else "FINISHED"}
            for id_, status in look.items()
        ]


def wait(pages: Pages, ids: list[str], stalled_s: float = 10.0) -> dict[str, dict[str, Any]]:
    """Wait with a clock that goes on by a second for each look."""
    times: Iterator[int] = iter(range(1_000))
    return wait_ended(
        cast("MiniCluster", pages),
        ids,
        lambda _: None,
        stalled_s=stalled_s,
        clock=lambda: next(times),
        pause=lambda _: None,
    )


def test_applications_that_end_are_waited_for() -> None:
    looks = [{"a": "UNDEFINED", "b": "UNDEFINED"}] * 8 + [{"a": "FAILED", "b": "UNDEFINED"}] * 8
    pages = Pages(*looks, {"a": "FAILED", "b": "SUCCEEDED", "c": "UNDEFINED"})
    assert {id_: found["finalStatus"] for id_, found in wait(pages, ["a", "b"]).items()} == {
        "a": "FAILED",
        "b": "SUCCEEDED",
    }


def test_one_that_never_ends_is_named() -> None:
    pages = Pages({"a": "SUCCEEDED", "b": "UNDEFINED"})
    with pytest.raises(ClusterError, match=r"2 of 3 applications have not ended.* 10 s: b \(RUNNING\), c \(unknown"):
        wait(pages, ["a", "b", "c"])
    assert pages.looked < 20


def test_a_cluster_that_is_started_again_is_asked_at_its_new_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "gather", lambda *_: tmp_path)
    monkeypatch.setattr(clusters, "write_configuration", lambda *_: None)
    monkeypatch.setattr(readiness, "put_labels", lambda *_: None)
    for name in ("start_rm", "start_node", "wait_ready"):
        monkeypatch.setattr(MiniCluster, name, lambda *_: None)
    cluster = MiniCluster(ClusterSettings(nodes=1), tmp_path / "cluster")
    addresses = set()
    for _ in range(3):
        with cluster:
            assert cluster.rm.url == cluster.layout.rm_url
            addresses.add(cluster.rm.url)
    assert len(addresses) > 1
