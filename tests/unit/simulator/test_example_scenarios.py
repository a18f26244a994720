"""The scenarios of docs/examples: each can be read, its policies are there, its jobs can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.admin.install import ready_made
from treadle.simulate import Scenario
from treadle.simulator.build import build
from treadle.simulator.simulation import check_possible

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "examples" / "simulate"
SCENARIOS = sorted(FOLDER.glob("*.yaml"))
LARGE = {"speed"}
"""Whose jobs take longer to draw than a unit test may."""


def test_the_page_lists_them_all() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text()
    assert len(SCENARIOS) >= 8
    for file in SCENARIOS:
        assert f"](examples/simulate/{file.name}) |" in page


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_an_example_fits_its_cluster(file: Path) -> None:
    scenario = Scenario.read(file)
    for policy in scenario.model.policies:
        assert policy in ready_made() or (FOLDER / policy).is_file()
    if file.stem not in LARGE:
        jobs = scenario.jobs(scenario.model.seed)
        check_possible(build(scenario.model, jobs, scenario.model.seed))
