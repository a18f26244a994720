"""`treadle lab reproduce`: options that an experiment cannot follow, or that conflict, are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import Cli

REFUSED: dict[str, list[tuple[str, str]]] = {
    "graphene": [
        ("--on sls --plot plots", "--plot: is of simulations"),
        ("--on sls --processes 2", "--processes: is of simulations"),
        ("--on sls --jobs 501", "--jobs: 501; with --on sls at most 500"),
        ("--nodes 4", "--nodes: is of --on sls"),
        ("--scheme fifo", "--scheme: fifo is none here; give one of bfs, "),
        ("--tpch . --quick", "profiles.csv"),
        ("--generated --tpch .", "--tpch: --generated leaves TPC-H's DAGs out"),
    ],
    "hdrf": [
        ("--test E", "--test: E is none here; give one of A, B, C, D"),
        ("--section=5.2 --test=A", "--test: is of --section 5.1"),
        ("--section=5.3 --test=A", "--test: is of --section 5.1"),
        ("--section=5.2 --step-s=9", "--step-s: is of --section 5.1"),
        ("--seeds=3", "--seeds: is of --section 5.2"),
        ("--on=sls", "--on sls: is of --section 5.2"),
        ("--on=sls --section=5.3", "--on sls: is of --section 5.2"),
        ("--on=sls --section=5.2 --processes=2", "--processes: --on sls plays one run after the other"),
    ],
    "omega": [
        ("--figure 99", "--figure: 99 is none here; give one of 5, 6,"),
    ],
    "phoenix": [
        ("--systems owl", "--systems: owl is none here; give one of sparrow"),
        ("--systems ,", "--systems:  is none here; give one of sparrow"),
    ],
    "slearn": [
        *((f"--on sls {more}", "is of simulations") for more in ("--dags", "--model", "--plot p", "--processes 2")),
        ("--on sls --scheme las", "is none here; give one of slearn, "),
        ("--model --scheme shipped", "is none here; give one of slearn, "),
        ("--folder .", "--folder: is of --on sls"),
        ("--trace . --quick", "tasks_25h"),
    ],
}


@pytest.mark.parametrize(
    ("experiment", "options", "said"),
    [(experiment, options, said) for experiment, rows in REFUSED.items() for options, said in rows],
)
def test_what_an_experiment_cannot_follow_is_refused(
    experiment: str, options: str, said: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in cli(["lab", "reproduce", experiment, *options.split()], 2).err
