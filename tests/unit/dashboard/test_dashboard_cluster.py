"""What the ResourceManager's pages tell has the right types and a bounded size, whatever they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.cluster_pages import FakeCluster, job, leaf, node
from tests.support.optional import present
from tests.support.pages import served

from treadle.dashboard import reading
from treadle.dashboard.collector import Board, View, documents
from treadle.dashboard.reading import NODES_MAX, QUEUES_MAX, TEXT_MAX, Reader, jobs_of, nodes_of, queues_of
from treadle.dashboard.server import ExplainRequests
from treadle.errors import UserError


def tree(*queues: dict[str, Any]) -> dict[str, Any]:
    return {"scheduler": {"schedulerInfo": {"queueName": "root", "usedCapacity": 40.0, "queues": {"queue": [*queues]}}}}


def test_a_queue_is_owed_what_it_is_guaranteed_as_far_as_it_asks_for_it() -> None:
    queues, left_out = queues_of(tree(leaf("root.a", 50, 25, 1000), leaf("root.b", 50, 25, 9000)), 10_000, 10)
    found = {queue.path: queue for queue in queues}
    assert left_out == 0
    assert found["root.a"].entitled == pytest.approx(0.35)
    assert found["root.b"].entitled == pytest.approx(0.5)
    assert found["root.a"].pending == pytest.approx(0.1), "what is asked of another partition does not count"


def test_parents_ask_for_what_their_leaves_do() -> None:
    above = {"queueName": "p", "absoluteCapacity": 100, "queues": {"queue": [leaf("root.p.a", pending_mb=1000)]}}
    queues, _ = queues_of(tree(above, leaf("root.b", pending_mb=500)), 10_000, 10)
    assert [queue.path for queue in queues] == ["root", "root.p", "root.p.a", "root.b"]
    assert [round(queue.pending, 3) for queue in queues] == [0.15, 0.1, 0.1, 0.05]
    assert [queue.waiting for queue in queues] == [4, 2, 2, 2]
    assert [queue.leaf for queue in queues] == [False, False, True, True]


def test_sizes_are_bounded_and_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    queues, more = queues_of(tree(*(leaf(f"root.q{i}") for i in range(QUEUES_MAX + 5))), 1, 1)
    assert (len(queues), more) == (QUEUES_MAX, 6)  # root is one of them
    monkeypatch.setattr(reading, "NODES_MAX", 3)
    monkeypatch.setattr(reading, "JOBS_MAX", 2)
    nodes = nodes_of({"nodes": {"node": [node(f"n{i}") for i in range(5)]}})
    assert (len(nodes.name), nodes.left_out) == (3, 2)
    jobs, more = jobs_of({"apps": {"app": [job(i, "x" * 9999) for i in range(3)]}})
    assert (len(jobs), more, len(jobs[0].name)) == (2, 1, TEXT_MAX)


def test_five_thousand_nodes_are_a_document_of_a_bounded_size() -> None:
    listed = [node(f"a-rather-long-host-name-{i:05}.example.org:45454") for i in range(5000)]
    view = View(rm="", nodes=nodes_of({"nodes": {"node": listed}}), heard_s=1.0, state="ACTIVE")
    board = Board()
    board.post(1.0, documents(view))
    document = present(board.read("nodes"))
    assert len(json.loads(document.plain)["name"]) == 5000
    assert len(document.plain) < 160 * 5000
    assert len(document.packed) < 40 * 5000
    assert NODES_MAX >= 5000


@pytest.mark.parametrize("take", [nodes_of, jobs_of, lambda page: queues_of(page, 1, 1)])
@pytest.mark.parametrize("page", [None, [], 7, {}, {"nodes": 3}, {"apps": [1]}, {"scheduler": {"schedulerInfo": 1}}])
def test_another_page_is_a_mistake(take: Any, page: Any) -> None:
    with pytest.raises(ValueError, match="another form"):
        take(page)


def test_no_page_is_an_empty_cluster() -> None:
    assert nodes_of({"nodes": None}).name == []
    assert jobs_of({"apps": None}) == ([], 0)


@pytest.mark.parametrize("value", [None, "7", float("nan"), float("inf"), True, 10**400, []])
def test_what_is_no_number_is_none(value: Any) -> None:
    jobs, _ = jobs_of({"apps": {"app": [job(1, progress=value, elapsedTime=value, allocatedMB=value)]}})
    assert (jobs[0].progress, jobs[0].elapsed_ms, jobs[0].memory_mb) == (0.0, 0, 0)


def test_endless_trees_end() -> None:
    deep = leaf("x")
    for _ in range(100):
        deep = {"queueName": "p", "queues": {"queue": [deep]}}
    assert len(queues_of(tree(deep), 1, 1)[0]) <= 22


# What a page is told of one application: one that waits, one that has ended, one that nobody knows.


class OneJob(FakeCluster):
    """A ResourceManager that knows one application."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "RUNNING"

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path.startswith("/ws/v1/cluster/apps/"):
            known = job(1, state=self.state, finalStatus="KILLED", diagnostics="by its user")
            return (200, {"app": known}) if path.endswith("_0001") else (404, {})
        return super().answer(path, query)


@pytest.fixture
def cluster() -> Iterator[OneJob]:
    with served(OneJob()) as manager:
        yield manager


def about(cluster: OneJob, application: str) -> dict[str, Any]:
    def explain(application: str) -> dict[str, Any]:
        if not application.endswith("_0001"):
            return {"error": "the engine knows it not"}
        raise UserError("no sidecar can be asked")

    return ExplainRequests(Reader(cluster.url), explain).about(application)


def test_of_one_that_runs_it_is_told_why_nobody_can_be_asked(cluster: OneJob) -> None:
    found = about(cluster, "application_1_0001")
    assert found["explain_error"] == "no sidecar can be asked"
    assert found["asks"] == []
    assert found["diagnostics"] == "by its user", "what YARN says is shown beside it"
    assert "ended" not in found


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
def test_one_that_has_ended_waits_for_nothing(cluster: OneJob, state: str) -> None:
    cluster.state = state
    found = about(cluster, "application_1_0001")
    assert found["ended"] == f"{state}, final status KILLED"
    assert found["diagnostics"] == "by its user"
    assert "explain_error" not in found


def test_one_that_nobody_knows_is_no_wrong_address(cluster: OneJob) -> None:
    found = about(cluster, "application_1_0002")
    assert "knows no application_1_0002: it never came, or ended so long ago" in found["asks_error"]
    assert "--rm" not in found["asks_error"]
    assert found["explain_error"] == "the engine knows it not"
