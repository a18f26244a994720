"""The folder `data`: what each reproduction reads of it, and what it says where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.optional import present
from typer.testing import CliRunner

from treadle.errors import UserError
from treadle.workload.formats import read_workload
from treadle_lab.cli.lab.reproduce import graphene, slearn
from treadle_lab.harness import data
from treadle_lab.papers.slearn.trace import Draws

DATA = Path(__file__).resolve().parents[2] / "data"
SETS = sorted(path for path in DATA.iterdir() if path.is_dir())
BYTES_MAX = 10_000_000


@pytest.mark.parametrize("folder", SETS, ids=lambda folder: folder.name)
def test_each_set_says_where_it_comes_from_and_under_which_licence(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert "ommit " in text
    assert "Licence: " in text
    assert "CC-BY" in text or "](../../LICENSE)" in text or (folder / "LICENSE.txt").is_file()
    assert f"]({folder.name}/README.md)" in (DATA / "README.md").read_text()


def test_the_data_is_small() -> None:
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < BYTES_MAX


def test_googles_jobs_are_drawn_from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(draws: Draws, *_: object, **named: object) -> None:
        raise UserError(f"far enough, in {draws.folder}")

    monkeypatch.setattr("treadle_lab.papers.slearn.experiment.run_draws", found)
    result = CliRunner().invoke(slearn.app, ["--model", "--quick"])
    assert str(result.exception) == f"far enough, in {DATA / 'google-2011-tasks-25h'}"
    output = result.output.replace("\n", "")
    assert "data/google-2011-tasks-25h (Google's cluster trace of 2011, extract, CC-BY 4.0)" in output


def test_tpchs_dags_are_read_from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise UserError("far enough")

    monkeypatch.setattr(graphene, "simulating", stop)
    for arguments, reads in (([], True), (["--generated"], False)):
        result = CliRunner().invoke(graphene.app, arguments)
        assert str(result.exception) == "far enough"
        assert ("data/tpch-spark-cloudlab" in result.output.replace("\n", "")) is reads
    assert read_workload(DATA / "tpch-spark-cloudlab").jobs


def test_facebooks_jobs_are_read_from_the_checkout() -> None:
    place = present(data.find_data(data.FACEBOOK))
    assert len(read_workload(place).jobs) == 5_894


def test_an_installation_without_data_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "checkout", lambda: None)
    with pytest.raises(UserError, match=r"this installation has no folder data/google.*from a checkout"):
        CliRunner().invoke(slearn.app, ["--model"], catch_exceptions=False)
