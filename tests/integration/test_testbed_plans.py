"""Application masters on simulated nodes of a real ResourceManager follow plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle_lab.cli._experiments import setting_of_testbed
from treadle_lab.papers.graphene.sls import SCHEMES, Size, dags_of, run_scheme
from treadle_lab.sls.play import KeptPlays, Player

SIZE = Size(jobs=3, nodes=4)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", ["graphene", "graphene-capacity", "tetris"])
def test_jobs_have_the_priorities_of_plans_where_a_scheme_has_any(name: str, tmp_path: Path) -> None:
    (scheme,) = (each for each in SCHEMES if each.name == name)
    kept = KeptPlays(None, "treadle_lab.papers.graphene.sls")
    player = Player(setting_of_testbed(), tmp_path, kept, lambda _: None)
    played = run_scheme(scheme, 1, SIZE, player)
    assert [job.status for job in played.jobs] == ["SUCCEEDED"] * SIZE.jobs
    assert {job.planned for job in played.jobs} == {scheme.plans}
    assert [job.containers for job in played.jobs] == [dag.tasks for _, dag in dags_of(1, SIZE)]
    if scheme.scoring:
        assert played.placed_by_capacity_scheduler == 0
