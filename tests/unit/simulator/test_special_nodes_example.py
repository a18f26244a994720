"""The example of docs/phoenix.md: its table is what the simulation gives."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from treadle.config.reader import read_settings
from treadle.policy.catalogue import register_parts
from treadle.simulate import Scenario
from treadle.simulator.jobs import jobs_of
from treadle.simulator.results import completion_s
from treadle.simulator.simulation import Simulation

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"^\| (fair|srpt|phoenix) \| ([\d.]+) s \| ([\d.]+) s \| ([\d.]+) s \|$", re.M)


def test_the_table_is_what_the_simulation_gives() -> None:
    register_parts()
    file = DOCS / "examples" / "simulate" / "special-nodes.yaml"
    scenario, found = Scenario.read(file).model, {}
    workload = jobs_of(scenario, file.parent, scenario.seed)
    short = np.array([job.name == "short" for job in workload.jobs])
    for policy in scenario.policies:
        settings = read_settings((file.parent / policy).resolve())
        took_s = completion_s(Simulation(scenario, workload, settings, scenario.seed).run())
        figures = took_s[short].mean(), np.percentile(took_s[short], 90), took_s[~short].mean()
        found[Path(policy).stem] = [f"{figure:.1f}" for figure in figures]
    told = {name: list(figures) for name, *figures in ROW.findall((DOCS / "phoenix.md").read_text("utf-8"))}
    assert told == found
    assert float(found["phoenix"][0]) < 0.8 * float(found["srpt"][0])
