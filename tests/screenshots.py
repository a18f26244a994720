"""Makes the pictures of the dashboard anew: ``make screenshots``. A busy mini cluster, and a browser that looks."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.support import distributed_shell
from tests.support.browser import Visitor, chromium
from tests.support.clusters import for_shell_jobs
from tests.support.dashboards import TOKEN, dashboard

from treadle.cli.dashboard import _held
from treadle.cli.explain import ask_sidecar_of
from treadle_lab.minicluster.cluster import MiniCluster
from treadle_lab.minicluster.settings import ClusterSettings
from treadle_lab.minicluster.site import CS, write_site

LEAVES: Final = {"production": 50, "research": 30, "adhoc": 20}
JOBS: Final = {"production": 2, "research": 2, "adhoc": 1}
TASKS: Final = 2000
"""Of a job: more than there is room for until the pictures are made."""
LARGE_MB: Final = 3072
"""Of the tasks of one job: what waits, and what is worth explaining."""
BUSY_S: Final = 180.0
WIDTH, HEIGHT = 1100, 760
BYTES_MAX: Final = 200_000


def busy_cluster(folder: Path) -> MiniCluster:
    """Return a cluster, not yet started, of four nodes and three queues."""
    entries = {f"{CS}root.queues": ",".join(LEAVES), f"{CS}maximum-am-resource-percent": "0.5"}
    for leaf, capacity in LEAVES.items():
        entries[f"{CS}root.{leaf}.capacity"] = str(capacity)
        entries[f"{CS}root.{leaf}.maximum-capacity"] = "100"
        entries[f"{CS}root.{leaf}.user-limit-factor"] = "10"
    queues, policy = folder / "queues.xml", folder / "treadle.yaml"
    write_site(queues, entries)
    policy.write_text("policy: {share: {kind: hdrf}, estimate: {kind: observed}}\n")
    overrides = {"yarn.scheduler.treadle.lease-ms": "10000", **for_shell_jobs(folder / "cluster")}
    settings = ClusterSettings(
        nodes=4, memory_mb=6144, vcores=16, queues=queues, policy=policy, overrides=overrides, start_timeout_s=600
    )
    return MiniCluster(settings, folder / "cluster")


def start_jobs(cluster: MiniCluster) -> str:
    """Start jobs that keep the cluster busy; return the id of one that waits."""
    jobs = [
        distributed_shell.submit(cluster, leaf, f"{leaf}-{number}", {}, TASKS, f"sleep {20 + 10 * number}")
        for leaf, count in JOBS.items()
        for number in range(count)
    ]
    for job in jobs:
        job.wait_running(cluster)
    large = distributed_shell.submit(cluster, "adhoc", "large", {}, 20, "sleep 30", memory_mb=LARGE_MB)
    large.wait_running(cluster)
    return large.application_id


def main(folder: Path) -> None:
    """Make the pictures, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="treadle-screenshots-") as work, busy_cluster(Path(work)) as cluster:
        rm = cluster.layout.rm_url
        state = Path(work) / "state"
        state.mkdir()
        with dashboard(
            rm,
            state,
            lambda application: ask_sidecar_of(rm, None, {"application": application, "ask": None, "node": ""}),
            held=lambda: _held(rm, None, None),
        ) as shown:
            waiting = start_jobs(cluster)
            say(f"the cluster is busy; its history is filled for {BUSY_S:.0f} s")
            time.sleep(BUSY_S)
            with chromium() as browser:
                visitor = Visitor(browser, shown.url, WIDTH, HEIGHT)
                visitor.log_in(TOKEN)
                visitor.page.wait_for_selector("main section")
                visitor.page.select_option("#span", "900")
                for name, page in {"overview": "overview", "why": f"application/{waiting}"}.items():
                    visitor.open(page)
                    file = folder / f"dashboard-{name}.png"
                    visitor.page.screenshot(path=str(file))
                    say(f"{file}: {file.stat().st_size} bytes")
                    if file.stat().st_size > BYTES_MAX:
                        raise SystemExit(f"{file} has more than {BYTES_MAX} bytes")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
