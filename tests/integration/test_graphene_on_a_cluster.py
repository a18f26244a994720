"""A DAG that asks for three resource types, in unmodified Tez: by its plan, and where nobody answers the plug-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.lab.reproduce.graphene_cluster.experiment import SCHEMES, run_rounds
from treadle.lab.reproduce.graphene_cluster.jobs import DagSettings, draw

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = DagSettings(jobs=1, tasks=(12, 12), duration_ms=(500, 1000))


def test_a_dag_ends_under_every_scheme_and_follows_a_plan_where_there_is_one(tmp_path: Path) -> None:
    draws = {1: draw(1, SETTINGS)}
    found = {one.scheme: one for one in run_rounds(draws, SETTINGS, tmp_path / "cluster", print)}
    for scheme in SCHEMES:
        (job,) = found[scheme.name].jobs
        assert job.status == "SUCCEEDED"
        assert job.planned == scheme.plans
        placed = job.containers + 1
        assert found[scheme.name].placed[("native", "treadle")[scheme.scoring]] == placed
        assert found[scheme.name].placed[("treadle", "native")[scheme.scoring]] == 0
