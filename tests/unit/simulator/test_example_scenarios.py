"""The scenarios of docs/examples: each can be read, its policies are there, its jobs can run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.support.cli import Cli

from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings, with_parts
from treadle.policy.catalogue import register_parts
from treadle.shipped import examples, find_policy, ready_made
from treadle.simulate import Run, Scenario, simulate
from treadle.simulator.build import build
from treadle.simulator.results import completion_s
from treadle.simulator.scenario import jobs_of
from treadle.simulator.simulation import Simulation, check_possible

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
        assert policy in ready_made()
    if file.stem not in LARGE:
        jobs = scenario.jobs(scenario.model.seed)
        check_possible(build(scenario.model, jobs, scenario.model.seed))


def test_the_package_has_every_example_but_those_of_the_traces(cli: Cli) -> None:
    installed = {name for name in examples() if not name.startswith("google")}
    assert installed == {file.stem for file in SCENARIOS if not file.stem.startswith("google")}
    shown = cli(["simulate", "--example", "racks", "--policy", "fair"]).out
    assert "fair" in shown and "share deviation" in shown


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--example", "two-queue"], "--example: 'two-queue' is not one of"),
        ([], "give either a scenario or --example NAME"),
        (["scenario.yaml", "--example", "racks"], "give either a scenario or --example NAME"),
    ],
)
def test_a_wrong_example_is_refused(words: list[str], complaint: str, cli: Cli) -> None:
    assert complaint in cli(["simulate", *words], 2).err


# The example of docs/phoenix.md: its table is what the simulation gives.

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"^\| (fair|srpt|phoenix) \| ([\d.]+) s \| ([\d.]+) s \| ([\d.]+) s \|$", re.M)


def test_the_table_is_what_the_simulation_gives() -> None:
    register_parts()
    file = DOCS / "examples" / "simulate" / "special-nodes.yaml"
    scenario, found = Scenario.read(file).model, {}
    workload = jobs_of(scenario, file.parent, scenario.seed)
    short = np.array([job.name == "short" for job in workload.jobs])
    for policy in scenario.policies:
        settings = read_settings(find_policy(policy))
        took_s = completion_s(Simulation(scenario, workload, settings, scenario.seed).run())
        figures = took_s[short].mean(), np.percentile(took_s[short], 90), took_s[~short].mean()
        found[policy] = [f"{figure:.1f}" for figure in figures]
    told = {name: list(figures) for name, *figures in ROW.findall((DOCS / "phoenix.md").read_text("utf-8"))}
    assert told == found
    assert float(found["phoenix"][0]) < 0.8 * float(found["srpt"][0])


# A leaf of CPUs next to a leaf of GPUs, under one parent: docs/examples/simulate/starving-*.yaml.

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "simulate"
STARVING = ("maximum", "satisfied", "saturated", "single-gpus")
WINDOW_S = 5
LONGEST_TASK_S = 30
"""Of the leaves that run when research.nlp begins to ask."""


def hdrf(**parameters: Any) -> Settings:
    register_parts()
    return with_parts(default_settings(), {"share": ("hdrf", parameters), "order": "queue", "fit": "packing"})


def simulated(name: str, settings: Settings) -> tuple[Run, float]:
    """Return the run, and for how long ``research.nlp`` was below 80 % of its guarantee while its job ran, seconds."""
    content = yaml.safe_load((EXAMPLES / f"starving-{name}.yaml").read_text("utf-8"))
    content["report"] = {"window_s": WINDOW_S}
    run = simulate(Scenario.of(content), settings, 1)
    tokenize = run.jobs[3]
    begin, end = int(tokenize["arrival_ms"]) // 1000, int(tokenize["end_ms"]) // 1000
    running = run.summary.leaf_shares["research.nlp"][begin // WINDOW_S : (end - 25) // WINDOW_S]
    low = longest = 0
    for share in running:
        low = low + WINDOW_S if share < 0.8 * 0.15 else 0
        longest = max(longest, low)
    return run, longest


@pytest.mark.parametrize("name", STARVING)
def test_a_leaf_does_not_starve_beside_a_sibling_of_another_resource(name: str) -> None:
    run, low_s = simulated(name, hdrf())
    assert run.completion_s[3] <= 180
    assert low_s <= LONGEST_TASK_S


@pytest.mark.parametrize(("name", "at_least_s"), [("maximum", 600), ("satisfied", 400)])
def test_it_starves_under_the_algorithm_of_the_paper(name: str, at_least_s: float) -> None:
    run, low_s = simulated(name, hdrf(**{"as": "paper"}))
    assert run.completion_s[3] >= at_least_s
    assert low_s >= 240
