"""A leaf of CPUs next to a leaf that holds half of the cluster's GPUs, on a real ResourceManager under `hdrf`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.clusters import explain
from tests.support.masters import Master, Masters

from treadle.shipped import ready_made
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings
from treadle_lab.minicluster.site import CS, write_site

pytestmark = pytest.mark.cluster

VCORES, GPUS = 16, 4
"""Of each of two nodes; of memory there is plenty."""
TASK_MB = 128
ANSWER_S = 120.0
TREE = {
    "prod": ("50", "100", {"etl": "60", "serving": "40"}),
    "research": ("30", "60", {"gpu": "50", "nlp": "50"}),
    "adhoc": ("20", "25", {}),
}
"""Capacity, maximum and leaves with their capacities, percent."""
NLP_VCORES = int(0.3 * 0.5 * 2 * VCORES)
"""What the leaf is guaranteed, in whole containers."""


def queues(folder: Path) -> Path:
    entries = {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}maximum-am-resource-percent": "1",
        f"{CS}root.queues": ",".join(TREE),
    }
    for name, (capacity, maximum, leaves) in TREE.items():
        entries |= {f"{CS}root.{name}.capacity": capacity, f"{CS}root.{name}.maximum-capacity": maximum}
        if leaves:
            entries[f"{CS}root.{name}.queues"] = ",".join(leaves)
        for leaf, part in leaves.items():
            entries[f"{CS}root.{name}.{leaf}.capacity"] = part
        for leaf in [f"{name}.{leaf}" for leaf in leaves] or [name]:
            entries[f"{CS}root.{leaf}.user-limit-factor"] = "100"
    file = folder / "queues.xml"
    write_site(file, entries)
    return file


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MiniCluster]:
    policy = tmp_path / "treadle.yaml"
    shutil.copy(ready_made()["hdrf-srpt"], policy)
    settings = ClusterSettings(
        nodes=2,
        memory_mb=16_384,
        vcores=VCORES,
        resources={"gpu": GPUS},
        queues=queues(tmp_path),
        policy=policy,
        overrides={"yarn.scheduler.treadle.lease-ms": "4000"},
    )
    with MiniCluster(settings, tmp_path / "cluster") as started:
        yield started


def vcores(cluster: MiniCluster, master: Master) -> int:
    return max(int(cluster.rm.application(master.application_id)["allocatedVCores"]), 0)


def test_a_leaf_beside_one_with_half_of_the_gpus_gets_its_guarantee_as_tasks_end(cluster: MiniCluster) -> None:
    with Masters(cluster) as masters:
        programs = {queue: masters.start("ann", queue) for queue in ("gpu", "etl", "adhoc", "nlp")}
        programs["gpu"].ask(1, 2, TASK_MB, more={"gpu": GPUS})  # the second exceeds the maximum of research
        programs["gpu"].keep()
        cluster.wait_for("GPUs", lambda: vcores(cluster, programs["gpu"]) == 1, ANSWER_S)
        for queue in ("adhoc", "etl"):
            programs[queue].ask(1, 100, TASK_MB)
            programs[queue].keep()
        held = ("gpu", "adhoc", "etl")
        cluster.wait_for(
            "full cluster", lambda: sum(vcores(cluster, programs[queue]) for queue in held) == 2 * VCORES, ANSWER_S
        )
        nlp = programs["nlp"]
        nlp.ask(1, 100, TASK_MB)
        nlp.keep()

        def full() -> bool:
            asks = explain(cluster, nlp.application_id)["asks"]
            return bool(asks) and asks[0]["causes"][0]["why"] == "nodes_full"

        cluster.wait_for("explanation", full, ANSWER_S, 0.5)

        for _ in range(vcores(cluster, programs["etl"])):  # each task of etl that ran as nlp began to ask ends
            programs["etl"].give_back(1)
            programs["etl"].keep()

        def served() -> bool:
            for program in programs.values():
                program.keep()
            return vcores(cluster, nlp) >= NLP_VCORES

        cluster.wait_for("guarantee of nlp", served, ANSWER_S, 0.5)
        assert vcores(cluster, programs["gpu"]) == 1
