"""The campaign's own machinery: counts accumulate, lines are drawn rightly, the page says what was counted."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.campaign.clusters import ended_with_node
from tests.campaign.ledger import Ledger
from tests.campaign.page import PAGE, figures
from tests.campaign.slices import Slice
from tests.campaign.stock import judge_list, tallied
from tests.campaign.trend import trend
from tests.support.engines import allocated_at_s, lost_at_s
from tests.support.optional import present


def quiet(part: str = "kills", seed: int = 1, minutes: float = 1) -> Slice:
    return Slice(part, seed, minutes, say=lambda _: None)


def test_counts_accumulate_over_slices_and_findings_keep_their_seed(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    for seed in (1, 2):
        work = quiet(seed=Ledger(file).next_seed("kills"))
        assert work.seed == seed
        work.add("sidecar_kills", 20)
        work.sample("lease_back_s", seed)
        work.state["next"] = seed
        if seed == 2:
            work.find("a leak")
        Ledger(file).add(work)

    entry = Ledger(file).entry("kills")
    assert entry["slices"] == 2
    assert entry["counts"] == {"sidecar_kills": 40}
    assert entry["samples"] == {"lease_back_s": [1, 2]}
    assert entry["state"] == {"next": 2}
    assert entry["findings"] == [{"seed": 2, "what": "a leak"}]


def test_a_leak_grows_and_jitter_does_not() -> None:
    numbers = random.Random(1)
    x = [float(100 * step) for step in range(100)]
    jitter = [200 + numbers.uniform(-5, 5) for _ in x]
    assert trend(x, jitter).flat
    # what is needed once, in the first tenth, is no leak
    assert trend(x, [value + min(each, 900) / 10 for each, value in zip(x, jitter, strict=True)]).flat
    leak = trend(x, [value + each / 100 for each, value in zip(x, jitter, strict=True)])
    assert not leak.flat
    assert leak.slope_per_thousand == pytest.approx(10, rel=0.1)
    with pytest.raises(ValueError, match="measure for longer"):
        trend([1, 2, 3], [1, 2, 3])


def test_the_page_says_what_was_counted() -> None:
    assert figures(Ledger()) in PAGE.read_text("utf-8")


def test_what_became_of_a_killed_engines_jobs_is_read_from_the_rms_logs(tmp_path: Path) -> None:
    (tmp_path / "sidecar.log").write_text(
        "2026-01-02 03:04:05,100 WARNING treadle.sidecar.hub: engine a is dead\n"
        "2026-01-02 03:04:06,200 WARNING treadle.sidecar.hub: engine b is dead\n"
    )
    allocated = "USER=root\tOPERATION=AM Allocated Container\tTARGET=SchedulerApp\tRESULT=SUCCESS\tAPPID="
    (tmp_path / "rm-audit.log").write_text(
        f"2026-01-02 03:04:06,000 {allocated}application_1_0001\tCONTAINERID=container_1_0001_01_000002\n"
        f"2026-01-02 03:04:06,900 {allocated}application_1_0002\tCONTAINERID=container_1_0002_01_000002\n"
        f"2026-01-02 03:04:07,250 {allocated}application_1_0001\tCONTAINERID=container_1_0001_01_000003\n"
    )
    cluster: Any = SimpleNamespace(
        layout=SimpleNamespace(sidecar_log=tmp_path / "sidecar.log", audit_log=tmp_path / "rm-audit.log")
    )
    at_s = present(lost_at_s(cluster, "b", after_s=0.0))
    assert lost_at_s(cluster, "a", after_s=0.0) == pytest.approx(at_s - 1.1)
    assert lost_at_s(cluster, "b", after_s=at_s + 1) is None
    assert allocated_at_s(cluster, "application_1_0001", at_s) == pytest.approx(at_s + 1.05)


def test_a_reviewed_list_with_more_than_a_tenth_of_the_tests_is_a_finding() -> None:
    failed = {"testA": "reviewed", "testB": "fails on the stock scheduler too", "testC": "reviewed"}
    for tests, findings in ((20, 0), (19, 1)):
        work = quiet("stock")
        judge_list(
            {
                "TestMany": {"turn": 1, "tests": tests - 1, "failed": failed},
                "TestOne": {"turn": 1, "tests": 1, "failed": {}},
            },
            work,
        )
        assert len(work.findings) == findings


def test_a_container_that_nothing_explains_without_the_engine_is_a_finding() -> None:
    work = quiet("stock")
    lines = ["10 8 2 3 0", "native 2 refused: multi-node placement", "native 1 by a test: TestX#testY", "1 1 0 0 0"]
    lines.append("native 4 by the placement processor: LeaseHeld 1")
    tallied(lines, work)
    assert not work.findings
    assert work.counts["placed_by_capacity_scheduler_where_enforce_is_refused"] == 2
    assert work.counts["placed_by_capacity_scheduler_by_the_test_itself"] == 1
    assert work.counts["placed_by_capacity_scheduler_by_the_placement_processor"] == 4
    assert work.counts["committed"] == 9
    tallied(["4 4 0 1 0", "native 1 unexplained: LeaseHeld 1 < CapacityScheduler#submit"], work)
    assert [finding["what"] for finding in work.findings] == [
        "1 containers were placed without the engine, unexplained: LeaseHeld 1 < CapacityScheduler#submit"
    ]


def test_a_job_whose_only_attempt_was_on_a_lost_node_is_no_finding() -> None:
    told = (
        "Application application_1_0009 failed 1 times (global limit =2; local limit is ={}) due to AM Container for "
        "appattempt_1_0009_000001 exited with  exitCode: -100 Failing this attempt.Diagnostics: {}For more output"
    )
    lost = "Container released on a *lost* node"

    assert ended_with_node(told.format(1, lost))
    assert not ended_with_node(told.format(2, lost))
    assert not ended_with_node(told.format(1, "Container killed by the ApplicationMaster."))
