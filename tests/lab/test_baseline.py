"""The baseline: what is kept is compared line by line, and nothing that is missing or stale passes for equal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.baseline import __main__ as baseline
from tests.baseline.outputs import difference
from tests.baseline.parts import Output, policies
from tests.baseline.recording import EXPLAINED_EVERY, explanations, proposals, record

SMALL = """\
cluster: {nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]}
workload:
  jobs:
    - {count: 3, gap_s: 2, stages: [{tasks: 6, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}
frameworks: {tez_reuse: false}
"""


@dataclass
class Sources:
    """Made-up sources: what they do, and which state of them there is."""

    texts: dict[str, str] = field(default_factory=lambda: {"a": "1\n2\n3\n", "b": "same\n"})
    state: str = "first"
    made: list[str] = field(default_factory=list)

    def outputs(self, _: Path) -> Iterator[Output]:
        for name in self.texts:
            yield Output(f"{name}.txt", lambda _, name=name: self.make(name))  # type: ignore[misc]

    def make(self, name: str) -> str:
        self.made.append(name)
        return self.texts[name]


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> Sources:
    made_up = Sources()
    monkeypatch.setattr(baseline, "PARTS", {"share": made_up.outputs})
    monkeypatch.setattr(baseline, "digest", lambda: made_up.state)
    return made_up


def test_what_has_not_changed_is_as_before(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert baseline.main(["keep", str(tmp_path)]) == 0
    sources.state = "second"
    assert baseline.main(["compare", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "share: as before\n"


def test_a_difference_has_file_and_line(sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    baseline.main(["keep", str(tmp_path)])
    sources.state, sources.texts["a"] = "second", "1\nnot 2\n3\n"
    assert baseline.main(["compare", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("a.txt: line 2\n  - 2\n")
    assert "  + not 2\n" in printed


def test_a_baseline_without_a_file_is_no_equal_one(
    sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline.main(["keep", str(tmp_path)])
    sources.texts["c"] = "new\n"
    assert baseline.main(["compare", str(tmp_path)]) == 2
    assert "has no c.txt" in capsys.readouterr().err


def test_a_missing_last_line_is_a_difference() -> None:
    assert difference("1\n2\n", "1\n") == "line 2\n  - 2\n  + (nothing)"
    assert difference("1\n", "1") == "the end of the last line"
    assert difference("1\n", "1\n") is None


def test_recorded_events_give_the_proposals_that_they_gave(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SMALL, "utf-8")
    recording = record(scenario, policies()["hdrf"])
    made = [json.loads(line) for line in proposals(recording, policies()["hdrf"]).splitlines()]
    placed = sum(len(line["proposals"]) for line in made)
    assert len(made) == len(recording.splitlines())
    assert placed == 18  # one a task: that only comes out if the fates are those of the same proposals
    narrow = proposals(recording.replace('"limit": 1000', '"limit": 1'), policies()["hdrf"])
    assert max(len(json.loads(line)["proposals"]) for line in narrow.splitlines()) == 1


def test_decides_on_a_recording_are_explained(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SMALL.replace("count: 3, gap_s: 2", "count: 12, gap_s: 1"), "utf-8")
    recording = record(scenario, policies()["capacity"])
    made = [json.loads(line) for line in explanations(recording, policies()["fifo"]).splitlines()]
    assert {line["decide"] % EXPLAINED_EVERY for line in made} == {0}
    assert "waiting" in {ask["verdict"] for line in made for ask in line["asks"]}
