"""Putting the campaign's counts beside their goals, in docs/reliability.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.campaign.ledger import ROOT, Ledger

PAGE = ROOT / "docs" / "reliability.md"
BEGIN: Final = "<!-- figures: written by python -m tests.campaign -->\n"
END: Final = "<!-- end of figures -->\n"


@dataclass(frozen=True)
class Goal:
    """Something that is counted, in words, and how much of it is wanted."""

    part: str
    count: str
    words: str
    goal: int


GOALS: Final = (
    Goal("kills", "sidecar_kills", "sidecars killed", 1000),
    Goal("kills", "rm_kills", "RMs killed", 50),
    Goal("engines", "engine_kills", "of three engines killed", 200),
    Goal("hostile", "proposals", "hostile proposals", 10_000_000),
    Goal("stock", "classes", "of Hadoop's test classes run", 70),
    Goal("failover", "failovers", "active RMs killed", 20),
    Goal("soak", "applications", "applications that came and went", 100_000),
    Goal("fuzz", "cpu_seconds", "CPU seconds of fuzzing, six parsers", 6 * 3600),
    Goal("mutants", "found", "planted defects found", 25),
)


def table(ledger: Ledger) -> str:
    """Return the rows: counted, goal, reached or not, findings."""
    lines = ["| part | counted | so far | goal | reached | findings |", "| --- | --- | --: | --: | --- | --: |"]
    for goal in GOALS:
        entry = ledger.entry(goal.part)
        count = int(entry["counts"].get(goal.count, 0))
        reached = "yes" if count >= goal.goal else "no"
        findings = len(entry["findings"])
        lines.append(f"| {goal.part} | {goal.words} | {count:,} | {goal.goal:,} | {reached} | {findings} |")
    return "\n".join(lines) + "\n"


def figures(ledger: Ledger) -> str:
    """Return what stands between the marks of the page."""
    return f"{BEGIN}\n{table(ledger)}\n{END}"


def write_page(page: Path = PAGE) -> None:
    """Put the present counts into the page."""
    text = page.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + figures(Ledger()) + after, "utf-8")
