"""`treadle lab reproduce hdrf`: everything but the cluster."""

from __future__ import annotations

import json

import pytest
from tests.support.tables import rows_of

from treadle_lab.papers.hdrf.paper_tests import (
    TESTS,
    HdrfTest,
    Run,
    Settings,
    StepResult,
    cluster_of,
    missed,
    off,
    results_of,
    run_of,
    scheduling,
    script_of,
    stays_of,
)
from treadle_lab.sls.play import Played, PlayedJob

SETTINGS = Settings()


def ended(test: HdrfTest, scheduler: str, algorithm: str) -> Run:
    """A run that reached the shares of an algorithm, to a whole task, as soon as a step began."""
    jobs, shares = [], test.shares(algorithm)
    for leaf, came, gone in stays_of(test):
        at_ms = SETTINGS.step_ms * came
        spans = [
            (SETTINGS.step_ms * number - at_ms, -1 if number + 1 == gone else SETTINGS.step_ms * (number + 1) - at_ms)
            for number in range(came, gone)
            for _ in range(round(shares[number][leaf]))
        ]
        took_ms = SETTINGS.step_ms * (gone - came)
        jobs.append(PlayedJob(leaf, "SUCCEEDED", took_ms, submitted_ms=at_ms, tasks_ms=tuple(spans)))
    return run_of(test, scheduler, SETTINGS, Played(tuple(jobs), 1, {}))


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("A", {"n1.1": (5, 0), "n2.1": (5, 0), "n2.2": (0, 10)}),
        ("B", {"n1.1": (4, 0), "n2.1": (4, 0), "n3.1": (4, 0), "n3.2": (0, 6), "n4.1": (0, 6)}),
        # CPU 60, 30, 10 %, GPU 40, 30, 30 % of 60
        ("C", {"n1.1": (36, 24), "n2.1": (18, 18), "n2.2": (6, 18)}),
    ],
)
def test_the_last_step_is_the_paper_s_example(name: str, shares: dict[str, tuple[int, int]]) -> None:
    test = TESTS[name]
    reached = test.shares("hdrf")[-1]
    held = {leaf: (reached[leaf] * needs["cpu"], reached[leaf] * needs["gpu"]) for leaf, needs in test.demands.items()}
    assert held.keys() == shares.keys()
    assert all(held[leaf] == pytest.approx(share) for leaf, share in shares.items())


@pytest.mark.parametrize("name", TESTS)
def test_siblings_are_owed_the_same_and_may_use_everything(name: str) -> None:
    entries = cluster_of(TESTS[name]).queues("fifo")
    for group, below in TESTS[name].groups.items():
        owed = [
            float(entries[f"yarn.scheduler.capacity.root.{group}.{leaf.replace('.', '-')}.capacity"]) for leaf in below
        ]
        assert sum(owed) == 100
        assert max(owed) - min(owed) < 0.05
    maxima = {value for key, value in entries.items() if key.endswith("maximum-capacity")}
    assert maxima == {"100"}


def test_d_follows_weights_and_then_who_left() -> None:
    """Figure 9: 0.8, 1.0, 0.1, 0.1 of the CPUs and GPUs; when n1.1 has ended, half of the CPUs each."""
    first, second, last = TESTS["D"].shares("hdrf")
    assert first == pytest.approx({"n1.1": 16, "n1.2": 20, "n2.1": 2, "n2.2": 2})
    assert second == pytest.approx({"n1.2": 20, "n2.1": 10, "n2.2": 10})
    assert last == pytest.approx({"n1.2": 20, "n2.1": 20})
    entries = cluster_of(TESTS["D"]).queues("fifo")
    owed = [entries[f"yarn.scheduler.capacity.root.{group}.capacity"] for group in ("n1", "n2")]
    assert owed == ["80", "20"]


def test_naive_drf_starves_a_leaf_in_tests_a_and_b() -> None:
    for name, starved in (("A", "n2.1"), ("B", "n3.1")):
        tasks = ended(TESTS[name], "capacity", "drf-naive").steps[-1].tasks
        assert [leaf for leaf, count in tasks.items() if count == 0] == [starved]


def test_one_container_more_or_less_is_as_the_paper() -> None:
    step = StepResult("", {"n1.1": 6, "n2.1": 4, "n2.2": 8}, {}, {})
    expected = TESTS["A"].shares("hdrf")[-1]
    assert off(step, expected) == {"n2.2": -2}


def test_the_document_is_json_and_names_who_is_off() -> None:
    test = TESTS["A"]
    runs = [ended(test, "treadle", "hdrf"), ended(test, "capacity", "drf-naive")]
    found = json.loads(json.dumps(results_of(runs).as_json()))
    assert found["shortfalls"] == []
    assert rows_of(found, "hdrf-test-a")["", "n2.1"]["H-DRF"] == "5"
    assert found["tables"]["hdrf-test-a"]["rows"][-2] == ["", "n2.1", "5", "0", "5", "0"]
    assert any("step 4: n1.1 has +5" in text for text in missed(ended(test, "treadle", "drf-naive")))


def test_a_leaf_has_a_job_for_each_of_its_stays() -> None:
    test = TESTS["A"]
    assert stays_of(test) == [("n1.1", 0, 4), ("n2.1", 1, 4), ("n2.2", 1, 2), ("n2.2", 3, 4)]
    jobs = script_of(test, SETTINGS).jobs
    stays_ms = [(job.at_ms, job.until_ms) for job in jobs]
    assert stays_ms == [(0, 32_000), (8_000, 32_000), (8_000, 16_000), (24_000, 32_000)]
    assert [job.queue for job in jobs] == ["n1-1", "n2-1", "n2-2", "n2-2"]
    assert jobs[2].stages[0].resources == {"gpu": 1, "memory-mb": 8}
    least, most = (edge(jobs[0].stages[0].durations_ms) for edge in (min, max))
    assert 300 <= least < most <= 900
    assert scheduling("capacity").policy is None
    assert "hdrf" in str(scheduling("treadle").policy)


def test_containers_are_counted_until_their_masters_leave() -> None:
    run = ended(TESTS["A"], "treadle", "hdrf")
    assert [step.tasks for step in run.steps] == [
        {"n1.1": 10},
        {"n1.1": 5, "n2.1": 5, "n2.2": 10},
        {"n1.1": 5, "n2.1": 5},
        {"n1.1": 5, "n2.1": 5, "n2.2": 10},
    ]
