"""The usage that tests on clusters compare: what adds up, and that what does not is seen."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.usage import ReportedUsage

from treadle_lab.minicluster.cluster import MiniCluster

APP = "application_1_0001"
NODE = "localhost:1000"


def info(memory_mb: int, vcores: int, gpus: int = 0) -> dict[str, Any]:
    amounts = {"memory-mb": memory_mb, "vcores": vcores, "gpu": gpus}
    return {"resourceInformations": {"resourceInformation": [{"name": k, "value": v} for k, v in amounts.items()]}}


def usage(used: dict[str, Any], pending: dict[str, Any] | None = None) -> dict[str, Any]:
    nothing = info(0, 0)
    parts = {"used": used, "reserved": nothing, "pending": pending or nothing, "amUsed": nothing}
    return {"resourceUsagesByPartition": [{"partitionName": "", **parts}]}


def pages(memory_mb: int, vcores: int, gpus: int, count: int) -> dict[str, Any]:
    """What the web service says of a cluster with `count` equal containers of one application."""
    used = info(count * memory_mb, count * vcores, count * gpus)
    held = [
        {"key": key, "value": str(value)}
        for key, value in {"memory-mb": memory_mb, "vcores": vcores, "gpu": gpus}.items()
    ]
    user = {"username": "ann", "resources": usage(used), "resourcesUsed": used}
    leaf = {
        "queueName": "b",
        "queuePath": "root.a.b",
        "resources": usage(used),
        "resourcesUsed": used,
        "users": {"user": [user]},
    }
    parent = {
        "queueName": "a",
        "queuePath": "root.a",
        "resources": usage(used),
        "resourcesUsed": used,
        "queues": {"queue": [leaf]},
    }
    attempts = f"/ws/v1/cluster/apps/{APP}/appattempts"
    name = "appattempt_1_0001_000001"
    app = {"id": APP, "state": "RUNNING", "queue": "root.a.b", "user": "ann", "resourceInfo": usage(used)}
    node = {"id": NODE, "state": "RUNNING", "numContainers": count, "availMemoryMB": 1, "availableVirtualCores": 1}
    return {
        "applications": [app] if count else [],
        "nodes": [{**node, "usedResource": used}, {"id": "localhost:2000", "state": "LOST"}],
        "metrics": {
            "allocatedMB": count * memory_mb,
            "allocatedVirtualCores": count * vcores,
            "containersAllocated": count,
            **dict.fromkeys(("containersPending", "containersReserved", "pendingMB", "reservedMB"), 0),
        },
        "/ws/v1/cluster/scheduler": {"scheduler": {"schedulerInfo": {"queues": {"queue": [parent]}}}},
        attempts: {"appAttempts": {"appAttempt": [{"id": 1, "appAttemptId": name}]}},
        f"{attempts}/{name}/containers": {
            "container": [{"assignedNodeId": NODE, "allocatedResources": {"entry": held}}] * count
        },
    }


def reported(answers: dict[str, Any]) -> ReportedUsage:
    rm = SimpleNamespace(
        applications=lambda **_: answers["applications"],
        nodes=lambda: answers["nodes"],
        metrics=lambda: answers["metrics"],
        get=answers.__getitem__,
    )
    return ReportedUsage(cast(MiniCluster, SimpleNamespace(rm=rm)))


def test_a_cluster_whose_usage_is_the_sum_of_its_containers_has_no_mistakes() -> None:
    assert reported(pages(512, 1, 2, 3)).mistakes() == []


def test_a_single_container_is_no_list() -> None:
    answers = pages(512, 1, 2, 1)
    page = next(page for path, page in answers.items() if path.endswith("/containers"))
    (page["container"],) = page["container"]
    assert reported(answers).mistakes() == []


def test_an_idle_cluster_has_nothing_left() -> None:
    assert reported(pages(512, 1, 2, 0)).leftovers() == []


@pytest.mark.parametrize("number", [0, 1, 2], ids=["memory", "vcores", "gpu"])
@pytest.mark.parametrize("whose", ["node", "application", "queue", "user", "parent"])
def test_one_unit_too_much_of_anything_is_seen_wherever_it_is(whose: str, number: int) -> None:
    answers = deepcopy(pages(512, 1, 2, 3))
    (parent,) = answers["/ws/v1/cluster/scheduler"]["scheduler"]["schedulerInfo"]["queues"]["queue"]
    leaf = parent["queues"]["queue"][0]
    user = leaf["users"]["user"][0]
    wrong = [3 * 512, 3, 6]
    wrong[number] += 1
    match whose:
        case "node":
            answers["nodes"][0]["usedResource"] = info(*wrong)
        case "application":
            answers["applications"][0]["resourceInfo"] = usage(info(*wrong))
        case "queue":
            leaf["resources"] = usage(info(*wrong))
            parent["resources"] = usage(info(*wrong))
        case "user":
            user["resources"] = usage(info(*wrong))
        case "parent":
            parent["resources"] = usage(info(*wrong))

    (mistake,) = reported(answers).mistakes()

    expected = {"node": NODE, "application": APP, "queue": "root.a.b", "user": "ann in b", "parent": "root.a:"}
    assert expected[whose] in mistake


def test_what_is_pending_for_a_user_or_a_queue_is_left_over() -> None:
    answers = pages(512, 1, 2, 0)
    leaf = answers["/ws/v1/cluster/scheduler"]["scheduler"]["schedulerInfo"]["queues"]["queue"][0]["queues"]["queue"][0]
    leaf["resources"] = usage(info(0, 0), info(512, 1))
    leaf["users"]["user"][0]["resources"] = usage(info(0, 0), info(0, 0, 1))

    left = reported(answers).leftovers()

    assert left == ["root.a.b: pending is memory-mb 512, vcores 1", "ann in b: pending is gpu 1"]
