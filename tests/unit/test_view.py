"""What a part from a file sees: every column is described or the engine's own, and containers have nodes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.engine.parts import containers
from tests.support.documents import files_of

from treadle.cli.main import run
from treadle.config.reader import parse_settings
from treadle.engine import Engine
from treadle.engine.invented_cluster import small_cluster
from treadle.events import ContainerEvent
from treadle.model.applications import APPLICATION
from treadle.model.nodes import NODE
from treadle.model.queues import QUEUE
from treadle.model.requests import REQUEST
from treadle.policy.cluster_view import CONTAINER, ClusterView

PAGE = Path(__file__).parents[2] / "docs" / "view.md"
RECORDS = {"nodes": NODE, "queues": QUEUE, "applications": APPLICATION, "requests": REQUEST}


def described(records: str) -> set[str]:
    """Return the columns that the page describes."""
    (table,) = re.findall(rf"^\| {records} \|.*?\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines())))


def the_engine_s_own(records: str) -> set[str]:
    """Return the columns that the page says to be the engine's own."""
    (line,) = re.findall(rf"^- {records}: (.*)$", PAGE.read_text(), re.MULTILINE)
    return set(re.findall(r"`(\w+)`", line))


@pytest.mark.parametrize("records", RECORDS)
def test_every_column_is_described_or_the_engine_s_own(records: str) -> None:
    public, own = described(records), the_engine_s_own(records)
    assert not public & own
    assert public | own == set(RECORDS[records].names or ())
    assert set(re.findall(r"``(\w+)``", getattr(ClusterView, records).__doc__)) == public, "pydoc has the same"


def test_the_columns_of_containers_are_described() -> None:
    (table,) = re.findall(r"^\| `containers\(application\)`.*?\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(CONTAINER.names or ())


WATCH = """
import numpy as np

class Watch:
    def keys(self, view):
        for number in (0, 1):
            found = view.containers(number)
            print(number, found.tolist(), found.flags.writeable)
        return np.zeros(len(view.applications))
"""


def test_a_part_sees_where_the_containers_of_an_application_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "watch.py").write_text(WATCH)
    text = "policy: {order: {kind: file, path: watch.py, class: Watch, recompute_after: 1000}}"
    engine = Engine(parse_settings(str(tmp_path / "t.yaml"), text, trust_code=True))
    engine.apply(small_cluster(nodes=4))
    begun = containers(
        ContainerEvent.ALLOCATED, (0, 7, 5, 30, 30), (0, 8, 1, 20, 20), (0, 9, 5, 10, 10), (1, 7, 0, 5, 5)
    )
    begun.node[:] = (3, 1, 2, 0)
    engine.apply([begun])
    engine.decide(1000, 1, sequence=1)
    assert engine.failure is None
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "0 [(1, 1, 20), (2, 5, 10), (3, 5, 30)] False"
    assert second == "1 [(0, 0, 5)] False"
    engine.apply([containers(ContainerEvent.COMPLETED, (0, 9, 5, 10, 50))])
    engine.decide(1100, 1, sequence=2)
    assert capsys.readouterr().out.splitlines()[0] == "0 [(1, 1, 20), (3, 5, 30)] False"


def test_the_example_of_the_page_spreads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in files_of(PAGE).items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    assert run(["policy", "check", "spread.yaml"]) == 0
    engine = Engine(
        parse_settings(str(tmp_path / "spread.yaml"), (tmp_path / "spread.yaml").read_text(), trust_code=True)
    )
    engine.apply(small_cluster(nodes=4, leaves=1, applications=1))
    begun = containers(ContainerEvent.ALLOCATED, (0, 1, 0, 0, 0), (0, 2, 0, 0, 0), (0, 3, 0, 0, 0))
    begun.node[:] = (0, 1, 3)
    engine.apply([begun])
    placed = engine.decide(1000, 1, sequence=1)
    assert engine.failure is None
    assert np.asarray(placed.node).tolist() == [2]
