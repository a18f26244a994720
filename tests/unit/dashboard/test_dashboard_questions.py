"""What a page is told of one application: one that waits, one that has ended, one that nobody knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.cluster_pages import FakeCluster, job
from tests.support.pages import served

from treadle.dashboard.reading import Reader
from treadle.dashboard.server import Questions
from treadle.errors import UserError


class OneJob(FakeCluster):
    """A ResourceManager that knows one application."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "RUNNING"

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path.startswith("/ws/v1/cluster/apps/"):
            known = path.endswith("_0001")
            return (
                (200, {"app": job(1, state=self.state, finalStatus="KILLED", diagnostics="by its user")})
                if known
                else (404, {})
            )
        return super().answer(path, query)


@pytest.fixture
def cluster() -> Iterator[OneJob]:
    with served(OneJob()) as manager:
        assert isinstance(manager, OneJob)
        yield manager


def about(cluster: OneJob, application: str) -> dict[str, Any]:
    def explain(application: str) -> dict[str, Any]:
        if not application.endswith("_0001"):
            return {"error": "the engine knows it not"}
        raise UserError("no sidecar can be asked")

    return Questions(Reader(cluster.url), explain).about(application)


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
