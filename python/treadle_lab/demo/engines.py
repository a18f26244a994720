"""The demo of two engines: H-DRF for root.prod, SLearn for the rest, on one cluster at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from treadle.admin.install import ready_made
from treadle_lab.demo.jobs import PROD, REST, of_two_engines
from treadle_lab.demo.run import LEASE_MS, Demo, Report, Say, Show, roster_of
from treadle_lab.minicluster import ClusterSettings, MiniCluster
from treadle_lab.minicluster.site import CS, Entries, write_site

ENGINES: Final = {PROD: "hdrf", REST: "slearn"}
"""The ready-made policy of each engine; the first serves root.prod."""

START_S: Final = 300.0


def queues() -> Entries:
    """Return capacity-scheduler.xml: root.prod with two leaves is owed 60 %, research 40 %."""
    capacities = {"prod": 60, "research": 40, "prod.etl": 50, "prod.reports": 50}
    entries = {
        f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        f"{CS}maximum-am-resource-percent": "0.5",
        f"{CS}root.queues": "prod,research",
        f"{CS}root.prod.queues": "etl,reports",
    }
    for queue, capacity in capacities.items():
        entries[f"{CS}root.{queue}.capacity"] = str(capacity)
        entries[f"{CS}root.{queue}.maximum-capacity"] = "100"
        entries[f"{CS}root.{queue}.user-limit-factor"] = "4"
    return entries


def treadle_yaml() -> dict[str, Any]:
    """Return the roster."""
    policies = {
        name: yaml.safe_load(ready_made()[policy].read_text("utf-8"))["policy"] for name, policy in ENGINES.items()
    }
    return {
        "engines": {
            PROD: {"select": {"queues": ["root.prod"]}, "policy": policies[PROD], "fallback": REST},
            REST: {"policy": policies[REST], "fallback": PROD},
        }
    }


def settings(folder: Path) -> ClusterSettings:
    """Return the demo's cluster; its queues and its treadle.yaml are written to files beside `folder`."""
    queue_file, policy = (folder.with_name(f"{folder.name}-{name}") for name in ("queues.xml", "treadle.yaml"))
    queue_file.parent.mkdir(parents=True, exist_ok=True)
    write_site(queue_file, queues())
    policy.write_text(yaml.safe_dump(treadle_yaml(), sort_keys=False), encoding="utf-8")
    overrides = {"yarn.scheduler.treadle.lease-ms": str(LEASE_MS)}
    return ClusterSettings(nodes=3, queues=queue_file, policy=policy, overrides=overrides)


def run_engines_demo(folder: Path, say: Say, show: Show) -> Report:
    """Start a cluster in `folder`, run the jobs of two engines on it, and stop it whatever happens.

    Raises:
        ClusterError: the cluster does not start, or an engine never serves its own applications.
    """
    with MiniCluster(settings(folder), folder, say) as cluster, cluster.answering():
        say("waiting for the second engine")
        cluster.wait_for("engines that serve their own", lambda: _at_home(cluster), START_S)
        jobs = of_two_engines()
        say(f"{len(jobs)} jobs from three queues, together; engine {PROD} serves root.prod, engine {REST} the rest")
        return Demo(cluster, say, show).run_engines(jobs, list(ENGINES))


def _at_home(cluster: MiniCluster) -> bool:
    shown = roster_of(cluster).get("engines", {})
    return {name: each["served_by"] for name, each in shown.items()} == {name: name for name in ENGINES}
