"""A DAG that asks for three resource types, in unmodified Tez: by its plan, and where nobody answers the plug-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.reproduce.graphene_cluster import SCHEMES, run_scheme
from treadle.reproduce.graphene_cluster_jobs import DagSettings, draw

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = DagSettings(jobs=1, tasks=(12, 12), duration_ms=(500, 1000))


@pytest.mark.parametrize("name", ["plan", "both", "silent"])
def test_a_dag_ends_and_follows_a_plan_where_there_is_one(name: str, tmp_path: Path) -> None:
    scheme = next(one for one in SCHEMES if one.name == name)
    (dag,) = draw(1, SETTINGS)
    found = run_scheme(scheme, [dag], 1, SETTINGS, tmp_path / "cluster", print)
    (job,) = found.jobs
    assert job.status == "SUCCEEDED"
    assert job.planned == scheme.plans
    if scheme.scoring:
        assert found.placed["native"] == 0
        assert found.placed["treadle"] == job.containers + 1
