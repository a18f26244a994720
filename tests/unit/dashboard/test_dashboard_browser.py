"""The dashboard's pages in a real browser: each page, a ResourceManager that is lost, 5,000 nodes, a wrong token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.browser import Visitor, chromium
from tests.support.cluster_pages import TREADLE, FakeCluster, job, node
from tests.support.dashboards import TOKEN, Dashboard, dashboard
from tests.support.pages import served
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
NODES = 5000
ASK = {
    "key": 3,
    "count": 2,
    "priority": 20,
    "partition": "gpu",
    "capability": {"memory-mb": 1024, "vcores": 1},
    "verdict": "waiting",
    "causes": [{"verdict": "waiting", "text": f"all nodes are full {HOSTILE}"}],
    "nodes": {"full": 2},
    "ways": [{"kind": "queue", "name": "root.b", "text": "containers of root.b end: 4 run on nodes that may serve it"}],
}


def explain(application: str) -> dict[str, Any]:
    facts = {"ahead_in_queue": 1, "asking_in_queue": 3, "order": "fifo", "share": "capacity"}
    facts |= {"containers": 2, "asked_for": 2, "proposed": 0}
    told = {"application": application, "name": HOSTILE, "user": "ann", "queue": "root.a", "state": "active"}
    return {**told, "facts": facts, "asks": [ASK], "left_out": 0, "rejected": {"user_limit": 4}}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    manager = FakeCluster()
    manager.jobs = [job(1, HOSTILE), job(2, "another job")]
    manager.nodes.append(node("n3:1", state="LOST"))
    with served(manager):
        yield manager


@pytest.fixture
def shown(cluster: FakeCluster, tmp_path: Path) -> Iterator[Dashboard]:
    with dashboard(cluster.url, tmp_path, explain) as found:
        yield found


@pytest.fixture
def visitor(browser: Any, shown: Dashboard) -> Iterator[Visitor]:
    found = Visitor(browser, shown.url)
    found.log_in(TOKEN)
    found.page.wait_for_selector("main section")
    yield found
    assert found.errors == []
    assert found.page.title() == "Treadle", "names of users are text"
    found.close()


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("overview", ["Treadle schedules", "nodes that run", "what changed", "placements a second"]),
        ("queues", ["root.a", "root.b", "guaranteed", "entitled"]),
        ("nodes", ["2 RUNNING, 1 LOST", "nodes that do not run", "n3:1", "nodes that are kept free"]),
        ("jobs", ["another job", HOSTILE, "jobs that ended"]),
        ("decisions", ["NodeFull", "time of a decision", "proposals a second"]),
        (
            "application/application_1_0001",
            [
                "all nodes are full",
                "what would let it start",
                "containers of root.b end: 4 run on nodes that may serve it",
                "priority 20, label gpu",
                "user limit",
                "stages that wait",
            ],
        ),
    ],
)
def test_each_page_is_drawn(visitor: Visitor, page: str, says: list[str]) -> None:
    text = visitor.open(page).lower()
    for words in says:
        assert words.lower() in text
    assert "no answer" not in text


def test_pointing_at_a_node_tells_of_it(visitor: Visitor) -> None:
    visitor.open("nodes")
    visitor.page.hover("svg.heat rect[data-at='0']")
    visitor.wait_for("n1:1: RUNNING, 2 containers, memory 2048 of 8192 MB")


def test_a_wrong_token_shows_nothing_and_the_right_one_then_lets_in(browser: Any, shown: Dashboard) -> None:
    visitor = Visitor(browser, shown.url)
    visitor.log_in("wrong")
    visitor.wait_for("This is not the token.")
    visitor.page.goto(f"{visitor.url}/#jobs")
    assert visitor.page.url.endswith("/login") or visitor.page.url.endswith("/login#jobs")
    assert "another job" not in visitor.text()
    assert visitor.context.cookies() == []
    visitor.log_in(TOKEN)
    visitor.page.wait_for_selector("main section")
    (cookie,) = visitor.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    visitor.close()


def test_a_lost_resource_manager_is_told_on_every_page_and_what_is_old_is_grey(
    visitor: Visitor, cluster: FakeCluster, shown: Dashboard
) -> None:
    visitor.open("queues")
    cluster.broken |= {"/jmx", "nodes", "scheduler", "apps"}
    visitor.wait_for("the ResourceManager does not answer")
    visitor.wait_for("not known")
    for page in ("overview", "queues", "nodes", "jobs"):
        assert "the ResourceManager does not answer" in visitor.open(page)
        visitor.page.wait_for_selector("main .old")
    cluster.broken.clear()
    visitor.page.wait_for_function("() => !document.body.innerText.includes('does not answer')")
    visitor.wait_for("Treadle schedules")


def test_the_page_of_an_application_shows_what_is_wrong_now(visitor: Visitor, cluster: FakeCluster) -> None:
    """The page itself stays as it was asked; its light was that of when it was opened."""
    visitor.open("application/application_1_0001")
    cluster.beans["Treadle"] |= {"Schedules": 0, "LeaseHeld": 0, "LastError": "killed"}
    visitor.wait_for("Treadle does not schedule: no engine holds the lease; killed")
    cluster.beans["Treadle"] = dict(TREADLE)
    visitor.page.wait_for_function("() => !document.body.innerText.includes('no engine holds the lease')")
    visitor.wait_for("Treadle schedules")


def test_five_thousand_nodes_are_drawn(browser: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.nodes = [node(f"node{at:04}:1", used_mb=at % 8192) for at in range(NODES)]
    with dashboard(cluster.url, tmp_path, explain) as shown:
        eventually(lambda: shown.get("/api/nodes").json()["name"])
        visitor = Visitor(browser, shown.url)
        visitor.log_in(TOKEN)
        visitor.page.wait_for_selector("main section")
        assert f"{NODES} RUNNING" in visitor.open("nodes")
        assert visitor.page.locator("svg.heat rect").count() == NODES
        fills = "() => [...document.querySelectorAll('svg.heat rect')].map((each) => each.getAttribute('fill'))"
        colours = len(set(visitor.page.evaluate(fills)))
        assert colours > 100
        assert visitor.errors == []
        visitor.close()


def test_a_dashboard_that_is_gone_is_told_by_its_pages(browser: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    with dashboard(cluster.url, tmp_path, explain) as shown:
        visitor = Visitor(browser, shown.url)
        visitor.log_in(TOKEN)
        visitor.page.wait_for_selector("main section")
    visitor.wait_for("the dashboard does not answer")
    visitor.wait_for("not known")
    visitor.close()
